"""The block, or the puck: a free body among the fingers, the palm and the table.

Its six accelerations, and those by which the fingers open, are those that minimise MuJoCo's cost of
soft contacts, by Newton's method, with the hand's acceleration given. The fingers are solved for as
well, for they squeeze: a force that answers a substep late would come and go with every substep.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp

from gpicljax.envs._stages import run_apart
from gpicljax.envs.fetch import contact
from gpicljax.envs.fetch.algebra import (
    ENTRIES,
    Axes,
    Symmetric,
    Vector,
    cross,
    dot,
    entries,
    minus,
    off_axes,
    on_axes,
    plus,
    rotate_matrix,
    scale,
    shift_diagonal,
    solve_blocks,
)
from gpicljax.envs.fetch.contact import Material, Reply, Springs, Touch
from gpicljax.envs.fetch.hand import rubber
from gpicljax.envs.fetch.scene import STEP, Scene

_MASS, _DAMPER, _SOFTNESS, _GRAVITY = 2.0, 0.01, 0.5, 9.81
_ITERATIONS, _TRUSTED = 16, 6
_TOLERANCE, _LEVER = 0.05, 0.025  # m/s^2, and metres for angular accelerations


class Motion(NamedTuple):
    """Velocity in m/s and acceleration in m/s^2."""

    velocity: Vector
    acceleration: Vector


class Place(NamedTuple):
    """Accelerations, the unknowns of Newton's method.

    Attributes:
      linear: the body's, in m/s^2, `[B]`.
      angular: the body's, in rad/s^2, `[B]`.
      fingers: along y, from the hand's, in m/s^2, `[2, B]`.
    """

    linear: Vector
    angular: Vector
    fingers: jax.Array


class _Search(NamedTuple):
    """The state of Newton's method.

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
    """Returns the surfaces of fingers, palm and table, numbers `[P, 1]`."""
    finger = rubber(_SOFTNESS)
    palm = finger._replace(torsion=0.0)
    table = Material(scene.friction, 0.02, 0.9, 0.95, 0.001, 0.0, _SOFTNESS, 0.0)
    dtype = jnp.result_type(float)
    return jax.tree.map(lambda *x: jnp.asarray(x, dtype)[:, None], finger, finger, palm, table)


class _Contacts(NamedTuple):
    """Contacts, apart from the accelerations that are to be found.

    Attributes:
      arm: see `contact.Touch`, but along the frame's axes.
      frame: normals and tangents, `[P, B]`.
      residual: accelerations plus damped velocities along them, without the unknowns, in m/s^2.
      turning: the same about the normals, in rad/s^2.
      springs: their edges.
    """

    arm: Vector
    frame: Axes
    residual: Vector
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
    """Finds how the body and the fingers accelerate, and what pushes them.

    Args:
      scene: the task's.
      touch: where the body may touch the right finger, the left one, the palm and the table.
      velocity: its own, in m/s.
      spin: its own, in rad/s.
      boxes: the boxes' and the table's, `[P, B]`; of fingers, the acceleration is the hand's.
      fingers: their accelerations along y from the hand's, were there no body, and their masses, in
        kg, `[2, B]`.
      start: `[8, B]`, accelerations from which to search; of fingers, what the body adds.

    Returns:
      The accelerations, and the force of each box on the body, `[P, B]`, in N.
    """
    surfaces = _surfaces(scene)

    def prepare(touch: Touch, velocity: Vector, spin: Vector, boxes: Motion) -> _Contacts:
        moving = minus(plus(velocity, cross(spin, touch.arm)), boxes.velocity)
        residual = minus(scale(surfaces.damping, moving), boxes.acceleration)
        springs = contact.springs(touch.distance, touch.near, surfaces)
        frame = (touch.normal, *contact.tangents(touch.normal))
        turning = surfaces.damping * dot(spin, touch.normal)
        arm, residual = on_axes(touch.arm, frame), on_axes(residual, frame)
        return _Contacts(arm, frame, residual, turning, springs)

    contacts = run_apart(prepare, touch, velocity, spin, boxes)
    free = Place(
        minus(scale(-_DAMPER / _MASS, velocity), (0.0, 0.0, _GRAVITY)),
        scale(-_DAMPER / scene.inertia, spin),
        fingers[0],
    )

    def iterate(loop: _Search) -> _Search:
        by_box = run_apart(_sum_points, contacts.arm, run_apart(_forces, contacts, loop.place))
        sums = run_apart(_sum_boxes, contacts.frame, *by_box)
        return run_apart(lambda *state: _step(scene.inertia, *state), fingers[1], free, sums, loop)

    a, b, c, d, e, f = start[:6]
    place = Place((a, b, c), (d, e, f), fingers[0] + start[6:])
    origin, zero = jax.tree.map(jnp.zeros_like, (place, a))
    first = _Search(jnp.int32(0), place, origin, zero, jnp.bool(True))
    last = jax.lax.while_loop(lambda loop: (loop.done < _ITERATIONS) & loop.going, iterate, first)
    force = jax.tree.map(_over_points, run_apart(_forces, contacts, last.place).force)
    return last.place, off_axes(force, contacts.frame)


def _forces(contacts: _Contacts, place: Place) -> Reply:
    """Returns forces of all points at an acceleration, and how fast they fall, `[4, P, B]`."""
    y = place.linear[1] - jnp.concatenate([place.fingers, jnp.zeros_like(place.fingers)])
    linear = on_axes((place.linear[0], y, place.linear[2]), contacts.frame)
    angular = on_axes(place.angular, contacts.frame)
    residual = plus(contacts.residual, plus(linear, cross(angular, contacts.arm)))
    return contact.reply(residual, contacts.turning + angular[0], contacts.springs)


def _sum_points(arm: Vector, reply: Reply) -> tuple:
    """Returns sums over points, along the frames' axes, `[P, B]`."""
    x, y, z = arm
    straight, (a, b), (c, d) = reply.straight, reply.oblique, reply.sideways
    # The arm's cross product with each row of the matrix by which forces fall; then once more, down
    # the columns.
    middle = (
        (y * b - z * a, z * straight - x * b, x * a - y * straight),
        (-z * c, z * a, x * c - y * a),
        (y * d, z * b - x * d, -y * b),
    )
    lower = [cross(arm, (middle[0][j], middle[1][j], middle[2][j])) for j in range(3)]
    terms = (*reply, cross(arm, reply.force), middle, lower, reply.skew * y, reply.skew * z)
    force, straight, (a, b), (c, d), twist, skew, square, torque, middle, lower, u, v = (
        jax.tree.map(_over_points, terms)
    )
    # All points of a box have one normal, about which they twist.
    torque = (torque[0] + twist, torque[1], torque[2])
    middle = ((middle[0][0] + skew, *middle[0][1:]), *middle[1:])
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = lower
    xx, xy, xz = xx + square, xy + v, xz - u
    zero = jnp.zeros_like(xx)
    upper = (straight, a, b), (a, c, zero), (b, zero, d)
    return force, torque, upper, middle, ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))


def _sum_boxes(
    frame: Axes, force: Vector, torque: Vector, upper: Axes, middle: Axes, lower: Axes
) -> _Sums:
    """Returns sums over boxes, along the world's axes, `[B]`."""
    force, torque = off_axes(force, frame), off_axes(torque, frame)
    upper, middle, lower = (rotate_matrix(x, frame) for x in (upper, middle, lower))
    fingers = jax.tree.map(lambda x: x[:2], (-force[1], upper[1], middle[1]))
    by_box = force, torque, entries(upper), middle, entries(lower)
    return _Sums(*jax.tree.map(_over_boxes, by_box), *fingers)


def _over_points(x: jax.Array) -> jax.Array:
    """Returns the sum over points, written out: a kernel has no sums along an axis."""
    return x[0] + x[1] + x[2] + x[3]


def _over_boxes(x: jax.Array) -> jax.Array:
    """Returns the sum over boxes."""
    total = x[0]
    for i in range(1, x.shape[0]):
        total = total + x[i]
    return total


def _across(a: Place, b: Place) -> jax.Array:
    """Returns the scalar product of forces and accelerations."""
    fingers = _over_boxes(a.fingers * b.fingers)
    return dot(a.linear, b.linear) + dot(a.angular, b.angular) + fingers


def _step(inertia: float, mass: jax.Array, free: Place, sums: _Sums, loop: _Search) -> _Search:
    """Runs one step of Newton's method, or back along the last.

    Full steps arrive after few, but now and then they go round in circles. After some steps, one
    that went too far along its line is taken back to where the slope vanishes on the secant.
    """
    place, step = loop.place, loop.step
    rest = Place(
        minus(sums.force, scale(_MASS, minus(place.linear, free.linear))),
        minus(sums.torque, scale(inertia, minus(place.angular, free.angular))),
        sums.pull - mass * (place.fingers - free.fingers),
    )
    slope = -_across(rest, step)
    back = (slope > -0.2 * loop.slope) & (loop.slope < 0) & (loop.done > _TRUSTED)
    share = jnp.where(back, slope / (slope - loop.slope), 0.0)
    on = _solve(inertia, mass, sums, rest)
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


def _solve(inertia: float, mass: jax.Array, sums: _Sums, rest: Place) -> Place:
    """Returns the step to where nothing rests, solved with the fingers eliminated."""
    upper, lower = shift_diagonal(sums.upper, _MASS), shift_diagonal(sums.lower, inertia)
    middle = sums.middle
    force, torque = rest.linear, rest.angular
    inverse = 1 / (mass + sums.linear[1])
    for i in range(2):
        a, b = (cast("Vector", tuple(x[i] for x in part)) for part in (sums.linear, sums.angular))
        c, d = scale(inverse[i], a), scale(inverse[i], b)
        force, torque = (plus(x, scale(rest.fingers[i], y)) for x, y in ((force, c), (torque, d)))
        upper, lower = (
            cast("Symmetric", tuple(m[k] - x[p] * y[q] for k, (p, q) in enumerate(ENTRIES)))
            for m, x, y in ((upper, a, c), (lower, b, d))
        )
        middle = cast("Axes", tuple(minus(middle[p], scale(a[p], d)) for p in range(3)))
    linear, angular = run_apart(solve_blocks, upper, middle, lower, force, torque)
    through = dot(sums.linear, linear) + dot(sums.angular, angular)
    return Place(linear, angular, inverse * (rest.fingers + through))


def advance_velocities(
    scene: Scene, velocity: Vector, spin: Vector, linear: Vector, angular: Vector
) -> tuple[Vector, Vector]:
    """Returns velocity and angular velocity a substep later, with implicit damping."""
    return (
        plus(velocity, scale(STEP / (1 + STEP * _DAMPER / _MASS), linear)),
        plus(spin, scale(STEP / (1 + STEP * _DAMPER / scene.inertia), angular)),
    )
