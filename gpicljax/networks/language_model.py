"""Language models: an embedding, any core, and a head to logits; or an online memory."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.checks import BelowOne, Natural, Size, check, check_fields
from gpicljax.networks.contract import Network, as_network
from gpicljax.networks.embeddings import TokenEmbedding
from gpicljax.networks.layers import Linear, default_float, scaled_uniform
from gpicljax.networks.linear_attention import LinearTransformer
from gpicljax.networks.online_memory import (
    OnlineCarry,
    OnlineMemory,
    OnlineMemorySettings,
    latest_tokens,
)
from gpicljax.networks.recurrent import LSTMStack
from gpicljax.networks.suffix_counts import context_rows, empty_followers, last_followers
from gpicljax.networks.tagged_rows import TaggedRows
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


class LatestCarry(NamedTuple):
    """The latest tokens of a sequence, and what followed them before.

    Attributes:
      recent: `int32[B, ages]`, the newest first; V where there was none.
      followers: rows of contexts, values `int32[B, R]`; None where they are not read.
      trial: `uint32[B]`, a number of the sequence, from 1 on.
    """

    recent: jax.Array
    followers: TaggedRows | None
    trial: jax.Array


class LatestTokens(nn.Module):
    """Reads a token together with those before it, so that attention can match contexts at once.

    It may also read what followed the last time that the latest 1, 2 ... tokens were read.

    Attributes:
      vocab_size: V.
      width: of the sum of the embeddings, one for each age and token, each order and follower.
      ages: tokens that are read together.
      orders: tokens of the longest context whose last follower is read; 0 for none.
      slots: contexts of each length from 2 on that are kept.
    """

    vocab_size: int
    width: int
    ages: int
    orders: int = 0
    slots: int = 1

    def setup(self) -> None:
        """The embeddings; a token that is not there has one, too."""
        shape = self.ages + self.orders, self.vocab_size + 1, self.width
        normal = nn.initializers.normal(self.ages**-0.5)
        self.table = self.param("table", normal, shape, default_float())

    def initial_carry(self, batch: int) -> LatestCarry:
        """Returns the memory of nothing."""
        recent = jnp.full((batch, self.ages), self.vocab_size, jnp.int32)
        sizes = self.orders, self.vocab_size, self.slots
        followers = empty_followers(batch, *sizes) if self.orders else None
        return LatestCarry(recent, followers, jnp.ones(batch, jnp.uint32))

    def unroll(
        self, carry: LatestCarry, inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, float, LatestCarry]:
        """Tokens `int32[T, B]` -> vectors `[T, B, width]`, no logits, and the carry."""
        vocab, table = self.vocab_size, carry.followers
        latest = latest_tokens(carry.recent, inputs, starts, vocab)
        trial = carry.trial + jnp.cumsum(starts.astype(jnp.uint32), 0)
        read = latest[1:]
        if table is not None:
            trials = jnp.concatenate([carry.trial[None], trial])
            contexts = context_rows(latest, trials, self.orders, vocab, self.slots)
            followers, table = last_followers(table, *contexts, inputs, vocab)
            read = jnp.concatenate([read, followers[..., 1:]], -1)
        vectors = self.table[jnp.arange(read.shape[-1]), read].sum(-2)
        return vectors, 0.0, LatestCarry(latest[-1], table, trial[-1])


class MemoryPredictions(nn.Module):
    """Reads a token together with what an online memory expects after it.

    Attributes:
      memory: from tokens to logits.
      width: of the sum of the token's embedding and the projected logits.
    """

    memory: OnlineMemory
    width: int

    def setup(self) -> None:
        """Both parts of the sum."""
        self.embedding = TokenEmbedding(self.memory.vocab_size, self.width)
        self.projection = Linear(self.width, scaled_uniform(), default_float())

    def initial_carry(self, batch: int) -> OnlineCarry:
        """Returns the memory of nothing."""
        return self.memory.initial_carry(batch)

    def unroll(
        self, carry: OnlineCarry, inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, jax.Array, OnlineCarry]:
        """Tokens `int32[T, B]` -> vectors `[T, B, width]`, the memory's logits, and the carry."""
        logits, carry = self.memory.unroll(carry, inputs, starts)
        return self.embedding(inputs) + self.projection(logits), logits, carry


class ReadingModel(AroundCore):
    """A language model whose input has a memory of its own, and may have logits to begin with.

    Attributes:
      core: a transformer.
      reader: a module with `initial_carry`, and with `unroll` to vectors for the core, logits to
        which those of the core are added, and the carry.
      vocab_size: V.
    """

    reader: Any
    vocab_size: int

    def setup(self) -> None:
        """The head starts at 0: before any training the reader's logits are the model's."""
        self.head = Linear(self.vocab_size, nn.initializers.zeros, default_float())

    @property
    def reads_none(self) -> bool:
        """True: see `networks.contract.as_network`."""
        return True

    def initial_carry(self, batch: int) -> Any:
        """Returns the carries of the core and of the reader."""
        return self.core.initial_carry(batch), self.reader.initial_carry(batch)

    def unroll(
        self, carry: Any, inputs: jax.Array, starts: jax.Array | None
    ) -> tuple[jax.Array, Any]:
        """Tokens `int32[T, B]`, starts `bool[T, B]` -> logits float `[T, B, V]`, and the carry."""
        empty = None, self.reader.initial_carry(inputs.shape[1])
        of_core, of_reader = empty if carry is None else carry
        steps = jnp.zeros(inputs.shape, bool) if starts is None else starts
        vectors, logits, of_reader = self.reader.unroll(of_reader, inputs, steps)
        features, of_core = self.core.unroll(of_core, vectors, starts)
        return logits + self.head(features), (of_core, of_reader)

    def step(self, carry: Any, inputs: jax.Array, start: jax.Array) -> tuple[jax.Array, Any]:
        """Tokens `int32[B]`, start `bool[B]` -> logits float `[B, V]`, and the carry."""
        of_core, of_reader = carry
        vectors, logits, of_reader = self.reader.unroll(of_reader, inputs[None], start[None])
        features, of_core = self.core.step(of_core, vectors[0], start)
        return (logits + self.head(features)[None])[0], (of_core, of_reader)


@dataclasses.dataclass(frozen=True)
class LanguageModelSettings:
    """Kind and size of a language model.

    The paper's transformers are 6 x 64 with 4 heads, 12 x 256 with 8 and 12 x 1024 with 16.

    Attributes:
      kind: a transformer; linear attention, whose memory does not grow, or the same with the delta
        rule; two LSTM layers; or an online memory (`networks.online_memory`), which has sizes of
        its own.
      layers: of a transformer or of linear attention; the LSTM is as large as they would be.
      width: of the embedding and of every layer.
      heads: of attention.
      hidden: of the MLPs of linear attention, and of the LSTM layers; 0 takes what gives about as
        many parameters as the transformer has.
      window: tokens that a transformer attends to; 0 for all.
      precision: of the transformer's matrix products.
      dropout: rate of the transformer while it is trained; 0.1 in the paper (appendix A.4).
      features: what a transformer reads: a token; the latest tokens together; these and what
        followed them the last time; or a token with what an online memory expects after it, which
        the transformer then corrects.
      online: sizes of an online memory; its ages are also how many the latest tokens are, its
        orders and slots those of what followed them.

    Raises:
      ValueError: for numbers below 1 (or 0), and a width that the heads do not divide.

    Example:
      >>> LanguageModelSettings("linear", layers=2).width
      64
      >>> LanguageModelSettings(width=64, heads=5)
      Traceback (most recent call last):
      ValueError: width: got 64; accepted: a multiple of 2 x heads = 10
    """

    kind: Literal["transformer", "linear", "delta", "lstm", "online"] = "transformer"
    layers: Size = 6
    width: Size = 64
    heads: Size = 4
    hidden: Natural = 0
    window: Natural = 0
    precision: Literal["float32", "bfloat16"] = "float32"
    dropout: BelowOne = 0.0
    features: Literal["tokens", "latest", "followers", "online"] = "tokens"
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
        kinds = {"linear": "linear attention", "delta": "delta rule"}
        kinds |= {"lstm": "LSTM", "online": "online memory"}
        title = kinds.get(self.kind, self.kind)
        reads = {"latest": " that reads the latest tokens", "online": " over an online memory"}
        reads |= {"followers": " that reads the latest tokens and what followed them before"}
        return title + reads.get(self.features, "")


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
        online = settings.online
        if settings.features in ("latest", "followers"):
            orders = online.orders if settings.features == "followers" else 0
            reader: Any = LatestTokens(vocab_size, width, online.ages, orders, online.slots)
            return as_network(ReadingModel(core, reader, vocab_size))
        if settings.features == "online":
            reader = MemoryPredictions(OnlineMemory(vocab_size, online), width)
            return as_network(ReadingModel(core, reader, vocab_size))
    elif settings.kind in ("linear", "delta"):
        # Five matrices of width x width in each layer's attention, not four, and a convolution.
        hidden = settings.hidden or round(3.375 * width)
        core = LinearTransformer(
            settings.layers, width, settings.heads, hidden, corrects=settings.kind == "delta"
        )
    else:
        # Two layers of size h have 4 h (width + h) + 8 h^2 weights.
        budget = 12 * settings.layers * width**2
        hidden = round((math.sqrt(16 * width**2 + 48 * budget) - 4 * width) / 24)
        hidden = settings.hidden or hidden
        core = LSTMStack((hidden, hidden))
    return as_network(LanguageModel(core, vocab_size, width))
