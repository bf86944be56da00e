"""From a step's inputs to the vectors that a sequence model reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.checks import check
from gpicljax.networks.layers import LayerNorm, Linear, default_float, gelu, scaled_uniform

# Standard deviation of the vectors of types at the start.
SMALL = 0.02
# That of tokens. Copying from the context alone is learnt faster with 0.02; but on random languages
# (n = 2 to 4, 4 layers x 64) learning in context then had not set in after 6.9 M tokens, which it
# did after 3.6 M with 1.
TOKENS = 1.0
# Small alphabets are embedded by a matrix product: a gather's gradient is a slow scatter.
MOST_ONE_HOT = 256


class TokenEmbedding(nn.Module):
    """A learnt vector per token; tokens outside of the vocabulary (-1: none) are zeros."""

    vocabulary: int
    width: int

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        """`int[...] -> float[..., width]`."""
        shape = (self.vocabulary, self.width)
        table = self.param("table", nn.initializers.normal(TOKENS), shape, default_float())
        if self.vocabulary <= MOST_ONE_HOT:
            return nn.one_hot(tokens, self.vocabulary, dtype=table.dtype) @ table
        valid = (tokens >= 0) & (tokens < self.vocabulary)
        return jnp.where(valid[..., None], table[jnp.where(valid, tokens, 0)], 0)


class VectorEmbedding(nn.Module):
    """A linear layer; vectors that are masked are replaced by a learnt one first.

    Takes float `[..., size]`, or a pair of that and `bool[...]`, set where it is masked.
    """

    size: int
    width: int
    maskable: bool = True

    @nn.compact
    def __call__(self, inputs: jax.Array | tuple[jax.Array, jax.Array]) -> jax.Array:
        """`float[..., size] -> float[..., width]`."""
        vectors, masked = inputs if isinstance(inputs, tuple) else (inputs, None)
        if self.maskable:
            absent = self.param("mask", nn.initializers.normal(1.0), (self.size,), default_float())
            if masked is not None:
                vectors = jnp.where(masked[..., None], absent, vectors)
        return Linear(self.width, scaled_uniform(), default_float())(vectors)


class Interleaved(nn.Module):
    """Several inputs per step as tokens one after the other, each with a learnt vector of its type.

    Attributes:
      parts: the embedding of each input, by name; all of one width.
      order: the names in their order within a step. Parameters do not depend on it.
    """

    parts: Mapping[str, nn.Module]
    order: Sequence[str]

    @nn.compact
    def __call__(self, inputs: Mapping[str, Any]) -> jax.Array:
        """Returns a dictionary of `[..., *]` -> `float[..., len(order), width]`."""
        names = sorted(self.parts)
        check(sorted(self.order) == names, "order", self.order, f"each of {names} once")
        tokens = []
        for name in self.order:
            x = self.parts[name](inputs[name])  # type: ignore[operator]
            normal = nn.initializers.normal(SMALL)
            tokens.append(x + self.param(f"type_{name}", normal, x.shape[-1:], default_float()))
        return jnp.stack(tokens, axis=-2)


class ResidualHead(nn.Module):
    """Norm, a residual net with GELU, and a linear layer; `float[..., d] -> float[..., size]`.

    4 d^2 + 5 d + (d + 1) size parameters.
    """

    size: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the module to the last axis."""
        x = LayerNorm()(x)
        hidden = gelu(Linear(2 * x.shape[-1], scaled_uniform(), default_float())(x))
        hidden = gelu(Linear(x.shape[-1], scaled_uniform(), default_float())(hidden))
        return Linear(self.size, scaled_uniform(), default_float())(x + hidden)
