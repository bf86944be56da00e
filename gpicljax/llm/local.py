"""This project's own sequence models as language models: bytes in, bytes out.

They are tiny, and know nothing but the texts they were trained on; what they are for is a row in a
table of a real language model that trains in a minute, without a download.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.agents import sequence
from gpicljax.checks import check, check_at_least
from gpicljax.llm.chat import Message, Reply, Usage
from gpicljax.networks.contract import Network
from gpicljax.networks.language_model import LanguageModelSettings, language_model
from gpicljax.typing import ArrayTree

VOCABULARY = 259
"""All bytes, and three marks: where the system's, the user's and the model's messages begin."""
SMALL = LanguageModelSettings("lstm", layers=2, width=64, hidden=128)
"""An LSTM that learns in a minute."""
_MARKS = {"system": 256, "user": 257, "assistant": 258}


def conversation_text(messages: Sequence[Message], answering: bool = True) -> np.ndarray:
    """Returns a conversation as tokens, `int32[N]`: a mark and the bytes of every message.

    Args:
      messages: the conversation.
      answering: whether the mark of the model's next message comes last.
    """
    tokens: list[int] = []
    for message in messages:
        tokens += [_MARKS[message.role], *message.content.encode(errors="replace")]
    return np.asarray([*tokens, _MARKS["assistant"]] if answering else tokens, np.int32)


class ByteModel:
    """A network over bytes as a `chat.ChatModel`.

    A conversation that is longer than `memory` is read from its last tokens on. Replies end with
    the next message's mark.

    Args:
      network: over `VOCABULARY` tokens; see `networks.language.language_model`.
      params: of the network.
      memory: tokens of a conversation that are read, and its reply's.
      temperature: of the choice of bytes; 0 takes the most probable one.
      name: of the model.

    Raises:
      ValueError: for numbers that are not accepted.
    """

    def __init__(
        self,
        network: Network,
        params: ArrayTree,
        memory: int = 1024,
        temperature: float = 1.0,
        name: str = "bytes",
    ) -> None:
        """See the class."""
        check_at_least(2, memory=memory)
        check(temperature >= 0, "temperature", temperature, "a number >= 0")
        self.network, self.params, self.memory, self.name = network, params, memory, name
        self.temperature = temperature
        self._lock = threading.Lock()

    @property
    def sampling(self) -> Mapping[str, Any]:
        """Memory and temperature."""
        return {"memory": self.memory, "temperature": self.temperature}

    def check(self) -> None:
        """Nothing can fail."""

    def __call__(self, messages: Sequence[Message], *, max_tokens: int, seed: int) -> Reply:
        """Returns the network's continuation, up to the next mark."""
        limit = min(max_tokens, self.memory // 2)
        tokens = conversation_text(messages)[-(self.memory - limit) :]
        # Lengths of few kinds, so that few programs are compiled: what comes before is forgotten.
        size = min(max(64, 1 << (len(tokens) - 1).bit_length()), self.memory)
        padded = np.zeros(size, np.int32)
        padded[size - len(tokens) :] = tokens
        with self._lock:
            continuation = self._continue(
                self.params, padded, np.int32(size - len(tokens)), jax.random.key(seed), limit
            )
        reply_tokens = np.asarray(continuation)
        marks = np.flatnonzero(reply_tokens > 255)
        finish = "stop" if marks.size else "length"
        reply_tokens = reply_tokens[: marks[0]] if marks.size else reply_tokens
        text = bytes(reply_tokens.astype(np.uint8)).decode(errors="replace")
        return Reply(text, Usage(len(tokens), len(reply_tokens) + bool(marks.size)), finish)

    @functools.partial(jax.jit, static_argnums=(0, 5))
    def _continue(
        self, params: ArrayTree, tokens: jax.Array, first: jax.Array, key: jax.Array, limit: int
    ) -> jax.Array:
        """`int32[limit]`; tokens before the first are not remembered."""
        step, zeros = self.network.step, jnp.zeros(1, bool)

        def read(carry: ArrayTree, at: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
            token, number = at
            logits, carry = step(params, carry, token[None], (number <= first)[None])
            return carry, logits[0]

        numbers = jnp.arange(tokens.shape[0])
        carry, logits = jax.lax.scan(read, self.network.initial_carry(1), (tokens, numbers))

        def write(
            state: tuple[ArrayTree, jax.Array], key: jax.Array
        ) -> tuple[tuple[ArrayTree, jax.Array], jax.Array]:
            carry, logits = state
            if self.temperature == 0:
                token = logits.argmax().astype(jnp.int32)
            else:
                token = jax.random.categorical(key, logits / self.temperature).astype(jnp.int32)
            following, carry = step(params, carry, token[None], zeros)
            return (carry, following[0]), token

        return jax.lax.scan(write, (carry, logits[-1]), jax.random.split(key, limit))[1]


def train_byte_model(
    key: jax.Array,
    conversations: Sequence[np.ndarray],
    settings: LanguageModelSettings = SMALL,
    *,
    length: int = 256,
    updates: int = 300,
    memory: int = 1024,
    temperature: float = 1.0,
) -> ByteModel:
    """Trains a byte model on conversations, such as those of transcripts.

    Args:
      key: a typed key.
      conversations: each `int32[N]`, see `conversation_text`.
      settings: of the network.
      length: of the pieces that it learns from.
      updates: of the sequence trainer.
      memory: see `ByteModel`.
      temperature: see `ByteModel`.

    Raises:
      ValueError: if there is less text than one piece.
    """
    text = jnp.asarray(np.concatenate(conversations))
    check(len(text) > length, "conversations", f"{len(text)} tokens", f"more than {length}")
    network = language_model(settings, VOCABULARY, memory)

    def sample(keys: jax.Array, data: Any) -> sequence.Sequences:
        def piece(key: jax.Array) -> jax.Array:
            start = jax.random.randint(key, (), 0, len(text) - length)
            return jax.lax.dynamic_slice(text, (start,), (length + 1,))

        tokens = jax.vmap(piece, out_axes=1)(keys)
        return sequence.Sequences(tokens[:-1], None, tokens[1:])

    config = sequence.SequenceConfig(batch_size=16, schedule="cosine")
    hparams = sequence.SequenceHParams(
        learning_rate=3e-3, warmup_updates=max(updates // 20, 1), decay_updates=updates
    )
    trainer = sequence.make(
        config, network, sample, [sequence.cross_entropy("nats")], length=length
    )
    state = jax.jit(trainer.init)(key, hparams)
    advance = jax.jit(
        lambda state: jax.lax.scan(lambda s, _: (trainer.update(s)[0], None), state, None, updates)
    )
    return ByteModel(network, advance(state)[0].params, memory, temperature)
