"""The block, or the puck: a free body among the fingers, the palm and the table.

Its six accelerations, and those by which the fingers open, are those that minimise MuJoCo's cost of
soft contacts, by Newton's method, with the hand's acceleration given. The fingers are solved for as
well, for they squeeze: a force that answers a substep late would come and go with every substep.
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
    cross,
    dot,
    minus,
    plus,
    rows,
    scaled,
    shifted,
    solved_pair,
)
from gpicljax.envs.fetch.contact import Material, Reply, Springs, Touch
from gpicljax.envs.fetch.hand import rubber
from gpicljax.envs.fetch.scene import STEP, Scene

_MASS, _DAMPER, _SOFTNESS, _GRAVITY = 2.0, 0.01, 0.5, 9.81
_ITERATIONS, _TRUSTED = 16, 6
_TOLERANCE, _LEVER = 0.05, 0.025  # m/s^2, and metres for angular accelerations


class Motion(NamedTuple):
    """How something moves: velocity in m/s and acceleration in m/s^2."""

    velocity: Vector
    acceleration: Vector


class Place(NamedTuple):
    """Accelerations that are looked for.

    Attributes:
      linear: the body's, in m/s^2, `[B]`.
      angular: the body's, in rad/s^2, `[B]`.
      fingers: along y, from the hand's, in m/s^2, `[2, B]`.
    """

    linear: Vector
    angular: Vector
    fingers: jax.Array


class _Search(NamedTuple):
    """Where Newton's method is.

    Attributes:
      done: iterations so far.
      place: the accelerations.
      step: the last step to them.
      slope: of the cost along that step, where the step began.
      going: whether any instance of the batch has not arrived.
    """

    done: jax.Array
    place: Place
    step: Place
    slope: jax.Array
    going: jax.Array


class _Sums(NamedTuple):
    """Forces of all contacts, and how fast they fall with accelerations.

    Attributes:
      force: on the body, in N.
      torque: on the body, in N m.
      upper: the matrix by which they fall with the body's accelerations, in blocks: symmetric,
      middle: rows,
      lower: and symmetric.
      pull: on the fingers along y, in N, `[2, B]`.
      linear: how fast the force falls with a finger's acceleration, in kg, `[2, B]`.
      angular: how fast the torque does, in kg m, `[2, B]`.
    """

    force: Vector
    torque: Vector
    upper: Symmetric
    middle: Axes
    lower: Symmetric
    pull: jax.Array
    linear: Vector
    angular: Vector


def _surfaces(scene: Scene) -> Material:
    """Those of fingers, palm and table, numbers `[P, 1]`."""
    finger = rubber(_SOFTNESS)
    palm = finger._replace(torsion=0.0)
    table = Material(scene.friction, 0.02, 0.9, 0.95, 0.001, 0.0, _SOFTNESS, 0.0)
    dtype = jnp.result_type(float)
    return jax.tree.map(lambda *x: jnp.asarray(x, dtype)[:, None], finger, finger, palm, table)


class _Contacts(NamedTuple):
    """All that forces depend on but accelerations.

    Attributes:
      arm: see `contact.Touch`.
      frame: normals and tangents, `[P, B]`.
      wanted: accelerations plus damped velocities, but for what is looked for, in m/s^2.
      turning: the same about the normals, in rad/s^2.
      springs: their edges.
    """

    arm: Vector
    frame: Axes
    wanted: Vector
    turning: jax.Array
    springs: Springs


def accelerations(
    scene: Scene,
    touch: Touch,
    velocity: Vector,
    spin: Vector,
    boxes: Motion,
    fingers: tuple[jax.Array, jax.Array],
    start: jax.Array,
) -> tuple[Place, Vector]:
    """How the body and the fingers accelerate, and what pushes them.

    Args:
      scene: the task's.
      touch: where the body may touch the right finger, the left one, the palm and the table.
      velocity: its own, in m/s.
      spin: its own, in rad/s.
      boxes: the boxes' and the table's, `[P, B]`; of fingers, the acceleration is the hand's.
      fingers: their accelerations along y from the hand's, were there no body, and their masses, in
        kg, `[2, B]`.
      start: `[8, B]`, accelerations from which to search.

    Returns:
      The accelerations, and the force of each box on the body, `[P, B]`, in N.
    """
    surfaces = _surfaces(scene)

    def prepared(touch: Touch, velocity: Vector, spin: Vector, boxes: Motion) -> _Contacts:
        moving = minus(plus(velocity, cross(spin, touch.arm)), boxes.velocity)
        wanted = minus(scaled(surfaces.damping, moving), boxes.acceleration)
        springs = contact.springs(touch.distance, touch.near, surfaces)
        frame = (touch.normal, *contact.tangents(touch.normal))
        turning = surfaces.damping * dot(spin, touch.normal)
        return _Contacts(touch.arm, frame, wanted, turning, springs)

    contacts = apart(prepared, touch, velocity, spin, boxes)
    free = Place(
        minus(scaled(-_DAMPER / _MASS, velocity), (0.0, 0.0, _GRAVITY)),
        scaled(-_DAMPER / scene.inertia, spin),
        fingers[0],
    )

    def go(loop: _Search) -> _Search:
        sums = apart(_summed, contacts, apart(_forces, contacts, loop.place))
        return apart(lambda *given: _step(scene.inertia, *given), fingers[1], free, sums, loop)

    a, b, c, d, e, f = start[:6]
    place = Place((a, b, c), (d, e, f), start[6:])
    still, zero = jax.tree.map(jnp.zeros_like, (place, a))
    first = _Search(jnp.int32(0), place, still, zero, jnp.bool(True))
    last = jax.lax.while_loop(lambda loop: (loop.done < _ITERATIONS) & loop.going, go, first)
    force = apart(_forces, contacts, last.place).force
    return last.place, jax.tree.map(_over_points, force)


def _forces(of: _Contacts, place: Place) -> Reply:
    """Forces of all points at an acceleration, and how fast they fall with it, `[4, P, B]`."""
    x, y, z = plus(of.wanted, plus(place.linear, cross(place.angular, of.arm)))
    y = y - jnp.concatenate([place.fingers, jnp.zeros_like(place.fingers)])
    turning = of.turning + dot(place.angular, of.frame[0])
    return contact.reply((x, y, z), turning, of.frame, of.springs)


def _summed(of: _Contacts, reply: Reply) -> _Sums:
    """Sums over points and boxes, `[B]`."""
    arm, normal = of.arm, of.frame[0]
    force, falls, *twist = reply
    middle = cast("Axes", tuple(cross(arm, row) for row in rows(falls)))
    # The arm's cross product once more, down the columns.
    columns = [cross(arm, tuple(row[j] for row in middle)) for j in range(3)]  # pyright: ignore
    lower = tuple(columns[j][i] for i, j in ENTRIES)
    moment = scaled(reply.skew, arm)
    by_box = jax.tree.map(
        _over_points, (force, cross(arm, force), falls, middle, lower, twist, moment)
    )
    force, torque, falls, middle, lower, (twist, skew, square), moment = by_box
    # All points of a box have one normal, about which they twist.
    torque = plus(torque, scaled(twist, normal))
    a, b = scaled(skew, normal), plus(cross(moment, normal), scaled(0.5 * square, normal))
    middle = cast(
        "Axes", tuple(plus(row, scaled(x, a)) for row, x in zip(middle, normal, strict=True))
    )
    lower = tuple(
        x + b[i] * normal[j] + normal[i] * b[j] for x, (i, j) in zip(lower, ENTRIES, strict=True)
    )
    by_box = force, torque, falls, middle, lower
    ours = jax.tree.map(lambda x: x[:2], (-force[1], rows(falls)[1], middle[1]))
    return _Sums(*jax.tree.map(_over_boxes, by_box), *ours)


def _over_points(x: jax.Array) -> jax.Array:
    """The sum over points, written out: a kernel has no sums along an axis."""
    return x[0] + x[1] + x[2] + x[3]


def _over_boxes(x: jax.Array) -> jax.Array:
    """The sum over boxes."""
    total = x[0]
    for i in range(1, x.shape[0]):
        total = total + x[i]
    return total


def _across(a: Place, b: Place) -> jax.Array:
    """The scalar product of forces and accelerations."""
    fingers = _over_boxes(a.fingers * b.fingers)
    return dot(a.linear, b.linear) + dot(a.angular, b.angular) + fingers


def _step(inertia: float, mass: jax.Array, free: Place, sums: _Sums, loop: _Search) -> _Search:
    """One step of Newton's method, or back along the last.

    Full steps arrive after few, but now and then they go round in circles. After some steps, one
    that went too far along its line is taken back to where the slope vanishes on the secant.
    """
    place, step = loop.place, loop.step
    rest = Place(
        minus(sums.force, scaled(_MASS, minus(place.linear, free.linear))),
        minus(sums.torque, scaled(inertia, minus(place.angular, free.angular))),
        sums.pull - mass * (place.fingers - free.fingers),
    )
    slope = -_across(rest, step)
    back = (slope > -0.2 * loop.slope) & (loop.slope < 0) & (loop.done > _TRUSTED)
    share = jnp.where(back, slope / (slope - loop.slope), 0.0)
    on = _towards(inertia, mass, sums, rest)
    change, step = (
        jax.tree.map(lambda a, b, factor=factor: jnp.where(back, factor * a, b), step, on)
        for factor in (-share, 1 - share)
    )
    size = sum(map(jnp.abs, change.linear)) + _LEVER * sum(map(jnp.abs, change.angular))
    size = size + _over_boxes(jnp.abs(change.fingers))
    return _Search(
        loop.done + 1,
        jax.tree.map(jnp.add, place, change),
        step,
        jnp.where(back, (1 - share) * loop.slope, -_across(rest, on)),
        (back | (size > _TOLERANCE)).any(),
    )


def _towards(inertia: float, mass: jax.Array, sums: _Sums, rest: Place) -> Place:
    """The step to where nothing rests, by a solution for the body with the fingers eliminated."""
    upper, middle, lower = shifted(sums.upper, _MASS), sums.middle, shifted(sums.lower, inertia)
    force, torque = rest.linear, rest.angular
    inverse = 1 / (mass + sums.linear[1])
    for i in range(2):
        a, b = (cast("Vector", tuple(x[i] for x in part)) for part in (sums.linear, sums.angular))
        c, d = scaled(inverse[i], a), scaled(inverse[i], b)
        force, torque = (plus(x, scaled(rest.fingers[i], y)) for x, y in ((force, c), (torque, d)))
        upper, lower = (
            cast("Symmetric", tuple(m[k] - x[p] * y[q] for k, (p, q) in enumerate(ENTRIES)))
            for m, x, y in ((upper, a, c), (lower, b, d))
        )
        middle = cast("Axes", tuple(minus(middle[p], scaled(a[p], d)) for p in range(3)))
    linear, angular = solved_pair(upper, middle, lower, force, torque)
    through = dot(sums.linear, linear) + dot(sums.angular, angular)
    return Place(linear, angular, inverse * (rest.fingers + through))


def moved(
    scene: Scene, velocity: Vector, spin: Vector, linear: Vector, angular: Vector
) -> tuple[Vector, Vector]:
    """Velocity and angular velocity a substep later, by accelerations and implicit damping."""
    return (
        plus(velocity, scaled(STEP / (1 + STEP * _DAMPER / _MASS), linear)),
        plus(spin, scaled(STEP / (1 + STEP * _DAMPER / scene.inertia), angular)),
    )
