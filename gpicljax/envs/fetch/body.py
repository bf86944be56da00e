"""The block, or the puck: a free body among the fingers, the palm and the table.

Its six accelerations are those that minimise MuJoCo's cost of soft contacts, by Newton's method,
with the fingers' and the hand's accelerations given.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp

from gpicljax.envs._stages import apart
from gpicljax.envs.fetch import contact
from gpicljax.envs.fetch.algebra import (
    ENTRIES,
    Axes,
    Symmetric,
    Vector,
    axis,
    chosen,
    cross,
    dot,
    largest,
    minus,
    picked,
    plus,
    rows,
    scaled,
    shifted,
    solved_pair,
)
from gpicljax.envs.fetch.contact import Material, Springs, Touch, corners
from gpicljax.envs.fetch.hand import rubber
from gpicljax.envs.fetch.scene import STEP, TABLE_HEIGHT, Scene

_MASS, _DAMPER, _SOFTNESS, _GRAVITY = 2.0, 0.01, 0.5, 9.81
_UNDER = 0.03  # metres below the table's top from where on a point is beside the table, not on it
_ITERATIONS, _TRUSTED = 16, 6
_TOLERANCE, _LEVER = 0.05, 0.025  # m/s^2, and metres for angular accelerations


class Motion(NamedTuple):
    """How something moves: velocity in m/s and acceleration in m/s^2."""

    velocity: Vector
    acceleration: Vector


class _Search(NamedTuple):
    """Where Newton's method is.

    Attributes:
      done: iterations so far.
      place: the linear and the angular acceleration.
      step: the last step to it.
      slope: of the cost along that step, where the step began.
      going: whether any instance of the batch has not arrived.
    """

    done: jax.Array
    place: tuple[Vector, Vector]
    step: tuple[Vector, Vector]
    slope: jax.Array
    going: jax.Array


def on_table(scene: Scene, body: Vector, axes: Axes) -> Touch:
    """Where four of the body's points may touch the table, or the floor beside it.

    They are the corners of a block's lowest face, or four points of the rim of a puck's lower end.

    Args:
      scene: the task's.
      body: its centre, in metres, `[B]`.
      axes: its axes in the world.

    Returns:
      The contacts, with one box.
    """
    up = (axes[0][2], axes[1][2], axes[2][2])
    if scene.round:
        index = jnp.full(jnp.shape(up[0]), 2, jnp.int32)
    else:
        index = largest((jnp.abs(up[0]), jnp.abs(up[1]), jnp.abs(up[2])))
    face, u, w = (axis(index, axes, by) for by in range(3))
    if scene.round:
        u, w = scaled(0.5, plus(u, w)), scaled(0.5, minus(u, w))
    u, w = scaled(scene.half[0], u), scaled(scene.half[0], w)
    face = scaled(jnp.where(picked(index, up) > 0, -scene.half[2], scene.half[2]), face)
    arm = [corners(face[i], u[i], w[i]) for i in range(3)]
    x, y, z = (a + b for a, b in zip(arm, body, strict=True))
    over = (jnp.abs(x - scene.table[0]) < scene.table_half[0]) & (
        jnp.abs(y - scene.table[1]) < scene.table_half[1]
    )
    distance = z - jnp.where(over & (z > TABLE_HEIGHT - _UNDER), TABLE_HEIGHT, 0.0)
    zero = jnp.zeros_like(body[0])
    touch = Touch(cast("Vector", tuple(arm)), (zero, zero, zero + 1), distance, zero == 0)
    return jax.tree.map(lambda x: jnp.expand_dims(x, -2), touch)


def _surfaces(scene: Scene, boxes: int) -> Material:
    """The boxes' and the table's, numbers `[P, 1]`."""
    table = Material(scene.friction, 0.02, 0.9, 0.95, 0.001, 0.0, _SOFTNESS, 0.0)
    dtype = jnp.result_type(float)
    return jax.tree.map(
        lambda a, b: jnp.asarray([[a]] * boxes + [[b]], dtype), rubber(_SOFTNESS), table
    )


def accelerations(
    scene: Scene, touch: Touch, velocity: Vector, spin: Vector, boxes: Motion, start: jax.Array
) -> tuple[Vector, Vector, Vector]:
    """How the body accelerates, and what pushes it.

    Args:
      scene: the task's.
      touch: where it may touch the boxes and, last, the table.
      velocity: its own, in m/s.
      spin: its own, in rad/s.
      boxes: the boxes' and the table's, `[P, B]`.
      start: `[6, B]`, accelerations from which to search.

    Returns:
      The linear acceleration, the angular one, and the force of each box, `[P, B]`, in N.
    """
    surfaces = _surfaces(scene, touch.near.shape[-2] - 1)

    def prepared(touch: Touch, velocity: Vector, spin: Vector, boxes: Motion) -> tuple:
        moving = minus(plus(velocity, cross(spin, touch.arm)), boxes.velocity)
        wanted = minus(scaled(surfaces.damping, moving), boxes.acceleration)
        springs = contact.springs(touch.distance, touch.near, surfaces)
        return touch.arm, (touch.normal, *contact.tangents(touch.normal)), wanted, springs

    contacts = apart(prepared, touch, velocity, spin, boxes)
    free = minus(scaled(-_DAMPER / _MASS, velocity), (0.0, 0.0, _GRAVITY))
    turning = scaled(-_DAMPER / scene.inertia, spin)

    def go(loop: _Search) -> _Search:
        force, falls = apart(_forces, contacts, loop.place)
        sums = apart(_summed, contacts[0], force, falls)
        return apart(lambda *given: _step(scene.inertia, *given), (free, turning), sums, loop)

    zero = jnp.zeros_like(velocity[0])
    still = (zero, zero, zero)
    a, b, c, d, e, f = start
    first = _Search(jnp.int32(0), ((a, b, c), (d, e, f)), (still, still), zero, jnp.bool(True))
    last = jax.lax.while_loop(lambda loop: (loop.done < _ITERATIONS) & loop.going, go, first)
    force, _ = apart(_forces, contacts, last.place)
    return *last.place, jax.tree.map(_over_points, force)


def _forces(
    contacts: tuple[Vector, Axes, Vector, Springs], place: tuple[Vector, Vector]
) -> tuple[Vector, Symmetric]:
    """Forces of all points at an acceleration, and how fast they fall with it, `[4, P, B]`."""
    arm, frame, wanted, springs = contacts
    linear, angular = place
    return contact.reply(plus(wanted, plus(linear, cross(angular, arm))), frame, springs)


def _summed(
    arm: Vector, force: Vector, falls: Symmetric
) -> tuple[Vector, Vector, Symmetric, Axes, Symmetric]:
    """Force and torque on the body, and the blocks of the matrix by which they fall, `[B]`."""
    x, y, z = arm
    middle = cast("Axes", tuple(cross(arm, row) for row in rows(falls)))
    # The arm's cross product once more, down the columns.
    columns = [cross(arm, tuple(row[j] for row in middle)) for j in range(3)]  # pyright: ignore
    lower = tuple(columns[j][i] for i, j in ENTRIES)
    return jax.tree.map(_over_all, (force, cross(arm, force), falls, middle, lower))


def _over_points(x: jax.Array) -> jax.Array:
    """The sum over points, written out: a kernel has no sums along an axis."""
    return x[0] + x[1] + x[2] + x[3]


def _over_all(x: jax.Array) -> jax.Array:
    """The sum over points and boxes."""
    x = _over_points(x)
    total = x[0]
    for i in range(1, x.shape[0]):
        total = total + x[i]
    return total


def _step(inertia: float, free: tuple[Vector, Vector], sums: tuple, loop: _Search) -> _Search:
    """One step of Newton's method, or back along the last.

    Full steps arrive after few, but now and then they go round in circles. After some steps, one
    that went too far along its line is taken back to where the slope vanishes on the secant.
    """
    force, torque, upper, middle, lower = sums
    (linear, angular), (step, turn) = loop.place, loop.step
    rest = minus(force, scaled(_MASS, minus(linear, free[0])))
    rest_turn = minus(torque, scaled(inertia, minus(angular, free[1])))
    slope = -(dot(rest, step) + dot(rest_turn, turn))
    back = (slope > -0.2 * loop.slope) & (loop.slope < 0) & (loop.done > _TRUSTED)
    share = jnp.where(back, slope / (slope - loop.slope), 0.0)
    on, on_turn = solved_pair(
        shifted(upper, _MASS), middle, shifted(lower, inertia), rest, rest_turn
    )
    change = chosen(back, scaled(-share, step), on)
    change_turn = chosen(back, scaled(-share, turn), on_turn)
    size = sum(jnp.abs(x) for x in change) + _LEVER * sum(jnp.abs(x) for x in change_turn)
    return _Search(
        loop.done + 1,
        (plus(linear, change), plus(angular, change_turn)),
        (chosen(back, scaled(1 - share, step), on), chosen(back, scaled(1 - share, turn), on_turn)),
        jnp.where(back, (1 - share) * loop.slope, -(dot(rest, on) + dot(rest_turn, on_turn))),
        (back | (size > _TOLERANCE)).any(),
    )


def moved(
    scene: Scene, velocity: Vector, spin: Vector, linear: Vector, angular: Vector
) -> tuple[Vector, Vector]:
    """Velocity and angular velocity a substep later, by accelerations and implicit damping."""
    return (
        plus(velocity, scaled(STEP / (1 + STEP * _DAMPER / _MASS), linear)),
        plus(spin, scaled(STEP / (1 + STEP * _DAMPER / scene.inertia), angular)),
    )
