"""One step of an agent in its environments, and the two drivers that are traced.

`rollout` makes a fixed number of steps, `play` so many whole trials.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.batching import any_across_vmap
from gpicljax.checks import check_at_least
from gpicljax.interface import Agent, Record, TimeStep
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv, VectorState

Keep = Callable[[Record], Any]
"""What is to be kept of a step, leaves `[B, ...]`; what is not kept is not computed twice."""


class RolloutState(NamedTuple):
    """The state of a rollout: environments, the time step to act on, the agent's memory.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.bandits import ucb1
      >>> env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
      >>> vec = gpicljax.VectorEnv(env, 8, resets="fresh")
      >>> start = lambda key: start_rollout(key, vec, ucb1(env.action_space()))
      >>> state = jax.eval_shape(start, jax.random.key(0))
      >>> state.timestep.reward.shape, state.carry.counts.shape
      ((8,), (8, 2))
    """

    vstate: VectorState
    timestep: TimeStep
    carry: Any


def renew_tasks(vec: VectorEnv, state: Any) -> Any:
    """Returns a trainer's state in which some of the next tasks are new, see `VectorEnv.renew`."""
    vstate, timestep = vec.renew(state.rollout.vstate, state.rollout.timestep)
    rollout = state.rollout._replace(vstate=vstate, timestep=timestep)
    return dataclasses.replace(state, rollout=rollout)


def start_rollout(
    key: jax.Array, vec: VectorEnv, agent: Agent, env_params: ArrayTree = None
) -> RolloutState:
    """Starts the environments and the agent's memory.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
      >>> vec = gpicljax.VectorEnv(env, 8, resets="fresh")
      >>> start = lambda key: start_rollout(key, vec, random_agent(env))
      >>> state = jax.eval_shape(start, jax.random.key(0))
      >>> state.timestep.observation.shape
      (8, 1)
    """
    vstate, timestep = vec.init(key, env_params)
    return RolloutState(vstate, timestep, agent.initial_carry(vec.num_envs))


def agent_step(
    vec: VectorEnv, agent: Agent, params: ArrayTree, state: RolloutState
) -> tuple[RolloutState, Record]:
    """The agent acts once in every instance.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
      >>> vec, agent = gpicljax.VectorEnv(env, 8, resets="fresh"), random_agent(env)
      >>> def first_step(key):
      ...     return agent_step(vec, agent, (), start_rollout(key, vec, agent))
      >>> state, record = jax.eval_shape(first_step, jax.random.key(0))
      >>> record.action.shape
      (8,)
    """
    vstate, timestep, carry = state
    action, aux, carry = agent.act(vec.choice_keys(vstate), params, carry, timestep)
    next_vstate, next_timestep = vec.step(vstate, action)
    record = Record(vstate, timestep, action, aux, next_vstate, next_timestep)
    return RolloutState(next_vstate, next_timestep, carry), record


def rollout(
    vec: VectorEnv,
    agent: Agent,
    params: ArrayTree,
    state: RolloutState,
    length: int,
    keep: Keep = lambda record: (record.timestep, record.action, record.aux),
) -> tuple[RolloutState, Any]:
    """Lets an agent act for `length` steps, in one `lax.scan`.

    Args:
      vec: the batch of environments.
      agent: the agent.
      params: the agent's parameters.
      state: where to go on from.
      length: steps.
      keep: what to stack of each step; time step, action and aux by default.

    Returns:
      The state to go on from, and what was kept with leaves `[length, B, ...]`.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
      >>> vec, agent = gpicljax.VectorEnv(env, 8, resets="fresh"), random_agent(env)
      >>> @jax.jit
      ... def some(key):
      ...     start = start_rollout(key, vec, agent)
      ...     return rollout(vec, agent, (), start, 5, lambda record: record.next_timestep.reward)
      >>> state, rewards = some(jax.random.key(0))
      >>> rewards.shape
      (5, 8)
    """

    def body(state: RolloutState, _: None) -> tuple[RolloutState, Any]:
        state, record = agent_step(vec, agent, params, state)
        return state, keep(record)

    return jax.lax.scan(body, state, None, length)


class PlayedEpisodes(NamedTuple):
    """Whole episodes, trial by trial: N trials of E episodes of up to T steps.

    Attributes:
      records: what was kept of every step, leaves `[N, E, T, ...]`; zeros beyond an episode's end.
      length: `int32[N, E]`, steps; 0 for an episode that did not begin.
      terminated: `bool[N, E]`, the episode came to its end.
      truncated: `bool[N, E]`, the environment cut the episode off. Where both are False, the
        episode was longer than T, or had no time to end.

    Example:
      >>> rewards, yes = jnp.array([[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]]), jnp.ones((1, 2), bool)
      >>> played = PlayedEpisodes(rewards, jnp.array([[1, 3]]), terminated=yes, truncated=~yes)
      >>> played.records.sum(-1).tolist()  # returns of two episodes of one trial
      [[1.0, 1.0]]
    """

    records: Any
    length: Any
    terminated: Any
    truncated: Any


def play(
    vec: VectorEnv,
    agent: Agent,
    params: ArrayTree,
    state: RolloutState,
    *,
    max_steps: int,
    trials: int = 1,
    keep: Keep = lambda record: record.next_timestep.reward,
    slot: Callable[[Record], jax.Array] | None = None,
    slots: int | None = None,
    add: bool = False,
    limit: int | None = None,
) -> PlayedEpisodes:
    """Lets an agent act until every instance has played so many whole trials.

    The number of trials per instance is fixed, so that long episodes count as often as they occur;
    counting what ends first would favour short ones. The loop ends when all trials have.

    With one trial each, `resets="synchronous"` (and `steps_per_trial` beyond what is played) saves
    the program that draws further tasks: finished instances keep stepping on their task,
    unrecorded.

    Args:
      vec: the batch of environments.
      agent: the agent.
      params: the agent's parameters.
      state: from `start_rollout`: all trials begin here.
      max_steps: T, the longest episode to be recorded.
      trials: of each instance.
      keep: what to record of a step; its reward by default.
      slot: `record -> int32[B]`, where on the last axis of the records a step belongs; out of
        range, it is not recorded. By default its number within the episode.
      slots: size of that axis; `max_steps` by default.
      add: whether steps in one slot are added up, as for a return; else the last one counts.
      limit: steps after which the loop ends at the latest, those from one episode into the next
        included; by default as many as the longest episodes to be recorded need.

    Returns:
      The trials, N = `num_envs * trials`, those of an instance one after the other.

    Raises:
      ValueError: if a count is below 1.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
      >>> vec = gpicljax.VectorEnv(env, 8, resets="fresh", params=env.make_params(horizon=5))
      >>> agent = random_agent(env)
      >>> @jax.jit
      ... def episodes(key):
      ...     return play(vec, agent, (), start_rollout(key, vec, agent), max_steps=5)
      >>> played = episodes(jax.random.key(0))
      >>> played.records.shape, played.length.tolist()[0]
      ((8, 1, 5), [5])
    """
    size = max_steps if slots is None else slots
    check_at_least(1, max_steps=max_steps, trials=trials, slots=size)
    instances, episodes = jnp.arange(vec.num_envs), vec.episodes_per_trial
    shape = (vec.num_envs, trials, episodes)

    def step(state: RolloutState) -> tuple[RolloutState, Record, Any]:
        state, record = agent_step(vec, agent, params, state)
        return state, record, keep(record)

    kept = jax.eval_shape(step, state)[2]
    zeros = lambda x: jnp.zeros((*shape, size, *x.shape[1:]), x.dtype)  # noqa: E731
    false = jnp.zeros(shape, bool)
    played = PlayedEpisodes(jax.tree.map(zeros, kept), jnp.zeros(shape, jnp.int32), false, false)
    none = jnp.zeros(vec.num_envs, jnp.int32)
    if limit is None:
        limit = trials * episodes * (max_steps + 1)

    def is_unfinished(loop: tuple[jax.Array, RolloutState, jax.Array, PlayedEpisodes]) -> jax.Array:
        time, _, trial, _ = loop
        # Elsewhere steps go on, unrecorded, rather than that all records are copied at each.
        return any_across_vmap((trial < trials).any()) & (time < limit)

    def body(loop: tuple[jax.Array, RolloutState, jax.Array, PlayedEpisodes]) -> Any:
        time, state, trial, played = loop
        state, record, kept = step(state)
        episode, after = record.vstate.episode, record.next_timestep
        acted = ~record.timestep.last
        # Writes beyond the last trial, episode or slot are dropped. The step into the next episode
        # has no action of its own.
        number = played.length.at[instances, trial, episode].get(mode="fill", fill_value=0)
        counts = acted & (number < max_steps)
        row = instances, jnp.where(counts, trial, trials), episode
        place = *row, number if slot is None else slot(record)

        def write(table: jax.Array, x: jax.Array) -> jax.Array:
            at = table.at[place]
            return at.add(x, mode="drop") if add else at.set(x, mode="drop")

        played = PlayedEpisodes(
            records=jax.tree.map(write, played.records, kept),
            length=played.length.at[row].add(1, mode="drop"),
            terminated=played.terminated.at[row].max(after.terminated, mode="drop"),
            truncated=played.truncated.at[row].max(after.truncated, mode="drop"),
        )
        over = acted & after.last & (episode + 1 >= episodes)
        return time + 1, state, trial + over, played

    loop = jnp.zeros((), jnp.int32), state, none, played
    played = jax.lax.while_loop(is_unfinished, body, loop)[-1]
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), played)
