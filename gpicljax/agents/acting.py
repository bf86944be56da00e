"""What agents over a network share: their memory, what they read, how they choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax import spaces
from gpicljax.agents.normalisation import Moments, normalise
from gpicljax.batching import select
from gpicljax.interface import Agent, TimeStep
from gpicljax.networks.contract import Network
from gpicljax.networks.policies import TanhPolicy, legal_actions, no_action
from gpicljax.networks.q_network import AgentInput


class AgentCarry(NamedTuple):
    """The network's carry and the last action, `[B, ...]` (see `policies.no_action`)."""

    core: Any
    last_action: jax.Array


class Params(NamedTuple):
    """What an agent acts with: its network's parameters, and how to scale observations."""

    network: Any
    scale: Moments | None

    def scaled(self, observation: Any) -> Any:
        """The observation `[..., *shape]` as the network reads it."""
        return observation if self.scale is None else normalise(self.scale, observation)


def initial_memory(network: Network, space: spaces.Space, batch: int) -> AgentCarry:
    """The memory of `batch` agents at the start of a trial; `space` is that of actions."""
    return AgentCarry(network.initial_carry(batch), no_action(space, batch))


def agent_input(space: spaces.Space, carry: AgentCarry, timestep: TimeStep) -> AgentInput:
    """What the network reads at a time step `[B]`; the last action of an old trial is forgotten."""
    none = no_action(space, carry.last_action.shape[0])
    last_action = select(timestep.trial_start, none, carry.last_action)
    return AgentInput(timestep.observation, last_action, timestep.reward)


def first_input(space: spaces.Space, observation: Any) -> tuple[AgentInput, jax.Array]:
    """The input of a network without a memory, before which nothing was done.

    Args:
      space: of actions.
      observation: leaves `[N, ...]`.

    Returns:
      The input, and start flags `bool[N]`.
    """
    count = jax.tree.leaves(observation)[0].shape[0]
    nothing = jnp.zeros(count, jnp.result_type(float))
    inputs = AgentInput(observation, no_action(space, count), nothing)
    return inputs, jnp.zeros(count, bool)


def greedy(q_values: jax.Array, legal: jax.Array) -> jax.Array:
    """The legal action of highest value; `float[..., A]`, `bool[..., A]` -> `int32[...]`."""
    return jnp.argmax(jnp.where(legal, q_values, -jnp.inf), axis=-1).astype(jnp.int32)


def q_agent(network: Network, num_actions: int, epsilons: jax.Array | float = 0.0) -> Agent:
    """An epsilon-greedy agent over the legal actions.

    Args:
      network: outputs `QOutput`.
      num_actions: A.
      epsilons: exploration rate, one or `float[B]`; 0 is greedy.

    Returns:
      The agent; its `aux` is a dictionary with the Q-values.
    """
    space = spaces.Discrete(num_actions)

    def act(
        key: jax.Array, params: Any, carry: AgentCarry, timestep: TimeStep
    ) -> tuple[jax.Array, Any, AgentCarry]:
        inputs = agent_input(space, carry, timestep)
        output, core = network.step(params, carry.core, inputs, timestep.trial_start)
        legal = jnp.broadcast_to(
            legal_actions(timestep.observation, num_actions), output.q_values.shape
        )
        action = greedy(output.q_values, legal)
        if not (isinstance(epsilons, float) and epsilons == 0):
            explore_key, choice_key = jax.random.split(key)
            choice = jax.random.categorical(choice_key, jnp.where(legal, 0.0, -jnp.inf))
            explore = jax.random.uniform(explore_key, action.shape) < epsilons
            action = jnp.where(explore, choice.astype(jnp.int32), action)
        return action, {"q_values": output.q_values}, AgentCarry(core, action)

    return Agent(lambda batch: initial_memory(network, space, batch), act)


def box_agent(
    network: Network,
    policy: TanhPolicy,
    choose: Callable[[jax.Array, Any], jax.Array],
    uniform: jax.Array | bool = False,
) -> Agent:
    """An agent with continuous actions within bounds, over `Params`.

    Args:
      network: of the actor.
      policy: over the space of actions.
      choose: `(key, outputs) -> float[B, D]` within [-1, 1].
      uniform: `bool[]`, whether to draw uniformly from the whole space instead.

    Returns:
      The agent; its `aux` is empty.
    """
    space = policy.space

    def act(
        key: jax.Array, params: Params, carry: AgentCarry, timestep: TimeStep
    ) -> tuple[jax.Array, Any, AgentCarry]:
        inputs = agent_input(space, carry, timestep)
        inputs = inputs._replace(observation=params.scaled(inputs.observation))
        outputs, core = network.step(params.network, carry.core, inputs, timestep.trial_start)
        choice_key, uniform_key = jax.random.split(key)
        sample = choose(choice_key, outputs)
        if uniform is not False:
            other = jax.random.uniform(uniform_key, sample.shape, sample.dtype, -1, 1)
            sample = jnp.where(uniform, other, sample)
        action = policy.to_action(sample)
        return action, {}, AgentCarry(core, action)

    return Agent(lambda batch: initial_memory(network, space, batch), act)
