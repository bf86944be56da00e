"""Local views on the map: the cells around a walker, one pixel each."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

WALL, FREE = (0, 0, 0), (255, 255, 255)


def window(array: jax.Array, cell: jax.Array, radius: int, fill: int | bool) -> jax.Array:
    """Returns the entries around a cell.

    Args:
      array: `[N, N]`.
      cell: `int32[2]`, the middle.
      radius: cells to each side.
      fill: what lies outside the array.

    Returns:
      `[2 * radius + 1, 2 * radius + 1]`.
    """
    side = 2 * radius + 1
    padded = jnp.pad(array, radius, constant_values=fill)
    return jax.lax.dynamic_slice(padded, (cell[0], cell[1]), (side, side))


def life_colour(life: jax.Array) -> jax.Array:
    """The colour, `uint8[3]`, that stands for what is left of life: white at 0, red from 2 on."""
    pale = jnp.clip(255 - 128 * life, 0, 255).astype(jnp.uint8)
    return jnp.stack([jnp.full_like(pale, 255), pale, pale])


def picture(
    walls: jax.Array,
    landmark_at: jax.Array,
    cell: jax.Array,
    radius: int,
    visible: jax.Array,
    middle: jax.Array,
    colours: np.ndarray,
) -> jax.Array:
    """Returns the window around the agent, in colours.

    Args:
      walls: `bool[N, N]`.
      landmark_at: `int8[N, N]`, the landmark in each cell, -1 for none.
      cell: `int32[2]`, where the agent is.
      radius: cells to each side that are seen, whatever is in between.
      visible: `bool[L]`, which landmarks can be seen.
      middle: `uint8[3]`, the colour of the agent's own cell.
      colours: `uint8[L', 3]` of landmarks, L' at least L.

    Returns:
      `uint8[2 * radius + 1, 2 * radius + 1, 3]`, x along the first axis and y along the second:
      walls and what lies outside black, free cells white, landmarks in their colours.
    """
    solid = window(walls, cell, radius, True)
    landmark = window(landmark_at, cell, radius, -1).astype(jnp.int32)
    shown = (landmark >= 0) & visible[jnp.maximum(landmark, 0)]
    ground = jnp.where(solid[..., None], jnp.asarray(WALL, jnp.uint8), jnp.asarray(FREE, jnp.uint8))
    picture = jnp.where(
        shown[..., None], jnp.asarray(colours)[jnp.maximum(landmark, 0)], ground
    ).astype(jnp.uint8)
    return picture.at[radius, radius].set(middle)
