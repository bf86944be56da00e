"""Contacts of a polygon with an edge of the ground: where they touch, and the impulses that follow.

Arrays are `[2, 3, B]`: slot, body, batch (see `scene.World`); a point's quantities come in pairs.
Only the body moves, not the ground.

Source: the algorithm of Box2D 2.3 (edge against polygon by separating axes with clipping;
sequential impulses with friction first and a two-point block solver).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.envs._stages import run_apart
from gpicljax.envs.lunar_lander import scene

SLOP = 0.005  # penetration that is let stand
SKIN = 0.02  # the shapes' radii together
_MOST_CORRECTION = 0.2
_MOST_CONDITION = 1000.0
_VERTEX, _FACE = 0, 1

Pair = tuple[jax.Array, jax.Array]
Triple = tuple[jax.Array, jax.Array, jax.Array]


class Frame(NamedTuple):
    """Poses of bodies: x, y of the centre of mass, cosine and sine of the angle."""

    x: jax.Array
    y: jax.Array
    cos: jax.Array
    sin: jax.Array


def frame_of(pose: Triple) -> Frame:
    """Returns the frame of a pose (x, y, angle)."""
    x, y, angle = pose
    return Frame(x, y, jnp.cos(angle), jnp.sin(angle))


def column(values: np.ndarray, like: jax.Array) -> jax.Array:
    """Constants of the three bodies, `[3, 1]`, in the dtype of `like`."""
    return jnp.asarray(values[:, None], like.dtype)


def rotate(frame: Frame, x: jax.Array, y: jax.Array) -> Pair:
    """Returns a direction in a body's coordinates as one in the world's."""
    return frame.cos * x - frame.sin * y, frame.sin * x + frame.cos * y


def to_world(frame: Frame, x: jax.Array, y: jax.Array) -> Pair:
    """Returns a point relative to the centre of mass as one in the world."""
    x, y = rotate(frame, x, y)
    return frame.x + x, frame.y + y


def to_local(frame: Frame, x: jax.Array, y: jax.Array) -> Pair:
    """Returns the inverse of `to_world`."""
    x, y = x - frame.x, y - frame.y
    return frame.cos * x + frame.sin * y, frame.cos * y - frame.sin * x


# Corners relative to the centre of mass, those that follow, and normals, each `[6, 3, 2]`.
_SHIFT = np.stack([np.zeros(3), scene.RISE], -1)
_TABLES = {
    "corner": scene.CORNERS - _SHIFT,
    "next": scene.NEXT - _SHIFT,
    "normal": scene.NORMALS,
}


def entries(table: str, like: jax.Array) -> Pair:
    """Returns all corners, following corners or normals of the bodies, in their coordinates.

    Each is `[6, 1, 3, 1]`, in the dtype of `like`.
    """
    x, y = (jnp.asarray(_TABLES[table][:, None, :, None, i], like.dtype) for i in range(2))
    return x, y


def entry_at(table: str, index: jax.Array, like: jax.Array) -> Pair:
    """Returns one of `entries` for each of an array of numbers `[..., 3, B]`."""
    body = jnp.arange(3, dtype=jnp.int32)[:, None]
    flat = 3 * index + body
    x, y = (jnp.asarray(_TABLES[table][..., i].ravel(), like.dtype) for i in range(2))
    return x.at[flat].get(mode="promise_in_bounds"), y.at[flat].get(mode="promise_in_bounds")


def corners(frame: Frame) -> Pair:
    """Returns the six corners of each body in the world, `[6, 2, 3, B]`, or with 1 for 2 slots."""
    return to_world(frame, *entries("corner", frame.x))


def least(values: jax.Array) -> Pair:
    """Returns the least value along the first axis, and the lowest index that has it, `int32[...]`.

    Both in one go, which a kernel can hold at any size: see `run_kernel`.
    """

    def lower(a: Pair, b: Pair) -> Pair:
        (x, i), (y, j) = a, b
        first = (x < y) | ((x == y) & (i < j))
        return jax.lax.select(first, x, y), jax.lax.select(first, i, j)

    index = jax.lax.broadcasted_iota(jnp.int32, values.shape, 0)
    start = (jnp.asarray(np.inf, values.dtype), jnp.int32(len(values)))
    return jax.lax.reduce((values, index), start, lower, (0,))


def pick(condition: jax.Array, a: tuple, b: tuple) -> tuple:
    """`where` over tuples of arrays."""
    return tuple(jnp.where(condition, x, y) for x, y in zip(a, b, strict=True))


class Edges(NamedTuple):
    """Edges of the ground: their ends, with increasing x."""

    ax: jax.Array
    ay: jax.Array
    bx: jax.Array
    by: jax.Array


class Side(NamedTuple):
    """A plane of contact.

    Attributes:
      on_body: it is a side of the body, which the edge's ends touch, or what is left of them.
        Otherwise it is the edge, which the body's points touch.
      normal: in the coordinates of what the plane belongs to.
      plane: a point of it, in those coordinates.
    """

    on_body: jax.Array
    normal: Pair
    plane: Pair


class Manifold(NamedTuple):
    """Contacts of bodies with edges.

    Attributes:
      size: `int32`, points in contact: 0, 1 or 2.
      side: the plane of contact.
      points: two points, in the coordinates of the party that the plane does not belong to.
      feature: `int32`, what meets in each of the two points.
    """

    size: jax.Array
    side: Side
    points: tuple[Pair, Pair]
    feature: Pair


def _feature(kind_a: int, index_a: jax.Array | int, kind_b: int, index_b: jax.Array) -> jax.Array:
    """Returns a number for the meeting of two features; A is what is cut off, B what does it."""
    return 128 * kind_a + 64 * kind_b + 8 * index_a + index_b


def _axes(frame: Frame, edges: Edges) -> tuple[jax.Array, ...]:
    """Returns the axes of separation.

    Returns:
      Whether the body's centre is below the edge; the edge's normal towards the body; separation
      along it; the greatest separation along the normal of a side; that side; and the side that
      faces the edge most.
    """
    ax, ay, bx, by = edges
    length = jnp.sqrt((bx - ax) ** 2 + (by - ay) ** 2)
    ex, ey = (bx - ax) / length, (by - ay) / length
    below = ey * (frame.x - ax) - ex * (frame.y - ay) >= 0
    face = jnp.where(below, 1.0, -1.0).astype(ex.dtype)
    nx, ny = face * ey, -face * ex
    x, y = corners(frame)
    edge_separation, _ = least(nx * (x - ax) + ny * (y - ay))
    mx, my = rotate(frame, *entries("normal", ex))
    depths = jnp.minimum(mx * (ax - x) + my * (ay - y), mx * (bx - x) + my * (by - y))
    most, side = least(-depths)
    _, facing = least(nx * mx + ny * my)
    return below, nx, ny, edge_separation, -most, side, facing


def _clip(points: tuple, features: tuple, origin: Pair, tangent: Pair, index: jax.Array) -> tuple:
    """Clips a segment at a line; returns the points, their features, and whether two are left."""
    (p0x, p0y), (p1x, p1y) = points
    (ox, oy), (tx, ty) = origin, tangent
    d0 = tx * (p0x - ox) + ty * (p0y - oy)
    d1 = tx * (p1x - ox) + ty * (p1y - oy)
    crossing = d0 * d1 < 0
    share = d0 / jnp.where(crossing, d0 - d1, 1)
    new = (p0x + share * (p1x - p0x), p0y + share * (p1y - p0y))
    new_feature = _feature(_VERTEX, index, _FACE, features[0] % 8)
    keep = d0 <= 0
    whole = keep.astype(jnp.int32) + (d1 <= 0) + crossing >= 2
    features = (
        jnp.where(keep, features[0], features[1]),
        jnp.where(crossing, new_feature, features[1]),
    )
    return (pick(keep, *points), pick(crossing, new, points[1])), features, whole


def find_manifold(frame: Frame, edges: Edges) -> Manifold:
    """Returns the contacts of bodies in given poses with given edges."""
    below, nx, ny, edge_separation, side_separation, side, facing = run_apart(_axes, frame, edges)
    away = (edge_separation > SKIN) | (side_separation > SKIN)
    on_body = side_separation > 0.98 * edge_separation + 0.001

    def sides() -> tuple:
        """The reference side with its normal, and the segment that it cuts off; numbers of both."""
        like = frame.x
        a, b = (edges.ax, edges.ay), (edges.bx, edges.by)
        chosen = jnp.where(on_body, side, facing)
        corner = to_world(frame, *entry_at("corner", chosen, like))
        next_corner = to_world(frame, *entry_at("next", chosen, like))
        normal, plane = entry_at("normal", side, like), entry_at("corner", side, like)
        reference = pick(on_body, (*corner, *next_corner), pick(below, (*a, *b), (*b, *a)))
        segment = pick(on_body, (*a, *b), (*corner, *next_corner))
        following_of = jnp.asarray(scene.NEXT_INDEX.ravel(), jnp.int32)
        body = jnp.arange(3, dtype=jnp.int32)[:, None]
        after = following_of.at[3 * chosen + body].get(mode="promise_in_bounds")
        # The numbers as in Box2D, where ends of the edge carry the number of the side.
        numbers = (
            jnp.where(on_body, side, jnp.where(below, 0, 1)),
            jnp.where(on_body, after, jnp.where(below, 1, 0)),
        )
        kind = jnp.where(on_body, 64 * _FACE, 128 * _FACE)
        features = (kind + chosen, kind + jnp.where(on_body, side, after))
        across = pick(on_body, rotate(frame, *normal), (nx, ny))
        return reference, segment, across, pick(on_body, normal, (nx, ny)), plane, numbers, features

    reference, segment, across, normal, plane, numbers, features = run_apart(sides)
    (r1x, r1y, r2x, r2y), (rnx, rny) = reference, across

    def clip(points: tuple, features: tuple) -> tuple:
        once = _clip(points, features, (r1x, r1y), (rny, -rnx), numbers[0])
        return once

    points, features, whole = run_apart(clip, (segment[:2], segment[2:]), features)

    def finish(points: tuple, features: tuple) -> Manifold:
        points, features, still_whole = _clip(points, features, (r2x, r2y), (-rny, rnx), numbers[1])
        near0, near1 = (rnx * (x - r1x) + rny * (y - r1y) <= SKIN for x, y in points)
        # Where only the second point is near, it is the only one.
        first, second = pick(near0, points[0], points[1]), points[1]
        feature = jnp.where(near0, features[0], features[1])
        count = near0.astype(jnp.int32) + near1
        return Manifold(
            size=jnp.where(whole & still_whole & ~away, count, 0),
            side=Side(on_body, normal, pick(on_body, plane, (r1x, r1y))),
            points=(
                pick(on_body, first, to_local(frame, *first)),
                pick(on_body, second, to_local(frame, *second)),
            ),
            feature=(feature + 256 * on_body, features[1] + 256 * on_body),
        )

    return run_apart(finish, points, features)


def _facts(
    frame: Frame, side: Side, points: Pair
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    """Normal from the ground into the body, the contact point, and its distance to the plane."""
    nx, ny = pick(side.on_body, rotate(frame, *side.normal), side.normal)
    ox, oy = pick(side.on_body, to_world(frame, *side.plane), side.plane)
    x, y = pick(side.on_body, points, to_world(frame, *points))
    distance = (x - ox) * nx + (y - oy) * ny
    flip = jnp.where(side.on_body, -1.0, 1.0).astype(nx.dtype)
    return flip * nx, flip * ny, x, y, distance


class Rows(NamedTuple):
    """Velocity constraints of contacts, constant over a step's iterations.

    Attributes:
      normal: from the ground into the body.
      arm: the two points, relative to the centre of mass.
      single: effective mass along the normal of each point; 0 where there is no such point.
      slide: effective mass along the tangent of each point; 0 where there is no such point.
      coupling: k11, k12, k22 of the two points.
      inverse: of that matrix.
      pair: both points are solved together.
    """

    normal: Pair
    arm: tuple[Pair, Pair]
    single: Pair
    slide: Pair
    coupling: Triple
    inverse: Triple
    pair: jax.Array


def rows(frame: Frame, m: Manifold) -> Rows:
    """Prepares the velocity constraints of contacts (those with `size` 0 do nothing)."""

    def geometry() -> tuple[Pair, list[Pair]]:
        arms = []
        nx, ny, *_ = _facts(frame, m.side, m.points[0])
        for points in m.points:
            _, _, x, y, distance = _facts(frame, m.side, points)
            # In the middle between the two surfaces; `distance` is along the plane's own normal.
            half = 0.5 * distance * jnp.where(m.side.on_body, -1.0, 1.0).astype(x.dtype)
            arms.append((x - half * nx - frame.x, y - half * ny - frame.y))
        return (nx, ny), arms

    (nx, ny), arms = run_apart(geometry)
    inverse_mass = column(scene.INVERSE_MASS, frame.x)
    inverse_inertia = column(scene.INVERSE_INERTIA, frame.x)
    p, q = (rx * ny - ry * nx for rx, ry in arms)
    k11 = inverse_mass + inverse_inertia * p * p
    k12 = inverse_mass + inverse_inertia * p * q
    k22 = inverse_mass + inverse_inertia * q * q
    determinant = k11 * k22 - k12 * k12
    pair = (m.size == 2) & (k11 * k11 < _MOST_CONDITION * determinant)
    first = m.size >= 1
    scale = jnp.where(pair, 1 / jnp.where(pair, determinant, 1), 0)
    slide = [1 / (inverse_mass + inverse_inertia * (rx * nx + ry * ny) ** 2) for rx, ry in arms]
    return Rows(
        normal=(nx, ny),
        arm=(arms[0], arms[1]),
        single=(jnp.where(first, 1 / k11, 0), jnp.where(pair, 1 / k22, 0)),
        slide=(jnp.where(first, slide[0], 0), jnp.where(pair, slide[1], 0)),
        coupling=(k11, k12, k22),
        inverse=(scale * k22, -scale * k12, scale * k11),
        pair=pair,
    )


Impulses = tuple[jax.Array, jax.Array, jax.Array, jax.Array]  # normal 0, 1; tangential 0, 1


def _apply_impulse(velocity: Triple, arm: Pair, px: jax.Array, py: jax.Array) -> Triple:
    """Returns velocities after an impulse (px, py) at a point."""
    vx, vy, spin = velocity
    rx, ry = arm
    vx = vx + column(scene.INVERSE_MASS, vx) * px
    vy = vy + column(scene.INVERSE_MASS, vx) * py
    return vx, vy, spin + column(scene.INVERSE_INERTIA, vx) * (rx * py - ry * px)


def push(velocity: Triple, r: Rows, impulses: Impulses) -> Triple:
    """Applies impulses at the two points of contacts."""
    nx, ny = r.normal
    for arm, along, across in zip(r.arm, impulses[:2], impulses[2:], strict=True):
        velocity = _apply_impulse(velocity, arm, along * nx + across * ny, along * ny - across * nx)
    return velocity


def solve(r: Rows, velocity: Triple, old: Impulses) -> tuple[Triple, Impulses]:
    """Runs one iteration over one contact of each body: friction, then the normal impulses.

    Returns:
      The velocities and the impulses.
    """
    nx, ny = r.normal

    def speed(velocity: Triple, arm: Pair) -> Pair:
        vx, vy, spin = velocity
        rx, ry = arm
        return vx - spin * ry, vy + spin * rx

    def rub(
        velocity: Triple, arm: Pair, mass: jax.Array, pressure: jax.Array, old: jax.Array
    ) -> jax.Array:
        ux, uy = speed(velocity, arm)
        most = column(scene.FRICTION, nx) * pressure
        new = jnp.clip(old - mass * (ux * ny - uy * nx), -most, most)
        return jnp.where(mass > 0, new - old, 0)

    slides = []
    for point in range(2):
        arm = r.arm[point]
        change = run_apart(rub, velocity, arm, r.slide[point], old[point], old[2 + point])
        velocity = run_apart(_apply_impulse, velocity, arm, change * ny, -change * nx)
        slides.append(old[2 + point] + change)

    def press(velocity: Triple) -> Pair:
        zero = jnp.zeros_like(nx)
        b0, b1 = (ux * nx + uy * ny for ux, uy in (speed(velocity, arm) for arm in r.arm))
        k11, k12, k22 = r.coupling
        single = jnp.maximum(old[0] - r.single[0] * b0, 0)
        b0 = b0 - k11 * old[0] - k12 * old[1]
        b1 = b1 - k12 * old[0] - k22 * old[1]
        both0 = -(r.inverse[0] * b0 + r.inverse[1] * b1)
        both1 = -(r.inverse[1] * b0 + r.inverse[2] * b1)
        only0, only1 = -r.single[0] * b0, -r.single[1] * b1
        new0, new1 = old[0], old[1]
        for valid, x0, x1 in (
            ((b0 >= 0) & (b1 >= 0), zero, zero),
            ((only1 >= 0) & (k12 * only1 + b0 >= 0), zero, only1),
            ((only0 >= 0) & (k12 * only0 + b1 >= 0), only0, zero),
            ((both0 >= 0) & (both1 >= 0), both0, both1),
        ):  # what comes last is tried first
            new0, new1 = jnp.where(valid, x0, new0), jnp.where(valid, x1, new1)
        new0 = jnp.where(r.pair, new0, jnp.where(r.single[0] > 0, single, old[0]))
        return new0 - old[0], jnp.where(r.pair, new1, old[1]) - old[1]

    pressed = run_apart(press, velocity)
    for arm, change in zip(r.arm, pressed, strict=True):
        velocity = _apply_impulse(velocity, arm, change * nx, change * ny)
    return velocity, (old[0] + pressed[0], old[1] + pressed[1], slides[0], slides[1])


def correct(
    pose: Triple, manifolds: Manifold, active: jax.Array, stiffness: float
) -> tuple[Triple, jax.Array]:
    """Returns one pass of position corrections over both contacts of each body.

    Args:
      pose: x, y, angle, each `[3, B]`.
      manifolds: manifolds, leaves `[2, 3, B]`, in the order of solution.
      active: `bool[3, B]`; elsewhere nothing moves.
      stiffness: share of the penetration that is undone.

    Returns:
      The pose, and the least separation seen (at most 0).
    """
    inverse_mass = column(scene.INVERSE_MASS, pose[0])
    inverse_inertia = column(scene.INVERSE_INERTIA, pose[0])
    points = tuple(jnp.stack(component, 1) for component in zip(*manifolds.points, strict=True))

    def correct_point(turn: jax.Array, loop: tuple) -> tuple:
        (x, y, angle), least = loop
        contact, point = turn // 2, turn % 2
        size, side = jax.tree.map(lambda leaf: leaf[contact], (manifolds.size, manifolds.side))
        frame = frame_of((x, y, angle))
        nx, ny, px, py, distance = _facts(
            frame, side, (points[0][contact, point], points[1][contact, point])
        )
        on = active & (size > point)
        separation = distance - SKIN
        least = jnp.where(on, jnp.minimum(least, separation), least)
        error = jnp.clip(stiffness * (separation + SLOP), -_MOST_CORRECTION, 0)
        arm = (px - x) * ny - (py - y) * nx
        impulse = jnp.where(on, -error / (inverse_mass + inverse_inertia * arm * arm), 0)
        x = x + inverse_mass * impulse * nx
        y = y + inverse_mass * impulse * ny
        angle = angle + inverse_inertia * arm * impulse
        return (x, y, angle), least

    return jax.lax.fori_loop(0, 4, correct_point, (pose, jnp.zeros_like(pose[0])))
