"""Returns of whole episodes, and one episode to look at."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.checks import check, check_at_least
from gpicljax.environment import Environment
from gpicljax.interface import Agent
from gpicljax.rollout import PlayedEpisodes, Record, RolloutState, play, start_rollout
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv


class EpisodeReturns(NamedTuple):
    """Episodes and how they ended; leaves `[N]`, trial by trial.

    Attributes:
      returns: float, the undiscounted sum of the rewards.
      lengths: int32, steps.
      terminated: bool, the episode came to its end.
      truncated: bool, the environment cut it off.

    Example:
      >>> import jax.numpy as jnp
      >>> no = jnp.zeros(2, bool)
      >>> EpisodeReturns(jnp.array([1.0, 0.0]), jnp.array([7, 100]), ~no, no).is_unfinished.tolist()
      [False, False]
    """

    returns: jax.Array
    lengths: jax.Array
    terminated: jax.Array
    truncated: jax.Array

    @property
    def is_unfinished(self) -> jax.Array:
        """`bool[N]`: neither terminated nor truncated; the evaluation's own limit came first."""
        return ~(self.terminated | self.truncated)


def returns_of(played: PlayedEpisodes) -> EpisodeReturns:
    """Returns the returns of episodes whose rewards `rollout.play` kept."""
    by_trial = EpisodeReturns(
        played.records.sum(-1), played.length, played.terminated, played.truncated
    )
    return jax.tree.map(lambda x: x.reshape(-1), by_trial)


def single_trial_batch(
    env: Environment,
    trials: int,
    limit: int,
    episodes_per_trial: int = 1,
    *,
    params: ArrayTree = None,
    privileged: bool = False,
) -> VectorEnv:
    """A batch for `rollout.play`, one trial per instance, without the program of further trials.

    Args:
      env: the environment.
      trials: N.
      limit: steps that will be taken at most.
      episodes_per_trial: episodes in a row on one task.
      params: distribution over tasks; the environment's default if None.
      privileged: whether time steps say what is privileged.

    Example:
      >>> import gpicljax
      >>> vec = single_trial_batch(gpicljax.make("CliffWalking-v1"), trials=8, limit=100)
      >>> vec.num_envs, vec.resets
      (8, 'synchronous')
    """
    return VectorEnv(
        env,
        trials,
        episodes_per_trial=episodes_per_trial,
        resets="synchronous",
        steps_per_trial=limit + 1,
        params=params,
        privileged=privileged,
    )


def trial_rewards(
    key: jax.Array,
    env: Environment,
    agent: Agent,
    params: ArrayTree,
    *,
    trials: int,
    steps: int,
    env_params: ArrayTree = None,
    privileged: bool = False,
) -> jax.Array:
    """Returns the rewards of trials of one episode, float `[N, T]`; NaN beyond a trial's end.

    The same key gives the same trials to all agents.

    Args:
      key: a typed key.
      env: an environment for one agent.
      agent: the agent.
      params: its parameters.
      trials: N.
      steps: T, the most of a trial.
      env_params: distribution over tasks; the environment's default if None.
      privileged: whether the agent is told what is privileged.
    """
    vec = single_trial_batch(env, trials, steps, privileged=privileged)
    start = start_rollout(key, vec, agent, env_params)
    played = play(vec, agent, params, start, max_steps=steps)
    return jnp.where(jnp.arange(steps) < played.length[:, :1], played.records[:, 0], jnp.nan)


def episode_returns(
    key: jax.Array,
    env: Environment,
    agent: Agent,
    params: ArrayTree,
    *,
    episodes: int,
    max_steps: int,
    episodes_per_trial: int = 1,
    env_params: ArrayTree = None,
    privileged: bool = False,
) -> EpisodeReturns:
    """Plays a fixed number of whole episodes, each trial on an instance and a task of its own.

    Counting what ends first would favour short episodes; here every episode that begins counts. The
    loop ends when all have.

    Args:
      key: a typed key.
      env: an environment for one agent.
      agent: the agent; its memory lasts over a trial.
      params: its parameters.
      episodes: N, a multiple of `episodes_per_trial`.
      max_steps: steps after which a trial is cut off, those from one of its episodes into the next
        included. Episodes that have not begun by then have length 0.
      episodes_per_trial: episodes in a row on one task.
      env_params: distribution over tasks; the environment's default if None. May be traced.
      privileged: whether the agent is shown what is privileged.

    Returns:
      The episodes.

    Raises:
      ValueError: if a count is below 1, `episodes` is no multiple, or there are several agents.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("BanditTwoArmedDeterministicFixed-v0")
      >>> agent = random_agent(env)
      >>> sizes = {"episodes": 6, "max_steps": 3, "episodes_per_trial": 2}
      >>> play_some = jax.jit(lambda key: episode_returns(key, env, agent, (), **sizes))
      >>> play_some(jax.random.key(0)).lengths.tolist()
      [1, 1, 1, 1, 1, 1]
    """
    check(env.num_agents is None, "env", f"{env.name} with {env.num_agents} agents", "one agent")
    check_at_least(1, episodes=episodes, max_steps=max_steps, episodes_per_trial=episodes_per_trial)
    whole = episodes % episodes_per_trial == 0
    check(whole, "episodes", episodes, f"a multiple of episodes_per_trial = {episodes_per_trial}")
    trials = episodes // episodes_per_trial
    vec = single_trial_batch(env, trials, max_steps, episodes_per_trial, privileged=privileged)
    played = play(
        vec,
        agent,
        params,
        start_rollout(key, vec, agent, env_params),
        max_steps=max_steps,
        slot=lambda record: jnp.zeros_like(record.vstate.episode),
        slots=1,
        add=True,
        limit=max_steps,
    )
    return returns_of(played)


class Episode(NamedTuple):
    """One episode, step by step.

    Attributes:
      task: the episode's task.
      states: leaves `[max_steps + 1, ...]`; those after the episode's end repeat the last one.
      actions: leaves `[max_steps, ...]`; zeros after the end.
      rewards: float `[max_steps]` (`[max_steps, A]` for A agents), received on the way to the next
        state; 0 after the end.
      aux: the agent's other outputs, such as Q-values, leaves `[max_steps, ...]`; zeros after the
        end.
      length: `int32[]`, steps.

    Example:
      >>> states, actions = jnp.array([4, 5, 6, 6]), jnp.array([1, 1, 0])
      >>> episode = Episode((), states, actions, jnp.array([0.0, 1.0, 0.0]), {}, jnp.int32(2))
      >>> int(episode.states[episode.length]), float(episode.rewards.sum())
      (6, 1.0)
    """

    task: Any
    states: Any
    actions: Any
    rewards: jax.Array
    aux: Any
    length: jax.Array


def keep_episode_step(record: Record) -> tuple[Any, ...]:
    """Returns what `first_episode` needs of a step, as `keep` of `rollout.play`."""
    return record.next_vstate.state, record.action, record.next_timestep.reward, record.aux


def first_episode(start: RolloutState, played: PlayedEpisodes, episodes: int = 1) -> Episode:
    """Returns the first episode that `rollout.play` kept with `keep_episode_step`, step by step.

    Args:
      start: before the first step.
      played: the episodes, with what was kept of them.
      episodes: how many of the first trial's episodes are told one behind the other, as if they
        were one. A later episode's first state is left out.
    """
    task = jax.tree.map(lambda x: x[0], start.vstate.task)
    was_taken = jnp.arange(played.records[2].shape[2]) < played.length[0, :episodes, None]
    # The steps that were taken first, in their order; behind them what an episode did not need.
    order = jnp.argsort(~was_taken.reshape(-1), stable=True)

    def in_a_row(x: jax.Array) -> jax.Array:
        x = x[0, :episodes]
        return x.reshape(-1, *x.shape[2:])[order]

    after, actions, rewards, aux = jax.tree.map(in_a_row, played.records)
    length = was_taken.sum(dtype=jnp.int32)
    shown = jnp.minimum(jnp.arange(rewards.shape[0] + 1), length)
    states = jax.tree.map(
        lambda first, later: jnp.concatenate([first[:1], later])[shown], start.vstate.state, after
    )
    return Episode(task, states, actions, rewards, aux, length)


def record_episode(
    key: jax.Array,
    env: Environment,
    agent: Agent,
    params: ArrayTree,
    *,
    max_steps: int,
    env_params: ArrayTree = None,
    privileged: bool = False,
) -> Episode:
    """Plays the first episode of a trial and keeps all of it, for films and pages.

    Args:
      key: a typed key.
      env: the environment.
      agent: the agent.
      params: its parameters.
      max_steps: length after which the episode is cut off.
      env_params: distribution over tasks; the environment's default if None.
      privileged: whether the agent is shown what is privileged.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("CliffWalking-v1")
      >>> def record(key):
      ...     return record_episode(key, env, random_agent(env), (), max_steps=20)
      >>> episode = jax.eval_shape(record, jax.random.key(0))
      >>> jax.tree.leaves(episode.states)[0].shape, episode.rewards.shape
      ((21,), (20,))
    """
    vec = single_trial_batch(env, 1, max_steps, privileged=privileged)
    start = start_rollout(key, vec, agent, env_params)
    played = play(vec, agent, params, start, max_steps=max_steps, keep=keep_episode_step)
    return first_episode(start, played)
