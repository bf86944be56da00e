"""What batches of instances need: choosing, definite dtypes, and work for a few of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def select(condition: jax.Array, on_true: Any, on_false: Any) -> Any:
    """`where` over two pytrees; `condition` broadcasts from the left. Typed keys allowed."""

    def pick(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, on_true, on_false)


def strong(leaf: Any) -> jax.Array:
    """An array of a definite dtype, of a Python number too; `params` are carried state."""
    if isinstance(leaf, bool | int | float):
        dtype = jnp.result_type(float) if isinstance(leaf, float) else jnp.int32
        return jnp.asarray(leaf, bool if isinstance(leaf, bool) else dtype)
    return jax.lax.convert_element_type(leaf, jnp.asarray(leaf).dtype)


def for_those(need: jax.Array, current: Any, make: Callable[[jax.Array], Any], group: int) -> Any:
    """Replaces the entries of `current` marked by `need` with `make(indices)`, in groups.

    Args:
      need: `bool[B]`.
      current: pytree with leaves `[B, ...]`.
      make: maps `int32[group]` instance indices to a pytree with leaves `[group, ...]`; an index
        of B marks an unused place of the last group.
      group: instances per round; the number of rounds is `ceil(need.sum() / group)`.

    Returns:
      `current` with the marked entries replaced.
    """
    total = need.sum(dtype=jnp.int32)
    places = jnp.arange(1, group + 1, dtype=jnp.int32)

    def body(loop: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        done, current = loop
        # The r-th marked instance is where the running count first reaches r. Counted again in
        # every round: mostly there is none.
        count = jnp.cumsum(need, dtype=jnp.int32)
        indices = jnp.searchsorted(count, done + places).astype(jnp.int32)
        fresh = make(indices)
        current = jax.tree.map(
            lambda c, f: c.at[indices].set(f.astype(c.dtype), mode="drop"), current, fresh
        )
        return done + group, current

    start = jnp.zeros((), jnp.int32)
    return jax.lax.while_loop(lambda loop: loop[0] < total, body, (start, current))[1]
