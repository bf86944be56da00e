"""What `train_agent.py` measures: whole episodes on fresh tasks, and one of them to look at."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.environment import Environment
from gpicljax.evaluation.returns import EpisodeReturns, one_trial_each, returns_of
from gpicljax.interface import Agent, TimeStep
from gpicljax.rollout import Record, play, start_rollout
from gpicljax.task_set import tasks_vary


class Look(NamedTuple):
    """The first of some episodes, step by step; leaves `[1, ...]`, of no account after its end.

    Attributes:
      task: its task.
      states: leaves `[1, T + 1, ...]`.
    """

    task: Any
    states: Any


class Evaluation(NamedTuple):
    """Trials that were played side by side.

    Attributes:
      episodes: how they ended, trial by trial.
      look: the first of them; None where there is nothing to see.
      varied: `bool[1]`, whether the trials had different tasks.
    """

    episodes: EpisodeReturns
    look: Look | None
    varied: jax.Array


def one_of(agents: Sequence[Agent], which: jax.Array) -> Agent:
    """Of several agents the one of number `which: int32[]`; all have their say, one acts.

    The parameters are those of the first; the others are given none.
    """

    def initial_carry(batch: int) -> tuple[Any, ...]:
        return tuple(agent.initial_carry(batch) for agent in agents)

    def act(keys: jax.Array, params: Any, carry: Any, timestep: TimeStep) -> Any:
        said = [
            agent.act(keys, () if i else params, memory, timestep)
            for i, (agent, memory) in enumerate(zip(agents, carry, strict=True))
        ]
        actions = [action for action, _, _ in said]
        action = jax.tree.map(lambda *each: jnp.stack(each)[which], *actions)
        return action, {}, tuple(memory for _, _, memory in said)

    return Agent(initial_carry, act)


def evaluator(
    env: Environment,
    agents: Sequence[Agent],
    *,
    trials: int,
    episodes_per_trial: int,
    limit: int,
    longest: int,
    to_see: bool,
) -> Callable[..., Evaluation]:
    """A measure of all agents, one compiled program for every distribution over tasks.

    Args:
      env: the environment.
      agents: see `one_of`.
      trials: N, played side by side.
      episodes_per_trial: E.
      limit: steps after which a trial is cut off.
      longest: T, the longest episode.
      to_see: whether states are kept.

    Returns:
      `(key, params, cell, which, env_params) -> Evaluation`. The tasks depend on the key alone.
    """
    vec = one_trial_each(env, trials, limit, episodes_per_trial)

    def keep(record: Record) -> Any:
        return record.next_timestep.reward, record.next_vstate.state if to_see else None

    def some_episodes(
        key: jax.Array, params: Any, cell: Any, which: jax.Array, env_params: Any
    ) -> Evaluation:
        del cell
        agent = one_of(agents, which)
        start = start_rollout(key, vec, agent, env_params)
        played = play(vec, agent, params, start, max_steps=longest, limit=limit, keep=keep)
        rewards, states = played.records
        episodes = returns_of(played._replace(records=rewards))
        first = functools.partial(jax.tree.map, lambda x: x[:1])
        look = None
        if to_see:
            together = lambda before, after: jnp.concatenate([before[:1], after[0, 0]])[None]  # noqa: E731
            states = jax.tree.map(together, start.vstate.state, states)
            look = Look(first(start.vstate.task), states)
        return Evaluation(episodes, look, tasks_vary(start.vstate.task)[None])

    return some_episodes
