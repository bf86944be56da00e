"""Speakers, and the inputs of two players of a signalling game."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
from flax import linen as nn

from gpicljax import spaces
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.feedforward import MLP, dense


@dataclasses.dataclass(frozen=True)
class SignallingGame:
    """The description of a game in which one player speaks and the other decides.

    A game takes some steps, in the first of which the speaker sends a message. The listener reads
    it from the next one on, decides in one of them, and may be shown what the speaker saw.

    Attributes:
      observations: the listener's, with its `message` as a `MultiDiscrete`.
      actions: the listener's: decisions, and waiting as the last one.
      num_decisions: D.
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


class Speaker(nn.Module):
    """A memoryless speaker: an MLP from what it sees to the logits of every token.

    Attributes:
      vocab_size: V.
      length: L.
      sizes: hidden sizes.
      fixed_length: whether the end of sentence is never said.
    """

    vocab_size: int
    length: int
    sizes: Sequence[int] = (128, 128)
    fixed_length: bool = True

    @nn.compact
    def __call__(self, stimulus: jax.Array) -> jax.Array:
        """`float[..., F] -> float[..., L, V + 1]`, the logits."""
        features = MLP(self.sizes)(stimulus)
        logits = dense(self.length * (self.vocab_size + 1), name="head")(features)
        logits = logits.reshape(*stimulus.shape[:-1], self.length, self.vocab_size + 1)
        return logits.at[..., 0].set(-1e9) if self.fixed_length else logits
