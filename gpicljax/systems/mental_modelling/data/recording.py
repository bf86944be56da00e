"""Episodes are recorded: an agent acts, and what it saw, did and was paid is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from gpicljax import spaces
from gpicljax.checks import check, check_at_least
from gpicljax.environment import Environment
from gpicljax.interface import Agent, Record
from gpicljax.rollout import play, start_rollout
from gpicljax.systems.mental_modelling.data.episodes import Episodes, checked_actions
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv


def record_episodes(
    key: jax.Array,
    env: Environment,
    agent: Agent,
    params: ArrayTree,
    *,
    environment: str,
    name: str,
    checkpoint: str = "",
    episodes: int,
    max_steps: int,
    env_params: ArrayTree = None,
) -> Episodes:
    """Lets an agent act and keeps what it saw, did and was paid.

    The state is what the environment shows; its entry `observation` where it sets goals. Actions
    are kept as environments take them: the nearest within the space.

    Args:
      key: a typed key.
      env: the environment, of one player.
      agent: the agent.
      params: its parameters.
      environment: the environment's id.
      name: the agent's.
      checkpoint: hash of its weights and settings, as in `runtime.load_agent(...).info`.
      episodes: N, each of a task of its own.
      max_steps: T; what is longer is cut, and has the return so far.
      env_params: distribution over tasks; the environment's own if None.

    Raises:
      ValueError: if a count is below 1, or the spaces are none that are asked about.
    """
    record = recorder(
        env,
        agent,
        environment=environment,
        episodes=episodes,
        max_steps=max_steps,
        env_params=env_params,
    )
    return record(key, params, name, checkpoint)


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
    """`record_episodes` for many agents that differ in their parameters: it is compiled once.

    Args:
      env: see `record_episodes`, as for all else.
      agent: likewise.
      environment: likewise.
      episodes: likewise.
      max_steps: likewise.
      env_params: likewise.
      jit: compiles; a study passes one that refuses what does not fit into memory.

    Returns:
      `(key, params, name, checkpoint) -> Episodes`.

    Raises:
      ValueError: likewise.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("BernoulliBandit-v0")
      >>> sizes = {"episodes": 2, "max_steps": 4}
      >>> record = recorder(env, random_agent(env), environment="BernoulliBandit-v0", **sizes)
    """
    check_at_least(1, episodes=episodes, max_steps=max_steps)
    space, shown = checked_actions(env.action_space()), env.observation_space()
    goals = isinstance(shown, spaces.Dict) and "observation" in shown.spaces
    seen = shown["observation"] if isinstance(shown, spaces.Dict) and goals else shown
    numbered = isinstance(seen, spaces.Discrete)
    flat = numbered or (isinstance(seen, spaces.Box) and len(seen.shape) == 1)
    accepted = "one that shows a vector or a number, or has such an entry 'observation'"
    check(flat, "env", shown, accepted)
    vec = VectorEnv(
        env, episodes, resets="synchronous", steps_per_trial=max_steps + 1, params=env_params
    )

    def keep(record: Record) -> dict[str, Any]:
        sight = record.timestep.observation
        entries = {
            "states": sight["observation"] if goals else sight,
            "actions": jax.vmap(lambda action: spaces.nearest(space, action))(record.action),
            "rewards": record.next_timestep.reward,
        }
        for entry in ("achieved_goal", "desired_goal"):
            if goals and entry in sight:
                entries[f"{entry}s"] = sight[entry]
        return entries

    @jit
    def compiled(key: jax.Array, params: ArrayTree) -> Any:
        state = start_rollout(key, vec, agent)
        done = play(vec, agent, params, state, max_steps=max_steps, keep=keep)
        return jax.tree.map(lambda x: x[:, 0], (done.records, done.length))

    def record(key: jax.Array, params: ArrayTree, name: str, checkpoint: str) -> Episodes:
        records, length = jax.device_get(compiled(key, params))
        return Episodes(
            environment=environment,
            action_space=space,
            length=length,
            returns=records["rewards"].sum(1),
            agents=(name,) * episodes,
            checkpoints=(checkpoint,) * episodes,
            num_states=seen.n if isinstance(seen, spaces.Discrete) else None,
            **records,
        )

    return record
