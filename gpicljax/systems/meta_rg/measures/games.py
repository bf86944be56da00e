"""Meta-Referential Games by position in their episode: a function of recorded episodes."""

from __future__ import annotations

from typing import NamedTuple

import jax

from gpicljax.interface import Agent
from gpicljax.rollout import Record, play, start_rollout
from gpicljax.systems.meta_rg.measures.accuracy import judged
from gpicljax.systems.meta_rg.measures.zsct import ZSCTAccuracy, zsct_accuracy
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv


class Games(NamedTuple):
    """The games of `N = num_envs * episodes_per_env` episodes, by position in their episode.

    Attributes:
      valid: `bool[N, G]`, the game was played.
      correct: `bool[N, G]`; `[N, G, R]` for an agent that reports R decisions.
      query: `bool[N, G]`, it belongs to the query phase.
    """

    valid: jax.Array
    correct: jax.Array
    query: jax.Array


def outcome(record: Record) -> Games:
    """What a step decided, leaves `[B]`; `correct` as `accuracy.judged` has it."""
    info = record.next_timestep.info
    return Games(info["decided"], judged(record), info["query"])


def play_games(
    key: jax.Array,
    vec: VectorEnv,
    agent: Agent,
    params: ArrayTree,
    *,
    max_games: int,
    max_steps: int,
    episodes_per_env: int = 1,
    env_params: ArrayTree = None,
) -> Games:
    """Plays a fixed number of episodes on every instance and records each game's outcome.

    The number per instance is fixed, so long episodes count as often as they occur.

    Args:
      key: a typed key.
      vec: the batch of environments, one episode a trial; `privileged=True` for agents that read
        it, and for those that report `decisions` (see `accuracy.judged`).
      agent: the agent. `agents.combinators.with_memory_reset` wipes its memory, for an ablation.
      params: its parameters.
      max_games: G.
      max_steps: longest episode; the loop ends when all episodes have.
      episodes_per_env: episodes of each instance.
      env_params: distribution over tasks; the batch's own if None.

    Returns:
      The games.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("MetaRG-v0")
      >>> vec = VectorEnv(env, 4)
      >>> def games(key):
      ...     return play_games(key, vec, random_agent(env), (), max_games=64, max_steps=64)
      >>> jax.eval_shape(games, jax.random.key(0)).correct.shape
      (4, 64)
    """

    def game(record: Record) -> jax.Array:
        info = record.next_timestep.info
        return jax.numpy.where(info["decided"], info["game"], max_games)

    played = play(
        vec,
        agent,
        params,
        start_rollout(key, vec, agent, env_params),
        max_steps=max_steps,
        trials=episodes_per_env,
        keep=outcome,
        slot=game,
        slots=max_games,
    )
    return jax.tree.map(lambda x: x[:, 0], played.records)


@jax.jit
@jax.vmap
def accuracy_by_seed(games: Games) -> ZSCTAccuracy:
    """Accuracies of many seeds at once: leaves `[S, N, G]` to leaves `[S]`.

    Example:
      >>> yes = jax.numpy.ones((3, 2, 4), bool)
      >>> accuracy_by_seed(Games(valid=yes, correct=yes, query=~yes)).support.by_game.tolist()
      [1.0, 1.0, 1.0]
    """
    return zsct_accuracy(games.correct, games.valid, games.query)
