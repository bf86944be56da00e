"""Vectors, and small symmetric matrices, as tuples of arrays whose last axis is the batch."""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp

Vector = tuple[Any, Any, Any]
"""Along x, y and z: arrays that broadcast, or numbers."""
Axes = tuple[Vector, Vector, Vector]
Symmetric = tuple[Any, Any, Any, Any, Any, Any]
"""The entries xx, xy, xz, yy, yz and zz."""
ENTRIES = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


def dot(a: Vector, b: Vector) -> Any:
    """Returns the scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> Vector:
    """Returns the vector product."""
    return (
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )


def plus(a: Vector, b: Vector) -> Vector:
    """Returns the sum."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def minus(a: Vector, b: Vector) -> Vector:
    """Returns the difference."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def scale(factor: Any, a: Vector) -> Vector:
    """Returns a multiple."""
    return factor * a[0], factor * a[1], factor * a[2]


def select(mask: jax.Array, a: Vector, b: Vector) -> Vector:
    """Returns `a` where the mask is set, else `b`."""
    return jnp.where(mask, a[0], b[0]), jnp.where(mask, a[1], b[1]), jnp.where(mask, a[2], b[2])


def rotate(angle: Vector, a: Vector, sign: float) -> Vector:
    """Returns a vector after a small turn, in radians about the three axes, or its inverse."""
    return plus(a, scale(sign, cross(angle, a)))


def largest(values: Vector) -> jax.Array:
    """Returns the index of the largest of three, the first of equals."""
    a, b, c = values
    return jnp.where((a >= b) & (a >= c), 0, jnp.where(b >= c, 1, 2))


def pick(index: jax.Array, options: Vector, offset: int = 0) -> jax.Array:
    """Returns one of three numbers: `offset` places after that of the index, in a circle."""
    a, b, c = (options[(i + offset) % 3] for i in range(3))
    return jnp.where(index == 0, a, jnp.where(index == 1, b, c))


def axis(index: jax.Array, axes: Axes, offset: int = 0) -> Vector:
    """Returns one of three vectors, as `pick` does."""
    x, y, z = (pick(index, cast("Vector", tuple(a[i] for a in axes)), offset) for i in range(3))
    return x, y, z


def on_axes(vector: Vector, axes: Axes) -> Vector:
    """Returns a vector's components along three axes."""
    return dot(vector, axes[0]), dot(vector, axes[1]), dot(vector, axes[2])


def off_axes(vector: Vector, axes: Axes) -> Vector:
    """Returns the inverse of `on_axes`, for axes at right angles."""
    x, y, z = (
        vector[0] * axes[0][i] + vector[1] * axes[1][i] + vector[2] * axes[2][i] for i in range(3)
    )
    return x, y, z


def rotate_matrix(matrix: Axes, axes: Axes) -> Axes:
    """Returns a matrix's rows from those along three axes at right angles."""
    half = [off_axes(cast("Vector", tuple(row[j] for row in matrix)), axes) for j in range(3)]
    x, y, z = (
        off_axes(cast("Vector", tuple(column[i] for column in half)), axes) for i in range(3)
    )
    return x, y, z


def entries(matrix: Axes) -> Symmetric:
    """Returns a symmetric matrix by its rows."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = matrix
    return xx, xy, xz, yy, yz, zz


def shift_diagonal(matrix: Symmetric, shift: Any) -> Symmetric:
    """Returns a matrix plus a multiple of the identity."""
    a, b, c, d, e, f = matrix
    return a + shift, b, c, d + shift, e, f + shift


def rows(matrix: Symmetric) -> Axes:
    """Returns the three rows."""
    a, b, c, d, e, f = matrix
    return (a, b, c), (b, d, e), (c, e, f)


def times(matrix: Symmetric, vector: Vector) -> Vector:
    """Matrix times vector."""
    first, second, third = rows(matrix)
    return dot(first, vector), dot(second, vector), dot(third, vector)


def inverse(matrix: Symmetric) -> Symmetric:
    """Returns the inverse."""
    a, b, c, d, e, f = matrix
    xx, xy, xz = d * f - e * e, c * e - b * f, b * e - c * d
    scale = 1 / (a * xx + b * xy + c * xz)
    return (
        xx * scale,
        xy * scale,
        xz * scale,
        (a * f - c * c) * scale,
        (b * c - a * e) * scale,
        (a * d - b * b) * scale,
    )


def solve(matrix: Symmetric, vector: Vector) -> Vector:
    """Solves a linear system with a symmetric matrix."""
    return times(inverse(matrix), vector)


def solve_blocks(
    upper: Symmetric, middle: Axes, lower: Symmetric, first: Vector, second: Vector
) -> tuple[Vector, Vector]:
    """Solves six equations with a symmetric matrix, by blocks of three.

    Args:
      upper: left upper block.
      middle: rows of the right upper block.
      lower: right lower block.
      first: upper half of the right-hand side.
      second: lower half.

    Returns:
      Both halves of the solution.
    """
    inverted = inverse(upper)
    columns = [cast("Vector", tuple(row[j] for row in middle)) for j in range(3)]
    through = [times(inverted, column) for column in columns]
    rest = tuple(lower[k] - dot(columns[i], through[j]) for k, (i, j) in enumerate(ENTRIES))
    decoupled = times(inverted, first)
    right = minus(second, cast("Vector", tuple(dot(column, decoupled) for column in columns)))
    bottom = solve(cast("Symmetric", rest), right)
    return minus(decoupled, off_axes(bottom, cast("Axes", tuple(through)))), bottom
