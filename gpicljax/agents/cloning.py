"""Behaviour cloning in context: a recurrent policy learns to name a teacher's action.

The teacher sees what the agent may not (the task, the whole state); the agent sees a history of
observations, actions and rewards. Imitating the one from the other, it has to infer the task.
Actions played are a mixture of both (Ross et al., 2011, "DAgger"), so that the agent learns in the
situations that it brings about itself.

The environments may be spread over devices, each with its part of the batch: `shard` says how.
Choices are drawn from each instance's own keys, so that the result does not depend on that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct

from gpicljax import spaces
from gpicljax.agents.acting import AgentCarry, agent_input, initial_memory
from gpicljax.agents.optimisation import definite
from gpicljax.interface import Agent, TimeStep
from gpicljax.networks.contract import Network
from gpicljax.networks.policies import legal_actions
from gpicljax.networks.q_network import AgentInput
from gpicljax.rollout import RolloutState, start_rollout
from gpicljax.vector import VectorEnv

Metrics = dict[str, jax.Array]
Teacher = Callable[[Any, Any], jax.Array]
"""`(state, task) -> int32[]`, the action to be imitated; unbatched."""


@struct.dataclass
class CloningHParams:
    """Hyper-parameters that may be traced, e.g. for a vmapped sweep.

    Attributes:
      learning_rate: of Adam.
      max_gradient_norm: clip by global norm.
      teacher_share: probability with which the teacher's action is played instead of the agent's.
    """

    learning_rate: float = 1e-3
    max_gradient_norm: float = 1.0
    teacher_share: float = 0.0


@struct.dataclass
class TrainState:
    """Everything the next update depends on.

    Attributes:
      params: of the network.
      optimiser: state of Adam.
      rollout: environments, current time step, carry.
      hparams: traced hyper-parameters.
      updates: `int32[]`, updates made.
    """

    params: Any
    optimiser: Any
    rollout: RolloutState
    hparams: CloningHParams
    updates: jax.Array


class Cloning(NamedTuple):
    """The trainer: `init` and `update`, jittable and vmappable over seeds.

    Attributes:
      init: `(key, hparams, env_params=None) -> TrainState`.
      update: `TrainState -> (TrainState, metrics)`.
      agent: the agent over `state.params`; it samples its actions.
      partition: `(batch, whole) -> TrainState`: a prefix of the state with `batch` at what belongs
        to single instances and `whole` at what all of them share, such as partition specs.
    """

    init: Callable[..., TrainState]
    update: Callable[[TrainState], tuple[TrainState, Metrics]]
    agent: Agent
    partition: Callable[[Any, Any], TrainState]


def make(
    vec: VectorEnv,
    network: Network,
    teacher: Teacher,
    unroll: int = 32,
    axis: str | None = None,
) -> Cloning:
    """Builds the trainer.

    Args:
      vec: the environments; one agent, discrete actions. With `axis`, one device's part of them
        (`VectorEnv.part`).
      network: outputs `PolicyOutput`.
      teacher: names the action to be imitated.
      unroll: T, steps per update, and of the truncated gradient.
      axis: the mesh axis over which `update` runs inside `shard_map`; gradients are summed over
        it. None outside.

    Returns:
      The trainer. Its metrics are `loss` (nats), `agreement` (share of the steps at which the
      most probable action is the teacher's) and `reward` (mean per step).

    Raises:
      ValueError: if the action space is not discrete or `unroll` is below 1.
    """
    space = vec.env.action_space()
    if not isinstance(space, spaces.Discrete):
        raise ValueError(f"cloning needs one agent with discrete actions, not {space}")
    if unroll < 1:
        raise ValueError(f"unroll = {unroll}: at least 1 is needed")

    def total(x: Any) -> Any:
        return x if axis is None else jax.lax.psum(x, axis)

    def optimiser(hparams: CloningHParams) -> optax.GradientTransformation:
        return optax.chain(
            optax.clip_by_global_norm(hparams.max_gradient_norm),
            optax.adam(hparams.learning_rate),
        )

    def initial_carry(batch: int) -> AgentCarry:
        return initial_memory(network, space, batch)

    def logits_of(
        params: Any, carry: AgentCarry, timestep: TimeStep
    ) -> tuple[jax.Array, AgentInput, Any]:
        """Logits, minus infinity where illegal; what the network read; its carry."""
        inputs = agent_input(space, carry, timestep)
        output, core = network.step(params, carry.core, inputs, timestep.trial_start)
        legal = legal_actions(timestep.observation, space.n)
        return jnp.where(legal, output.logits, -jnp.inf), inputs, core

    def act(
        key: jax.Array, params: Any, carry: AgentCarry, timestep: TimeStep
    ) -> tuple[jax.Array, Any, AgentCarry]:
        logits, _, core = logits_of(params, carry, timestep)
        action = jax.random.categorical(key, logits).astype(jnp.int32)
        return action, {"logits": logits}, AgentCarry(core, action)

    def collect(state: TrainState) -> tuple[RolloutState, Any]:
        def step(rollout: RolloutState, _: None) -> tuple[RolloutState, Any]:
            vstate, timestep, carry = rollout
            label = jax.vmap(teacher)(vstate.state, vstate.task)
            logits, inputs, core = logits_of(state.params, carry, timestep)

            def choose(key: jax.Array, logits: jax.Array, label: jax.Array) -> jax.Array:
                own_key, who_key = jax.random.split(key)
                own = jax.random.categorical(own_key, logits).astype(jnp.int32)
                return jnp.where(
                    jax.random.uniform(who_key) < state.hparams.teacher_share, label, own
                )

            action = jax.vmap(choose)(vec.choice_keys(vstate), logits, label)
            vstate, following = vec.step(vstate, action)
            kept = inputs, timestep.trial_start, label, ~timestep.last, following.reward
            return RolloutState(vstate, following, AgentCarry(core, action)), kept

        return jax.lax.scan(step, state.rollout, None, unroll)

    def update(state: TrainState) -> tuple[TrainState, Metrics]:
        first = state.rollout.carry
        rollout, (inputs, starts, labels, asked, rewards) = collect(state)
        weights = asked / total(asked.sum())

        def loss_fn(params: Any) -> tuple[jax.Array, jax.Array]:
            output, _ = network.unroll(params, first.core, inputs, starts)
            losses = optax.softmax_cross_entropy_with_integer_labels(output.logits, labels)
            return (losses * weights).sum(), ((output.logits.argmax(-1) == labels) * weights).sum()

        # The gradient of this device's part, summed outside: `grad` of a sum that crosses devices
        # would count every device's share once per device.
        (loss, agreement), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
        metrics = {"loss": loss, "agreement": agreement, "reward": (rewards * weights).sum()}
        grads, metrics = total((grads, metrics))
        changes, memory = optimiser(state.hparams).update(grads, state.optimiser, state.params)
        return dataclasses.replace(
            state,
            params=optax.apply_updates(state.params, changes),
            optimiser=memory,
            rollout=rollout,
            updates=state.updates + 1,
        ), metrics

    def init(key: jax.Array, hparams: CloningHParams, env_params: Any = None) -> TrainState:
        hparams = definite(hparams)
        init_key, env_key = jax.random.split(key)
        rollout = start_rollout(env_key, vec, agent, env_params)
        timestep = rollout.timestep
        params = network.init(init_key, agent_input(space, rollout.carry, timestep))
        memory = optimiser(hparams).init(params)
        return TrainState(params, memory, rollout, hparams, jnp.zeros((), jnp.int32))

    def partition(batch: Any, whole: Any) -> TrainState:
        rollout = RolloutState(vec.partition(batch, whole), batch, batch)
        return TrainState(whole, whole, rollout, whole, whole)

    agent = Agent(initial_carry, act)
    return Cloning(init, update, agent, partition)
