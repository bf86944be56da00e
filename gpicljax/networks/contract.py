"""The contract between networks and the agents that use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from flax import linen as nn


class Network(NamedTuple):
    """Pure functions of one network. `unroll` equals `step` applied T times, for every network.

    Attributes:
      init: `(key, inputs) -> params`, from inputs with leading axis `[B]`.
      initial_carry: maps a batch size to the memory `[B, ...]` at the start of a trial.
      step: `(params, carry, inputs [B, ...], start bool[B]) -> (outputs [B, ...], carry)`. Where
        `start` is set the carry is cleared before the input is processed.
      unroll: the same over inputs and starts with leading axes `[T, B]`. It also takes None for
        the carry, to begin with an empty memory and have no use for the last one (which may come
        back as None), and None for starts, where there is none.
    """

    init: Callable[[jax.Array, Any], Any]
    initial_carry: Callable[[int], Any]
    step: Callable[[Any, Any, Any, jax.Array], tuple[Any, Any]]
    unroll: Callable[[Any, Any, Any, jax.Array | None], tuple[Any, Any]]


def as_network(module: nn.Module) -> Network:
    """The `Network` of a Linen module with methods `initial_carry`, `step` and `unroll`.

    Where the module has an attribute `whole` that is true, its `unroll` is handed None as it comes.
    """

    def init(key: jax.Array, inputs: Any) -> Any:
        batch = jax.tree.leaves(inputs)[0].shape[0]
        carry = module.initial_carry(batch)  # type: ignore[attr-defined]
        start = jax.numpy.zeros(batch, bool)
        return module.init(key, carry, inputs, start, method="step")

    def step(params: Any, carry: Any, inputs: Any, start: jax.Array) -> tuple[Any, Any]:
        return module.apply(params, carry, inputs, start, method="step")  # type: ignore[return-value]

    def unroll(params: Any, carry: Any, inputs: Any, starts: jax.Array | None) -> tuple[Any, Any]:
        # A transformer makes something of either; to all others they are nothing special.
        if not getattr(module, "whole", False):
            shape = jax.tree.leaves(inputs)[0].shape[:2]
            carry = module.initial_carry(shape[1]) if carry is None else carry  # type: ignore[attr-defined]
            starts = jax.numpy.zeros(shape, bool) if starts is None else starts
        return module.apply(params, carry, inputs, starts, method="unroll")  # type: ignore[return-value]

    return Network(init, module.initial_carry, step, unroll)  # type: ignore[attr-defined]
