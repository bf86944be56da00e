"""Soft contacts of one free body: where it touches boxes, and what forces keep it out of them.

A contact pushes along its normal and rubs along two tangents, within a friction pyramid. Its force
is that of MuJoCo's soft constraints: each edge of the pyramid is a spring with a damper, whose
stiffness follows from a time constant and from an impedance that grows with depth.

Arrays end with the batch, `[B]`; those of contacts are `[P, B]` or `[4, P, B]`, for four points
with each of `P` boxes.

Source: the chapter "Computation" of MuJoCo's documentation (soft contact model, pyramidal cones).
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from gpicljax.envs._stages import apart
from gpicljax.envs.fetch.algebra import (
    Axes,
    Vector,
    axis,
    chosen,
    cross,
    dot,
    largest,
    minus,
    off_axes,
    on_axes,
    picked,
    plus,
    scaled,
)

_TIE = 1e-4  # metres by which another separating axis has to be better
_NEAR = 2e-3  # metres, more than any margin
_LEVEL = 1e-5  # metres by which the ends of a line that is level may differ in depth
_WORLD: Axes = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


class Touch(NamedTuple):
    """Where a body may touch boxes.

    Attributes:
      arm: from the body's centre to the points, `[4, P, B]`, in metres.
      normal: of length 1, from the box to the body, `[P, B]`.
      distance: `[4, P, B]`, in metres, negative where they overlap.
      near: whether the two overlap, or nearly so, along every axis, `bool[P, B]`.
    """

    arm: Vector
    normal: Vector
    distance: jax.Array
    near: jax.Array


class Material(NamedTuple):
    """How soft pairs of surfaces are, numbers or arrays that broadcast to `[P, B]`.

    Attributes:
      friction: coefficient of friction along a tangent.
      time: time constant of the spring, in seconds.
      least: impedance of a contact without depth.
      most: impedance at full depth.
      width: that depth, in metres.
      margin: distance from which surfaces push, in metres.
      softness: sum of the two bodies' inverse masses, 1/kg.
      torsion: coefficient of friction about the normal, in metres; 0 where there is none.
    """

    friction: jax.Array | float
    time: jax.Array | float
    least: jax.Array | float
    most: jax.Array | float
    width: jax.Array | float
    margin: jax.Array | float
    softness: jax.Array | float
    torsion: jax.Array | float

    @property
    def damping(self) -> jax.Array | float:
        """Reference deceleration for each m/s, 1/s."""
        return 2 / (self.most * self.time)


class Springs(NamedTuple):
    """The edges of contacts' friction pyramids.

    Attributes:
      weight: of an edge's squared violation, in kg; 0 where nothing touches.
      offset: reference acceleration that depth asks for, in m/s^2, negative where surfaces overlap.
      friction: see `Material`.
      torsion: see `Material`.
    """

    weight: jax.Array
    offset: jax.Array
    friction: jax.Array | float
    torsion: jax.Array | float


class Reply(NamedTuple):
    """The answer of contacts to a body's acceleration, along their normals and tangents.

    Attributes:
      force: in N.
      straight: how fast its normal part falls with the acceleration along the normal, in kg,
      oblique: with that along either tangent, and
      sideways: how fast its tangential parts do, each with the acceleration along its tangent.
      twist: torque about the normal, in N m.
      skew: how fast the twist falls with the acceleration along the normal, in kg m.
      square: how fast it does with the angular acceleration about the normal, in kg m^2.
    """

    force: Vector
    straight: jax.Array
    oblique: tuple[jax.Array, jax.Array]
    sideways: tuple[jax.Array, jax.Array]
    twist: jax.Array
    skew: jax.Array
    square: jax.Array


def impedance(depth: jax.Array, least: Any, most: Any, width: Any) -> jax.Array:
    """How stiff a constraint is, within [0, 1], by its depth in metres.

    It rises smoothly from `least` without depth to `most` at `width`.
    """
    share = jnp.minimum(jnp.abs(depth) / width, 1.0)
    bent = jnp.where(share < 0.5, 2 * share * share, 1 - 2 * (1 - share) * (1 - share))
    return least + bent * (most - least)


def springs(distance: jax.Array, present: jax.Array, of: Material) -> Springs:
    """The edges of contacts at their distances.

    Args:
      distance: `[..., P, B]`, in metres.
      present: `bool`, the contacts that may push at all.
      of: what the surfaces are made of.

    Returns:
      Their springs; a contact beyond its margin has none.
    """
    depth = distance - of.margin
    stiff = impedance(depth, of.least, of.most, of.width)
    square = of.friction * of.friction
    weight = stiff / ((1 - stiff) * 2 * square * of.softness * (1 + square))
    return Springs(
        jnp.where(present & (depth < 0), weight, 0.0),
        stiff * depth / (of.most * of.time) ** 2,
        of.friction,
        of.torsion,
    )


def reply(wanted: Vector, turning: jax.Array | float, of: Springs) -> Reply:
    """Returns what springs do about an acceleration.

    Args:
      wanted: acceleration plus damped velocity along normal and tangents, in m/s^2.
      turning: the same of the turn about the normal, in rad/s^2.
      of: the springs. An edge pushes where the acceleration along it is below what depth asks for.
    """
    along, *sideways = wanted
    mu = of.friction
    straight = along + of.offset
    slid = [mu * x for x in sideways]
    rests = [straight + slid[0], straight - slid[0], straight + slid[1], straight - slid[1]]
    weights = [jnp.where(rest < 0, of.weight, 0.0) for rest in rests]
    pulls = [weight * rest for weight, rest in zip(weights, rests, strict=True)]
    twisted = of.torsion * turning
    more, less = straight + twisted, straight - twisted
    both_ways = jnp.where(of.torsion > 0, of.weight, 0.0)
    weight_more, weight_less = (jnp.where(x < 0, both_ways, 0.0) for x in (more, less))
    middle = weight_more + weight_less
    pull_more, pull_less = weight_more * more, weight_less * less
    force = (
        -(pulls[0] + pulls[1] + pulls[2] + pulls[3] + pull_more + pull_less),
        -mu * (pulls[0] - pulls[1]),
        -mu * (pulls[2] - pulls[3]),
    )
    both = (weights[0] + weights[1], weights[2] + weights[3])
    return Reply(
        force,
        both[0] + both[1] + middle,
        (mu * (weights[0] - weights[1]), mu * (weights[2] - weights[3])),
        (mu * mu * both[0], mu * mu * both[1]),
        -of.torsion * (pull_more - pull_less),
        of.torsion * (weight_more - weight_less),
        of.torsion * of.torsion * middle,
    )


def fall_matrix(reply: Reply) -> Axes:
    """Returns rows of the matrix by which forces fall, along normals and tangents."""
    (a, b), (c, d), zero = reply.oblique, reply.sideways, jnp.zeros_like(reply.straight)
    return (reply.straight, a, b), (a, c, zero), (b, zero, d)


def tangents(normal: Vector) -> tuple[Vector, Vector]:
    """Two directions at right angles to a normal of length 1, and to one another.

    The first is as near to y as it can be, or to z where the normal itself is.
    """
    level = jnp.abs(normal[1]) < 0.5
    start = (0.0, jnp.where(level, 1.0, 0.0), jnp.where(level, 0.0, 1.0))
    first = minus(start, scaled(dot(start, normal), normal))
    first = scaled(jax.lax.rsqrt(dot(first, first)), first)
    return first, cross(normal, first)


def corners(middle: jax.Array, along: jax.Array, across: jax.Array) -> jax.Array:
    """The corners of a parallelogram, `[...]` -> `[4, ...]`."""
    return jnp.stack(
        jnp.broadcast_arrays(
            middle + along + across,
            middle + along - across,
            middle - along + across,
            middle - along - across,
        )
    )


class _Faces(NamedTuple):
    """A pair's reference face, and the other's face that is most opposed to it.

    Attributes:
      boxed: whether the reference face is the box's.
      frame: normal of the reference face, towards the other, and the directions of its edges.
      halves: half sizes of the reference body along them.
      middle: centre of the other face, from the reference body's centre.
      face: normal of the other face.
      along: from its centre to the middle of an edge,
      across: and of another.
      near: see `Touch`.
    """

    boxed: jax.Array
    frame: Axes
    halves: Vector
    middle: Vector
    face: Vector
    along: Vector
    across: Vector
    near: jax.Array


def _separation(away: Vector, axes: Axes, halves: Vector, own: Vector) -> tuple:
    """Finds the axis of least overlap: whether a box's, and which; and `Touch.near`."""
    sizes = [[jnp.abs(x) for x in axis] for axis in axes]
    gaps = [
        jnp.abs(away[i]) - halves[i] - sum(own[j] * sizes[j][i] for j in range(3)) for i in range(3)
    ]
    gaps_own = [
        jnp.abs(dot(away, axes[j])) - own[j] - sum(halves[i] * sizes[j][i] for i in range(3))
        for j in range(3)
    ]
    gaps, gaps_own = ((a, b, c) for a, b, c in (gaps, gaps_own))
    most, most_own = (jnp.maximum(jnp.maximum(*x[:2]), x[2]) for x in (gaps, gaps_own))
    boxed = most + _TIE >= most_own
    # What is apart along two axes has corners near one another, but no faces.
    near = jnp.maximum(most, most_own) < _NEAR
    near = near & (jnp.maximum(_second(gaps), _second(gaps_own)) < 0)
    return boxed, jnp.where(boxed, largest(gaps), largest(gaps_own)), near


def _second(values: Vector) -> jax.Array:
    """Returns the second largest of three."""
    a, b, c = values
    return jnp.maximum(jnp.minimum(a, b), jnp.minimum(jnp.maximum(a, b), c))


def _faces(away: Vector, axes: Axes, halves: Vector, own: Vector, separation: tuple) -> _Faces:
    boxed, index, near = separation
    frame = [chosen(boxed, axis(index, _WORLD, by), axis(index, axes, by)) for by in range(3)]
    sizes = [jnp.where(boxed, picked(index, halves, by), picked(index, own, by)) for by in range(3)]
    towards = chosen(boxed, away, scaled(-1.0, away))
    side = jnp.where(dot(towards, frame[0]) < 0, -1.0, 1.0)
    normal = scaled(side, frame[0])
    others = cast("Axes", tuple(chosen(boxed, a, b) for a, b in zip(axes, _WORLD, strict=True)))
    other_sizes = cast(
        "Vector", tuple(jnp.where(boxed, s, h) for s, h in zip(own, halves, strict=True))
    )
    facing = on_axes(normal, others)
    index = largest((jnp.abs(facing[0]), jnp.abs(facing[1]), jnp.abs(facing[2])))
    face = scaled(jnp.where(picked(index, facing) > 0, -1.0, 1.0), axis(index, others))
    size, along, across = (picked(index, other_sizes, by) for by in range(3))
    return _Faces(
        boxed,
        (normal, frame[1], frame[2]),
        (sizes[0], sizes[1], sizes[2]),
        plus(towards, scaled(size, face)),
        face,
        scaled(along, axis(index, others, 1)),
        scaled(across, axis(index, others, 2)),
        near,
    )


def _points(away: Vector, of: _Faces) -> Touch:
    """The corners of the other face, moved into the reference face's rectangle along that face."""
    normal, u, w = of.frame

    def seen(direction: Vector) -> jax.Array:
        parts = (dot(x, direction) for x in (of.middle, of.along, of.across))
        return corners(*parts)

    at_u, at_w = seen(u), seen(w)
    in_u = jnp.clip(at_u, -of.halves[1], of.halves[1])
    in_w = jnp.clip(at_w, -of.halves[2], of.halves[2])
    slope = dot(of.face, u) * (in_u - at_u) + dot(of.face, w) * (in_w - at_w)
    distance = seen(normal) - slope / dot(of.face, normal) - of.halves[0]
    point = off_axes((of.halves[0] + 0.5 * distance, in_u, in_w), of.frame)
    arm = chosen(of.boxed, minus(point, away), point)
    normal = scaled(jnp.where(of.boxed, 1.0, -1.0), normal)
    return Touch(arm, normal, distance, of.near)


def box_on_boxes(away: Vector, axes: Axes, halves: Vector, own: Vector) -> Touch:
    """Finds where a box touches others.

    The pair's reference face is the one along whose normal the two overlap least. So faces with
    parallel edges have the exact patch in common, and a corner or an edge on a face the exact
    point. Edges that cross are not told apart from touching faces.

    Args:
      away: from the boxes' centres to the body's, along the boxes' axes, `[P, B]`, in metres.
      axes: the body's, along the same, `[P, B]`.
      halves: half sizes of the boxes, `[P, 1]`.
      own: half sizes of the body.
    """
    separation = apart(lambda a, b: _separation(a, b, halves, own), away, axes)
    faces = apart(lambda a, b, s: _faces(a, b, halves, own, s), away, axes, separation)
    return apart(_points, away, faces)


def cylinder_on_boxes(away: Vector, axes: Axes, halves: Vector, own: Vector) -> Touch:
    """Finds where a cylinder touches boxes.

    Its side touches with the deeper end of the line that it has in common with a box, or with both
    ends of one that is level; its ends touch with four points of the rim.

    Args:
      away: from the boxes' centres to the body's, along the boxes' axes, `[P, B]`, in metres.
      axes: the body's, along the same, the third along its height, `[P, B]`.
      halves: half sizes of the boxes, `[P, 1]`.
      own: radius, radius and half height.
    """
    return apart(lambda a, b: _cylinder_on_boxes(a, b, halves, own), away, axes)


def _cylinder_on_boxes(away: Vector, axes: Axes, halves: Vector, own: Vector) -> Touch:
    radius, _, height = own
    upright = jnp.abs(axes[2][2])
    tall = height * upright + radius * jnp.sqrt(jnp.maximum(1 - upright * upright, 0))
    above = jnp.abs(away[2]) - halves[2] - tall
    gap_x, gap_y = (jnp.abs(away[i]) - halves[i] for i in range(2))
    sign_x, sign_y, sign_z = (jnp.where(x < 0, -1.0, 1.0) for x in away)
    beyond_x, beyond_y = jnp.maximum(gap_x, 0), jnp.maximum(gap_y, 0)
    far = jnp.sqrt(beyond_x * beyond_x + beyond_y * beyond_y)
    within, by_x = jnp.maximum(gap_x, gap_y) < 0, gap_x > gap_y
    beside = jnp.where(within, jnp.maximum(gap_x, gap_y), far) - radius
    share = 1 / jnp.maximum(far, 1e-9)
    out_x = sign_x * jnp.where(within, jnp.where(by_x, 1.0, 0.0), beyond_x * share)
    out_y = sign_y * jnp.where(within, jnp.where(by_x, 0.0, 1.0), beyond_y * share)
    sideways = beside >= above
    low = jnp.maximum(-halves[2] - away[2], -height)
    high = jnp.minimum(halves[2] - away[2], height)
    zero = jnp.zeros_like(beside)
    steep = jnp.where(jnp.abs(axes[2][2]) < 0.1, 0.1, axes[2][2])
    tilt_x, tilt_y = axes[2][0] / steep, axes[2][1] / steep
    inwards = tilt_x * out_x + tilt_y * out_y
    deep = jnp.where(inwards > 0, low, high)
    ends = jnp.stack([low, high, deep, deep])
    side = tilt_x * ends - radius * out_x, tilt_y * ends - radius * out_y, ends
    depths = beside + inwards * ends
    # MuJoCo has no point but the deepest: three times for a box's face, once for its edge.
    edge = (beyond_x > 0) & (beyond_y > 0)
    false = jnp.zeros_like(edge)
    absent = jnp.stack([false, false, edge, edge]) | (depths > depths[2] + _LEVEL)
    depths = jnp.where(absent, 1.0, depths)
    end = jnp.where(axes[2][2] * sign_z > 0, -height, height)
    u = scaled(0.5 * radius, plus(axes[0], axes[1]))
    w = scaled(0.5 * radius, minus(axes[0], axes[1]))
    rim = [corners(end * axes[2][i], u[i] + zero, w[i] + zero) for i in range(3)]
    # Rim points that lie beyond the box's face, moved to its edge along the end.
    moved = [jnp.clip(away[i] + rim[i], -halves[i], halves[i]) - away[i] - rim[i] for i in range(2)]
    slope = tilt_x * moved[0] + tilt_y * moved[1]
    flat = (rim[0] + moved[0], rim[1] + moved[1], rim[2] - slope)
    below = sign_z * (away[2] + flat[2]) - halves[2]
    return Touch(
        chosen(sideways, side, flat),
        chosen(sideways, (out_x, out_y, 0.0), (0.0, 0.0, sign_z)),
        jnp.where(sideways, depths, below),
        jnp.maximum(beside, above) < _NEAR,
    )
