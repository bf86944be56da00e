"""Sizes, state, updates, and steps of critics and actor, common to TD3 and SAC."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import jax
import jax.numpy as jnp
import optax
from flax import struct

from gpicljax import spaces
from gpicljax.agents.acting import Params, agent_input, first_input
from gpicljax.agents.algorithm import Algorithm, agent_spaces, register_algorithm
from gpicljax.agents.fits import is_continuous, refuse_unreadable
from gpicljax.agents.normalisation import no_moments, update_moments
from gpicljax.agents.optimisation import adam, add_count, learnt_if
from gpicljax.batching import strip_weak_types
from gpicljax.checks import Count, Limit, Natural, Rate, Share, check, check_fields
from gpicljax.data.hindsight import hindsight
from gpicljax.data.replay import Replay, uniform
from gpicljax.data.transitions import NStepTransition, collect, initial_window
from gpicljax.interface import Agent, Trainer
from gpicljax.networks.continuous import (
    CriticInput,
    DeterministicActor,
    GaussianActor,
    OffPolicyNetworkSettings,
)
from gpicljax.networks.contract import Network
from gpicljax.networks.policies import TanhPolicy
from gpicljax.rollout import RolloutState, start_rollout
from gpicljax.typing import ArrayTree, Observation, Variables
from gpicljax.vector import VectorEnv

Metrics = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class OffPolicyConfig:
    """Sizes and switches, all static.

    Attributes:
      period: steps of every environment per update.
      updates_per_collect: steps of the critics' optimiser per update.
      batch_size: transitions per step of an optimiser.
      replay_capacity: transitions, for the replay that is made if none is given.
      min_replay: transitions stored before anything is learnt.
      warm_up: environment steps, over all environments, whose actions are uniformly random.
      n_step: n of the n-step return (shorter at the end of an episode).
      critics: K, Q-functions; targets take the least of their values.
      normalise_observations: whether networks see them by their running mean and variance.
      replay: `"hindsight"`, where the environment sets goals, draws a share of the transitions with
        another goal, one that was reached later (`data.hindsight`).
      hindsight_share: share of the transitions with another goal.
    """

    period: Count = 1
    updates_per_collect: Count = 2
    batch_size: Count = 256
    replay_capacity: Count = 100_000
    min_replay: Count = 1_000
    warm_up: Natural = 1_000
    n_step: Count = 1
    critics: Count = 2
    normalise_observations: bool = False
    replay: Literal["uniform", "hindsight"] = "uniform"
    hindsight_share: Share = 0.8

    def __post_init__(self) -> None:
        check_fields(self)
        fits = self.min_replay <= self.replay_capacity
        accepted_values = f"at most replay_capacity = {self.replay_capacity}"
        check(fits, "min_replay", self.min_replay, accepted_values)
        single = self.n_step == 1 or self.replay == "uniform"
        check(single, "n_step", self.n_step, "1, with replay = 'hindsight'")


@struct.dataclass
class OffPolicyHParams:
    """Hyper-parameters common to the algorithms. They may be traced, e.g. for a vmapped sweep.

    Attributes:
      actor_learning_rate: Adam's learning rate for the actor.
      critic_learning_rate: Adam's learning rate for the critics.
      adam_epsilon: Adam's epsilon.
      max_gradient_norm: global norm at which the gradients of the actor, and those of all critics
        together, are clipped; infinite for no clipping.
      discount: gamma.
      target_rate: tau of the Polyak averages.
    """

    actor_learning_rate: Rate = 3e-4
    critic_learning_rate: Rate = 3e-4
    adam_epsilon: Rate = 1e-8
    max_gradient_norm: Limit = float("inf")
    discount: Share = 0.99
    target_rate: Share = 5e-3


@struct.dataclass
class OffPolicyState:
    """Everything the next update depends on, common to the algorithms.

    Attributes:
      params: of the agent.
      critic_params: of the critics.
      target_critic_params: of their target networks.
      actor_opt_state: state of Adam.
      critic_opt_state: likewise.
      replay: the transitions; their actions are the environment's.
      rollout: environments, current time step, agents' carries.
      window: the last n - 1 time steps and actions, leaves `[n - 1, B, ...]`.
      hparams: traced hyper-parameters.
      key: of everything random.
      updates: `int32[]`, steps of the critics' optimiser.
      observations: `int32[]`, environment steps, over all environments.
    """

    params: Params
    critic_params: Any
    target_critic_params: Any
    actor_opt_state: Any
    critic_opt_state: Any
    replay: Any
    rollout: RolloutState
    window: Any
    hparams: Any
    key: jax.Array
    updates: jax.Array
    observations: jax.Array


State = TypeVar("State", bound=OffPolicyState)


def optimisers(
    hparams: OffPolicyHParams,
) -> tuple[optax.GradientTransformation, optax.GradientTransformation]:
    """Returns the optimisers of actor and critics, for either algorithm."""
    rates = hparams.actor_learning_rate, hparams.critic_learning_rate
    actor, critic = (adam(rate, hparams.adam_epsilon, hparams.max_gradient_norm) for rate in rates)
    return actor, critic


@dataclasses.dataclass(frozen=True, eq=False)
class OffPolicy(Generic[State]):
    """An actor-critic over replayed transitions, without what TD3 and SAC each have of their own.

    Args:
      config: sizes and switches.
      vec: the environments; one agent, a bounded box of float actions with D entries.
      actor: reads `AgentInput`, without a memory.
      critic: reads `CriticInput` and outputs float `[..., K]`, without a memory.
      replay: where transitions are stored; None for the one that the configuration names.
    """

    config: OffPolicyConfig
    vec: VectorEnv
    actor: Network
    critic: Network
    replay: Replay | None

    def __post_init__(self) -> None:
        env, name = self.vec.env, type(self).__name__
        check(env.num_agents is None, "num_agents", env.num_agents, f"None: {name} has one")
        TanhPolicy(env.action_space())  # type: ignore[arg-type]
        if self.replay is None and self.config.replay == "hindsight":
            accepted_values = f"'uniform': {env.name} sets no goals"
            check(env.sets_goals, "replay", self.config.replay, accepted_values)
        for role in ("actor", "critic"):
            memory = jax.tree.leaves(getattr(self, role).initial_carry(1))
            accepted_values = f"one without: {name} replays single transitions"
            check(not memory, role, "a network with a memory", accepted_values)

    @property
    def policy(self) -> TanhPolicy:
        """The map between actions and [-1, 1]."""
        return TanhPolicy(self.vec.env.action_space())  # type: ignore[arg-type]

    @property
    def store(self) -> Replay:
        """The replay that was given, or the one that is named."""
        config, vec = self.config, self.vec
        if self.replay is not None:
            return self.replay
        if config.replay == "uniform":
            return uniform(config.replay_capacity)
        horizon, reward = int(vec.env.horizon(vec.params)), vec.env.goal_reward
        return hindsight(config.replay_capacity, horizon, reward, config.hindsight_share)

    def act(self, network_params: ArrayTree, observation: ArrayTree) -> Any:
        """Returns the actor's outputs at scaled observations `[N, ...]`."""
        inputs, start = first_input(self.policy.space, observation)
        carry = self.actor.initial_carry(start.shape[0])
        return self.actor.step(network_params, carry, inputs, start)[0]

    def q_values(
        self, critic_params: Variables, observation: Observation, action: jax.Array
    ) -> jax.Array:
        """Values float `[N, K]` of scaled observations `[N, ...]`, actions `[N, D]` in [-1, 1]."""
        start = jnp.zeros(action.shape[0], bool)
        carry = self.critic.initial_carry(action.shape[0])
        return self.critic.step(critic_params, carry, CriticInput(observation, action), start)[0]

    def agent(self, greedy: bool = False) -> Agent:
        """See `interface.Trainer`."""
        raise NotImplementedError

    def collector(self, state: State) -> Agent:
        """Returns the agent as it explores while collecting."""
        raise NotImplementedError

    def step(self, state: State, key: jax.Array, replay: ArrayTree) -> tuple[State, Metrics]:
        """Runs one round of learning with one of `keys`; the state is without the replay."""
        raise NotImplementedError

    def keys(self, key: jax.Array) -> jax.Array:
        """Returns the keys of the rounds of learning, one row for each."""
        return jax.random.split(key, self.config.updates_per_collect)

    def start(
        self, key: jax.Array, hparams: OffPolicyHParams, env_params: ArrayTree, outputs: int
    ) -> dict[str, Any]:
        """The fields that both algorithms have, for an actor that outputs float `[B, outputs]`."""
        config, num_envs = self.config, self.vec.num_envs
        start_key, key = jax.random.split(key)
        actor_key, critic_key, env_key = jax.random.split(start_key, 3)
        rollout = start_rollout(env_key, self.vec, self.agent(), env_params)
        timestep = rollout.timestep._replace(info={})
        inputs = agent_input(self.policy.space, rollout.carry, timestep)
        network_params = strip_weak_types(self.actor.init(actor_key, inputs))
        scale = None
        if config.normalise_observations:
            scale = no_moments(jax.tree.map(lambda x: x[0], timestep.observation))
        action = rollout.carry.last_action
        sample = self.policy.to_sample(action)
        critic_input = CriticInput(timestep.observation, sample)
        critic_params = strip_weak_types(self.critic.init(critic_key, critic_input))
        values = jax.eval_shape(self.q_values, critic_params, timestep.observation, sample)
        shape = (num_envs, config.critics)
        accepted_values = f"{shape}, with critics = {config.critics}"
        check(values.shape == shape, "critic", f"values of shape {values.shape}", accepted_values)
        window, item = initial_window(timestep, action, config.n_step)
        count = jnp.zeros((), jnp.int32)
        output = jax.eval_shape(self.act, network_params, timestep.observation)
        shape, expected = getattr(output, "shape", output), (num_envs, outputs)
        accepted_values = f"{expected}, for {self.policy.space}"
        check(shape == expected, "actor", f"outputs of shape {shape}", accepted_values)
        actor_optimiser, critic_optimiser = optimisers(hparams)
        return {
            "params": Params(network_params, scale),
            "critic_params": critic_params,
            "target_critic_params": jax.tree.map(jnp.copy, critic_params),
            "actor_opt_state": actor_optimiser.init(network_params),
            "critic_opt_state": critic_optimiser.init(critic_params),
            "replay": self.store.init(item, num_envs),
            "rollout": rollout,
            "window": window,
            "hparams": hparams,
            "key": key,
            "updates": count,
            "observations": count,
        }

    def update(self, state: State) -> tuple[State, Metrics]:
        """See `interface.Trainer`."""
        key, learn_key = jax.random.split(state.key)
        state, collected = self.collect(dataclasses.replace(state, key=key))
        state, metrics = self.learn(state, self.keys(learn_key))
        return state, metrics | collected

    def collect(self, state: State) -> tuple[State, Metrics]:
        """`period` more steps; stores the transitions that they complete."""
        config = self.config
        new = collect(
            self.vec,
            self.collector(state),
            state.params,
            state.rollout,
            state.window,
            config.period,
            config.n_step,
            state.hparams.discount,
        )
        stored, params = config.period * self.vec.num_envs, state.params
        if params.scale is not None:
            observations = jax.tree.map(lambda x: x.reshape(stored, *x.shape[2:]), new.observations)
            weights = jnp.ones(stored, jnp.result_type(float))
            params = params._replace(scale=update_moments(params.scale, observations, weights))
        return dataclasses.replace(
            state,
            params=params,
            replay=self.store.add(state.replay, new.items, new.valid, new.last),
            rollout=new.rollout,
            window=new.window,
            observations=add_count(state.observations, stored),
        ), new.metrics

    def draw(self, key: jax.Array, replay: ArrayTree, params: Params) -> NStepTransition:
        """A batch `[N, ...]`: observations scaled, actions float `[N, D]` within [-1, 1]."""
        batch = self.store.sample(key, replay, self.config.batch_size)
        return batch._replace(
            observation=params.scale_observation(batch.observation),
            action=self.policy.to_sample(batch.action),
            following=params.scale_observation(batch.following),
        )

    def fit_critics(
        self, state: State, batch: NStepTransition, target: jax.Array
    ) -> tuple[State, Metrics]:
        """The state after one step of the critics towards targets float `[N]`, and metrics."""

        def loss_fn(params: Variables) -> tuple[jax.Array, jax.Array]:
            values = self.q_values(params, batch.observation, batch.action)
            return jnp.square(values - target[:, None]).sum(-1).mean(), values.mean()

        params = state.critic_params
        (loss, value), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
        steps, opt_state = optimisers(state.hparams)[1].update(grads, state.critic_opt_state)
        norm = optax.tree.norm(grads)
        metrics = {"critic_loss": loss, "q_value": value, "critic_gradient_norm": norm}
        params, updates = optax.apply_updates(params, steps), state.updates + 1
        return dataclasses.replace(
            state, critic_params=params, critic_opt_state=opt_state, updates=updates
        ), metrics

    def fit_actor(
        self, state: State, loss_fn: Callable[[Variables], tuple[jax.Array, Metrics]]
    ) -> tuple[State, Metrics]:
        """Returns the state after one step of the actor, and the loss's metrics with two more."""
        params = state.params.network
        (loss, metrics), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
        steps, opt_state = optimisers(state.hparams)[0].update(grads, state.actor_opt_state)
        moved = state.params._replace(network=optax.apply_updates(params, steps))
        metrics |= {"actor_loss": loss, "actor_gradient_norm": optax.tree.norm(grads)}
        return dataclasses.replace(state, params=moved, actor_opt_state=opt_state), metrics

    def learn(self, state: State, keys: jax.Array) -> tuple[State, Metrics]:
        """Runs all rounds; returns mean metrics. Until `min_replay` the rounds change nothing."""
        filled = self.store.size(state.replay) >= self.config.min_replay
        # What learning does not change stays out of the loop and of the choice, uncopied.
        aside = {"replay": state.replay, "rollout": state.rollout, "window": state.window}
        before = dataclasses.replace(state, **dict.fromkeys(aside))
        after, metrics = jax.lax.scan(lambda s, key: self.step(s, key, state.replay), before, keys)
        after = dataclasses.replace(learnt_if(filled, after, before), **aside)
        return after, jax.tree.map(jnp.mean, metrics)


def need_bounds(observation_space: spaces.Space, action_space: spaces.Space) -> str | None:
    """Returns why actions are not continuous within finite bounds; None if they are."""
    if not is_continuous(action_space):
        return f"continuous actions are needed, not {action_space}"
    assert isinstance(action_space, spaces.Box)
    if not (math.isfinite(action_space.low) and math.isfinite(action_space.high)):
        return f"actions within finite bounds are needed, not {action_space}"
    return refuse_unreadable(observation_space)


def register_off_policy(
    name: str,
    make: Callable[..., Trainer],
    config: type[OffPolicyConfig],
    hparams: type,
    actor: type[DeterministicActor] | type[GaussianActor],
) -> None:
    """Registers an algorithm whose `make(config, vec, actor, critics)` learns from a replay."""

    @functools.wraps(make)  # it is known by the place of the algorithm, see `register_algorithm`
    def make_with_networks(
        config: OffPolicyConfig, vec: VectorEnv, network: OffPolicyNetworkSettings
    ) -> Trainer:
        networks = network.networks(actor, *agent_spaces(vec.env), config.critics)
        return make(config, vec, *networks)

    algorithm = Algorithm(
        name,
        make_with_networks,
        need_bounds,
        config,
        hparams,
        OffPolicyNetworkSettings,
        to_act=lambda config: dataclasses.replace(config, replay="uniform"),
    )
    register_algorithm(algorithm)
