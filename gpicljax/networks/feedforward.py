"""Feed-forward modules: MLP and the dueling head."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from flax import linen as nn


class MLP(nn.Module):
    """Dense layers, each followed by a ReLU; `float[..., F] -> float[..., sizes[-1]]`."""

    sizes: Sequence[int]

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        for size in self.sizes:
            inputs = nn.relu(nn.Dense(size, kernel_init=nn.initializers.he_normal())(inputs))
        return inputs


class DuelingHead(nn.Module):
    """Q = V + A - mean(A), each of one linear layer; `float[..., F] -> float[..., actions]`.

    Source: Wang et al. (2016).
    """

    num_actions: int

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        value = nn.Dense(1, name="value")(inputs)
        advantage = nn.Dense(self.num_actions, name="advantage")(inputs)
        return value + advantage - advantage.mean(-1, keepdims=True)


class Predictor(nn.Module):
    """A two-layer regression head; `float[..., F] -> float[..., size]`."""

    size: int
    hidden: int = 512

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        return nn.Dense(self.size)(nn.relu(nn.Dense(self.hidden)(inputs)))
