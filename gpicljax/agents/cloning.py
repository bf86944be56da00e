"""Behaviour cloning in context: a recurrent policy learns to name a teacher's action.

The teacher sees what the student may not (the task, the whole state: `timestep.privileged`); the
student sees a history of observations, actions and rewards. Imitating the one from the other, it
has to infer the task. Actions played are a mixture of both (Ross et al., 2011, "DAgger"), so that
the student learns in the situations that it brings about itself.

The teacher is an ordinary agent that acts along, with its memory. It sees everything that the
student plays through, and must not take for granted that its own actions are played.

The environments may be spread over devices, each with its part of the batch (`runtime.per_part`).
Choices are drawn from each instance's own keys, so that the result does not depend on that.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from gpicljax import spaces
from gpicljax.agents.acting import AgentCarry, agent_input, initial_memory
from gpicljax.agents.optimisation import adam
from gpicljax.batching import strong
from gpicljax.checks import Rate, Share, check, check_at_least
from gpicljax.interface import Agent, TimeStep, Trainer
from gpicljax.networks.contract import AgentInput, Network
from gpicljax.networks.policies import legal_actions
from gpicljax.rollout import Record, RolloutState, rollout, start_rollout
from gpicljax.vector import VectorEnv

Metrics = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class CloningConfig:
    """Sizes, all static.

    Attributes:
      unroll: T, steps per update, and of the truncated gradient.
    """

    unroll: int = 32

    def __post_init__(self) -> None:
        check_at_least(1, unroll=self.unroll)


@struct.dataclass
class CloningHParams:
    """Hyper-parameters that may be traced, e.g. for a vmapped sweep.

    Attributes:
      learning_rate: of Adam.
      max_gradient_norm: clip by global norm.
      teacher_share: probability with which the teacher's action is played instead of the agent's.
    """

    learning_rate: Rate = 1e-3
    max_gradient_norm: float = 1.0
    teacher_share: Share = 0.0


@struct.dataclass
class TrainState:
    """Everything the next update depends on.

    Attributes:
      params: of the network.
      opt_state: of Adam.
      rollout: environments, current time step, memories of student and teacher.
      hparams: traced hyper-parameters.
      key: a typed key; choices are drawn from the instances' own.
      updates: `int32[]`, updates made.
    """

    params: Any
    opt_state: Any
    rollout: RolloutState
    hparams: CloningHParams
    key: jax.Array
    updates: jax.Array


class Memories(NamedTuple):
    """What both remember: the student's `AgentCarry`, and the teacher's carry."""

    student: AgentCarry
    teacher: Any


class Noted(NamedTuple):
    """What is learnt from a step; leaves `[B, ...]`.

    Attributes:
      inputs: what the student's network read.
      label: `int32[B]`, the teacher's action.
    """

    inputs: AgentInput
    label: jax.Array


def make(
    config: CloningConfig,
    vec: VectorEnv,
    network: Network,
    teacher: Agent,
    axis: str | None = None,
) -> Trainer:
    """Builds the trainer.

    Args:
      config: sizes.
      vec: the environments; one agent, discrete actions; built with `privileged=True` if the
        teacher reads what is privileged. With `axis`, one device's part of them
        (`VectorEnv.part`).
      network: the student's; outputs `PolicyOutput`.
      teacher: whose actions are imitated; an agent without parameters (it is given none).
      axis: the mesh axis over which `update` runs inside `shard_map`; gradients are summed over
        it. None outside.

    Returns:
      The trainer. Its agent, the student, draws its actions, or takes the most probable one if
      greedy. Its metrics are `loss` (nats), `agreement` (share of the steps at which the most
      probable action is the teacher's) and `reward` (mean per step).

    Raises:
      ValueError: if there are several agents or the action space is not discrete.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents import catalogue
      >>> env = gpicljax.make("BernoulliBandit-v0")
      >>> vec = gpicljax.VectorEnv(env, num_envs=4, resets="fresh", privileged=True)
      >>> cloning = catalogue.find("cloning")
      >>> config = catalogue.TaughtConfig(unroll=8, teacher="ucb1")
      >>> cloning.make(config, vec, cloning.network()).observations
      32
    """
    space = vec.env.action_space()
    one = vec.env.num_agents is None and isinstance(space, spaces.Discrete)
    check(one, "env", vec.env.name, "one agent with Discrete actions")
    assert isinstance(space, spaces.Discrete)

    def total(x: Any) -> Any:
        return x if axis is None else jax.lax.psum(x, axis)

    def optimiser(hparams: CloningHParams) -> optax.GradientTransformation:
        return adam(hparams.learning_rate, max_gradient_norm=hparams.max_gradient_norm)

    # Acting ----------------------------------------------------------------------------------

    def logits_of(
        params: Any, carry: AgentCarry, timestep: TimeStep
    ) -> tuple[jax.Array, AgentInput, Any]:
        """Logits, minus infinity where illegal; what the network read; its carry."""
        inputs = agent_input(space, carry, timestep._replace(privileged=None))
        output, core = network.step(params, carry.core, inputs, timestep.trial_start)
        legal = legal_actions(timestep.observation, space)
        return jnp.where(legal, output.logits, -jnp.inf), inputs, core

    def draw(key: jax.Array, logits: jax.Array) -> jax.Array:
        return jax.random.categorical(key, logits).astype(jnp.int32)

    def agent(greedy: bool = False) -> Agent:
        def act(
            keys: jax.Array, params: Any, carry: AgentCarry, timestep: TimeStep
        ) -> tuple[jax.Array, Any, AgentCarry]:
            logits, _, core = logits_of(params, carry, timestep)
            action = logits.argmax(-1).astype(jnp.int32) if greedy else jax.vmap(draw)(keys, logits)
            return action, {"logits": logits}, AgentCarry(core, action)

        return Agent(lambda batch: initial_memory(network, space, batch), act)

    def both(teacher_share: jax.Array | float) -> Agent:
        """Student and teacher side by side; one of them is obeyed."""

        def act(
            keys: jax.Array, params: Any, carry: Memories, timestep: TimeStep
        ) -> tuple[jax.Array, Noted, Memories]:
            own_keys, who_keys, teacher_keys = jax.vmap(
                lambda key: jax.random.split(key, 3), out_axes=1
            )(keys)
            logits, inputs, core = logits_of(params, carry.student, timestep)
            own = jax.vmap(draw)(own_keys, logits)
            label, _, memory = teacher.act(teacher_keys, (), carry.teacher, timestep)
            chex.assert_equal_shape([label, own])
            obeyed = jax.vmap(jax.random.uniform)(who_keys) < teacher_share
            action = jnp.where(obeyed, label, own)
            return action, Noted(inputs, label), Memories(AgentCarry(core, action), memory)

        def initial_carry(batch: int) -> Memories:
            return Memories(agent().initial_carry(batch), teacher.initial_carry(batch))

        return Agent(initial_carry, act)

    # Learning --------------------------------------------------------------------------------

    def keep(record: Record) -> Any:
        before = record.timestep
        return record.aux, before.trial_start, ~before.last, record.next_timestep.reward

    def update(state: TrainState) -> tuple[TrainState, Metrics]:
        first = state.rollout.carry.student
        pair = both(state.hparams.teacher_share)
        following, kept = rollout(vec, pair, state.params, state.rollout, config.unroll, keep)
        (inputs, labels), starts, asked, rewards = kept
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
        steps, opt_state = optimiser(state.hparams).update(grads, state.opt_state, state.params)
        return dataclasses.replace(
            state,
            params=optax.apply_updates(state.params, steps),
            opt_state=opt_state,
            rollout=following,
            updates=state.updates + 1,
        ), metrics

    # The trainer -----------------------------------------------------------------------------

    def init(key: jax.Array, hparams: CloningHParams, env_params: Any = None) -> TrainState:
        hparams = strong(hparams)
        init_key, env_key = jax.random.split(key)
        start = start_rollout(env_key, vec, both(hparams.teacher_share), env_params)
        inputs = agent_input(space, start.carry.student, start.timestep)
        params = strong(network.init(init_key, inputs))
        opt_state = optimiser(hparams).init(params)
        return TrainState(params, opt_state, start, hparams, key, jnp.zeros((), jnp.int32))

    def partition(batch: Any, replicated: Any) -> TrainState:
        start = RolloutState(vec.partition(batch, replicated), batch, batch)
        return TrainState(replicated, replicated, start, replicated, replicated, replicated)

    return Trainer(init, update, agent, config.unroll * vec.num_envs, partition=partition)
