"""Language models: an embedding, any core, and a head to logits; or an online memory."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.checks import BelowOne, Natural, Size, check, check_fields
from gpicljax.networks.contract import Network, as_network
from gpicljax.networks.embeddings import TokenEmbedding
from gpicljax.networks.layers import Linear, default_float, scaled_uniform
from gpicljax.networks.linear_attention import LinearTransformer
from gpicljax.networks.online_memory import OnlineMemory, OnlineMemorySettings
from gpicljax.networks.recurrent import LSTMStack
from gpicljax.networks.transformer import Transformer
from gpicljax.networks.vectors import AroundCore


class LanguageModel(AroundCore):
    """Tokens to logits of the next token, with one core in between.

    Attributes:
      core: see `AroundCore`.
      vocab_size: V.
      width: of the embedding.
    """

    vocab_size: int
    width: int

    def setup(self) -> None:
        """Embedding and head; the head has weights of its own."""
        tokens = getattr(self.core, "tokens_per_step", 1)
        check(tokens == 1, "core.tokens_per_step", tokens, "1")
        self.embedding = TokenEmbedding(self.vocab_size, self.width)
        self.head = Linear(self.vocab_size, scaled_uniform(), default_float())

    def read(self, inputs: jax.Array) -> jax.Array:
        """Returns the embedding of tokens, int `[...]`."""
        return self.embedding(inputs)

    def write(self, features: jax.Array) -> jax.Array:
        """Logits, float `[..., V]`."""
        return self.head(features)


class OverOnlineMemory(AroundCore):
    """Corrects the predictions of an online memory, which its core reads beside the tokens.

    Before any training its predictions are those of the memory, as the head starts at 0.

    Attributes:
      core: a transformer.
      memory: from the same tokens to logits.
      width: of the embedding.
    """

    memory: OnlineMemory
    width: int

    @property
    def reads_none(self) -> bool:
        """True: see `networks.contract.as_network`."""
        return True

    def setup(self) -> None:
        """The two parts of the core's input, and the head."""
        vocab_size, float_ = self.memory.vocab_size, default_float()
        self.embedding = TokenEmbedding(vocab_size, self.width)
        self.projection = Linear(self.width, scaled_uniform(), float_)
        self.head = Linear(vocab_size, nn.initializers.zeros, float_)

    def initial_carry(self, batch: int) -> Any:
        """Returns the carries of the core and of the memory."""
        return self.core.initial_carry(batch), self.memory.initial_carry(batch)

    def unroll(
        self, carry: Any, inputs: jax.Array, starts: jax.Array | None
    ) -> tuple[jax.Array, Any]:
        """Tokens `int32[T, B]`, starts `bool[T, B]` -> logits float `[T, B, V]`, and the carry."""
        steps = jnp.zeros(inputs.shape, bool) if starts is None else starts
        empty = None, self.memory.initial_carry(inputs.shape[1])
        of_core, of_memory = empty if carry is None else carry
        predicted, of_memory = self.memory.unroll(of_memory, inputs, steps)
        features, of_core = self.core.unroll(of_core, self._merge(inputs, predicted), starts)
        return predicted + self.head(features), (of_core, of_memory)

    def step(self, carry: Any, inputs: jax.Array, start: jax.Array) -> tuple[jax.Array, Any]:
        """Tokens `int32[B]`, start `bool[B]` -> logits float `[B, V]`, and the carry."""
        of_core, of_memory = carry
        predicted, of_memory = self.memory.step(of_memory, inputs, start)
        features, of_core = self.core.step(of_core, self._merge(inputs, predicted), start)
        return predicted + self.head(features), (of_core, of_memory)

    def _merge(self, tokens: jax.Array, predicted: jax.Array) -> jax.Array:
        return self.embedding(tokens) + self.projection(predicted)


@dataclasses.dataclass(frozen=True)
class LanguageModelSettings:
    """Kind and size of a language model.

    The paper's transformers are 6 x 64 with 4 heads, 12 x 256 with 8 and 12 x 1024 with 16.

    Attributes:
      kind: a transformer; linear attention, whose memory does not grow; two LSTM layers; or an
        online memory (`networks.online_memory`), which has sizes of its own.
      layers: of a transformer or of linear attention; the LSTM is as large as they would be.
      width: of the embedding and of every layer.
      heads: of attention.
      hidden: of the MLPs of linear attention, and of the LSTM layers; 0 takes what gives about as
        many parameters as the transformer has.
      window: tokens that a transformer attends to; 0 for all.
      precision: of the transformer's matrix products.
      dropout: rate of the transformer while it is trained; 0.1 in the paper (appendix A.4).
      features: what a transformer reads: tokens; or also what an online memory predicts from them,
        which it then corrects.
      online: sizes of an online memory.

    Raises:
      ValueError: for numbers below 1 (or 0), and a width that the heads do not divide.

    Example:
      >>> LanguageModelSettings("linear", layers=2).width
      64
      >>> LanguageModelSettings(width=64, heads=5)
      Traceback (most recent call last):
      ValueError: width: got 64; accepted: a multiple of 2 x heads = 10
    """

    kind: Literal["transformer", "linear", "lstm", "online"] = "transformer"
    layers: Size = 6
    width: Size = 64
    heads: Size = 4
    hidden: Natural = 0
    window: Natural = 0
    precision: Literal["float32", "bfloat16"] = "float32"
    dropout: BelowOne = 0.0
    features: Literal["tokens", "online"] = "tokens"
    online: OnlineMemorySettings = OnlineMemorySettings()

    def __post_init__(self) -> None:
        check_fields(self)
        even = self.kind in ("lstm", "online") or not self.width % (2 * self.heads)
        check(even, "width", self.width, f"a multiple of 2 x heads = {2 * self.heads}")
        drops = self.kind == "transformer" or not self.dropout
        check(drops, "dropout", self.dropout, f"0, for the kind {self.kind}")
        reads = self.kind == "transformer" or self.features == "tokens"
        check(reads, "features", self.features, f"tokens, for the kind {self.kind}")

    @property
    def title(self) -> str:
        """Returns the kind in words."""
        kinds = {"linear": "linear attention", "lstm": "LSTM", "online": "online memory"}
        title = kinds.get(self.kind, self.kind)
        return title if self.features == "tokens" else f"{title} over an online memory"


def language_model(
    settings: LanguageModelSettings, vocab_size: int = 32, capacity: int = 4096
) -> Network:
    """Returns the network of some settings; its outputs are logits.

    Args:
      settings: kind and size.
      vocab_size: V.
      capacity: tokens that a transformer's cache holds when it is asked step by step.
    """
    if settings.kind == "online":
        return as_network(OnlineMemory(vocab_size, settings.online))
    width = settings.width
    if settings.kind == "transformer":
        core: Any = Transformer(
            settings.layers,
            width,
            settings.heads,
            capacity=capacity,
            window=settings.window or None,
            dtype=getattr(jnp, settings.precision),
            dropout=settings.dropout,
        )
        if settings.features == "online":
            memory = OnlineMemory(vocab_size, settings.online)
            return as_network(OverOnlineMemory(core, memory, width))
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
    return as_network(LanguageModel(core, vocab_size, width))
