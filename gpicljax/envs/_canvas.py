"""A picture of a scene in the scene's own coordinates, on top of `_drawing`'s shapes in pixels."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.envs import _drawing as drawing

Colour = drawing.Colour
Number = float | jax.Array
Point = tuple[Number, Number] | jax.Array


class Canvas:
    """Shapes painted one over the other, at positions that may be traced.

    Coordinates are in metres, x to the right and y up.

    Args:
      height: pixels.
      width: pixels.
      left: x of the left edge.
      bottom: y of the lower edge.
      scale: pixels in a metre.
      colour: of the background.
    """

    def __init__(
        self, height: int, width: int, left: float, bottom: float, scale: float, colour: Colour
    ) -> None:
        self._size, self._scale = (height, width), scale
        self._left, self._top = left, bottom + height / scale
        self._picture = drawing.blank(self._size, colour)
        dtype = self._picture.dtype
        self.x = jnp.asarray(left + (np.arange(width) + 0.5) / scale, dtype)[None]
        self.y = jnp.asarray(self._top - (np.arange(height) + 0.5) / scale, dtype)[:, None]

    def _pixel(self, point: Point) -> jax.Array:
        across, down = (point[0] - self._left) * self._scale, (self._top - point[1]) * self._scale
        return jnp.stack([jnp.asarray(across), jnp.asarray(down)])

    def paint(self, distance: jax.Array, colour: Colour) -> None:
        """Paints where `distance: float[H, W]`, a signed distance in metres, is negative."""
        self._picture = drawing.paint(self._picture, distance * self._scale, colour)

    def disc(self, centre: Point, radius: float, colour: Colour) -> None:
        """A filled circle."""
        shape = drawing.disc(self._size, self._pixel(centre), radius * self._scale)
        self._picture = drawing.paint(self._picture, shape, colour)

    def rod(self, start: Point, end: Point, radius: float, colour: Colour) -> None:
        """A line of width 2 `radius` with round ends."""
        ends = self._pixel(start), self._pixel(end)
        shape = drawing.line(self._size, *ends, 2 * radius * self._scale)
        self._picture = drawing.paint(self._picture, shape, colour)

    def polygon(self, corners: jax.Array, colour: Colour) -> None:
        """A polygon with corners `float[K, 2]`."""
        shape = drawing.polygon(self._size, jax.vmap(self._pixel)(corners))
        self._picture = drawing.paint(self._picture, shape, colour)

    def box(self, left: Number, bottom: Number, right: Number, top: Number, colour: Colour) -> None:
        """A rectangle along the axes."""
        sideways = jnp.maximum(left - self.x, self.x - right)
        self.paint(jnp.maximum(sideways, jnp.maximum(bottom - self.y, self.y - top)), colour)

    def finish(self) -> jax.Array:
        """Returns the picture, `uint8[H, W, 3]`."""
        return drawing.finish(self._picture)
