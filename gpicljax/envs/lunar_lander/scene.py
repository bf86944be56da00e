"""The scene of LunarLander: shapes, masses, joints, and what is carried from step to step.

Bodies are numbered 0 (the lander), 1 (the leg of observation 6, starting on the right) and 2 (the
leg of observation 7). Joint and leg j belong to body j + 1. Lengths in metres, times in seconds,
masses in kilograms. All arrays of the physics have the batch as their *last* axis, so that every
operation runs over contiguous instances.

Source: Gymnasium 1.3, `gymnasium/envs/box2d/lunar_lander.py`; masses by the formulae for polygons.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

SCALE = 30.0  # pixels per metre
STEP = 0.02  # seconds
WIDTH, HEIGHT = 600 / SCALE, 400 / SCALE
NUM_EDGES = 10
EDGE = WIDTH / NUM_EDGES  # horizontal length of an edge of the terrain

LANDER = np.array([(17, -10), (17, 0), (14, 17), (-14, 17), (-17, 0), (-17, -10)]) / SCALE
LEG = np.array([(-2, -8), (2, -8), (2, 8), (-2, 8)]) / SCALE
LEG_AWAY, LEG_DOWN = 20 / SCALE, 18 / SCALE
LEG_SIDE = np.array([-1.0, 1.0])  # the sign that sets a leg's constants
START_TILT = 0.05 * LEG_SIDE  # a leg's first angle, from which its joint's is counted
MOTOR_SPEED = 0.3 * LEG_SIDE  # radians per second
MOTOR_IMPULSE = 40.0 * STEP  # greatest torque, times the step
LIMITS = np.array([(0.4, 0.9), (-0.9, -0.4)])  # lowest and highest angle of each joint


def _mass(corners: np.ndarray, density: float) -> tuple[float, np.ndarray, float]:
    """Mass, centre of mass and moment of inertia about it of a polygon around the origin."""
    following = np.roll(corners, -1, axis=0)
    cross = corners[:, 0] * following[:, 1] - corners[:, 1] * following[:, 0]
    mass = density * cross.sum() / 2
    centre = ((corners + following) * cross[:, None]).sum(0) / (3 * cross.sum())
    squares = (corners**2 + corners * following + following**2).sum(1)
    about_origin = density * (squares * cross).sum() / 12
    return mass, centre, about_origin - mass * (centre**2).sum()


_lander, CENTRE, _lander_inertia = _mass(LANDER, 5.0)
_leg, _, _leg_inertia = _mass(LEG, 1.0)
MASS = np.array([_lander, _leg, _leg])
INVERSE_MASS = 1 / MASS
INVERSE_INERTIA = 1 / np.array([_lander_inertia, _leg_inertia, _leg_inertia])
RISE = np.array([CENTRE[1], 0.0, 0.0])  # of the centre of mass above the body's origin
RADIUS = np.array([np.hypot(*(LANDER - CENTRE).T).max(), np.hypot(*LEG.T).max()])[[0, 1, 1]]
FRICTION = np.sqrt(0.1 * np.array([0.1, 0.2, 0.2]))  # of each body with the ground

# Corners [6, 3, 2] of all three bodies, the boxes' last one repeated; the corner that follows each;
# and the outward normals of the sides that begin there.
_boxes = LEG[[0, 1, 2, 3, 3, 3]]
CORNERS = np.stack([LANDER, _boxes, _boxes], 1)
_box_next = LEG[[1, 2, 3, 0, 0, 0]]
NEXT = np.stack([np.roll(LANDER, -1, axis=0), _box_next, _box_next], 1)
NEXT_INDEX = np.stack([np.roll(np.arange(6), -1), *[np.array([1, 2, 3, 0, 0, 0])] * 2], 1)
_side = (NEXT - CORNERS) / np.linalg.norm(NEXT - CORNERS, axis=-1, keepdims=True)
NORMALS = np.stack([_side[..., 1], -_side[..., 0]], -1)


@struct.dataclass
class World:
    """Everything the physics carries from step to step, unbatched.

    A body can touch at most two neighbouring edges of the terrain: an even and an odd one. Its
    contacts with them are in *slots* 0 and 1. Contacts have up to two points.

    Attributes:
      pose: float `[3, 3]`: x, y of the centre of mass and the angle, of each body (last axis).
      velocity: float `[3, 3]`: its velocity and angular velocity.
      joint: float `[4, 2]`: impulses of each joint: x, y, of the limit, of the motor.
      limit: `int32[2]`: a joint is at its lower limit (-1), at none (0) or at its upper one (1).
      edge: `int32[2, 3]`: the edge of the terrain that each slot of each body stands for.
      box: float `[4, 3]`: a generous box around each body, renewed when the body leaves it: lowest
        x, y and highest x, y.
      nearby: `int32[3]`: bit k is set where the box overlaps that of edge k.
      order: `int32[3]`: bit k is set where the box came to edge k + 1 after edge k, or with it.
      touching: `bool[2, 3]`: the contact exists.
      feature: `int32[2, 2, 3]`: which corners or sides meet in each point (second axis).
      impulse: float `[2, 2, 2, 3]`: normal and tangential impulse (second axis) of each point
        (third axis).
      rest_time: float `[3]`: seconds that each body has been at rest.
      legs: `bool[2]`: contact as the legs' sensors report it.
      crashed: `bool[]`: the lander has touched the ground.
      asleep: `bool[]`: all has come to rest.
    """

    pose: jax.Array
    velocity: jax.Array
    joint: jax.Array
    limit: jax.Array
    edge: jax.Array
    box: jax.Array
    nearby: jax.Array
    order: jax.Array
    touching: jax.Array
    feature: jax.Array
    impulse: jax.Array
    rest_time: jax.Array
    legs: jax.Array
    crashed: jax.Array
    asleep: jax.Array


def first_world(dtype: jnp.dtype) -> World:
    """Returns the world before its first step: the craft at the top, its legs not yet drawn in."""
    x = WIDTH / 2 - np.array([0.0, *(LEG_SIDE * LEG_AWAY)])
    pose = np.stack([x, HEIGHT + RISE, [0.0, *START_TILT]])
    zeros = jnp.zeros((3, 3), dtype)
    sin, cos = np.sin(pose[2]), np.cos(pose[2])
    rotated = np.stack(
        [
            cos * CORNERS[..., 0] - sin * CORNERS[..., 1],
            sin * CORNERS[..., 0] + cos * CORNERS[..., 1],
        ],
        1,
    )
    rotated += pose[:2] - [np.zeros(3), RISE]
    box = np.concatenate([rotated.min(0) - 0.11, rotated.max(0) + 0.11])
    return World(
        pose=jnp.asarray(pose, dtype),
        velocity=zeros,
        joint=jnp.zeros((4, 2), dtype),
        limit=jnp.zeros(2, jnp.int32),
        edge=jnp.zeros((2, 3), jnp.int32),
        box=jnp.asarray(box, dtype),
        nearby=jnp.zeros(3, jnp.int32),
        order=jnp.zeros(3, jnp.int32),
        touching=jnp.zeros((2, 3), bool),
        feature=jnp.zeros((2, 2, 3), jnp.int32),
        impulse=jnp.zeros((2, 2, 2, 3), dtype),
        rest_time=jnp.zeros(3, dtype),
        legs=jnp.zeros(2, bool),
        crashed=jnp.zeros((), bool),
        asleep=jnp.zeros((), bool),
    )


def terrain(heights: jax.Array) -> jax.Array:
    """Returns the ground from the draws of Gymnasium's reset.

    Args:
      heights: float `[12]`.

    Returns:
      float `[11]`: the ground's height at x = 0, 2, ..., 20; level between 8 and 12.
    """
    heights = heights.at[3:8].set(HEIGHT / 4)
    return 0.33 * (jnp.roll(heights, 1) + heights + jnp.roll(heights, -1))[: NUM_EDGES + 1]
