"""Language models: an embedding, any core, and a head to logits."""

from __future__ import annotations

from typing import Any

import jax
from flax import linen as nn

from gpicljax.networks.embeddings import TokenEmbedding
from gpicljax.networks.feedforward import dense


class LanguageModel(nn.Module):
    """Tokens to logits of the next token, with one core in between.

    Attributes:
      vocab_size: V.
      width: of the embedding.
      core: a module with `initial_carry`, `step` and `unroll` over vectors.
    """

    vocab_size: int
    width: int
    core: Any

    def setup(self) -> None:
        """Embedding and head; the head has weights of its own."""
        self.embedding = TokenEmbedding(self.vocab_size, self.width)
        self.head = dense(self.vocab_size)

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
