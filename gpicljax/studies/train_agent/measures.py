"""Measures of `train_agent.py`: whole episodes on fresh tasks, and one of them to show."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gpicljax import agents, spaces
from gpicljax.agents.combinators import select_agent, with_params
from gpicljax.environment import Environment
from gpicljax.envs._bandit import Bandit
from gpicljax.evaluation.returns import (
    Episode,
    EpisodeReturns,
    first_episode,
    keep_episode_step,
    returns_of,
    single_trial_batch,
)
from gpicljax.interface import Agent
from gpicljax.rollout import Record, play, start_rollout
from gpicljax.runs.distributed import log_once
from gpicljax.task_set import tasks_vary
from gpicljax.typing import ArrayTree


class Evaluation(NamedTuple):
    """Trials that were played side by side.

    Attributes:
      episodes: results of the episodes, trial by trial.
      look: the first of them, leaves `[1, ...]`; of a bandit all of the first trial's, as if they
        were one. None if it is not asked for.
      varied: `bool[1]`, whether the trials had different tasks.
      regrets: of bandits, float `[N, E, T]`, of every pull: how much more the best arm pays on
        average; 0 beyond an episode's end. None elsewhere.
    """

    episodes: EpisodeReturns
    look: Episode | None
    varied: jax.Array
    regrets: jax.Array | None


def is_bandit(env: Environment) -> bool:
    """Returns whether there is nothing but arms, and `info["regret"]` has the regret of a pull."""
    arms, observations = env.action_space(), env.observation_space()
    if not isinstance(arms, spaces.Discrete) or env.num_agents is not None:
        return False
    number = (
        isinstance(observations, spaces.Box) and math.prod(observations.shape) == 1
    )  # how late it is
    if not number and observations != spaces.Discrete(1):
        return False

    def pull(key: jax.Array) -> Any:
        task = env.sample_task(key, env.default_params)
        return env.transition(key, env.initial(key, task), arms.sample(key), task)[-1]

    return "regret" in jax.eval_shape(pull, jax.random.key(0))


def arm_means(env: Environment, task: ArrayTree) -> np.ndarray | None:
    """Returns the mean reward of each arm of a bandit, float `[A]`; None without known means."""
    return np.asarray(env.means(task)) if isinstance(env, Bandit) else None


def make_evaluator(
    env: Environment,
    agents: Sequence[Agent],
    *,
    trials: int,
    episodes_per_trial: int,
    limit: int,
    longest: int,
    look: bool,
    bandit: bool,
) -> Callable[..., Evaluation]:
    """Returns a measure of all agents, one compiled program for every distribution over tasks.

    Args:
      env: the environment.
      agents: the trained one, whose parameters are given, and others without parameters.
      trials: N, played side by side.
      episodes_per_trial: E.
      limit: steps after which a trial is cut off.
      longest: T, the longest episode.
      look: whether the first episode is kept, of a bandit the first trial.
      bandit: whether regrets are, see `is_bandit`.

    Returns:
      `(key, params, cell, which, env_params) -> Evaluation`. The tasks depend on the key alone.
    """
    vec = single_trial_batch(env, trials, limit, episodes_per_trial)

    def stored_fields(record: Record) -> Any:
        after = record.next_timestep
        regret = after.info["regret"] if bandit else None
        return after.reward, regret, keep_episode_step(record) if look else None

    def evaluate_agent(
        key: jax.Array, params: ArrayTree, cell: ArrayTree, number: jax.Array, env_params: ArrayTree
    ) -> Evaluation:
        del cell
        learner, *others = agents
        agent = select_agent([learner, *(with_params(other, ()) for other in others)], number)
        start = start_rollout(key, vec, agent, env_params)
        played = play(vec, agent, params, start, max_steps=longest, limit=limit, keep=stored_fields)
        rewards, regrets, episode_steps = played.records
        first = None
        if look:
            episode_count = episodes_per_trial if bandit else 1
            first = first_episode(start, played._replace(records=episode_steps), episode_count)
            first = jax.tree.map(lambda x: x[None], first)
        episodes = returns_of(played._replace(records=rewards))
        return Evaluation(episodes, first, tasks_vary(start.vstate.task)[None], regrets)

    return evaluate_agent


def probe_metrics(algo: str, forgets: bool) -> Callable[[Evaluation], dict[str, Any]]:
    """Returns the metrics of the log; without a memory, it notes once that tasks vary."""
    is_noted = not forgets

    def metrics(played: Evaluation) -> dict[str, Any]:
        nonlocal is_noted
        if not is_noted and np.any(played.varied):
            log_once(
                f"note: tasks vary and {algo} has no memory: what tells tasks apart has to be "
                "seen at once. Memories: "
                + ", ".join(n for n, a in agents.CATALOGUE.items() if a.remembers)
            )
            is_noted = True
        episodes = played.episodes
        return {"return": episodes.returns.mean(1), "length": episodes.lengths.mean(1)}

    return metrics
