"""Agents made of agents: one that forgets, one of several, several side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.interface import Agent, TimeStep
from gpicljax.typing import ArrayTree


def with_memory_reset(agent: Agent, when: Callable[[TimeStep], jax.Array]) -> Agent:
    """Returns the agent with its memory cleared wherever `when(timestep)`, `bool[B]`: an ablation.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.bandits import ucb1
      >>> agent = ucb1(gpicljax.make("BernoulliBandit-v0").action_space())
      >>> without_memory = with_memory_reset(agent, lambda now: now.reward == now.reward)
    """

    def act(keys: jax.Array, params: ArrayTree, carry: ArrayTree, timestep: TimeStep) -> Any:
        start = timestep.trial_start | when(timestep)
        return agent.act(keys, params, carry, timestep._replace(trial_start=start))

    return agent._replace(act=act)


def with_params(agent: Agent, params: ArrayTree) -> Agent:
    """Returns the agent with parameters of its own, whichever it is given."""

    def act(keys: jax.Array, _: ArrayTree, carry: ArrayTree, timestep: TimeStep) -> Any:
        return agent.act(keys, params, carry, timestep)

    return agent._replace(act=act)


def select_agent(agents: Sequence[Agent], number: jax.Array) -> Agent:
    """Returns the agent of this number, `int32[]`, traced; its `aux` is empty.

    All agents compute an action, with the same parameters, and one is taken.
    """

    def act(
        keys: jax.Array, params: ArrayTree, carry: tuple[ArrayTree, ...], timestep: TimeStep
    ) -> Any:
        pairs = zip(agents, carry, strict=True)
        acted = [agent.act(keys, params, memory, timestep) for agent, memory in pairs]
        action = jax.tree.map(lambda *x: jnp.stack(x)[number], *[result[0] for result in acted])
        return action, {}, tuple(memory for *_, memory in acted)

    return Agent(lambda batch: tuple(agent.initial_carry(batch) for agent in agents), act)


def panel_agent(agents: Sequence[Agent]) -> Agent:
    """Runs several agents on the same episodes: the first acts, `aux` has the decisions of all.

    Where decisions do not change what follows, one pass compares them all.

    Args:
      agents: the agents, with the same parameters (none, for rules).

    Returns:
      The agent; its `aux` has `decisions`, `[B, len(agents), ...]`.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.agents.acting import random_agent
      >>> from gpicljax.rollout import agent_step, start_rollout
      >>> env = gpicljax.make("FrozenLake-v1")
      >>> vec, two = gpicljax.VectorEnv(env, 8), panel_agent([random_agent(env)] * 2)
      >>> def first_step(key):
      ...     return agent_step(vec, two, None, start_rollout(key, vec, two))[1]
      >>> jax.eval_shape(first_step, jax.random.key(0)).aux["decisions"].shape
      (8, 2)
    """

    def act(
        keys: jax.Array, params: ArrayTree, carry: tuple[ArrayTree, ...], timestep: TimeStep
    ) -> Any:
        pairs = zip(agents, carry, strict=True)
        acted = [agent.act(keys, params, memory, timestep) for agent, memory in pairs]
        decisions = jnp.stack([action for action, _, _ in acted], axis=1)
        return decisions[:, 0], {"decisions": decisions}, tuple(memory for *_, memory in acted)

    return Agent(lambda batch: tuple(agent.initial_carry(batch) for agent in agents), act)


def by_block(agents: Sequence[Agent], sizes: Sequence[int]) -> Agent:
    """Runs several agents in one batch, so that one program compares them.

    Args:
      agents: the agents, with the same parameters; those without any are given them, too.
      sizes: how many instances each of them plays; the first agent's come first.

    Returns:
      The agent, for batches of `sum(sizes)` instances; its `aux` is empty.
    """
    ends = np.cumsum(sizes).tolist()
    blocks = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def act(
        keys: jax.Array, params: ArrayTree, carry: tuple[ArrayTree, ...], timestep: TimeStep
    ) -> Any:
        acted = []
        for agent, block, memory in zip(agents, blocks, carry, strict=True):
            inputs = jax.tree.map(lambda x, block=block: x[block], (keys, timestep))
            acted.append(agent.act(inputs[0], params, memory, inputs[1]))
        action = jax.tree.map(lambda *x: jnp.concatenate(x), *[result[0] for result in acted])
        return action, {}, tuple(memory for *_, memory in acted)

    pairs = list(zip(agents, sizes, strict=True))
    return Agent(lambda batch: tuple(agent.initial_carry(size) for agent, size in pairs), act)
