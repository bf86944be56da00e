"""The one rollout that trainers and evaluations share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from gpicljax.interface import Agent, TimeStep
from gpicljax.vector import VectorEnv, VectorState


class Record(NamedTuple):
    """One step of a rollout: what was seen, what was done, what the agent noted."""

    timestep: TimeStep
    action: Any
    aux: Any


class RolloutState(NamedTuple):
    """Where a rollout stands: environments, the time step to act on, the agent's memory."""

    vstate: VectorState
    timestep: TimeStep
    carry: Any


def start_rollout(
    key: jax.Array, vec: VectorEnv, agent: Agent, env_params: Any = None
) -> RolloutState:
    """Starts the environments and the agent's memory."""
    vstate, timestep = vec.init(key, env_params)
    return RolloutState(vstate, timestep, agent.initial_carry(vec.num_envs))


def rollout(
    key: jax.Array,
    vec: VectorEnv,
    agent: Agent,
    params: Any,
    state: RolloutState,
    length: int,
    keep: Callable[[Record], Any] = lambda record: record,
) -> tuple[RolloutState, Any]:
    """Lets an agent act for `length` steps, in one `lax.scan`.

    Args:
      key: a typed key for the agent's choices.
      vec: the batch of environments.
      agent: the agent.
      params: the agent's parameters.
      state: where to go on from.
      length: steps.
      keep: what to stack of each step's `Record`; all of it by default.

    Returns:
      The state to go on from, and the kept records with leaves `[length, B, ...]`.
    """

    def body(state: RolloutState, key: jax.Array) -> tuple[RolloutState, Any]:
        vstate, timestep, carry = state
        action, aux, carry = agent.act(key, params, carry, timestep)
        vstate, following = vec.step(vstate, action)
        return RolloutState(vstate, following, carry), keep(Record(timestep, action, aux))

    return jax.lax.scan(body, state, jax.random.split(key, length))
