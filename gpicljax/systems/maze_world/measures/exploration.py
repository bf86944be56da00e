"""The share of a maze that an agent has been to.

Source: appendix A.5 of the GPICL paper (arXiv:2405.17234), which finds that agents with less
context explore less area.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gpicljax.checks import check_array, check_at_least


def cells_visited(positions: jax.Array, size: int) -> jax.Array:
    """Returns the number of different cells visited up to each moment.

    Args:
      positions: integers `[T, 2]`, the agent's cell at each moment, such as `Episode.pose[:2].T`;
        each within `0 .. size - 1`.
      size: cells N on a side.

    Returns:
      `int32[T]`, from 1 on.

    Raises:
      ValueError: for what are no cells, or a size below 1.

    Example:
      >>> path = jnp.asarray([[1, 1], [2, 1], [2, 1], [1, 1], [1, 2]])
      >>> cells_visited(path, size=7).tolist()
      [1, 2, 2, 2, 3]
    """
    positions = jnp.asarray(positions)
    cells = positions.ndim == 2 and positions.shape[1] == 2
    fine = cells and jnp.issubdtype(positions.dtype, jnp.integer)
    check_array(fine, "positions", positions, "integers [T, 2]")
    check_at_least(1, size=size)
    x, y = positions.T.astype(jnp.int32)
    time = jnp.arange(x.size, dtype=jnp.int32)
    first = jnp.full((size, size), x.size, jnp.int32).at[x, y].min(time)
    return jnp.cumsum(first[x, y] == time, dtype=jnp.int32)
