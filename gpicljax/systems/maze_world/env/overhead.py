"""The maze from above.

x runs to the right and y downwards, so that turning right is clockwise. A picture is a square of
N x N cells, `pixels` pixels each. Positions are in cells: the middle of cell (i, j) is at
(i + 0.5, j + 0.5), and so many times `pixels` from the upper left corner.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.envs import _drawing as drawing
from gpicljax.systems.maze_world.env import textures as texture_sets
from gpicljax.systems.maze_world.env.types import Task

Pair = tuple[jax.Array, jax.Array]

OUTSIDE = (255, 255, 255)
FLOOR, FLOOR_LINE = (241, 238, 230), (228, 224, 214)
WALL_LINE, INK, PAPER = (38, 34, 32), (24, 24, 28), (255, 255, 255)
_SIDE = 600  # pixels that the picture's side comes close to
_LANDMARK, _TARGET = 0.3, 0.45  # radii in cells
# The agent, looking along +x: in cells.
_ARROW = np.array([(0.46, 0.0), (-0.38, 0.26), (-0.2, 0.0), (-0.38, -0.26)])


def pixels_per_cell(cap: int) -> int:
    """Returns the usual `pixels` for a maze of at most `cap` cells on a side."""
    return max(8, _SIDE // cap)


@functools.cache
def wall_colours(textures: str) -> np.ndarray:
    """Returns the mean colours, float `[W, 3]` in 0 .. 255, of a registered texture set's walls."""
    return np.asarray(texture_sets.texture_set(textures).walls, np.float64).mean((1, 2))


def _spread(cells: jax.Array, pixels: int) -> jax.Array:
    """An entry for each pixel, `[N * pixels, N * pixels, ...]` with rows for y, from the cells'."""
    rows = jnp.repeat(cells.swapaxes(0, 1), pixels, axis=0)
    return jnp.repeat(rows, pixels, axis=1)


def plan(task: Task, textures: str, pixels: int) -> jax.Array:
    """Returns the maze without anything in it.

    Args:
      task: the maze.
      textures: the registered texture set whose walls' mean colours are shown.
      pixels: pixels of a cell's side.

    Returns:
      float `[N * pixels, N * pixels, 3]`, for `gpicljax.envs._drawing` to paint on.
    """
    dtype = jnp.result_type(float)
    cap, walls = task.walls.shape[0], task.walls
    beyond = jnp.arange(cap) >= task.size
    beyond = beyond[:, None] | beyond[None]
    colours = jnp.asarray(wall_colours(textures), dtype)[task.textures]
    cells = jnp.where(walls[..., None], colours, jnp.asarray(FLOOR, dtype))
    cells = jnp.where(beyond[..., None], jnp.asarray(OUTSIDE, dtype), cells)
    picture = _spread(cells, pixels)

    # Distances to the cell's borders, in pixels: lines run along them within the cell.
    inner = (np.arange(cap * pixels) % pixels) + 0.5
    solid = walls & ~beyond
    padded = jnp.pad(~walls, 1)
    gaps = {
        (-1, 0): inner[None],
        (1, 0): pixels - inner[None],
        (0, -1): inner[:, None],
        (0, 1): pixels - inner[:, None],
    }
    thick = max(1.0, pixels / 14)
    for (dx, dy), gap in gaps.items():
        opened = padded[1 + dx : cap + 1 + dx, 1 + dy : cap + 1 + dy]
        edge = _spread(solid & opened, pixels) & (gap < thick)
        grid = _spread(~walls & opened, pixels) & (gap < 0.75)
        picture = jnp.where(edge[..., None], jnp.asarray(WALL_LINE, dtype), picture)
        picture = jnp.where(grid[..., None], jnp.asarray(FLOOR_LINE, dtype), picture)
    return picture


def _middle_distance(cap: int, pixels: int) -> jax.Array:
    """Returns each pixel's distance, in pixels, from the middle of its cell."""
    offset = (np.arange(cap * pixels) % pixels) + 0.5 - pixels / 2
    return jnp.asarray(np.hypot(offset[:, None], offset[None]), jnp.result_type(float))


def with_landmarks(
    picture: jax.Array, task: Task, active: jax.Array, target: jax.Array, pixels: int
) -> jax.Array:
    """Returns the picture with a disc for each landmark.

    Args:
      picture: float `[N * pixels, N * pixels, 3]`.
      task: the maze.
      active: `bool[L]`; only the rims of the others are drawn.
      target: `int32[]`, the landmark with a ring around it; -1 for none.
      pixels: pixels of a cell's side.

    Returns:
      A picture.
    """
    landmark = _spread(task.landmark_at.astype(jnp.int32), pixels)
    has_landmark, index = landmark >= 0, jnp.maximum(landmark, 0)
    colour = jnp.asarray(texture_sets.LANDMARK_COLOURS)[index].astype(picture.dtype)
    distance = _middle_distance(task.walls.shape[0], pixels)
    far = float(2 * pixels)

    def shape(condition: jax.Array, radius: float) -> jax.Array:
        return jnp.where(has_landmark & condition, distance - radius * pixels, far)

    every = jnp.ones_like(has_landmark)
    picture = drawing.paint(picture, shape(landmark == target, _TARGET), INK)
    picture = drawing.paint(picture, shape(landmark == target, _TARGET - 0.06), PAPER)
    picture = drawing.paint(picture, shape(every, _LANDMARK + 0.04), INK)
    cover = jnp.clip(0.5 - shape(every, _LANDMARK), 0, 1)[..., None]
    picture = (1 - cover) * picture + cover * colour
    return drawing.paint(picture, shape(~active[index], _LANDMARK - 0.1), FLOOR)


def with_agent(
    picture: jax.Array, position: jax.Array, heading: jax.Array | None, pixels: int
) -> jax.Array:
    """Returns the picture with the agent in it.

    Args:
      picture: float `[N * pixels, N * pixels, 3]`.
      position: float `[2]`, in cells.
      heading: float `[]`, radians: an arrow along it; None for a disc.
      pixels: pixels of a cell's side.

    Returns:
      A picture.
    """
    size = (picture.shape[0], picture.shape[1])
    place = position * pixels
    if heading is None:
        shape = drawing.disc(size, jnp.asarray(place), 0.24 * pixels)
    else:
        cosine, sine = jnp.cos(heading), jnp.sin(heading)
        turn = jnp.stack([jnp.stack([cosine, sine]), jnp.stack([-sine, cosine])])
        arrow = pixels * jnp.asarray(_ARROW, picture.dtype)
        corners = place + jnp.matmul(arrow, turn, precision="highest")
        shape = drawing.polygon(size, jnp.asarray(corners))
    picture = drawing.paint(picture, shape - 0.07 * pixels, PAPER)
    return drawing.paint(picture, shape, INK)


def render(
    task: Task,
    position: jax.Array,
    heading: jax.Array | None,
    active: jax.Array,
    target: jax.Array,
    textures: str,
) -> jax.Array:
    """Returns the maze with its landmarks and the agent.

    Args:
      task: the maze.
      position: float `[2]`, in cells.
      heading: float `[]`, radians, or None if the agent has none.
      active: `bool[L]`, see `with_landmarks`.
      target: `int32[]`, see `with_landmarks`.
      textures: a registered texture set.

    Returns:
      `uint8[N * pixels, N * pixels, 3]`, see `pixels_per_cell`.
    """
    pixels = pixels_per_cell(task.walls.shape[0])
    picture = with_landmarks(plan(task, textures, pixels), task, active, target, pixels)
    return drawing.finish(with_agent(picture, position, heading, pixels))
