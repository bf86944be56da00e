"""The pytrees of `MetaRG`: params, tasks, states; and the players' space of actions."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Range
from gpicljax.envs._checks import Count
from gpicljax.systems.meta_rg.env.game import Game
from gpicljax.systems.meta_rg.env.targets import Skeleton
from gpicljax.typing import ArrayTree

SPEAKER, LISTENER = 0, 1

CHANNELS = ("episode", "game", "random", "silence")
"""What `Params.channel` counts."""


@struct.dataclass
class Params:
    """The distribution over tasks, all `int32[]`.

    Attributes:
      min_values: V_min, smallest number of values d(i) of a latent dimension; at least 2.
      max_values: V_max, largest d(i).
      shots: S, how often at least every value is shown in the support phase.
      samples: O, object-centric samples per meaning.
      channel: index in `CHANNELS`: `"episode"` (a permutation of the tokens per episode: the game),
        or, with `ablations` only, `"game"` (a new one every game: no binding can be learnt, but
        which tokens are equal is heard), `"random"` (tokens carry nothing, but the length of a
        message is heard) or `"silence"` (nothing is heard).
    """

    min_values: Annotated[jax.Array, Range(2)]
    max_values: Annotated[jax.Array, Range(2)]
    shots: Count
    samples: Count
    channel: Annotated[jax.Array, Range(0, len(CHANNELS) - 1)]


@struct.dataclass
class Task:
    """One semantic structure and its channel.

    Attributes:
      num_values: `int32[N_dim]`, d(i).
      table: float `[N_dim, V, O]`, the value of every sample of every latent value; for categories
        and pseudowords, `int32` names of it.
      means: float `[N_dim, V]`, of continuous values; else 0.
      sigmas: float `[N_dim, V]`, likewise.
      heard: `int32[L, V + 1]`, the token the listener hears for each token sent.
      positions: `int32[L]`, the position of the speaker's message that is heard at each position.
      shots: `int32[]`, S.
      samples: `int32[]`, O.
      channel: `int32[]`, see `Params`.
    """

    num_values: jax.Array
    table: jax.Array
    means: jax.Array
    sigmas: jax.Array
    heard: jax.Array
    positions: jax.Array
    shots: jax.Array
    samples: jax.Array
    channel: jax.Array


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      key: typed key of the episode's draws.
      skeleton: the targets of all games.
      index: `int32[]`, which game.
      round: `int32[]`, 0 .. N, and N + 1 in the feedback step.
      game: the current game.
      channel: `int32[2, L]`, last message of speaker and listener in this game, as sent.
      announced: `int32[2, L]`, what they announced that they would say.
      last_reward: float `[]`, reward of the last game decided.
      last_result: `int32[]`, 0 before the first decision, 1 failure, 2 success.
    """

    key: jax.Array
    skeleton: Skeleton
    index: jax.Array
    round: jax.Array
    game: Game
    channel: jax.Array
    announced: jax.Array
    last_reward: jax.Array
    last_result: jax.Array


@dataclasses.dataclass(frozen=True)
class PlayersActions(spaces.Space):
    """`int32[2, len(nvec)]`: the same `MultiDiscrete` choice for speaker and listener."""

    nvec: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """`(2, len(nvec))`."""
        return (2, len(self.nvec))

    @property
    def _one(self) -> spaces.MultiDiscrete:
        return spaces.MultiDiscrete(self.nvec)

    def sample(self, key: jax.Array, mask: ArrayTree = None) -> jax.Array:
        """Returns both players' choices; `mask` is `bool[2, len(nvec), max(nvec)]`."""
        keys = jax.random.split(key)
        if mask is None:
            return jax.vmap(self._one.sample)(keys)
        return jax.vmap(self._one.sample)(keys, mask)

    def contains(self, value: Any) -> jax.Array:
        """Returns whether both rows are members."""
        value = jnp.asarray(value)
        if value.shape != self.shape:
            return jnp.zeros((), bool)
        return jax.vmap(self._one.contains)(value).all()
