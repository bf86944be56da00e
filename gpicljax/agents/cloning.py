"""Behaviour cloning in context: a recurrent policy learns to name a teacher's action.

The teacher sees what the student may not (the task, the whole state: `timestep.privileged`); the
student sees a history of observations, actions and rewards. Imitating the one from the other, it
has to infer the task. Actions played are a mixture of both (Ross et al., 2011, "DAgger"), so that
the student learns in the situations that it brings about itself.

The teacher is an ordinary agent that acts along, with its memory. It sees everything that the
student plays through, and is told which action was played in place of its own
(`Agent.record_action`).

The environments may be spread over devices, each with its part of the batch (`runtime.per_part`).
Choices are drawn from each instance's own keys, so that the result does not depend on that.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from gpicljax import spaces
from gpicljax.agents.acting import AgentCarry, agent_input, check_whole_trials, policy_agent
from gpicljax.agents.algorithm import (
    Algorithm,
    get_algorithm,
    network_from,
    register_algorithm,
)
from gpicljax.agents.fits import need_one_choice
from gpicljax.agents.optimisation import AdamHParams, clipped_adam
from gpicljax.batching import donatable, strip_weak_types
from gpicljax.checks import Count, Limit, Rate, Share, check, check_fields
from gpicljax.interface import Agent, TimeStep, Trainer, prefix_of
from gpicljax.networks.contract import AgentInput, Network
from gpicljax.networks.policies import legal_actions
from gpicljax.networks.recurrent_settings import RecurrentSettings
from gpicljax.rollout import Record, RolloutState, rollout, start_rollout
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

Metrics = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class CloningConfig:
    """Sizes, all static.

    Attributes:
      unroll: T, steps per update, and of the truncated gradient.
      minibatches: groups of instances that are learnt from one after the other; they divide them.
      whole_trials: whether every update is one trial of every instance, from its start to the step
        into the next: no memory from before it is kept or learnt from. T is then the trial's
        length plus 1.
      temperature: of the agent's choices where it is to be greedy; 0 takes the most probable one.
    """

    unroll: Count = 32
    minibatches: Count = 1
    whole_trials: bool = False
    temperature: Rate = 0.0

    def __post_init__(self) -> None:
        check_fields(self)


@struct.dataclass
class CloningHParams(AdamHParams):
    """Hyper-parameters of cloning, beside Adam's. They may be traced, e.g. for a vmapped sweep.

    Attributes:
      teacher_share: probability with which the teacher's action is played instead of the agent's.
      teacher_instances: share of the environments in which the teacher's actions are always played.

    Example:
      >>> shares = jnp.array([0.0, 0.5, 1.0])
      >>> sweep = jax.vmap(lambda share: CloningHParams(teacher_share=share))(shares)
      >>> sweep.teacher_share.shape
      (3,)
    """

    learning_rate: Rate = 1e-3
    max_gradient_norm: Limit = 1.0
    teacher_share: Share = 0.0
    teacher_instances: Share = 0.0


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


class Carries(NamedTuple):
    """The student's `AgentCarry`, and the teacher's carry."""

    student: AgentCarry
    teacher: Any


class StepData(NamedTuple):
    """The data that a step adds to the loss; leaves `[B, ...]`.

    Attributes:
      inputs: what the student's network read.
      label: `int32[B]`, the teacher's action.
      shares: float `[B, A]`, the probabilities of the teacher's actions; None if it does not tell.
    """

    inputs: AgentInput
    label: jax.Array
    shares: Any


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
      teacher: the agent to imitate, without parameters. Where its `aux` has `shares`, float `[B,
        A]`, those are the target instead of the action drawn: with less noise, and the same on
        average.
      axis: the mesh axis over which `update` runs inside `shard_map`; gradients are summed over
        it. None outside.

    Returns:
      The trainer. Its agent, the student, draws its actions, at the configuration's temperature if
      it is greedy. Its metrics are `loss` (nats), `agreement` (share of the steps at which the most
      probable action is the teacher's) and `reward` (mean per step).

    Raises:
      ValueError: if there are several agents, the action space is not discrete, or the teacher has
        a memory and cannot be told what was played.
    """
    has_memory = bool(jax.tree.leaves(jax.eval_shape(lambda: teacher.initial_carry(1))))
    can_be_told = not has_memory or teacher.record_action is not None
    accepted_values = (
        "an agent without a memory, or with record_action: it must know what was played"
    )
    check(can_be_told, "teacher", "an agent with a memory and no record_action", accepted_values)
    space = vec.env.action_space()
    fits = vec.env.num_agents is None and isinstance(space, spaces.Discrete)
    check(fits, "env", vec.env.name, "one agent with Discrete actions")
    assert isinstance(space, spaces.Discrete)
    divides = vec.num_envs % config.minibatches == 0
    accepted_values = f"a divisor of num_envs = {vec.num_envs}"
    check(divides, "minibatches", config.minibatches, accepted_values)
    check_whole_trials(config.whole_trials, vec, config.unroll)
    cloning = Cloning(config, vec, network, teacher, axis, space)
    observations = config.unroll * vec.num_envs
    return Trainer(
        cloning.init, cloning.update, cloning.agent, observations, partition=cloning.partition
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Cloning:
    """The algorithm; see `make`, which checks the arguments, for the fields."""

    config: CloningConfig
    vec: VectorEnv
    network: Network
    teacher: Agent
    axis: str | None
    space: spaces.Discrete

    @donatable
    def init(
        self, key: jax.Array, hparams: CloningHParams, env_params: ArrayTree = None
    ) -> TrainState:
        """See `interface.Trainer`."""
        hparams = strip_weak_types(hparams)
        init_key, env_key = jax.random.split(key)
        start = start_rollout(env_key, self.vec, self._student_and_teacher(hparams), env_params)
        inputs = agent_input(self.space, start.carry.student, start.timestep)
        params = strip_weak_types(self.network.init(init_key, inputs))
        opt_state = clipped_adam(hparams, self.config.minibatches).init(params)
        return TrainState(params, opt_state, start, hparams, key, jnp.zeros((), jnp.int32))

    def update(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """See `interface.Trainer`: a rollout, then a step for each group of instances."""

        def keep(record: Record) -> Any:
            before = record.timestep
            return record.aux, before.trial_start, ~before.last, record.next_timestep.reward

        pair, groups = self._student_and_teacher(state.hparams), self.config.minibatches
        following, kept = rollout(
            self.vec, pair, state.params, state.rollout, self.config.unroll, keep
        )
        memory = None if self.config.whole_trials else state.rollout.carry.student.core
        learn = functools.partial(self._learn, clipped_adam(state.hparams, groups))
        learner = state.params, state.opt_state
        if groups == 1:
            learner, metrics = learn(learner, (memory, kept))
        else:
            # Instances do not depend on each other: any groups will do.
            parted = jax.tree.map(lambda x: x.reshape(groups, -1, *x.shape[1:]), memory)
            by_group = lambda x: x.reshape(x.shape[0], groups, -1, *x.shape[2:])  # noqa: E731
            kept = jax.tree.map(lambda x: jnp.moveaxis(by_group(x), 1, 0), kept)
            learner, metrics = jax.lax.scan(learn, learner, (parted, kept))
            metrics = jax.tree.map(jnp.mean, metrics)
        params, opt_state = learner
        return dataclasses.replace(
            state,
            params=params,
            opt_state=opt_state,
            rollout=following,
            updates=state.updates + 1,
        ), metrics

    def partition(self, batch: object, replicated: object) -> TrainState:
        """See `interface.Trainer`."""
        start = prefix_of(RolloutState, self.vec.partition(batch, replicated), batch, batch)
        same = (replicated,) * 3
        return prefix_of(TrainState, replicated, replicated, start, *same)

    def _total(self, x: ArrayTree) -> Any:
        return x if self.axis is None else jax.lax.psum(x, self.axis)

    # Acting ----------------------------------------------------------------------------------

    def agent(self, greedy: bool = False) -> Agent:
        """See `interface.Trainer`."""
        return policy_agent(self.network, self.space, self.config.temperature if greedy else 1.0)

    def _student_and_teacher(self, hparams: CloningHParams) -> Agent:
        """Returns an agent that runs student and teacher, and plays the action of one of them."""
        student, teacher = self.agent(), self.teacher

        def act(
            keys: jax.Array, params: ArrayTree, carry: Carries, timestep: TimeStep
        ) -> tuple[jax.Array, StepData, Carries]:
            own_keys, who_keys, teacher_keys = jax.vmap(
                lambda key: jax.random.split(key, 3), out_axes=1
            )(keys)
            inputs = agent_input(self.space, carry.student, timestep)
            student_action, _, kept = student.act(own_keys, params, carry.student, timestep)
            label, teacher_aux, memory = teacher.act(teacher_keys, (), carry.teacher, timestep)
            shares = teacher_aux.get("shares") if isinstance(teacher_aux, dict) else None
            chex.assert_equal_shape([label, student_action])
            obeyed = jax.vmap(jax.random.uniform)(who_keys) < hparams.teacher_share
            place = jnp.arange(len(label)) / len(label)
            obeyed |= place < hparams.teacher_instances
            action = jnp.where(obeyed, label, student_action)
            if teacher.record_action is not None:
                memory = teacher.record_action(memory, action)
            memories = Carries(kept._replace(last_action=action), memory)
            return action, StepData(inputs, label, shares), memories

        def initial_carry(batch: int) -> Carries:
            return Carries(student.initial_carry(batch), teacher.initial_carry(batch))

        return Agent(initial_carry, act)

    # Learning --------------------------------------------------------------------------------

    def _learn(
        self, optimiser: optax.GradientTransformation, learner: tuple[Any, Any], part: Any
    ) -> tuple[tuple[Any, Any], Metrics]:
        """Runs one step of the optimiser, from a group's memories and steps."""
        params, opt_state = learner
        # The gradient of this device's part, summed outside: `grad` of a sum that crosses
        # devices would count every device's share once per device.
        grads, metrics = jax.grad(self._loss, has_aux=True)(params, *part)
        grads, metrics = self._total((grads, metrics))
        steps, opt_state = optimiser.update(grads, opt_state, params)
        return (optax.apply_updates(params, steps), opt_state), metrics

    def _loss(self, params: ArrayTree, memory: ArrayTree, data: Any) -> tuple[jax.Array, Metrics]:
        """This device's part of the loss; summed over devices it is a mean."""
        step_data, starts, counts, rewards = data
        weights = counts / jnp.maximum(self._total(counts.sum()), 1)
        starts = None if self.config.whole_trials else starts
        output, _ = self.network.unroll(params, memory, step_data.inputs, starts)
        legal = legal_actions(step_data.inputs.observation, self.space)
        logits = jnp.where(legal, output.logits, jnp.finfo(output.logits.dtype).min)
        if step_data.shares is None:
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, step_data.label)
        else:
            losses = optax.softmax_cross_entropy(logits, step_data.shares)
        agreement = (logits.argmax(-1) == step_data.label) * weights
        loss, paid = ((jnp.where(counts, x, 0) * weights).sum() for x in (losses, rewards))
        return loss, {"loss": loss, "agreement": agreement.sum(), "reward": paid}


@dataclasses.dataclass(frozen=True)
class TeacherCloningConfig(CloningConfig):
    """Sizes of cloning, and the teacher whose actions are imitated.

    Attributes:
      teacher: the name of an algorithm with nothing to train: a rule, or a registered expert.

    Example:
      >>> import gpicljax
      >>> env = gpicljax.make("BernoulliBandit-v0")
      >>> vec = gpicljax.VectorEnv(env, num_envs=4, resets="fresh", privileged=True)
      >>> config = TeacherCloningConfig(unroll=16, teacher="ucb1")
      >>> gpicljax.agents.make("cloning", vec, config).observations
      64
    """

    teacher: str = "random"


def find_teacher(name: str, vec: VectorEnv) -> Agent:
    """Returns the registered agent of that name, which has nothing to train.

    Raises:
      ValueError: if there is none, it is to be trained, or `vec` has no privileged views.
    """
    check(vec.privileged, "vec", "no privileged views", "privileged=True, for the teacher")
    teacher = get_algorithm(name)
    check(not teacher.trains, "teacher", name, "an algorithm with nothing to train")
    return teacher.make(teacher.config(), vec, teacher.network()).agent(greedy=True)


def _make(
    config: TeacherCloningConfig, vec: VectorEnv, network: RecurrentSettings | Network
) -> Trainer:
    return make(config, vec, network_from(network, vec), find_teacher(config.teacher, vec))


register_algorithm(
    Algorithm(
        "cloning",
        _make,
        need_one_choice,
        TeacherCloningConfig,
        CloningHParams,
        RecurrentSettings,
        privileged=True,
        remembers=True,
        to_act=lambda config: dataclasses.replace(config, teacher="random"),
    )
)
