"""Meta-Referential Games by position in their episode: a function of recorded episodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.evaluation.statistics import rank_auc
from gpicljax.interface import Agent
from gpicljax.rollout import Record, play, start_rollout
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.measures.accuracy import (
    PhaseAccuracy,
    correct_decisions,
    phase_accuracy,
)
from gpicljax.systems.meta_rg.measures.zsct import zsct_accuracy
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv


class Games(NamedTuple):
    """The games of N episodes, by position in their episode.

    Attributes:
      valid: `bool[N, G]`, the game was played.
      correct: `bool[N, G]`; `[N, G, R]` for an agent that reports R decisions.
      query: `bool[N, G]`, it belongs to the query phase.
      new_target: `bool[N, G]`, no earlier game of its phase had its target.
      minimal_pair: `int32[N, G]`, for games with a stimulus one value away from the target: how
        many values that dimension has; 0 for others. See `MetaRG.privileged`.
      matches: `bool[N, G]`, the target is among the listener's stimuli.
      value_gap: float `[N, G]`, value of the best stimulus less that of "absent" ("same" less
        "different" where there is one stimulus); NaN for agents without such values.
    """

    valid: jax.Array
    correct: jax.Array
    query: jax.Array
    new_target: jax.Array
    minimal_pair: jax.Array
    matches: jax.Array
    value_gap: jax.Array


def outcome(record: Record) -> Games:
    """Returns the decisions of a step, leaves `[B]`; `correct` is that of
    `accuracy.correct_decisions`.
    """
    info, privileged = record.next_timestep.info, record.timestep.privileged
    slots = privileged["listener_latents"].shape[1]
    kind = privileged["new_target"], privileged["minimal_pair"], privileged["answer"] < slots
    gap = jnp.full(info["decided"].shape, jnp.nan)
    # One value for each stimulus, for "absent" and for waiting; other layouts have no gap.
    if "q_values" in record.aux and record.aux["q_values"].shape[1:] == (slots + 2,):
        values = record.aux["q_values"]
        gap = values[:, :slots].max(-1) - values[:, slots]
    return Games(info["decided"], correct_decisions(record), info["query"], *kind, gap)


def play_games(
    key: jax.Array, vec: VectorEnv, agent: Agent, params: ArrayTree, env_params: ArrayTree = None
) -> Games:
    """Plays an episode on every instance and records each game's outcome.

    The number per instance is fixed, so long episodes count as often as they occur.

    Args:
      key: a typed key.
      vec: a batch of `MetaRG`, one episode a trial, with `privileged=True`.
      agent: the agent. `agents.combinators.with_memory_reset` wipes its memory, for an ablation.
      params: its parameters.
      env_params: distribution over tasks; the batch's own if None.

    Returns:
      The games; G is the environment's `max_games`.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("MetaRG-v0")
      >>> vec = VectorEnv(env, 4, privileged=True)
      >>> games = lambda key: play_games(key, vec, random_agent(env), ())
      >>> jax.eval_shape(games, jax.random.key(0)).correct.shape == (4, env.max_games)
      True
    """
    env = vec.env
    assert isinstance(env, MetaRG)

    def game(record: Record) -> jax.Array:
        info = record.next_timestep.info
        return jnp.where(info["decided"], info["game"], env.max_games)

    played = play(
        vec,
        agent,
        params,
        start_rollout(key, vec, agent, env_params),
        max_steps=int(env.horizon()),
        keep=outcome,
        slot=game,
        slots=env.max_games,
    )
    return jax.tree.map(lambda x: x[:, 0], played.records)


class GameAccuracy(NamedTuple):
    """Accuracies in both phases, and in the query games that are hardest to get right by luck.

    Attributes:
      query: in the query phase; the paper's ZSCT accuracy is `query.by_episode`.
      support: in the support phase.
      new: in query games whose target no earlier query game had, so that neither its message nor
        its stimulus has been seen.
      minimal: in query games in which a stimulus is one value away from the target. Wherever
        there are no distractors, these are non-matches.
    """

    query: PhaseAccuracy
    support: PhaseAccuracy
    new: PhaseAccuracy
    minimal: PhaseAccuracy


def game_accuracy(games: Games) -> GameAccuracy:
    """Returns the accuracies of one agent's games, leaves `[N, G]`; jittable and vmappable."""
    query = games.valid & games.query
    return GameAccuracy(
        *zsct_accuracy(games.correct, games.valid, games.query),
        new=phase_accuracy(games.correct, query & games.new_target),
        minimal=phase_accuracy(games.correct, query & (games.minimal_pair > 0)),
    )


@jax.jit
@jax.vmap
def accuracy_by_seed(games: Games) -> GameAccuracy:
    """Accuracies of many seeds at once: leaves `[S, N, G]` to leaves `[S]`."""
    return game_accuracy(games)


def probe_metrics(games: Games) -> dict[str, np.ndarray]:
    """Returns the logged metrics of the games of all seeds."""
    accuracies = accuracy_by_seed(games)
    metrics = {
        "query_accuracy": accuracies.query.by_game,
        "support_accuracy": accuracies.support.by_game,
    }
    return {name: np.asarray(values) for name, values in metrics.items()}


def pair_accuracies(games: Games, values: Iterable[int]) -> list[list[float]]:
    """Returns each seed's accuracy in query games, `[1 + len(values)][S]`: matches, then pairs.

    Args:
      games: leaves `[S, N, G]`.
      values: minimal pairs are told apart by how many values the dimension has; NaN where there
        are none.
    """
    query = games.valid & games.query
    kinds = [games.matches, *(games.minimal_pair == value for value in values)]
    return [
        [
            float(np.mean(right[counts])) if counts.any() else np.nan
            for right, counts in zip(games.correct, query & kind, strict=True)
        ]
        for kind in kinds
    ]


def pair_aucs(games: Games, values: Iterable[int]) -> list[list[float]]:
    """Returns each seed's area under the ROC curve of the value gap, `[len(values)][S]`.

    It is how often a match has a larger gap than a minimal pair: the information of the agent,
    wherever its threshold lies. Arguments as for `pair_accuracies`.
    """
    query = games.valid & games.query
    return [
        [
            rank_auc(gap[counts & matches], gap[counts & pairs])
            for gap, counts, matches, pairs in zip(
                games.value_gap, query, games.matches, games.minimal_pair == value, strict=True
            )
        ]
        for value in values
    ]


def right_or_wrong(games: Games) -> np.ndarray:
    """Returns the decisions, float `[..., G]`; NaN for games that were not played."""
    return np.where(games.valid, games.correct, np.nan)
