"""Pictures of simple scenes, in JAX: polygons, discs and thick lines with smooth edges.

A picture is float `[H, W, 3]`, its colours within 0 .. 255, until `finish`. A shape is its signed
distance in pixels, float `[H, W]`: negative inside. Coordinates are in pixels, x to the right, y
down, with the origin in the upper left corner of the picture.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

Size = tuple[int, int]
Colour = tuple[float, float, float]


def blank(size: Size, top: Colour, bottom: Colour | None = None) -> jax.Array:
    """Returns a picture of one colour, or of a gradient.

    Args:
      size: height and width in pixels.
      top: colour of the uppermost row.
      bottom: colour of the lowest row; that of the uppermost one if None.

    Returns:
      float `[H, W, 3]`.
    """
    height, width = size
    share = jnp.linspace(0.0, 1.0, height, dtype=jnp.result_type(float))[:, None, None]
    first, last = (jnp.asarray(c, share.dtype) for c in (top, top if bottom is None else bottom))
    return jnp.broadcast_to((1 - share) * first + share * last, (height, width, 3))


def _pixels(size: Size) -> tuple[jax.Array, jax.Array]:
    """Pixel centres: x `[1, W]` and y `[H, 1]`."""
    height, width = size
    dtype = jnp.result_type(float)
    x, y = jnp.arange(width, dtype=dtype) + 0.5, jnp.arange(height, dtype=dtype) + 0.5
    return x[None], y[:, None]


def _to_segment(x: jax.Array, y: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    """Distance of points to the segment from a to b, float `[2]` each."""
    ex, ey = b[0] - a[0], b[1] - a[1]
    length2 = jnp.maximum(ex * ex + ey * ey, 1e-12)
    share = jnp.clip(((x - a[0]) * ex + (y - a[1]) * ey) / length2, 0, 1)
    return jnp.hypot(x - a[0] - share * ex, y - a[1] - share * ey)


def polygon(size: Size, corners: jax.Array | Sequence[Sequence[float]]) -> jax.Array:
    """Returns a polygon, which need not be convex.

    Args:
      size: height and width in pixels.
      corners: float `[N, 2]`, in either direction around it.

    Returns:
      float `[H, W]`.
    """
    x, y = _pixels(size)
    corners = jnp.asarray(corners, x.dtype)
    following = jnp.roll(corners, -1, axis=0)

    def side(i: jax.Array, loop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        distance, inside = loop
        a, b = corners[i], following[i]
        rise = b[1] - a[1]
        crossing = a[0] + (y - a[1]) * (b[0] - a[0]) / jnp.where(rise == 0, 1, rise)
        inside = inside ^ (((a[1] > y) != (b[1] > y)) & (x < crossing))
        return jnp.minimum(distance, _to_segment(x, y, a, b)), inside

    start = jnp.full(size, jnp.inf, x.dtype), jnp.zeros(size, bool)
    distance, inside = jax.lax.fori_loop(0, corners.shape[0], side, start)
    return jnp.where(inside, -distance, distance)


def line(
    size: Size, start: Sequence[float] | jax.Array, end: Sequence[float] | jax.Array, width: float
) -> jax.Array:
    """Returns a thick line with round ends.

    Args:
      size: height and width in pixels.
      start: x, y.
      end: x, y.
      width: in pixels.

    Returns:
      float `[H, W]`.
    """
    x, y = _pixels(size)
    a, b = jnp.asarray(start, x.dtype), jnp.asarray(end, x.dtype)
    return _to_segment(x, y, a, b) - width / 2


def disc(size: Size, centre: Sequence[float] | jax.Array, radius: jax.Array | float) -> jax.Array:
    """Returns a filled circle.

    Args:
      size: height and width in pixels.
      centre: x, y.
      radius: in pixels.

    Returns:
      float `[H, W]`.
    """
    x, y = _pixels(size)
    return jnp.hypot(x - centre[0], y - centre[1]) - radius


def outline(shape: jax.Array, width: float) -> jax.Array:
    """Returns the border of a shape as a line of a given width, centred on it."""
    return jnp.abs(shape) - width / 2


def paint(picture: jax.Array, shape: jax.Array, colour: Colour) -> jax.Array:
    """Returns the picture with a shape filled.

    Args:
      picture: float `[H, W, 3]`.
      shape: float `[H, W]`.
      colour: red, green, blue within 0 .. 255.

    Returns:
      float `[H, W, 3]`.
    """
    cover = jnp.clip(0.5 - shape, 0, 1)[..., None]
    return (1 - cover) * picture + cover * jnp.asarray(colour, picture.dtype)


def finish(picture: jax.Array) -> jax.Array:
    """Returns the picture as `uint8[H, W, 3]`."""
    return jnp.round(jnp.clip(picture, 0, 255)).astype(jnp.uint8)
