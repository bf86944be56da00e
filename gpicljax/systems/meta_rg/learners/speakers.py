"""Speakers, and the inputs of two players of a signalling game."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax import spaces
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.event_store import Event, EventStore
from gpicljax.networks.feedforward import MLP, dense
from gpicljax.systems.meta_rg.env import messaging

_GAIN = 4.0
"""Logits that a token gains where all that is remembered has it, at first."""


@dataclasses.dataclass(frozen=True)
class SignallingGame:
    """The description of a game in which one player speaks and the other decides.

    A game takes some steps, in the first of which the speaker sends a message. The listener reads
    it from the next one on, decides in one of them, and may be shown what the speaker saw.

    Attributes:
      observations: the listener's, with its `message` as a `MultiDiscrete`.
      actions: the listener's: decisions, and waiting as the last one.
      num_decisions: D.
      seen: (K + 1) F, numbers that the speaker sees.
      vocab_size: V, tokens besides the end of a sentence, 0.
      message_length: L.
      fixed_length: whether a sentence may not end early.
      decides: the step of a game in which the listener decides.
      steps: R, steps of a game.
      quantised: `float[..., F] -> int32[..., L]`, a message that cuts what is seen into tokens.
    """

    observations: spaces.Dict
    actions: spaces.Space
    num_decisions: int
    seen: int
    vocab_size: int
    message_length: int
    fixed_length: bool
    decides: int
    steps: int
    quantised: Callable[[jax.Array], jax.Array]


class GameInputs(NamedTuple):
    """The inputs of two players in a sequence of games; leaves `[G, B, ...]`.

    Attributes:
      listener: what the listener reads in each step of a game, leaves `[G, B, R, ...]`; its
        messages are those of the rule-based speaker.
      starts: `bool[G, B]`, the first game of an episode.
      speaker: float `[G, B, (K + 1) F]`, what the speaker sees.
      channel: `int32[G, B, L, V + 1]`, the token heard for each token sent.
      noise: float `[G, B, L, V + 1]`, standard Gumbel: of the speaker's choice of tokens.
    """

    listener: AgentInput
    starts: jax.Array
    speaker: jax.Array
    channel: jax.Array
    noise: jax.Array


class GameTargets(NamedTuple):
    """The targets at the decision of every game; leaves `[G, B, ...]`.

    Attributes:
      answer: `int32[G, B]`, the right decision; -1 behind the last game.
      feedback: float `[G, B, F]`, the stimulus that the speaker sees.
      query: `bool[G, B]`, games of the query phase.
    """

    answer: jax.Array
    feedback: jax.Array
    query: jax.Array


def _own_position(key: jax.Array, shape: tuple[int, int], dtype: Any) -> jax.Array:
    """Each head begins with one position, of which it repeats what was said."""
    del key
    heads, length = shape
    return _GAIN * (jnp.arange(heads)[:, None] % length == jnp.arange(length)).astype(dtype)


class Speaker(nn.Module):
    """A speaker: an MLP from what it sees, and what it remembers, to the logits of every token.

    Without a memory, all tokens are chosen at once. With one, the speaker stores what it saw and
    said in every game of an episode; it looks up what it said of similar stimuli, and chooses token
    by token, each by what it remembers and by the tokens before it. At first each head of the
    memory adds to the logits of one position what was said there of the stimuli that it finds: an
    untrained speaker repeats itself, and training finds out what is similar.

    Attributes:
      vocab_size: V.
      length: L.
      sizes: hidden sizes.
      fixed_length: whether the end of sentence is never said.
      memory: the store of what it saw (keys) and said (values, L (V + 1) numbers), if it has one.
    """

    vocab_size: int
    length: int
    sizes: Sequence[int] = (128, 128)
    fixed_length: bool = True
    memory: EventStore | None = None

    def initial_carry(self, batch: int) -> Any:
        """Returns the empty memory."""
        return () if self.memory is None else self.memory.initial_carry(batch)

    @nn.compact
    def __call__(
        self, carry: Any, stimulus: jax.Array, start: jax.Array, write: jax.Array, noise: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], Any]:
        """Chooses the tokens of highest logit plus noise.

        Args:
          carry: the memory.
          stimulus: float `[B, F]`; without a memory, any leading axes.
          start: `bool[B]`, the first game of an episode: the memory is cleared.
          write: `bool[B]`, whether the game is stored.
          noise: float `[B, L, V + 1]`.

        Returns:
          The logits, float `[B, L, V + 1]`; tokens `int32[B, L]`, what would follow the end of a
          sentence included; and the carry.
        """
        tokens = self.vocab_size + 1
        body, shape = MLP(self.sizes), (*stimulus.shape[:-1], self.length, tokens)
        if self.memory is None:
            logits = dense(self.length * tokens, name="head")(body(stimulus)).reshape(shape)
            logits = self._mask_end(logits)
            return (logits, jnp.argmax(logits + noise, axis=-1)), carry
        nothing = jnp.zeros((len(stimulus), self.length * tokens), stimulus.dtype)
        asked = Event(stimulus, nothing, jnp.zeros_like(write))
        read, _ = self.memory.step(carry, asked, start)
        features = jnp.concatenate([body(jnp.concatenate([stimulus, read], -1)), read], -1)
        gain = self.param("gain", _own_position, (self.memory.heads, self.length), read.dtype)
        repeated = self.memory.mean_values(read).reshape(-1, *gain.shape, tokens)
        repeated = jnp.einsum("bhlv,hl->blv", repeated, gain)
        every_logits, said = [], []
        for place in range(self.length):
            known = jnp.concatenate([features, *(jax.nn.one_hot(t, tokens) for t in said)], -1)
            logits = dense(tokens, name=f"head_{place}")(known) + repeated[:, place]
            logits = self._mask_end(logits)
            every_logits.append(logits)
            said.append(jnp.argmax(logits + noise[:, place], axis=-1))
        chosen = jnp.stack(said, axis=-1)
        sent = jax.nn.one_hot(messaging.regularise(chosen), tokens).reshape(nothing.shape)
        _, carry = self.memory.step(carry, Event(stimulus, sent, write), start)
        return (jnp.stack(every_logits, axis=-2), chosen), carry

    def _mask_end(self, logits: jax.Array) -> jax.Array:
        return logits.at[..., 0].set(-1e9) if self.fixed_length else logits
