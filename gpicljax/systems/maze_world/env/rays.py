"""Rays of a camera's columns, and the walls and beams that they meet, for a batch of poses.

Frames come first and columns last: F frames of M mazes, L landmarks, H rows, W columns. Depths are
distances along the heading. All is float32 whatever JAX's default is.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gpicljax.batching import bound_rounds

# A ray's word: the cell it is in and two flags.
_CELL, _ACROSS, _STOPPED = (np.uint32(v) for v in ((1 << 24) - 1, 1 << 30, 1 << 31))
# A beam's word: its depth, with the landmark in the last bits.
_LANDMARK, _NONE = np.uint32(15), np.uint32(0xFFFFFFFF)


class Mazes(NamedTuple):
    """The mazes, as far as frames need them.

    Attributes:
      cells: `uint16[M, N, N]`, 0 where open, otherwise 1 + the wall's texture.
      landmarks: `int32[M, L, 2]`, cells; negative for those that are not there.
      geometry: `float32[M, 4]`, metres: cell size, wall height, eye height, view range.
      surfaces: `int32[M, 2]`, textures of ground and ceiling.
    """

    cells: jax.Array
    landmarks: jax.Array
    geometry: jax.Array
    surfaces: jax.Array


class Shots(NamedTuple):
    """The frames to draw of mazes.

    Attributes:
      maze: `int32[F]`, the maze that a frame shows.
      pose: `float32[F, 3]`, x and y in metres, heading.
      visible: `uint32[F]`, bit l is set if landmark l has a beam.
      bar: `int32[F, 3]`, the bar's first column, its last + 1, and its colour: the bytes of the
        number in memory are red, green, blue and 0.
    """

    maze: jax.Array
    pose: jax.Array
    visible: jax.Array
    bar: jax.Array


class Screen(NamedTuple):
    """The static part of a camera.

    Attributes:
      height: rows H.
      width: columns W.
      slope: tangent of half the horizontal field of view.
    """

    height: int
    width: int
    slope: float

    def columns(self) -> np.ndarray:
        """Tangents of the columns' angles to the heading, `float32[W]`."""
        w = self.width
        return ((2 * np.arange(w) + 1 - w) * (self.slope / w)).astype(np.float32)

    def stretch(self) -> np.ndarray:
        """Distance over depth along the columns' rays, `float32[W]`."""
        return np.sqrt(1 + self.columns() ** 2)

    def rows(self) -> np.ndarray:
        """Tangents of the rows' angles below the horizon, `float32[H]`."""
        h = self.height
        return ((2 * np.arange(h) + 1 - h) * (self.slope / self.width)).astype(np.float32)

    def bar_rows(self) -> tuple[int, int]:
        """Returns the bar's first row and its last + 1."""
        first = self.height // 10
        return first, max(3 * self.height // 20, first + 1)


class Rays(NamedTuple):
    """Starts, directions and limits of rays.

    Attributes:
      x: `float32[F, 1]`, position in cells.
      y: `float32[F, 1]`.
      right: `bool[F, W]`, whether x grows along the ray.
      up: `bool[F, W]`, whether y does.
      along_x: `float32[F, W]`, depth in cells between two borders across x.
      along_y: `float32[F, W]`.
      limit: `float32[F, W]`, depth of the view range in cells.
    """

    x: jax.Array
    y: jax.Array
    right: jax.Array
    up: jax.Array
    along_x: jax.Array
    along_y: jax.Array
    limit: jax.Array


class Reached(NamedTuple):
    """The ends of rays.

    Attributes:
      word: `uint32[F, W]`, the cell and by which kind of face it was entered.
      x: `float32[F, W]`, depth in cells of the next border across x.
      y: `float32[F, W]`.
    """

    word: jax.Array
    x: jax.Array
    y: jax.Array

    def cell(self) -> jax.Array:
        """`int32[F, W]`, its index among those of the maze."""
        return (self.word & _CELL).astype(jnp.int32)

    def across(self) -> jax.Array:
        """`bool[F, W]`, whether the face entered by is one across x."""
        return (self.word & _ACROSS) > 0

    def depth(self, rays: Rays) -> jax.Array:
        """`float32[F, W]` in cells."""
        return jnp.where(self.across(), self.x - rays.along_x, self.y - rays.along_y)


def directions(screen: Screen, heading: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Steps along the columns' rays for a step along the heading, `float32[F, W]` each."""
    slope = screen.columns()
    cos, sin = jnp.cos(heading)[:, None], jnp.sin(heading)[:, None]
    x, y = cos - sin * slope, sin + cos * slope
    tiny = np.float32(1e-6)
    return jnp.where(jnp.abs(x) < tiny, tiny, x), jnp.where(jnp.abs(y) < tiny, tiny, y)


def cast(screen: Screen, mazes: Mazes, shots: Shots) -> Rays:
    """Returns the rays of all columns."""
    geometry = mazes.geometry[shots.maze]
    size = geometry[:, :1]
    x, y = directions(screen, shots.pose[:, 2])
    return Rays(
        shots.pose[:, :1] / size,
        shots.pose[:, 1:2] / size,
        x > 0,
        y > 0,
        jnp.abs(1 / x),
        jnp.abs(1 / y),
        geometry[:, 3:] / (size * screen.stretch()),
    )


def _entry(position: jax.Array, cell: jax.Array, grows: jax.Array, along: jax.Array) -> jax.Array:
    """Depth at which a ray reaches the border by which it enters a row, or column, of cells."""
    return jnp.where(grows, cell - position, position - cell - 1) * along


def trace(mazes: Mazes, shots: Shots, rays: Rays) -> Reached:
    """Follows all rays from border to border until a wall or the view range stops them."""
    n = mazes.cells.shape[-1]
    cells = mazes.cells.reshape(-1)
    base = (shots.maze * (n * n))[:, None]
    i, j = jnp.floor(rays.x), jnp.floor(rays.y)
    next_x = _entry(rays.x, jnp.where(rays.right, i + 1, i - 1), rays.right, rays.along_x)
    next_y = _entry(rays.y, jnp.where(rays.up, j + 1, j - 1), rays.up, rays.along_y)
    step_x = jnp.where(rays.right, np.int32(n), np.int32(-n))
    step_y = jnp.where(rays.up, np.int32(1), np.int32(-1))
    start = i.astype(jnp.int32) * n + j.astype(jnp.int32)
    start = jnp.broadcast_to(start, next_x.shape).astype(jnp.uint32) & _CELL

    def any_left(carry: tuple[jax.Array, Reached]) -> jax.Array:
        count, reached = carry
        left = bound_rounds(lambda word: jnp.any(word < _STOPPED), True, reached.word)
        return (count < 2 * n) & left

    def onward(carry: tuple[jax.Array, Reached]) -> tuple[jax.Array, Reached]:
        count, (word, x, y) = carry
        going = word < _STOPPED
        across = x < y
        cell = (word & _CELL).astype(jnp.int32) + jnp.where(across, step_x, step_y)
        stops = cells.at[base + cell].get(mode="promise_in_bounds") > 0
        stops |= jnp.minimum(x, y) >= rays.limit
        new = cell.astype(jnp.uint32) & _CELL
        new |= jnp.where(across, _ACROSS, 0) | jnp.where(stops, _STOPPED, 0)
        return count + np.int32(1), Reached(
            jnp.where(going, new, word),
            jnp.where(going & across, x + rays.along_x, x),
            jnp.where(going & ~across, y + rays.along_y, y),
        )

    return lax.while_loop(any_left, onward, (jnp.int32(0), Reached(start, next_x, next_y)))[1]


def _beam_words(mazes: Mazes, shots: Shots, rays: Rays, depth: jax.Array) -> list[jax.Array]:
    """Returns each landmark's beams, `uint32[F, W]`."""
    end = jnp.minimum(depth, rays.limit)
    cells = mazes.landmarks[shots.maze]
    words = []
    for index in range(cells.shape[1]):
        cell = cells[:, index]
        is_visible = (cell[:, :1] >= 0) & ((shots.visible[:, None] >> index) & 1 > 0)
        cell = cell.astype(jnp.float32)
        x = _entry(rays.x, cell[:, :1], rays.right, rays.along_x)
        y = _entry(rays.y, cell[:, 1:], rays.up, rays.along_y)
        enters, leaves = jnp.maximum(x, y), jnp.minimum(x + rays.along_x, y + rays.along_y)
        is_met = (enters < leaves) & (enters > 0) & (enters < end) & is_visible
        bits = lax.bitcast_convert_type(enters, jnp.uint32)
        words.append(jnp.where(is_met, (bits & ~_LANDMARK) | np.uint32(index), _NONE))
    return words


def count_beams(mazes: Mazes, shots: Shots, rays: Rays, depth: jax.Array) -> jax.Array:
    """Returns the most beams one behind the other in any column.

    Args:
      mazes: M.
      shots: F.
      rays: of all columns.
      depth: `float32[F, W]`, of the walls in cells.

    Returns:
      `int32[F]`.
    """
    count = jnp.zeros(depth.shape, jnp.int32)
    for word in _beam_words(mazes, shots, rays, depth):
        count += (word != _NONE).astype(jnp.int32)
    return jnp.max(count, axis=1)


def nearest_beams(
    slots: int, mazes: Mazes, shots: Shots, rays: Rays, depth: jax.Array
) -> jax.Array:
    """Returns the nearest `slots` beams, nearest first; see `count_beams` and `beam_depth`.

    Returns:
      `uint32[slots, F, W]`.
    """
    words = _beam_words(mazes, shots, rays, depth)
    if slots == len(words):
        return lax.sort(jnp.stack(words), dimension=0)
    nearest = [jnp.full(depth.shape, _NONE) for _ in range(slots)]
    for word in words:
        for slot in range(slots):
            nearest[slot], word = jnp.minimum(nearest[slot], word), jnp.maximum(nearest[slot], word)
    return jnp.stack(nearest)


def beam_depth(word: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns whether there is a beam, its depth in cells, and its landmark."""
    depth = lax.bitcast_convert_type(word & ~_LANDMARK, jnp.float32)
    exists = word != _NONE
    return exists, jnp.where(exists, depth, 1), (word & _LANDMARK).astype(jnp.int32)
