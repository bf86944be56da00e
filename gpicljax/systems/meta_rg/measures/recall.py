"""The Recall task by position in its shots: accuracy over the second one is the paper's measure."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.interface import Agent
from gpicljax.rollout import Record, play, start_rollout
from gpicljax.systems.meta_rg.env.recall import Recall
from gpicljax.systems.meta_rg.measures.accuracy import (
    PhaseAccuracy,
    checked_games,
    correct_decisions,
    phase_accuracy,
    ratio,
)
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv


class RecallGames(NamedTuple):
    """The games of N episodes, in their order.

    Attributes:
      answered: `bool[N, G]`, the game was played.
      correct: `bool[N, G]`; `[N, G, R]` of a panel of R agents.
      shot: `int32[N, G]`, to which it belongs, from 0.
    """

    answered: jax.Array
    correct: jax.Array
    shot: jax.Array


class RecallAccuracy(NamedTuple):
    """Shares of right answers.

    Attributes:
      first: in the first shot.
      second: in the second shot, when the whole space has been seen (with the paper's rules).
      by_share: float `[bins]`, in the first shot by the share of it that had been seen before.
    """

    first: PhaseAccuracy
    second: PhaseAccuracy
    by_share: jax.Array


def play_recall_games(
    key: jax.Array, vec: VectorEnv, agent: Agent, params: ArrayTree, env_params: ArrayTree = None
) -> RecallGames:
    """Plays one episode on every instance and records each game's outcome.

    Args:
      key: a typed key.
      vec: a batch of `Recall`, one episode a trial; `privileged=True` for agents that read it.
      agent: the agent, or a panel of them (see `agents.combinators.panel_agent`).
      params: its parameters.
      env_params: distribution over tasks; the batch's own if None.

    Returns:
      The games.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("Recall-v0", max_values=3)
      >>> vec = VectorEnv(env, 4)
      >>> games = lambda key: play_recall_games(key, vec, random_agent(env), ())
      >>> jax.eval_shape(games, jax.random.key(0)).correct.shape  # 2 shots of 27 at most
      (4, 54)
    """
    env = vec.env
    assert isinstance(env, Recall)

    def keep(record: Record) -> RecallGames:
        info = record.next_timestep.info
        return RecallGames(info["answered"], correct_decisions(record), info["shot"])

    def game(record: Record) -> jax.Array:
        answered = record.next_timestep.info["answered"]
        return jnp.where(answered, record.vstate.state.index, env.max_games)

    played = play(
        vec,
        agent,
        params,
        start_rollout(key, vec, agent, env_params),
        max_steps=2 * env.max_games,
        keep=keep,
        slot=game,
        slots=env.max_games,
    )
    return jax.tree.map(lambda x: x[:, 0], played.records)


def recall_accuracy(
    answered: jax.Array, correct: jax.Array, shot: jax.Array, bins: int = 10
) -> RecallAccuracy:
    """Accuracy of finished episodes by shot, jittable and vmappable (over seeds, say).

    Args:
      answered: `bool[N, G]`, whether game g of episode n was played.
      correct: `bool[N, G]`, whether it was answered correctly.
      shot: `int32[N, G]`, to which it belongs, from 0.
      bins: into how many equal parts the first shot is cut; NaN for one without a game.

    Raises:
      ValueError: if the shapes differ or are not `[N, G]`.
      TypeError: if `answered` or `correct` is not boolean.

    Source: appendix E.1 and Figure 8 of the Meta-Referential Games paper: "accuracy over all the
      games of the second shot".

    Example:
      >>> import jax.numpy as jnp
      >>> correct, played = jnp.array([[0, 1, 1, 1]], bool), jnp.ones((1, 4), bool)
      >>> accuracy = recall_accuracy(played, correct, jnp.array([[0, 0, 1, 1]]), bins=2)
      >>> float(accuracy.second.by_game), accuracy.by_share.tolist()
      (1.0, [0.0, 1.0])
    """
    played, right = checked_games(answered=answered, correct=correct)
    first = played & (shot == 0)
    before = jnp.cumsum(first, axis=1) - 1
    bin_index = before * bins // jnp.maximum(first.sum(1, keepdims=True), 1)
    inside = first[..., None] & (bin_index[..., None] == jnp.arange(bins))
    dtype = jnp.result_type(float)
    wins, games = ((x.sum((0, 1))).astype(dtype) for x in (inside & right[..., None], inside))
    return RecallAccuracy(
        first=phase_accuracy(right, first),
        second=phase_accuracy(right, played & (shot == 1)),
        by_share=ratio(wins, games),
    )
