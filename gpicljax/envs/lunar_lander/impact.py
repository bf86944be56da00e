"""Continuous collision: when a moving body comes to touch an edge of the ground.

Arrays are `[2, 3, B]`: slot, body, batch. Motion is a straight line at constant speed with constant
angular speed, over one unit of time.

Source: the algorithm of Box2D 2.3's time of impact (conservative advancement along the axis between
the closest features), with the closest features found directly instead of by a general search.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.envs._stages import run_apart
from gpicljax.envs.lunar_lander.contact import (
    SLOP,
    Edges,
    Frame,
    Pair,
    Triple,
    corners,
    entries,
    entry_at,
    frame_of,
    least,
    pick,
    rotate,
    to_world,
)

_TARGET = SLOP  # the distance at which a body counts as touching
_TOLERANCE = 0.25 * SLOP
_MOST_AXES, _MOST_POINTS, _MOST_ROOTS = 20, 16, 50


class Sweep(NamedTuple):
    """A motion: the pose (x, y of the centre of mass, angle) at its start and at its end."""

    start: Triple
    end: Triple

    def at(self, time: jax.Array) -> Frame:
        """Returns the body's frame at a time in [0, 1]."""
        x, y, angle = ((1 - time) * a + time * b for a, b in zip(self.start, self.end, strict=True))
        return frame_of((x, y, angle))


class _Axis(NamedTuple):
    """A direction along which body and edge are apart, and the point that it is measured from.

    Where `on_body`, both are in the body's coordinates and the edge's ends are what approaches;
    otherwise they are in the world's, and it is the body's corners.
    """

    on_body: jax.Array
    direction: Pair
    origin: Pair


def _nearest(frame: Frame, edges: Edges) -> tuple[jax.Array, ...]:
    """The corner closest to the edge, the side closest to an end of it, and how close they are.

    Returns:
      Squared distances of corner and side (infinite where an end is beside every side), their
      numbers, and whether body and edge overlap.
    """
    ax, ay, bx, by = edges
    ex, ey = bx - ax, by - ay
    length2 = ex * ex + ey * ey
    x, y = corners(frame)  # [6, 2, 3, B], as everything that follows
    px, py = x - ax, y - ay
    off = ey * px - ex * py
    share = jnp.clip((px * ex + py * ey) / length2, 0, 1)
    to_corner = (px - share * ex) ** 2 + (py - share * ey) ** 2
    nearest_corner, corner = least(to_corner)

    mx, my = rotate(frame, *entries("normal", ex))
    fx, fy = to_world(frame, *entries("next", ex))
    length = (fx - x) * -my + (fy - y) * mx

    def end(gx: jax.Array, gy: jax.Array) -> Pair:
        """Height of an end of the edge over each side, and its squared distance if beside it."""
        height = mx * (gx - x) + my * (gy - y)
        reach = (gx - x) * -my + (gy - y) * mx
        return height, jnp.where((reach > 0) & (reach < length), height * height, jnp.inf)

    (height_a, to_a), (height_b, to_b) = end(ax, ay), end(bx, by)
    to_side = jnp.minimum(to_a, to_b)
    nearest_side, side = least(to_side)
    above, _ = least(-jnp.minimum(height_a, height_b))
    (left, _), (right, _) = least(-off), least(off)
    overlap = (above >= 0) & (left <= 0) & (right <= 0)
    return nearest_corner, corner, nearest_side, side, overlap


def _closest(frame: Frame, edges: Edges) -> tuple[jax.Array, jax.Array, _Axis]:
    """Distance of body and edge, whether they overlap, and the axis between closest features."""
    nearest_corner, corner, nearest_side, side, overlapped = run_apart(_nearest, frame, edges)
    ax, ay, bx, by = edges
    ex, ey = bx - ax, by - ay
    length2 = ex * ex + ey * ey
    on_body = nearest_side < nearest_corner
    distance = jnp.sqrt(jnp.minimum(nearest_side, nearest_corner))

    def axis() -> _Axis:
        x, y = to_world(frame, *entry_at("corner", corner, ex))
        along = ((x - ax) * ex + (y - ay) * ey) / length2
        share = jnp.clip(along, 0, 1)
        qx, qy = ax + share * ex, ay + share * ey
        # Corner against edge: the edge's normal. Corner against end: the line between them.
        sign = jnp.where(ey * (x - ax) - ex * (y - ay) >= 0, 1.0, -1.0) / jnp.sqrt(length2)
        sign = sign.astype(ex.dtype)
        gap = jnp.where(distance > 0, distance, 1)
        inside = (along > 0) & (along < 1)
        across = pick(inside, (sign * ey, -sign * ex), ((x - qx) / gap, (y - qy) / gap))
        normal, plane = entry_at("normal", side, ex), entry_at("corner", side, ex)
        return _Axis(on_body, pick(on_body, normal, across), pick(on_body, plane, (qx, qy)))

    return distance, overlapped, run_apart(axis)


def _measure(frame: Frame, axis: _Axis) -> tuple[Pair, Pair]:
    """Returns an axis in the world: its direction and origin."""
    return (
        pick(axis.on_body, rotate(frame, *axis.direction), axis.direction),
        pick(axis.on_body, to_world(frame, *axis.origin), axis.origin),
    )


def _deepest(frame: Frame, edges: Edges, axis: _Axis) -> tuple[jax.Array, Pair]:
    """The least separation along an axis and where it is: a corner (in the body) or an end."""

    def search() -> tuple[jax.Array, jax.Array]:
        (nx, ny), (ox, oy) = _measure(frame, axis)
        at_a = nx * (edges.ax - ox) + ny * (edges.ay - oy)
        at_b = nx * (edges.bx - ox) + ny * (edges.by - oy)
        x, y = corners(frame)
        deepest, corner = least(nx * (x - ox) + ny * (y - oy))
        index = jnp.where(axis.on_body, at_b < at_a, corner)
        return jnp.where(axis.on_body, jnp.minimum(at_a, at_b), deepest), index

    deepest, index = run_apart(search)
    end = pick(index == 0, (edges.ax, edges.ay), (edges.bx, edges.by))
    return deepest, pick(axis.on_body, end, entry_at("corner", index, deepest))


def _separation(frame: Frame, axis: _Axis, witness: Pair) -> jax.Array:
    """The separation of a given corner or end along an axis."""
    (nx, ny), (ox, oy) = _measure(frame, axis)
    x, y = pick(axis.on_body, witness, to_world(frame, *witness))
    return nx * (x - ox) + ny * (y - oy)


def time_of_impact(sweep: Sweep, edges: Edges, active: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the times at which bodies come within `_TARGET` of edges.

    Args:
      sweep: the motion, leaves broadcastable to `[2, 3, B]`.
      edges: `[2, 3, B]`.
      active: `bool[2, 3, B]`, which pairs to look at.

    Returns:
      The time in [0, 1], and whether there is an impact at all: not where they stay apart, nor
      where they overlap from the start.
    """

    def settle_point(loop: tuple) -> tuple:
        # The deepest point, again and again until it stays on the target.
        low, high, axis, searching, stays, hit, count = loop
        depth, witness = _deepest(sweep.at(high), edges, axis)
        beyond = depth > _TARGET + _TOLERANCE
        arrived = ~beyond & (depth > _TARGET - _TOLERANCE)
        before = _separation(sweep.at(low), axis, witness)
        failed = ~beyond & ~arrived & (before < _TARGET - _TOLERANCE)
        touching = ~beyond & ~arrived & ~failed & (before <= _TARGET + _TOLERANCE)
        stays = stays | (searching & (beyond | failed | touching))
        hit = hit | (searching & touching)
        next_low = jnp.where(searching & arrived, high, low)
        searching = searching & ~(beyond | arrived | failed | touching)
        root = _root(sweep, axis, witness, (low, before), (high, depth), searching)
        high = jnp.where(searching, root, high)
        count = count + 1
        return next_low, high, axis, searching & (count < _MOST_POINTS), stays, hit, count

    def settle_axis(loop: tuple) -> tuple:
        low, hit, active, count = loop
        distance, overlapped, axis = _closest(sweep.at(low), edges)
        touching = ~overlapped & (distance < _TARGET + _TOLERANCE)
        hit = hit | (active & touching)
        active = active & ~overlapped & ~touching
        start = (low, jnp.ones_like(low), axis, active, ~active, hit, jnp.zeros((), jnp.int32))
        low, _, _, _, stays, hit, _ = jax.lax.while_loop(
            lambda loop: loop[3].any(), settle_point, start
        )
        return low, hit, active & ~stays, count + 1

    zero = jnp.zeros(active.shape, sweep.start[0].dtype)
    start = (zero, jnp.zeros_like(active), active, jnp.zeros((), jnp.int32))
    time, hit, _, _ = jax.lax.while_loop(
        lambda loop: loop[2].any() & (loop[3] < _MOST_AXES), settle_axis, start
    )
    return time, hit


def _root(
    sweep: Sweep, axis: _Axis, witness: Pair, near: Pair, far: Pair, searching: jax.Array
) -> jax.Array:
    """The time at which a point's separation is `_TARGET`; brackets are (time, separation)."""

    def body(loop: tuple) -> tuple:
        t1, s1, t2, s2, root, searching, count = loop
        slope = jnp.where(s2 == s1, 1, s2 - s1)
        secant = t1 + (_TARGET - s1) * (t2 - t1) / slope
        middle = jnp.where(count % 2 == 1, secant, 0.5 * (t1 + t2))
        s = _separation(sweep.at(middle), axis, witness)
        done = jnp.abs(s - _TARGET) < _TOLERANCE
        root = jnp.where(searching & done, middle, root)
        searching = searching & ~done
        positive = s > _TARGET
        t1, s1 = pick(searching & positive, (middle, s), (t1, s1))
        t2, s2 = pick(searching & ~positive, (middle, s), (t2, s2))
        return t1, s1, t2, s2, root, searching & (count + 1 < _MOST_ROOTS), count + 1

    start = (*near, *far, far[0], searching, jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(lambda loop: loop[5].any(), body, start)[4]
