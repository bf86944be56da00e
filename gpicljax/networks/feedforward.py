"""Feed-forward modules: MLP and the dueling head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn


def dense(size: int, **options: Any) -> nn.Dense:
    """A dense layer whose parameters have JAX's default float type (Linen's default is float32)."""
    return nn.Dense(size, param_dtype=jnp.result_type(float), **options)


class MLP(nn.Module):
    """Dense layers, each followed by a ReLU; `float[..., F] -> float[..., sizes[-1]]`."""

    sizes: Sequence[int]

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """Applies the module to the last axis."""
        for size in self.sizes:
            inputs = nn.relu(dense(size, kernel_init=nn.initializers.he_normal())(inputs))
        return inputs


class DuelingHead(nn.Module):
    """Q = V + A - mean(A), each of one linear layer; `float[..., F] -> float[..., actions]`.

    Source: Wang et al. (2016).
    """

    num_actions: int

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """Applies the module to the last axis."""
        value = dense(1, name="value")(inputs)
        advantage = dense(self.num_actions, name="advantage")(inputs)
        return value + advantage - advantage.mean(-1, keepdims=True)


class Predictor(nn.Module):
    """A two-layer regression head; `float[..., F] -> float[..., size]`."""

    size: int
    hidden: int = 512

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """Applies the module to the last axis."""
        return dense(self.size)(nn.relu(dense(self.hidden)(inputs)))
