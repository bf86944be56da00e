"""Returns of whole episodes, and one episode to look at."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.environment import Environment
from gpicljax.interface import Agent
from gpicljax.rollout import RolloutState, start_rollout
from gpicljax.vector import VectorEnv


class EpisodeReturns(NamedTuple):
    """Episodes and how they ended; leaves `[N]`, trial by trial.

    Attributes:
      returns: float, the undiscounted sum of the rewards.
      lengths: int32, steps.
      terminated: bool, the episode came to its end.
      truncated: bool, the environment cut it off.
    """

    returns: jax.Array
    lengths: jax.Array
    terminated: jax.Array
    truncated: jax.Array

    @property
    def cut(self) -> jax.Array:
        """`bool[N]`: neither; the evaluation's own limit came first."""
        return ~(self.terminated | self.truncated)


def episode_returns(
    key: jax.Array,
    env: Environment,
    agent: Agent,
    params: Any,
    *,
    episodes: int,
    max_steps: int,
    episodes_per_trial: int = 1,
    env_params: Any = None,
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

    Returns:
      The episodes.

    Raises:
      ValueError: if a count is below 1, `episodes` is no multiple, or there are several agents.
    """
    if env.num_agents is not None:
        raise ValueError(f"env = {env.name} has {env.num_agents} agents: one is needed")
    if min(episodes, max_steps, episodes_per_trial) < 1 or episodes % episodes_per_trial:
        raise ValueError(
            f"episodes = {episodes}, max_steps = {max_steps}, episodes_per_trial = "
            f"{episodes_per_trial}: at least 1, and whole trials, are needed"
        )
    trials = episodes // episodes_per_trial
    # Nobody starts a new trial: those that are through play on, uncounted, on the task they have.
    vec = VectorEnv(env, trials, resets="synchronous", steps_per_trial=max_steps + 1)
    start_key, key = jax.random.split(key)
    state = start_rollout(start_key, vec, agent, env_params)
    instances = jnp.arange(trials)
    shape = (trials, episodes_per_trial)
    blank = EpisodeReturns(
        jnp.zeros(shape, state.timestep.reward.dtype),
        jnp.zeros(shape, jnp.int32),
        jnp.zeros(shape, bool),
        jnp.zeros(shape, bool),
    )

    def unfinished(loop: tuple[jax.Array, RolloutState, EpisodeReturns]) -> jax.Array:
        time, state, _ = loop
        through = (state.vstate.episode + state.timestep.last) >= episodes_per_trial
        return ~through.all() & (time < max_steps)

    def body(
        loop: tuple[jax.Array, RolloutState, EpisodeReturns],
    ) -> tuple[jax.Array, RolloutState, EpisodeReturns]:
        time, (vstate, timestep, carry), played = loop
        action, _, carry = agent.act(jax.random.fold_in(key, time), params, carry, timestep)
        vstate, following = vec.step(vstate, action)
        # The step into the next episode has no action of its own. Episodes beyond the last one that
        # counts have no place in the tables: their writes are dropped.
        place = instances, vstate.episode
        played = EpisodeReturns(
            played.returns.at[place].add(following.reward, mode="drop"),
            played.lengths.at[place].add(~following.episode_start, mode="drop"),
            played.terminated.at[place].max(following.terminated, mode="drop"),
            played.truncated.at[place].max(following.truncated, mode="drop"),
        )
        return time + 1, RolloutState(vstate, following, carry), played

    loop = jnp.zeros((), jnp.int32), state, blank
    played = jax.lax.while_loop(unfinished, body, loop)[-1]
    return jax.tree.map(lambda x: x.reshape(-1), played)


class Episode(NamedTuple):
    """One episode, step by step.

    Attributes:
      task: its task.
      states: leaves `[max_steps + 1, ...]`; those after the episode's end repeat the last one.
      rewards: float `[max_steps]`, on the way to the next state; 0 after the end.
      length: `int32[]`, steps.
    """

    task: Any
    states: Any
    rewards: jax.Array
    length: jax.Array


def record_episode(
    key: jax.Array,
    env: Environment,
    agent: Agent,
    params: Any,
    *,
    max_steps: int,
    env_params: Any = None,
) -> Episode:
    """Plays the first episode of a trial and keeps every state of it, for films and the like.

    Args:
      key: a typed key.
      env: an environment for one agent.
      agent: the agent.
      params: its parameters.
      max_steps: length after which the episode is cut off.
      env_params: distribution over tasks; the environment's default if None.
    """
    vec = VectorEnv(env, 1, resets="synchronous", steps_per_trial=max_steps + 1)
    start_key, key = jax.random.split(key)
    state = start_rollout(start_key, vec, agent, env_params)

    def step(loop: tuple[RolloutState, Any], time: jax.Array) -> tuple[Any, Any]:
        (vstate, timestep, carry), over = loop
        action, _, carry = agent.act(jax.random.fold_in(key, time), params, carry, timestep)
        stepped, following = vec.step(vstate, action)
        # After the end nothing moves any more.
        before = jax.tree.map(lambda x: x[0], vstate.state)
        after = jax.tree.map(lambda x: x[0], stepped.state)
        shown = jax.tree.map(lambda a, b: jnp.where(over, a, b), before, after)
        stepped = jax.tree.map(lambda a, b: jnp.where(over, a, b), vstate, stepped)
        kept = shown, jnp.where(over, 0, following.reward[0]), ~over
        return (RolloutState(stepped, following, carry), over | following.last[0]), kept

    first = jax.tree.map(lambda x: x[0], (state.vstate.task, state.vstate.state))
    steps = jnp.arange(max_steps, dtype=jnp.int32)
    _, (states, rewards, going) = jax.lax.scan(step, (state, jnp.zeros((), bool)), steps)
    states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first[1], states)
    return Episode(first[0], states, rewards, going.sum(dtype=jnp.int32))
