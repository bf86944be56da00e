"""The hand and its fingers.

The arm is not modelled. The hand follows the target of an action as a critically damped spring, and
near the end of the arm's reach it is held back. What touches it finds it leaning as it does on its
way; otherwise it is upright. Its fingers open along y.

Source: `fit` for the spring; the scene's constants for the rest, as compiled by MuJoCo 3.10.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gpicljax.envs._stages import run_apart
from gpicljax.envs.fetch import contact
from gpicljax.envs.fetch.algebra import (
    Axes,
    Vector,
    cross,
    entries,
    minus,
    off_axes,
    on_axes,
    plus,
    rotate_matrix,
    scale,
    shift_diagonal,
    solve,
)
from gpicljax.envs.fetch.scene import (
    FINGER_HALF,
    FINGER_SIDE,
    PALM_ABOVE,
    PALM_HALF,
    TABLE_HEIGHT,
    Scene,
)

# By `python -m benchmarks.mujoco_fetch.fit`, along x, y and z, 1/s^2, 1/s and m/s^2. Along x it
# finds 2330.2 and 97.9, for there the hand leans as it goes; before it leans, it is as stiff as
# along y, and how far a puck is hit depends on that.
SPRING, DAMPER, SAG = (2490.0, 2489.4, 2388.1), (99.8, 100.3, 96.8), (-0.2, -0.1, -0.5)
# By the same, in radians for each m/s along x and y.
LEAN = (0.026, 0.007)
# By the same: from such a distance of the wrist from the shoulder on, in metres, 1/s^2.
REACHES = ((0.655, 250.0), (0.80, 700.0))
_SHOULDER, _SHOULDER_RADIUS, _WRIST_ABOVE = (0.7245, 0.7441, 0.78726), 0.117, 0.305

MASS = 436.0
"""The mass of the hand with its spring's share, as contacts feel it, in kg."""
FINGER_DAMPER, FINGER_MASS = 1000.0, 104.0
OPEN, _MOST_CONTROL = 0.05, 0.2
_GAIN, _CARRIED = 30_000.0, 4.0  # N/m; the part of a finger's mass that the hand carries, in kg
_LIMIT_TIME, _LIMIT_IMPEDANCE, _LIMIT_WIDTH, _LIMIT_MASS = 0.01, (0.99, 0.999), 0.01, 102.8
SOFTNESS = 0.05674
"""Inverse mass of a finger as a contact's softness has it, in 1/kg."""
_ITERATIONS = 3


def rubber(softness: float) -> contact.Material:
    """Returns the fingers' surface, on another of that inverse mass; a palm's has no torsion."""
    return contact.Material(1.0, 0.015, 0.945, 0.97, 0.0055, 0.001, SOFTNESS + softness, 0.05)


def pull(hand: Vector, velocity: Vector, target: Vector) -> Vector:
    """Returns the hand's acceleration without contacts, in m/s^2.

    Args:
      hand: where it is, in metres.
      velocity: in m/s.
      target: where it is to be.
    """
    x, y, z = (
        spring * way - damper * v + sag
        for spring, damper, sag, way, v in zip(
            SPRING, DAMPER, SAG, minus(target, hand), velocity, strict=True
        )
    )
    held, outwards = held_back(hand)
    return minus((x, y, z), scale(held, outwards))


def lean(velocity: Vector) -> Vector:
    """Returns the small angles about the axes by which a moving hand leans, lower end ahead."""
    x, y, z = velocity
    return LEAN[1] * y, -LEAN[0] * x, 0.0 * z


def distance(hand: Vector) -> tuple[jax.Array, jax.Array, jax.Array]:
    """From the shoulder to the wrist, in metres: how far it is, level and upwards."""
    x, y = hand[0] - _SHOULDER[0], hand[1] - _SHOULDER[1]
    out = jnp.sqrt(x * x + y * y) - _SHOULDER_RADIUS
    up = hand[2] + _WRIST_ABOVE - _SHOULDER[2]
    return jnp.sqrt(out * out + up * up), out, up


def held_back(hand: Vector) -> tuple[jax.Array, Vector]:
    """By how much the arm's reach holds the hand back, in m/s^2, and the direction outwards."""
    x, y = hand[0] - _SHOULDER[0], hand[1] - _SHOULDER[1]
    far, out, up = distance(hand)
    held = sum(spring * jnp.maximum(far - reach, 0) for reach, spring in REACHES)
    share = out / (jnp.maximum(far, 1e-6) * jnp.maximum(out + _SHOULDER_RADIUS, 1e-6))
    return jnp.asarray(held), (share * x, share * y, up / jnp.maximum(far, 1e-6))


def on_table(scene: Scene, hand: Vector, velocity: Vector, free: Vector) -> Vector:
    """The hand's acceleration where its fingers or its palm may touch the table's top or a side.

    Args:
      scene: the task's.
      hand: where it is, in metres.
      velocity: in m/s.
      free: its acceleration without the table, in m/s^2.
    """
    x, y, z = hand[0] - scene.table[0], hand[1] - scene.table[1], hand[2] - 0.5 * TABLE_HEIGHT
    # Both fingers as one box, and the palm.
    away = jnp.stack([x, x]), jnp.stack([y, y]), jnp.stack([z, z + PALM_ABOVE])
    fingers = FINGER_HALF[0], FINGER_SIDE + FINGER_HALF[1], FINGER_HALF[2]
    table = *scene.table_half, 0.5 * TABLE_HEIGHT
    gaps = [
        jnp.abs(x) - jnp.array([[half + a], [half + b]])
        for x, half, a, b in zip(away, table, fingers, PALM_HALF, strict=True)
    ]
    most = jnp.maximum(jnp.maximum(gaps[0], gaps[1]), gaps[2])
    signs = [jnp.where(x < 0, -1.0, 1.0) for x in away]
    top = gaps[2] >= most
    by_x = ~top & (gaps[0] >= gaps[1])
    normal = (
        jnp.where(by_x, signs[0], 0.0),
        jnp.where(top | by_x, 0.0, signs[1]),
        jnp.where(top, signs[2], 0.0),
    )
    first = (jnp.where(top | by_x, 0.0, 1.0), jnp.where(top | by_x, 1.0, 0.0), 0.0)
    frame = (normal, first, cross(normal, first))
    surface = rubber(0.0)
    springs = contact.springs(most, most < 0.05, surface)
    # Four corners of either finger, and of the palm.
    springs = springs._replace(weight=jnp.array([[8.0], [4.0]]) * springs.weight)

    def step(
        acceleration: Vector, velocity: Vector, free: Vector, frame: Axes, springs: contact.Springs
    ) -> Vector:
        residual = plus(acceleration, scale(surface.damping, velocity))
        reply = contact.reply(on_axes(residual, frame), 0.0, springs)
        falls = entries(rotate_matrix(contact.fall_matrix(reply), frame))
        force, falls = jax.tree.map(lambda x: x[0] + x[1], (off_axes(reply.force, frame), falls))
        rest = minus(force, scale(MASS, minus(acceleration, free)))
        return plus(acceleration, solve(shift_diagonal(falls, MASS), rest))

    acceleration = free
    for _ in range(_ITERATIONS):
        acceleration = run_apart(step, acceleration, velocity, free, frame, springs)
    return acceleration


def control_of(opening: jax.Array, action: jax.Array) -> jax.Array:
    """Returns the fingers' target openings `[2, ...]`, in metres, by an action's last number."""
    return jnp.clip(opening + action, 0.0, _MOST_CONTROL)


def spread(
    scene: Scene,
    opening: jax.Array,
    velocity: jax.Array,
    control: jax.Array,
    pushed: jax.Array,
    carried: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Returns how the fingers move by their drive and their limits alone.

    Args:
      scene: the task's.
      opening: `[2, B]`, in metres.
      velocity: `[2, B]`, in m/s.
      control: `[2, B]`, where they are to be.
      pushed: `[2, B]`, forces that opened them a substep ago, in N; they decide whether a limit
        holds.
      carried: the hand's acceleration along y.

    Returns:
      The accelerations of the right and the left finger, in m/s^2, positive where they open, and
      their masses, in kg, `[2, B]` each.
    """
    force = -FINGER_DAMPER * velocity - jnp.stack([_CARRIED * carried, -_CARRIED * carried])
    if scene.grasps:
        force = force + _GAIN * (control - opening)
    # At most one of the limits is passed.
    wide = opening > 0.5 * OPEN
    side = jnp.where(wide, -1.0, 1.0)
    room = jnp.where(wide, OPEN - opening, opening)
    least, most = _LIMIT_IMPEDANCE
    stiff = contact.impedance(room, least, most, _LIMIT_WIDTH)
    depth = stiff * room / (most * _LIMIT_TIME) ** 2
    reference = -2 / (most * _LIMIT_TIME) * velocity - side * depth
    held = (room < 0) & (side * (force + pushed - FINGER_MASS * reference) < 0)
    weight = jnp.where(held, _LIMIT_MASS * stiff / (1 - stiff), 0.0)
    mass = FINGER_MASS + weight
    return (force + weight * reference) / mass, mass
