"""Language models: an embedding, any core, and a head to logits."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.networks.contract import Network, as_network
from gpicljax.networks.embeddings import TokenEmbedding
from gpicljax.networks.layers import Linear, default_float, scaled_uniform
from gpicljax.networks.linear_attention import LinearTransformer
from gpicljax.networks.recurrent import LSTMStack
from gpicljax.networks.transformer import Transformer


class LanguageModel(nn.Module):
    """Tokens to logits of the next token, with one core in between.

    Attributes:
      vocab_size: V.
      width: of the embedding.
      core: a module with `initial_carry`, `step` and `unroll` over vectors; a transformer with one
        token per step.
    """

    vocab_size: int
    width: int
    core: Any

    def setup(self) -> None:
        """Embedding and head; the head has weights of its own."""
        if getattr(self.core, "tokens_per_step", 1) != 1:
            raise ValueError(f"core.tokens_per_step = {self.core.tokens_per_step}: 1 is needed")
        self.embedding = TokenEmbedding(self.vocab_size, self.width)
        self.head = Linear(self.vocab_size, scaled_uniform(), default_float())

    @property
    def whole(self) -> bool:
        """See `networks.contract.as_network`."""
        return getattr(self.core, "whole", False)

    def initial_carry(self, batch: int) -> Any:
        """The core's."""
        return self.core.initial_carry(batch)

    def unroll(
        self, carry: Any, inputs: jax.Array, starts: jax.Array | None
    ) -> tuple[jax.Array, Any]:
        """Tokens int `[T, B]`, starts `bool[T, B]` -> logits float `[T, B, V]`, and the carry."""
        features, carry = self.core.unroll(carry, self.embedding(inputs), starts)
        return self.head(features), carry

    def step(self, carry: Any, inputs: jax.Array, start: jax.Array) -> tuple[jax.Array, Any]:
        """Tokens int `[B]`, start `bool[B]` -> logits float `[B, V]`, and the carry."""
        features, carry = self.core.step(carry, self.embedding(inputs), start)
        return self.head(features), carry


@dataclasses.dataclass(frozen=True)
class LanguageModelSettings:
    """Kind and size of a language model.

    The paper's transformers are 6 x 64 with 4 heads, 12 x 256 with 8 and 12 x 1024 with 16.

    Attributes:
      kind: a transformer; linear attention, whose memory does not grow; or two LSTM layers.
      layers: of a transformer or of linear attention; the LSTM is as large as they would be.
      width: of the embedding and of every layer.
      heads: of attention.
      hidden: of the MLPs of linear attention, and of the LSTM layers; 0 takes what gives about as
        many parameters as the transformer has.
      window: tokens that a transformer attends to; 0 for all.
      precision: of the transformer's matrix products.

    Raises:
      ValueError: for numbers below 1 (or 0), and a width that the heads do not divide.
    """

    kind: Literal["transformer", "linear", "lstm"] = "transformer"
    layers: int = 6
    width: int = 64
    heads: int = 4
    hidden: int = 0
    window: int = 0
    precision: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        for field, least in (("layers", 1), ("width", 1), ("heads", 1), ("hidden", 0)):
            if getattr(self, field) < least:
                raise ValueError(f"{field} = {getattr(self, field)}: at least {least} is needed")
        if self.window < 0:
            raise ValueError(f"window = {self.window}: at least 0 is needed")
        if self.kind != "lstm" and self.width % (2 * self.heads):
            raise ValueError(
                f"width = {self.width}: a multiple of 2 x heads = {2 * self.heads} is needed"
            )


def language_model(
    settings: LanguageModelSettings, vocab_size: int = 32, capacity: int = 4096
) -> Network:
    """The network of some settings; its outputs are logits.

    Args:
      settings: kind and size.
      vocab_size: V.
      capacity: tokens that a transformer's cache holds when it is asked step by step.
    """
    width = settings.width
    if settings.kind == "transformer":
        core: Any = Transformer(
            settings.layers,
            width,
            settings.heads,
            capacity=capacity,
            window=settings.window or None,
            dtype=getattr(jnp, settings.precision),
        )
    elif settings.kind == "linear":
        # Five matrices of width x width in each layer's attention, not four, and a convolution.
        hidden = settings.hidden or round(3.375 * width)
        core = LinearTransformer(settings.layers, width, settings.heads, hidden)
    else:
        # Two layers of size h have 4 h (width + h) + 8 h^2 weights.
        budget = 12 * settings.layers * width**2
        hidden = round((math.sqrt(16 * width**2 + 48 * budget) - 4 * width) / 24)
        hidden = settings.hidden or hidden
        core = LSTMStack((hidden, hidden))
    return as_network(LanguageModel(vocab_size, width, core))
