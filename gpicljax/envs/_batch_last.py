"""Functions that work on a whole batch at once, behind functions of one instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def batch_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of one instance that `vmap` turns back into one call of `function`.

    With the batch as their last axis, loops consist of long rows that vectorise, and what has ended
    early can be left out. A batch of batches becomes one larger batch.

    Args:
      function: of pytrees of arrays `[..., B]`, with such a result.

    Returns:
      A function of the same pytrees without the last axis.
    """
    joined = jax.custom_batching.custom_vmap(function)

    @joined.def_vmap
    def _(size: int, batched: list, *arguments: Any) -> tuple[Any, Any]:
        result = joined(*_moved(size, tuple(batched), arguments, join=True))
        return _each(lambda x: jnp.moveaxis(x.reshape(*x.shape[:-1], size, -1), -2, 0), result)

    @jax.custom_batching.custom_vmap
    def alone(*arguments: Any) -> Any:
        result = function(*jax.tree.map(lambda x: x[..., None], arguments))
        return jax.tree.map(lambda x: x[..., 0], result)

    @alone.def_vmap
    def _(size: int, batched: list, *arguments: Any) -> tuple[Any, Any]:
        result = joined(*_moved(size, tuple(batched), arguments, join=False))
        return _each(lambda x: jnp.moveaxis(x, -1, 0), result)

    return alone


def _moved(size: int, batched: tuple, arguments: tuple, join: bool) -> tuple:
    """The arguments with the new batch last, or joined to the batch that is last already."""

    def last(is_batched: bool, leaf: jax.Array) -> jax.Array:
        if not is_batched:
            leaf = jnp.broadcast_to(leaf, (size, *leaf.shape))
        if not join:
            return jnp.moveaxis(leaf, 0, -1)
        leaf = jnp.moveaxis(leaf, 0, -2)
        return leaf.reshape(*leaf.shape[:-2], -1)

    return jax.tree.map(last, batched, arguments)


def _each(move: Callable[[jax.Array], jax.Array], result: Any) -> tuple[Any, Any]:
    return jax.tree.map(move, result), jax.tree.map(lambda _: True, result)
