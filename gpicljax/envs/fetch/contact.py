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

from gpicljax.envs._stages import run_apart
from gpicljax.envs.fetch.algebra import (
    Axes,
    Vector,
    axis,
    cross,
    dot,
    largest,
    minus,
    off_axes,
    on_axes,
    pick,
    plus,
    scale,
    select,
)

_TIE = 1e-4  # metres by which another separating axis has to be better
_NEAR = 2e-3  # metres, more than any margin
_LEVEL = 1e-5  # metres by which the ends of a line that is level may differ in depth
_WORLD: Axes = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


class Touch(NamedTuple):
    """Points at which a body may touch boxes.

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
    """Softness of pairs of surfaces, numbers or arrays that broadcast to `[P, B]`.

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
    """Returns the stiffness of a constraint, within [0, 1], by its depth in metres.

    It rises smoothly from `least` without depth to `most` at `width`.
    """
    share = jnp.minimum(jnp.abs(depth) / width, 1.0)
    bent = jnp.where(share < 0.5, 2 * share * share, 1 - 2 * (1 - share) * (1 - share))
    return least + bent * (most - least)


def springs(distance: jax.Array, present: jax.Array, material: Material) -> Springs:
    """Returns the edges of contacts at their distances.

    Args:
      distance: `[..., P, B]`, in metres.
      present: `bool`, the contacts that may push at all.
      material: of the surfaces.

    Returns:
      Their springs; a contact beyond its margin has none.
    """
    depth = distance - material.margin
    stiff = impedance(depth, material.least, material.most, material.width)
    square = material.friction * material.friction
    weight = stiff / ((1 - stiff) * 2 * square * material.softness * (1 + square))
    return Springs(
        jnp.where(present & (depth < 0), weight, 0.0),
        stiff * depth / (material.most * material.time) ** 2,
        material.friction,
        material.torsion,
    )


def reply(residual: Vector, turning: jax.Array | float, spring: Springs) -> Reply:
    """Returns what springs do about an acceleration.

    Args:
      residual: acceleration plus damped velocity along normal and tangents, in m/s^2.
      turning: the same of the turn about the normal, in rad/s^2.
      spring: an edge pushes where the acceleration along it is below what depth asks for.
    """
    along, *sideways = residual
    mu = spring.friction
    straight = along + spring.offset
    slid = [mu * x for x in sideways]
    rests = [straight + slid[0], straight - slid[0], straight + slid[1], straight - slid[1]]
    weights = [jnp.where(rest < 0, spring.weight, 0.0) for rest in rests]
    pulls = [weight * rest for weight, rest in zip(weights, rests, strict=True)]
    twisted = spring.torsion * turning
    more, less = straight + twisted, straight - twisted
    both_ways = jnp.where(spring.torsion > 0, spring.weight, 0.0)
    weight_more, weight_less = (jnp.where(x < 0, both_ways, 0.0) for x in (more, less))
    middle = weight_more + weight_less
    pull_more, pull_less = weight_more * more, weight_less * less
    force = (
        -(pulls[0] + pulls[1] + pulls[2] + pulls[3] + pull_more + pull_less),
        -mu * (pulls[0] - pulls[1]),
        -mu * (pulls[2] - pulls[3]),
    )
    pair_weights = (weights[0] + weights[1], weights[2] + weights[3])
    return Reply(
        force,
        pair_weights[0] + pair_weights[1] + middle,
        (mu * (weights[0] - weights[1]), mu * (weights[2] - weights[3])),
        (mu * mu * pair_weights[0], mu * mu * pair_weights[1]),
        -spring.torsion * (pull_more - pull_less),
        spring.torsion * (weight_more - weight_less),
        spring.torsion * spring.torsion * middle,
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
    first = minus(start, scale(dot(start, normal), normal))
    first = scale(jax.lax.rsqrt(dot(first, first)), first)
    return first, cross(normal, first)


def corners(middle: jax.Array, along: jax.Array, across: jax.Array) -> jax.Array:
    """Returns the corners of a parallelogram, `[...]` -> `[4, ...]`."""
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


def _separation(away: Vector, axes: Axes, halves: Vector, body: Vector) -> tuple:
    """Returns whether a box has the axis of least overlap, the axis' index, and `Touch.near`."""
    sizes = [[jnp.abs(x) for x in axis] for axis in axes]
    gaps = [
        jnp.abs(away[i]) - halves[i] - sum(body[j] * sizes[j][i] for j in range(3))
        for i in range(3)
    ]
    body_gaps = [
        jnp.abs(dot(away, axes[j])) - body[j] - sum(halves[i] * sizes[j][i] for i in range(3))
        for j in range(3)
    ]
    gaps, body_gaps = ((a, b, c) for a, b, c in (gaps, body_gaps))
    most, body_most = (jnp.maximum(jnp.maximum(*x[:2]), x[2]) for x in (gaps, body_gaps))
    boxed = most + _TIE >= body_most
    # What is apart along two axes has corners near one another, but no faces.
    near = jnp.maximum(most, body_most) < _NEAR
    near = near & (jnp.maximum(_second(gaps), _second(body_gaps)) < 0)
    return boxed, jnp.where(boxed, largest(gaps), largest(body_gaps)), near


def _second(values: Vector) -> jax.Array:
    """Returns the second largest of three."""
    a, b, c = values
    return jnp.maximum(jnp.minimum(a, b), jnp.minimum(jnp.maximum(a, b), c))


def _faces(away: Vector, axes: Axes, halves: Vector, body: Vector, separation: tuple) -> _Faces:
    boxed, index, near = separation
    frame = [select(boxed, axis(index, _WORLD, by), axis(index, axes, by)) for by in range(3)]
    sizes = [jnp.where(boxed, pick(index, halves, by), pick(index, body, by)) for by in range(3)]
    towards = select(boxed, away, scale(-1.0, away))
    side = jnp.where(dot(towards, frame[0]) < 0, -1.0, 1.0)
    normal = scale(side, frame[0])
    other_axes = cast("Axes", tuple(select(boxed, a, b) for a, b in zip(axes, _WORLD, strict=True)))
    other_sizes = cast(
        "Vector", tuple(jnp.where(boxed, s, h) for s, h in zip(body, halves, strict=True))
    )
    facing = on_axes(normal, other_axes)
    index = largest((jnp.abs(facing[0]), jnp.abs(facing[1]), jnp.abs(facing[2])))
    face = scale(jnp.where(pick(index, facing) > 0, -1.0, 1.0), axis(index, other_axes))
    size, along, across = (pick(index, other_sizes, by) for by in range(3))
    return _Faces(
        boxed,
        (normal, frame[1], frame[2]),
        (sizes[0], sizes[1], sizes[2]),
        plus(towards, scale(size, face)),
        face,
        scale(along, axis(index, other_axes, 1)),
        scale(across, axis(index, other_axes, 2)),
        near,
    )


def _points(away: Vector, faces: _Faces) -> Touch:
    """The corners of the other face, moved into the reference face's rectangle along that face."""
    normal, u, w = faces.frame

    def project(direction: Vector) -> jax.Array:
        parts = (dot(x, direction) for x in (faces.middle, faces.along, faces.across))
        return corners(*parts)

    at_u, at_w = project(u), project(w)
    in_u = jnp.clip(at_u, -faces.halves[1], faces.halves[1])
    in_w = jnp.clip(at_w, -faces.halves[2], faces.halves[2])
    slope = dot(faces.face, u) * (in_u - at_u) + dot(faces.face, w) * (in_w - at_w)
    distance = project(normal) - slope / dot(faces.face, normal) - faces.halves[0]
    point = off_axes((faces.halves[0] + 0.5 * distance, in_u, in_w), faces.frame)
    arm = select(faces.boxed, minus(point, away), point)
    normal = scale(jnp.where(faces.boxed, 1.0, -1.0), normal)
    return Touch(arm, normal, distance, faces.near)


def box_on_boxes(away: Vector, axes: Axes, halves: Vector, body: Vector) -> Touch:
    """Returns the contacts of a box with others.

    The pair's reference face is the one along whose normal the two overlap least. So faces with
    parallel edges have the exact patch in common, and a corner or an edge on a face the exact
    point. Edges that cross are not told apart from touching faces.

    Args:
      away: from the boxes' centres to the body's, along the boxes' axes, `[P, B]`, in metres.
      axes: the body's, along the same, `[P, B]`.
      halves: half sizes of the boxes, `[P, 1]`.
      body: half sizes of the body.
    """
    separation = run_apart(lambda a, b: _separation(a, b, halves, body), away, axes)
    faces = run_apart(lambda a, b, s: _faces(a, b, halves, body, s), away, axes, separation)
    return run_apart(_points, away, faces)


def cylinder_on_boxes(away: Vector, axes: Axes, halves: Vector, body: Vector) -> Touch:
    """Returns the contacts of a cylinder with boxes.

    Its side touches with the deeper end of the line that it has in common with a box, or with both
    ends of one that is level; its ends touch with four points of the rim.

    Args:
      away: from the boxes' centres to the body's, along the boxes' axes, `[P, B]`, in metres.
      axes: the body's, along the same, the third along its height, `[P, B]`.
      halves: half sizes of the boxes, `[P, 1]`.
      body: radius, radius and half height.
    """
    return run_apart(lambda a, b: _cylinder_on_boxes(a, b, halves, body), away, axes)


def _cylinder_on_boxes(away: Vector, axes: Axes, halves: Vector, body: Vector) -> Touch:
    radius, _, height = body
    upright = jnp.abs(axes[2][2])
    tall = height * upright + radius * jnp.sqrt(jnp.maximum(1 - upright * upright, 0))
    above = jnp.abs(away[2]) - halves[2] - tall
    gap_x, gap_y = (jnp.abs(away[i]) - halves[i] for i in range(2))
    sign_x, sign_y, sign_z = (jnp.where(x < 0, -1.0, 1.0) for x in away)
    beyond_x, beyond_y = jnp.maximum(gap_x, 0), jnp.maximum(gap_y, 0)
    far = jnp.sqrt(beyond_x * beyond_x + beyond_y * beyond_y)
    within, by_x = jnp.maximum(gap_x, gap_y) < 0, gap_x > gap_y
    side_gap = jnp.where(within, jnp.maximum(gap_x, gap_y), far) - radius
    share = 1 / jnp.maximum(far, 1e-9)
    out_x = sign_x * jnp.where(within, jnp.where(by_x, 1.0, 0.0), beyond_x * share)
    out_y = sign_y * jnp.where(within, jnp.where(by_x, 0.0, 1.0), beyond_y * share)
    sideways = side_gap >= above
    low = jnp.maximum(-halves[2] - away[2], -height)
    high = jnp.minimum(halves[2] - away[2], height)
    zero = jnp.zeros_like(side_gap)
    steep = jnp.where(jnp.abs(axes[2][2]) < 0.1, 0.1, axes[2][2])
    tilt_x, tilt_y = axes[2][0] / steep, axes[2][1] / steep
    inwards = tilt_x * out_x + tilt_y * out_y
    deep = jnp.where(inwards > 0, low, high)
    ends = jnp.stack([low, high, deep, deep])
    side = tilt_x * ends - radius * out_x, tilt_y * ends - radius * out_y, ends
    depths = side_gap + inwards * ends
    # MuJoCo has no point but the deepest: three times for a box's face, once for its edge.
    edge = (beyond_x > 0) & (beyond_y > 0)
    false = jnp.zeros_like(edge)
    absent = jnp.stack([false, false, edge, edge]) | (depths > depths[2] + _LEVEL)
    depths = jnp.where(absent, 1.0, depths)
    end = jnp.where(axes[2][2] * sign_z > 0, -height, height)
    u = scale(0.5 * radius, plus(axes[0], axes[1]))
    w = scale(0.5 * radius, minus(axes[0], axes[1]))
    rim = [corners(end * axes[2][i], u[i] + zero, w[i] + zero) for i in range(3)]
    # Rim points that lie beyond the box's face, moved to its edge along the end.
    moved = [jnp.clip(away[i] + rim[i], -halves[i], halves[i]) - away[i] - rim[i] for i in range(2)]
    slope = tilt_x * moved[0] + tilt_y * moved[1]
    flat = (rim[0] + moved[0], rim[1] + moved[1], rim[2] - slope)
    below = sign_z * (away[2] + flat[2]) - halves[2]
    return Touch(
        select(sideways, side, flat),
        select(sideways, (out_x, out_y, 0.0), (0.0, 0.0, sign_z)),
        jnp.where(sideways, depths, below),
        jnp.maximum(side_gap, above) < _NEAR,
    )
