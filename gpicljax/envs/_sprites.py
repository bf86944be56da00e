"""Pictures of grids: sprites drawn once with NumPy, tiles, and a sprite laid over them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

Colour = tuple[int, int, int]

SIDE = 48  # pixels of a sprite's side
_FINE = 4  # sprites are drawn this much larger and averaged, for smooth edges


class Sprite:
    """A small picture under construction, in a unit square with y pointing down."""

    def __init__(self, colour: Colour | None) -> None:
        self.image = np.zeros((SIDE * _FINE, SIDE * _FINE, 4))
        if colour is not None:
            self.image[...] = (*colour, 255)
        axis = (np.arange(SIDE * _FINE) + 0.5) / (SIDE * _FINE)
        self.x, self.y = np.meshgrid(axis, axis)

    def fill(self, mask: np.ndarray, *colour: int) -> None:
        """Paints where `mask` is true."""
        self.image[mask] = (*colour, 255)

    def ellipse(self, x: float, y: float, width: float, height: float) -> np.ndarray:
        """Returns the inside of an ellipse, from its centre and its half axes."""
        return ((self.x - x) / width) ** 2 + ((self.y - y) / height) ** 2 <= 1

    def box(self, left: float, top: float, right: float, bottom: float) -> np.ndarray:
        """Returns the inside of a rectangle along the axes."""
        return (self.x >= left) & (self.x < right) & (self.y >= top) & (self.y < bottom)

    def convex(self, *corners: tuple[float, float]) -> np.ndarray:
        """Returns the inside of a convex polygon with its corners clockwise on the screen."""
        inside = np.ones(self.x.shape, bool)
        for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
            inside &= (x1 - x0) * (self.y - y0) - (y1 - y0) * (self.x - x0) >= 0
        return inside

    def line(self, x0: float, y0: float, x1: float, y1: float, width: float) -> np.ndarray:
        """Returns a straight line of some width."""
        length = np.hypot(x1 - x0, y1 - y0)
        along = ((self.x - x0) * (x1 - x0) + (self.y - y0) * (y1 - y0)) / length
        across = ((self.x - x0) * (y1 - y0) - (self.y - y0) * (x1 - x0)) / length
        return (along >= 0) & (along <= length) & (np.abs(across) <= width / 2)

    def finish(self) -> np.ndarray:
        """`uint8[SIDE, SIDE, 4]`: colour and opacity."""
        colour, opacity = self.image[..., :3], self.image[..., 3:] / 255

        def average(a: np.ndarray) -> np.ndarray:
            return a.reshape(SIDE, _FINE, SIDE, _FINE, -1).mean((1, 3))

        covered = average(opacity)
        colour = average(colour * opacity) / np.maximum(covered, 1e-6)
        return np.rint(np.concatenate([colour, 255 * covered], -1)).astype(np.uint8)


def tile_grid(tiles: np.ndarray, kinds: jax.Array) -> jax.Array:
    """Returns a grid of tiles.

    Args:
      tiles: `uint8[K, SIDE, SIDE, 3]`.
      kinds: `int32[R, C]`, which of them lies where.

    Returns:
      `uint8[SIDE * R, SIDE * C, 3]`.
    """
    rows, columns = kinds.shape
    picture = jnp.asarray(tiles)[kinds].transpose(0, 2, 1, 3, 4)
    return picture.reshape(rows * SIDE, columns * SIDE, 3)


def overlay(picture: jax.Array, sprite: jax.Array, row: jax.Array, column: jax.Array) -> jax.Array:
    """The picture of a grid with `sprite: uint8[SIDE, SIDE, 4]` laid over one of its cells."""
    sprite = jnp.asarray(sprite).astype(jnp.int32)
    corner = (row * SIDE, column * SIDE, jnp.zeros((), jnp.int32))
    below = jax.lax.dynamic_slice(picture, corner, (SIDE, SIDE, 3)).astype(jnp.int32)
    opacity = sprite[..., 3:]
    blend = (opacity * sprite[..., :3] + (255 - opacity) * below) // 255
    return jax.lax.dynamic_update_slice(picture, blend.astype(jnp.uint8), corner)
