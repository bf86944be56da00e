"""DQN: Q-learning from replayed transitions (Mnih et al., 2015), and what was added to it since.

One update takes `period` steps in all environments, stores the transitions that they complete and
learns `updates_per_collect` times. Everything the next update depends on is in `TrainState`, so
that `vmap` over seeds and exact resumption need nothing else.

Double Q-learning (van Hasselt et al., 2016), n-step returns and prioritised replay (Schaul et al.,
2016) are options; a dueling head is the network's. The agent has no memory: its returns end with
the episode. An episode that was cut off is worth the value of its last observation, one that
terminated nothing; the step after the end, whose action is ignored, is not stored.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from gpicljax.agents.acting import agent_input, first_input, greedy, q_agent
from gpicljax.agents.algorithm import (
    Algorithm,
    NetworkSettings,
    network_from,
    register_algorithm,
)
from gpicljax.agents.fits import need_choices
from gpicljax.agents.optimisation import (
    AdamHParams,
    Target,
    add_count,
    clipped_adam,
    learnt_if,
    progress,
    target_update,
)
from gpicljax.agents.returns import one_step_target
from gpicljax.batching import donatable, strip_weak_types
from gpicljax.checks import Count, Limit, Positive, Rate, Share, Updates, check, check_fields
from gpicljax.data import replay as replay_buffer
from gpicljax.data.transitions import NStepTransition, collect, initial_window
from gpicljax.interface import Agent, Trainer
from gpicljax.networks.contract import Network
from gpicljax.networks.policies import Choices, choices, chosen_value, legal_actions
from gpicljax.networks.q_network import QNetworkSettings
from gpicljax.rollout import RolloutState, start_rollout
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

Metrics = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class DQNConfig:
    """Sizes and switches of DQN; all are static.

    Attributes:
      period: steps of every environment per update.
      n_step: n of the n-step return (shorter at the end of an episode).
      replay_capacity: transitions in the replay buffer; rounded up to a multiple of an update's
        transitions.
      min_replay: transitions stored before learning starts.
      batch_size: transitions per step of the optimiser.
      updates_per_collect: steps of the optimiser per update.
      double: whether the network, and not its target, chooses the action that the target values.
      target: `"hard"` copies every `target_period` steps, `"polyak"` averages with `target_rate`.

    Example:
      >>> DQNConfig(period=8, target="polyak").n_step
      1
      >>> DQNConfig(target="soft")
      Traceback (most recent call last):
      ValueError: target: got 'soft'; accepted: hard, polyak
    """

    period: Count = 4
    n_step: Count = 1
    replay_capacity: Count = 50_000
    min_replay: Count = 1_000
    batch_size: Count = 128
    updates_per_collect: Count = 1
    double: bool = True
    target: Target = "hard"

    def __post_init__(self) -> None:
        check_fields(self)


@struct.dataclass
class DQNHParams(AdamHParams):
    """Hyper-parameters of DQN, beside Adam's. They may be traced, e.g. for a vmapped sweep.

    Attributes:
      discount: gamma.
      huber_delta: error beyond which the loss is linear.
      target_period: steps of the optimiser between hard copies of the target network.
      target_rate: tau of the Polyak average.
      epsilon: exploration rate at the start.
      final_epsilon: exploration rate after `exploration_steps`.
      exploration_steps: environment steps, over all environments, in which the exploration rate
        falls linearly.
      priority_exponent: alpha; 0 samples uniformly.
      importance_exponent: beta.

    Example:
      >>> hparams = DQNHParams(epsilon=1.0, final_epsilon=0.5, exploration_steps=100)
      >>> float(exploration(hparams, 50))
      0.75
    """

    learning_rate: Rate = 5e-4
    max_gradient_norm: Limit = 10.0
    discount: Share = 0.99
    huber_delta: Positive = 1.0
    target_period: Updates = 200
    target_rate: Share = 5e-3
    epsilon: Share = 1.0
    final_epsilon: Share = 0.05
    exploration_steps: Updates = 10_000
    priority_exponent: Rate = 0.0
    importance_exponent: Rate = 0.4


@struct.dataclass
class TrainState:
    """Everything the next update depends on.

    Attributes:
      params: of the network.
      target_params: of the target network.
      opt_state: of the optimiser.
      replay: the transitions.
      rollout: environments, current time step, agents' carries.
      window: the last n - 1 time steps and actions, leaves `[n - 1, B, ...]`.
      hparams: traced hyper-parameters.
      key: of everything random.
      updates: `int32[]`, steps of the optimiser.
      observations: `int32[]`, environment steps, over all environments.
    """

    params: Any
    target_params: Any
    opt_state: Any
    replay: replay_buffer.ReplayState
    rollout: RolloutState
    window: Any
    hparams: DQNHParams
    key: jax.Array
    updates: jax.Array
    observations: jax.Array


def exploration(hparams: DQNHParams, observations: jax.Array) -> jax.Array:
    """Returns the exploration rate after so many environment steps, float `[]`."""
    share = progress(observations, hparams.exploration_steps)
    return hparams.epsilon + (hparams.final_epsilon - hparams.epsilon) * share


def make(config: DQNConfig, vec: VectorEnv, network: NetworkSettings | Network) -> Trainer:
    """Builds the trainer.

    Args:
      config: sizes and switches.
      vec: the environments; one agent, discrete actions, one choice or several at once.
      network: outputs `QOutput`, without a memory; or settings of one.

    Returns:
      The trainer. Unless greedy, its agent explores at the rate that is the last one by default.
      Its metrics are means over the steps of the optimiser: `loss`, `q_value` (of the
      actions in the batch), `gradient_norm` before clipping; and `reward` (mean per step),
      `episodes` (ended) and `epsilon` while collecting.
    """
    check(vec.env.num_agents is None, "num_agents", vec.env.num_agents, "None, one agent")
    actions, network = choices(vec.env.action_space()), network_from(network, vec)
    memory = jax.tree.leaves(network.initial_carry(1))
    without = "one without, as single transitions are replayed (else use agents.r2d2)"
    check(not memory, "network", "one with a memory", without)
    dqn = DQN(config, vec, network, actions)
    observations, updates = dqn.steps_per_update, config.updates_per_collect
    return Trainer(dqn.init, dqn.update, dqn.agent, observations, updates)


@dataclasses.dataclass(frozen=True, eq=False)
class DQN:
    """The algorithm; see `make`, which checks the arguments.

    Args:
      config: sizes and switches.
      vec: the environments.
      network: without a memory.
      actions: what the agent chooses.
    """

    config: DQNConfig
    vec: VectorEnv
    network: Network
    actions: Choices

    @property
    def steps_per_update(self) -> int:
        """The environment steps of one update, over all environments."""
        return self.config.period * self.vec.num_envs

    @property
    def capacity(self) -> int:
        """Transitions in the replay buffer."""
        return -(-self.config.replay_capacity // self.steps_per_update) * self.steps_per_update

    def agent(self, greedy: bool = False) -> Agent:
        """See `interface.Trainer`."""
        return q_agent(self.network, self.actions, 0.0 if greedy else DQNHParams.final_epsilon)

    @donatable
    def init(self, key: jax.Array, hparams: DQNHParams, env_params: ArrayTree = None) -> TrainState:
        """See `interface.Trainer`."""
        hparams = strip_weak_types(hparams)
        init_key, env_key, key = jax.random.split(key, 3)
        start = start_rollout(env_key, self.vec, self.agent(), env_params)
        timestep = start.timestep._replace(info={})
        inputs = agent_input(self.actions, start.carry, timestep)
        params = strip_weak_types(self.network.init(init_key, inputs))
        window, item = initial_window(timestep, start.carry.last_action, self.config.n_step)
        count = jnp.zeros((), jnp.int32)
        return TrainState(
            params=params,
            target_params=jax.tree.map(jnp.copy, params),
            opt_state=clipped_adam(hparams).init(params),
            replay=replay_buffer.init(item, self.capacity),
            rollout=start,
            window=window,
            hparams=hparams,
            key=key,
            updates=count,
            observations=count,
        )

    def update(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """See `interface.Trainer`."""
        key, learn_key = jax.random.split(state.key)
        state, collected = self.collect(dataclasses.replace(state, key=key))
        keys = jax.random.split(learn_key, self.config.updates_per_collect)
        state, metrics = jax.lax.scan(self.learn, state, keys)
        return state, jax.tree.map(jnp.mean, metrics) | collected

    def collect(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """`period` more steps; stores the transitions that they complete."""
        epsilon = exploration(state.hparams, state.observations)
        new = collect(
            self.vec,
            q_agent(self.network, self.actions, epsilon),
            state.params,
            state.rollout,
            state.window,
            self.config.period,
            self.config.n_step,
            state.hparams.discount,
        )
        items, valid = jax.tree.map(
            lambda x: x.reshape(self.steps_per_update, *x.shape[2:]), (new.items, new.valid)
        )
        return dataclasses.replace(
            state,
            replay=replay_buffer.add(state.replay, items, valid),
            rollout=new.rollout,
            window=new.window,
            observations=add_count(state.observations, self.steps_per_update),
        ), new.metrics | {"epsilon": epsilon}

    def learn(self, state: TrainState, key: jax.Array) -> tuple[TrainState, Metrics]:
        """Runs one step of the optimiser; until the replay has `min_replay` it changes nothing."""
        config, hparams = self.config, state.hparams
        filled = (state.replay.priorities > 0).sum() >= min(config.min_replay, self.capacity)
        batch = replay_buffer.sample(key, state.replay, config.batch_size)
        weights = replay_buffer.importance_weights(
            state.replay, batch.probabilities, hparams.importance_exponent
        )
        grads, (errors, metrics) = jax.grad(self.loss, has_aux=True)(
            state.params, state, batch.items, weights
        )
        metrics["gradient_norm"] = optax.tree.norm(grads)
        steps, opt_state = clipped_adam(hparams).update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, steps)
        updates = state.updates + 1
        learnt = dataclasses.replace(
            state,
            params=params,
            target_params=target_update(
                config.target, params, state.target_params, updates, hparams
            ),
            opt_state=opt_state,
            replay=replay_buffer.set_priorities(
                state.replay, batch.indices, errors + 1e-3, hparams.priority_exponent
            ),
            updates=updates,
        )
        return learnt_if(filled, learnt, state), metrics

    def loss(
        self, params: ArrayTree, state: TrainState, batch: NStepTransition, weights: jax.Array
    ) -> tuple[jax.Array, tuple[jax.Array, Metrics]]:
        """Returns the loss of a batch weighted by float `[N]`; errors float `[N]`, and metrics."""
        following = self.q_values(state.target_params, batch.following)
        selector = self.q_values(params, batch.following) if self.config.double else following
        legal = legal_actions(batch.following, self.actions)
        best = chosen_value(self.actions, following, greedy(selector, legal))
        target = jax.lax.stop_gradient(one_step_target(batch.reward, batch.discount, best))
        value = chosen_value(self.actions, self.q_values(params, batch.observation), batch.action)
        losses = optax.huber_loss(value, target, delta=state.hparams.huber_delta)
        loss = (losses * weights).mean()
        return loss, (jnp.abs(target - value), {"loss": loss, "q_value": value.mean()})

    def q_values(self, params: ArrayTree, observation: ArrayTree) -> jax.Array:
        """Observations `[N, ...]` -> float `[N, A]`."""
        inputs, start = first_input(self.actions, observation)
        carry = self.network.initial_carry(start.shape[0])
        return self.network.step(params, carry, inputs, start)[0].q_values


register_algorithm(Algorithm("dqn", make, need_choices, DQNConfig, DQNHParams, QNetworkSettings))
