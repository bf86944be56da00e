"""Recording of episodes: observations, actions and rewards of an agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from gpicljax import spaces
from gpicljax.checks import check, check_at_least
from gpicljax.environment import Environment
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.interface import Agent, Record
from gpicljax.rollout import play, start_rollout
from gpicljax.systems.mental_modelling.data.episodes import Episodes, check_action_space
from gpicljax.typing import ArrayTree


def recorder(
    env: Environment,
    agent: Agent,
    *,
    environment: str,
    episodes: int,
    max_steps: int,
    env_params: ArrayTree = None,
    jit: Callable[..., Any] = jax.jit,
) -> Callable[[jax.Array, Any, str, str], Episodes]:
    """Returns a function that records an agent's observations, actions and rewards.

    It compiles once for agents that differ in their parameters. The state is what the environment
    shows; its entry `observation` where it sets goals. Actions are kept as environments take them:
    the nearest within the space.

    Args:
      env: the environment, of one player.
      agent: the agent.
      environment: the environment's id.
      episodes: N, each of a task of its own.
      max_steps: T; what is longer is cut, and has the return so far.
      env_params: distribution over tasks; the environment's own if None.
      jit: compiles; a study passes one that refuses what does not fit into memory.

    Returns:
      `(key, params, name, checkpoint) -> Episodes`, of the agent's parameters and name, and a hash
      of its weights and settings, as in `runtime.load_agent(...).info`.

    Raises:
      ValueError: if a count is below 1, or the spaces are none that are asked about.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("BernoulliBandit-v0")
      >>> sizes = {"episodes": 2, "max_steps": 4}
      >>> record = recorder(env, random_agent(env), environment="BernoulliBandit-v0", **sizes)
    """
    check_at_least(1, episodes=episodes, max_steps=max_steps)
    space, observation_space = check_action_space(env.action_space()), env.observation_space()
    goals = isinstance(observation_space, spaces.Dict) and "observation" in observation_space.spaces
    state_space = (
        observation_space["observation"]
        if isinstance(observation_space, spaces.Dict) and goals
        else observation_space
    )
    numbered = isinstance(state_space, spaces.Discrete)
    flat = numbered or (isinstance(state_space, spaces.Box) and len(state_space.shape) == 1)
    expected = "one that shows a vector or a number, or has such an entry 'observation'"
    check(flat, "env", observation_space, expected)
    vec = single_trial_batch(env, episodes, max_steps, params=env_params)

    def recorded_fields(record: Record) -> dict[str, Any]:
        observation = record.timestep.observation
        entries = {
            "states": observation["observation"] if goals else observation,
            "actions": jax.vmap(lambda action: spaces.nearest(space, action))(record.action),
            "rewards": record.next_timestep.reward,
        }
        for entry in ("achieved_goal", "desired_goal"):
            if goals and entry in observation:
                entries[f"{entry}s"] = observation[entry]
        return entries

    @jit
    def play_episodes(key: jax.Array, params: ArrayTree) -> Any:
        state = start_rollout(key, vec, agent)
        played = play(vec, agent, params, state, max_steps=max_steps, keep=recorded_fields)
        return jax.tree.map(lambda x: x[:, 0], (played.records, played.length))

    def record(key: jax.Array, params: ArrayTree, name: str, checkpoint: str) -> Episodes:
        records, length = jax.device_get(play_episodes(key, params))
        return Episodes(
            environment=environment,
            action_space=space,
            length=length,
            returns=records["rewards"].sum(1),
            agents=(name,) * episodes,
            checkpoints=(checkpoint,) * episodes,
            num_states=state_space.n if isinstance(state_space, spaces.Discrete) else None,
            **records,
        )

    return record
