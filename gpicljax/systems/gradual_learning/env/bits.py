"""Small numbers side by side in one `int32`: one array to carry or to gather from."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np


def pack(values: Sequence[jax.Array | np.ndarray | int], widths: Sequence[int]) -> jax.Array:
    """Returns numbers that are not negative as one, the first ones lowest.

    Args:
      values: integers or booleans `[...]`, each below `2**width`, which is not checked.
      widths: bits that each takes, 31 together at most.

    Returns:
      `int32[...]`.
    """
    number, shift = jnp.zeros((), jnp.int32), 0
    for value, width in zip(values, widths, strict=True):
        number, shift = number | (jnp.asarray(value).astype(jnp.int32) << shift), shift + width
    return number


def unpack(number: jax.Array, widths: Sequence[int]) -> list[jax.Array]:
    """Returns the numbers that `pack` has put side by side, `int32[...]` each."""
    return [part(number, widths, place) for place in range(len(widths))]


def part(number: jax.Array, widths: Sequence[int], place: int) -> jax.Array:
    """Returns one of the numbers that `pack` has put side by side."""
    return (number >> sum(widths[:place])) & (2 ** widths[place] - 1)
