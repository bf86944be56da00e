"""Same-step resets whose cost only the instances that ended have to bear, under any `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from gpicljax.batching import for_those


def restart(
    fresh: Callable[[jax.Array, Any], Any],
    done: jax.Array,
    key: jax.Array,
    current: Any,
    params: Any,
) -> Any:
    """`fresh(key, params)` where `done`, else `current`.

    Trainers of the gymnax kind `vmap` a step that resets itself, and a `vmap` turns "if done" into
    "compute both and choose": every instance would pay for a new task and a new episode at every
    step. This function says itself what a `vmap` over it means: the instances that ended are
    gathered into small groups, for which alone `fresh` runs, as in `VectorEnv`. Nested `vmap`s
    (seeds over environments) become one flat batch.

    Args:
      fresh: `(key, params) -> ` a pytree like `current`, unbatched.
      done: `bool[]`.
      key: a typed key.
      current: pytree of arrays.
      params: pytree of arrays.
    """

    @custom_vmap
    def batch(done: jax.Array, keys: jax.Array, current: Any, params: Any) -> Any:
        def make(indices: jax.Array) -> Any:
            return jax.vmap(fresh)(*jax.tree.map(lambda x: x[indices], (keys, params)))

        return for_those(done, current, make, min(done.size, max(8, done.size // 16)))

    @batch.def_vmap
    def _(size: int, batched: list, *arguments: Any) -> tuple[Any, Any]:
        widened = _widened(size, batched, arguments)
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), widened)
        return _all_batched(jax.tree.map(lambda x: x.reshape(size, -1, *x.shape[1:]), batch(*flat)))

    @custom_vmap
    def single(done: jax.Array, key: jax.Array, current: Any, params: Any) -> Any:
        return jax.lax.cond(done, lambda: fresh(key, params), lambda: current)

    @single.def_vmap
    def _(size: int, batched: list, *arguments: Any) -> tuple[Any, Any]:
        return _all_batched(batch(*_widened(size, batched, arguments)))

    return single(done, key, current, params)


def _widened(size: int, batched: list, arguments: tuple) -> tuple:
    """All arguments with the new leading axis; what does not vary along it is repeated."""

    def widen(has_axis: bool, x: jax.Array) -> jax.Array:
        return x if has_axis else jnp.broadcast_to(x, (size, *x.shape))

    return jax.tree.map(widen, tuple(batched), arguments)


def _all_batched(tree: Any) -> tuple[Any, Any]:
    return tree, jax.tree.map(lambda _: True, tree)
