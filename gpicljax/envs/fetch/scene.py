"""The three tasks' scenes, and everything in them that moves.

Source: the models that Gymnasium-Robotics 1.4.2 loads, as compiled by MuJoCo 3.10.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.envs.fetch.algebra import Axes, Vector, cross, scale

STEP, SUBSTEPS = 0.002, 20
"""Seconds in a substep, and substeps in a step."""
TABLE_HEIGHT = 0.4
FINGER_HALF, FINGER_SIDE = (0.0135, 0.007, 0.0385), 0.0079
"""Half sizes of a finger, and how far the middle of a closed one is from the hand's along y."""
PALM_HALF, PALM_ABOVE = (0.036, 0.058, 0.061), 0.093
"""Half sizes of the palm, and how far its centre is above the hand's."""
SITE_BELOW = 0.02
"""How far the point that is shown as the gripper's place is below the hand's centre."""


class Scene(NamedTuple):
    """Constants that differ between tasks, in metres, m/s and kg.

    Attributes:
      table: centre along x and y.
      table_half: half sizes along x and y.
      middle: of the places of bodies and goals, along x and y: the gripper's, at rest.
      hand: where the hand starts.
      hand_velocity: with which velocity.
      height: of the body's centre, lying on the table.
      half: half sizes of the body; radius, radius and half height of a cylinder.
      round: whether it is a cylinder.
      inertia: moment of inertia about every axis, in kg m^2.
      friction: of the body on the table.
      grasps: whether actions move the fingers; else they are closed again after each step.
    """

    table: tuple[float, float]
    table_half: tuple[float, float]
    middle: tuple[float, float]
    hand: tuple[float, float, float]
    hand_velocity: tuple[float, float, float]
    height: float
    half: tuple[float, float, float]
    round: bool
    inertia: float
    friction: float
    grasps: bool

    @property
    def late(self) -> float:
        """Age of the places that the simulator shows and acts on, in seconds."""
        return STEP if self.grasps else 0.0


_SMALL_TABLE = {"table": (1.3, 0.75), "table_half": (0.25, 0.35)}
_BLOCK = {"height": 0.424892, "half": (0.025, 0.025, 0.025), "round": False, "inertia": 8.3333e-4}
SCENES = {
    "push": Scene(
        **_SMALL_TABLE,
        **_BLOCK,
        middle=(1.363127, 0.749099),
        hand=(1.363127, 0.749099, 0.436011),
        hand_velocity=(-0.07154, 0.00045, 0.00012),
        friction=1.0,
        grasps=False,
    ),
    "slide": Scene(
        table=(1.32442, 0.75018),
        table_half=(0.625, 0.45),
        middle=(1.013271, 0.749151),
        hand=(1.013271, 0.749151, 0.435501),
        hand_velocity=(-0.08289, 0.00073, 0.00037),
        height=0.42,
        half=(0.025, 0.025, 0.02),
        round=True,
        inertia=5.94e-4,
        friction=0.1,
        grasps=False,
    ),
    "pick_and_place": Scene(
        **_SMALL_TABLE,
        **_BLOCK,
        middle=(1.341931, 0.749101),
        hand=(1.341948, 0.7491, 0.554733),
        hand_velocity=(-0.0001, 0.0, 0.00053),
        friction=1.0,
        grasps=True,
    ),
}


@struct.dataclass
class World:
    """Everything that moves.

    Attributes:
      hand: `[3, ...]`, in metres.
      hand_velocity: `[3, ...]`, in m/s.
      fingers: `[2, ...]`, by how much the right and the left one are open, in metres.
      finger_velocity: `[2, ...]`, in m/s.
      body: `[3, ...]`, its centre in metres.
      turn: `[4, ...]`, its orientation as a quaternion of length 1, real part first.
      velocity: `[3, ...]`, of its centre, in m/s.
      spin: `[3, ...]`, its angular velocity about the world's axes, in rad/s.
      acceleration: `[8, ...]`, linear and angular, and what it adds to those of the right and the
        left finger along y, of the last substep.
      reaction: `[5, ...]`, its forces on the hand and on the right and the left finger, in N, of
        the last substep.
    """

    hand: jax.Array
    hand_velocity: jax.Array
    fingers: jax.Array
    finger_velocity: jax.Array
    body: jax.Array
    turn: jax.Array
    velocity: jax.Array
    spin: jax.Array
    acceleration: jax.Array
    reaction: jax.Array


def first_world(scene: Scene, body: jax.Array) -> World:
    """Returns the beginning of an episode.

    Args:
      scene: the task's.
      body: float `[3]`, where the body lies.

    Returns:
      The world, without a batch.
    """
    dtype = body.dtype
    return World(
        hand=jnp.asarray(scene.hand, dtype),
        hand_velocity=jnp.asarray(scene.hand_velocity, dtype),
        fingers=jnp.zeros(2, dtype),
        finger_velocity=jnp.zeros(2, dtype),
        body=body,
        turn=jnp.asarray((1, 0, 0, 0), dtype),
        velocity=jnp.zeros(3, dtype),
        spin=jnp.zeros(3, dtype),
        acceleration=jnp.zeros(8, dtype),
        reaction=jnp.zeros(5, dtype),
    )


def axes_of(turn: jax.Array | tuple) -> Axes:
    """Returns a body's own axes in the world, by its quaternion, `[4, ...]`."""
    w, x, y, z = turn
    return (
        (1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)),
        (2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)),
        (2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)),
    )


def rotate_quaternion(turn: jax.Array, spin: Vector, time: float) -> jax.Array:
    """Returns a quaternion after a short time.

    Args:
      turn: `[4, ...]`.
      spin: angular velocity about the world's axes, in rad/s.
      time: in seconds.

    Returns:
      `[4, ...]`.
    """
    real, *imaginary = turn
    step = scale(0.5 * time, spin)
    added = cross(step, (imaginary[0], imaginary[1], imaginary[2]))
    new = [real - sum(a * b for a, b in zip(step, imaginary, strict=True))]
    new += [b + a * real + c for a, b, c in zip(step, imaginary, added, strict=True)]
    norm = jax.lax.rsqrt(sum(x * x for x in new))
    return jnp.stack([x * norm for x in new])
