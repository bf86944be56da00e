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
      unroll: the same over inputs and starts with leading axes `[T, B]`.
    """

    init: Callable[[jax.Array, Any], Any]
    initial_carry: Callable[[int], Any]
    step: Callable[[Any, Any, Any, jax.Array], tuple[Any, Any]]
    unroll: Callable[[Any, Any, Any, jax.Array], tuple[Any, Any]]


def as_network(module: nn.Module) -> Network:
    """The `Network` of a Linen module with methods `initial_carry`, `step` and `unroll`."""

    def init(key: jax.Array, inputs: Any) -> Any:
        batch = jax.tree.leaves(inputs)[0].shape[0]
        carry = module.initial_carry(batch)  # type: ignore[attr-defined]
        start = jax.numpy.zeros(batch, bool)
        return module.init(key, carry, inputs, start, method="step")

    def step(params: Any, carry: Any, inputs: Any, start: jax.Array) -> tuple[Any, Any]:
        return module.apply(params, carry, inputs, start, method="step")  # type: ignore[return-value]

    def unroll(params: Any, carry: Any, inputs: Any, starts: jax.Array) -> tuple[Any, Any]:
        return module.apply(params, carry, inputs, starts, method="unroll")  # type: ignore[return-value]

    return Network(init, module.initial_carry, step, unroll)  # type: ignore[attr-defined]
