"""The two joints between the lander and its legs: motor, limits and the common point.

Arrays are `[B]`. A body's pose or velocity is a triple; a joint's impulses are x, y, that of the
limit and that of the motor.

Source: the algorithm of Box2D 2.3's revolute joint (motor first, then point and limit in one
block, which falls back on the point alone where the limit would pull).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.envs._stages import run_apart
from gpicljax.envs.lunar_lander import scene

POINT_SLOP = 0.005
ANGLE_SLOP = np.deg2rad(2.0)
_MOST_TURN = np.deg2rad(8.0)

Triple = tuple[jax.Array, jax.Array, jax.Array]
Impulses = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def _masses(leg: int) -> tuple[float, float, float, float]:
    masses, inertias = scene.INVERSE_MASS, scene.INVERSE_INERTIA
    return (
        float(masses[0]),
        float(inertias[0]),
        float(masses[leg + 1]),
        float(inertias[leg + 1]),
    )


_MOTOR_MASS = float(1 / (scene.INVERSE_INERTIA[0] + scene.INVERSE_INERTIA[1]))


def _column(values: object, like: jax.Array) -> jax.Array:
    """Constants of the two legs, `[2, 1]`, in the dtype of `like`."""
    return jnp.asarray(np.asarray(values)[:, None], like.dtype)


def _arms(
    away: jax.Array | float, lander_angle: jax.Array, leg_angle: jax.Array
) -> tuple[jax.Array, ...]:
    """Returns the common point relative to either centre of mass, in the world."""
    rise, down = float(scene.RISE[0]), scene.LEG_DOWN
    cos, sin = jnp.cos(leg_angle), jnp.sin(leg_angle)
    return (
        rise * jnp.sin(lander_angle),
        -rise * jnp.cos(lander_angle),
        cos * away - sin * down,
        sin * away + cos * down,
    )


def limit_states(angles: jax.Array) -> jax.Array:
    """At which limit the joints are: -1 (lower), 0 (none) or 1 (upper), `int32[2, B]`.

    Args:
      angles: of the three bodies, float `[3, B]`.
    """
    angle = angles[1:] - angles[0] - _column(scene.START_TILT, angles)
    lowest, highest = (_column(scene.LIMITS[:, i], angles) for i in range(2))
    return jnp.where(angle <= lowest, -1, jnp.where(angle >= highest, 1, 0)).astype(jnp.int32)


class Row(NamedTuple):
    """Velocity constraints of joints, constant over a step's iterations.

    Attributes:
      arms: see `_arms`.
      couple: k13, k23 of the 3x3 matrix of point and limit.
      two: the inverse of its upper left 2x2 block: 11, 12, 22.
      three: the inverse of the whole: 11, 12, 13, 22, 23, 33.
      limit: float, see `limit_state`.
    """

    arms: tuple[jax.Array, ...]
    couple: tuple[jax.Array, jax.Array]
    two: Triple
    three: tuple[jax.Array, ...]
    limit: jax.Array


def rows(angles: jax.Array, limit: jax.Array) -> Row:
    """Prepares the velocity constraints of both joints, leaves `[2, B]`."""
    mass_a, inertia_a, mass_b, inertia_b = _masses(0)
    away = _column(scene.LEG_SIDE * scene.LEG_AWAY, angles)
    ax, ay, bx, by = run_apart(_arms, away, angles[:1], angles[1:])
    k33 = inertia_a + inertia_b

    def matrix() -> tuple[jax.Array, ...]:
        k11 = mass_a + mass_b + inertia_a * ay * ay + inertia_b * by * by
        k12 = -inertia_a * ay * ax - inertia_b * by * bx
        k22 = mass_a + mass_b + inertia_a * ax * ax + inertia_b * bx * bx
        k13, k23 = -inertia_a * ay - inertia_b * by, inertia_a * ax + inertia_b * bx
        return k11, k12, k13, k22, k23

    k11, k12, k13, k22, k23 = run_apart(matrix)
    two = 1 / (k11 * k22 - k12 * k12)
    c11, c12, c13 = k22 * k33 - k23 * k23, k13 * k23 - k12 * k33, k12 * k23 - k13 * k22
    three = 1 / (k11 * c11 + k12 * c12 + k13 * c13)
    rest = (k11 * k33 - k13 * k13, k12 * k13 - k11 * k23, k11 * k22 - k12 * k12)
    zeros = jnp.zeros_like(bx)
    return Row(
        arms=(ax + zeros, ay + zeros, bx, by),
        couple=(k13, k23),
        two=(two * k22, -two * k12, two * k11),
        three=tuple(three * c for c in (c11, c12, c13, *rest)),
        limit=limit.astype(bx.dtype),
    )


def push(
    leg: int, lander: Triple, body: Triple, arms: tuple[jax.Array, ...], change: Impulses
) -> tuple[Triple, Triple]:
    """Applies a joint's impulses to the lander and the leg."""
    mass_a, inertia_a, mass_b, inertia_b = _masses(leg)
    ax, ay, bx, by = arms
    px, py, limit, motor = change
    turn = limit + motor
    return (
        (
            lander[0] - mass_a * px,
            lander[1] - mass_a * py,
            lander[2] - inertia_a * (ax * py - ay * px + turn),
        ),
        (
            body[0] + mass_b * px,
            body[1] + mass_b * py,
            body[2] + inertia_b * (bx * py - by * px + turn),
        ),
    )


def solve(
    leg: int, r: Row, lander: Triple, body: Triple, old: Impulses
) -> tuple[Triple, Triple, Impulses]:
    """Runs one iteration: the motor, then point and limit.

    Returns:
      Velocities of lander and leg, and the impulses.
    """
    _, inertia_a, _, inertia_b = _masses(leg)
    motor_speed = float(scene.MOTOR_SPEED[leg])

    def changes() -> Impulses:
        ax, ay, bx, by = r.arms
        most = scene.MOTOR_IMPULSE
        motor = jnp.clip(old[3] - _MOTOR_MASS * (body[2] - lander[2] - motor_speed), -most, most)
        driven = motor - old[3]
        spin_a, spin_b = lander[2] - inertia_a * driven, body[2] + inertia_b * driven
        ux = body[0] - spin_b * by - lander[0] + spin_a * ay
        uy = body[1] + spin_b * bx - lander[1] - spin_a * ax
        uz = spin_b - spin_a
        e11, e12, e13, e22, e23, e33 = r.three
        x = -(e11 * ux + e12 * uy + e13 * uz)
        y = -(e12 * ux + e22 * uy + e23 * uz)
        z = -(e13 * ux + e23 * uy + e33 * uz)
        # Without a limit its impulse is zero, and this is the case too.
        loose = (r.limit == 0) | (r.limit * (old[2] + z) > 0)
        tx, ty = old[2] * r.couple[0] - ux, old[2] * r.couple[1] - uy
        x = jnp.where(loose, r.two[0] * tx + r.two[1] * ty, x)
        y = jnp.where(loose, r.two[1] * tx + r.two[2] * ty, y)
        return x, y, jnp.where(loose, -old[2], z), driven

    change = run_apart(changes)
    lander, body = push(leg, lander, body, r.arms, change)
    return lander, body, jax.tree.map(jnp.add, old, change)


def correct(
    leg: int, limit: jax.Array, lander: Triple, body: Triple
) -> tuple[Triple, Triple, jax.Array]:
    """Returns one pass of position corrections.

    Returns:
      Poses of lander and leg, and whether both errors were small beforehand.
    """
    mass_a, inertia_a, mass_b, inertia_b = _masses(leg)
    lowest, highest = (float(x) for x in scene.LIMITS[leg])
    angle = body[2] - lander[2] - float(scene.START_TILT[leg])
    above, beneath = angle - highest, angle - lowest
    up, down = limit > 0, limit < 0
    angular_error = jnp.where(up, above, jnp.where(down, -beneath, 0))
    excess = jnp.where(
        up,
        jnp.clip(above - ANGLE_SLOP, 0, _MOST_TURN),
        jnp.where(down, jnp.clip(beneath + ANGLE_SLOP, -_MOST_TURN, 0), 0),
    )
    turn = -_MOTOR_MASS * excess
    angle_a, angle_b = lander[2] - inertia_a * turn, body[2] + inertia_b * turn
    away = float(scene.LEG_SIDE[leg] * scene.LEG_AWAY)
    ax, ay, bx, by = _arms(away, angle_a, angle_b)
    ex, ey = body[0] + bx - lander[0] - ax, body[1] + by - lander[1] - ay
    k11 = mass_a + mass_b + inertia_a * ay * ay + inertia_b * by * by
    k12 = -inertia_a * ax * ay - inertia_b * bx * by
    k22 = mass_a + mass_b + inertia_a * ax * ax + inertia_b * bx * bx
    scale = -1 / (k11 * k22 - k12 * k12)
    px, py = scale * (k22 * ex - k12 * ey), scale * (k11 * ey - k12 * ex)
    zero = jnp.zeros_like(px)
    lander, body = push(
        leg,
        (lander[0], lander[1], angle_a),
        (body[0], body[1], angle_b),
        (ax, ay, bx, by),
        (px, py, zero, zero),
    )
    fine = (ex * ex + ey * ey <= POINT_SLOP**2) & (angular_error <= ANGLE_SLOP)
    return lander, body, fine
