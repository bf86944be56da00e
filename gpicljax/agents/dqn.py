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
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct

from gpicljax import spaces
from gpicljax.agents.acting import agent_input, greedy, q_agent
from gpicljax.agents.optimisation import clipped_adam, definite
from gpicljax.data import replay as replay_buffer
from gpicljax.interface import Agent, TimeStep
from gpicljax.networks.contract import Network
from gpicljax.networks.policies import legal_actions, no_action
from gpicljax.networks.q_network import AgentInput
from gpicljax.rollout import RolloutState, rollout, start_rollout
from gpicljax.vector import VectorEnv

Metrics = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class DQNConfig:
    """Sizes and switches, all static.

    Attributes:
      period: steps of every environment per update.
      n_step: n of the n-step return (shorter at the end of an episode).
      replay_capacity: transitions; rounded up to a multiple of those of an update.
      min_replay: transitions stored before anything is learnt.
      batch_size: transitions per step of the optimiser.
      updates_per_collect: steps of the optimiser per update.
      double: whether the network, and not its target, chooses the action that the target values.
      target: `"hard"` copies every `target_period` steps, `"polyak"` averages with `target_rate`.
    """

    period: int = 4
    n_step: int = 1
    replay_capacity: int = 50_000
    min_replay: int = 1_000
    batch_size: int = 128
    updates_per_collect: int = 1
    double: bool = True
    target: Literal["hard", "polyak"] = "hard"

    def __post_init__(self) -> None:
        for field in ("period", "n_step", "replay_capacity", "batch_size", "updates_per_collect"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} = {getattr(self, field)}: at least 1 is needed")
        if self.target not in ("hard", "polyak"):
            raise ValueError(f"target = {self.target!r}: choose 'hard' or 'polyak'")


@struct.dataclass
class DQNHParams:
    """Hyper-parameters that may be traced, e.g. for a vmapped sweep.

    Attributes:
      learning_rate: of Adam, at the start.
      final_share: share of the learning rate that is left after `decay_updates`.
      decay_updates: steps of the optimiser over which the learning rate falls linearly.
      adam_epsilon: of Adam.
      max_gradient_norm: clip by global norm; infinite for none.
      discount: gamma.
      huber_delta: error beyond which the loss is linear.
      target_period: steps of the optimiser between hard copies of the target network.
      target_rate: tau of the Polyak average.
      epsilon: exploration rate at the start.
      final_epsilon: exploration rate after `exploration_steps`.
      exploration_steps: environment steps, over all environments, in which it falls linearly.
      priority_exponent: alpha; 0 samples uniformly.
      importance_exponent: beta.
    """

    learning_rate: float = 5e-4
    final_share: float = 1.0
    decay_updates: int = 1
    adam_epsilon: float = 1e-8
    max_gradient_norm: float = 10.0
    discount: float = 0.99
    huber_delta: float = 1.0
    target_period: int = 200
    target_rate: float = 5e-3
    epsilon: float = 1.0
    final_epsilon: float = 0.05
    exploration_steps: int = 10_000
    priority_exponent: float = 0.0
    importance_exponent: float = 0.4


class Transition(NamedTuple):
    """From one observation to that n steps later, or at the end of the episode if that is earlier.

    Attributes:
      observation: where it starts.
      action: `int32[]`, what was done there.
      reward: float `[]`, the discounted sum of the rewards on the way.
      discount: float `[]`, of the value of `following`; 0 if that is terminal.
      following: the observation where it ends.
    """

    observation: Any
    action: jax.Array
    reward: jax.Array
    discount: jax.Array
    following: Any


@struct.dataclass
class TrainState:
    """Everything the next update depends on.

    Attributes:
      params: of the network.
      target_params: of the target network.
      optimiser: state of the optimiser.
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
    optimiser: Any
    replay: replay_buffer.ReplayState
    rollout: RolloutState
    window: Any
    hparams: DQNHParams
    key: jax.Array
    updates: jax.Array
    observations: jax.Array


class DQN(NamedTuple):
    """The trainer: `init` and `update`, jittable and vmappable over seeds.

    Attributes:
      init: `(key, hparams, env_params=None) -> TrainState`.
      update: `TrainState -> (TrainState, metrics)`.
      agent: `(epsilons=0.0) -> Agent` over `state.params`, greedy by default.
    """

    init: Callable[..., TrainState]
    update: Callable[[TrainState], tuple[TrainState, Metrics]]
    agent: Callable[..., Agent]


def exploration(hparams: DQNHParams, observations: jax.Array) -> jax.Array:
    """The exploration rate after so many environment steps, float `[]`."""
    progress = jnp.minimum(observations / hparams.exploration_steps, 1.0)
    return hparams.epsilon + (hparams.final_epsilon - hparams.epsilon) * progress


def transitions(
    timestep: TimeStep, action: jax.Array, n_step: int, discount: jax.Array | float
) -> tuple[Transition, jax.Array]:
    """The n-step transitions of one instance's stretch of steps.

    Args:
      timestep: leaves `[T + n, ...]`, without `info`.
      action: `int32[T + n - 1]`.
      n_step: n.
      discount: gamma.

    Returns:
      Transitions with leaves `[T, ...]`, and `bool[T]`: false where the action was ignored, or
      where a trial was begun before the step could be completed.
    """
    count = action.shape[0] - n_step + 1
    reward = jnp.zeros(count, timestep.reward.dtype)
    factor = jnp.ones_like(reward)
    going = jnp.ones(count, bool)
    end = jnp.arange(count)
    for k in range(n_step):
        place = jnp.arange(count) + k + 1
        if k:  # behind a time step that was not the last of its episode, but followed by a new one
            going = going & ~timestep.trial_start[place]
        reward = jnp.where(going, reward + factor * timestep.reward[place], reward)
        factor = jnp.where(going, factor * discount, factor)
        end = jnp.where(going, place, end)
        going = going & ~timestep.last[place]
    factor = jnp.where(timestep.terminated[end], 0, factor)
    made = Transition(
        jax.tree.map(lambda x: x[:count], timestep.observation),
        action[:count],
        reward,
        factor.astype(reward.dtype),
        jax.tree.map(lambda x: x[end], timestep.observation),
    )
    return made, ~timestep.last[:count] & ~timestep.trial_start[1 : count + 1]


def make(config: DQNConfig, vec: VectorEnv, network: Network) -> DQN:
    """Builds the trainer.

    Args:
      config: sizes and switches.
      vec: the environments; one agent, discrete actions.
      network: outputs `QOutput`, without a memory.

    Returns:
      The trainer. Its metrics are means over the steps of the optimiser: `loss`, `q_value` (of the
      actions in the batch), `gradient_norm` before clipping; and `reward` (mean per step),
      `episodes` (ended) and `epsilon` while collecting.

    Raises:
      ValueError: if environments or network do not fit.
    """
    space = vec.env.action_space()
    if vec.env.num_agents is not None or not isinstance(space, spaces.Discrete):
        raise ValueError(f"DQN needs one agent with discrete actions, not {space}")
    if jax.tree.leaves(network.initial_carry(1)):
        raise ValueError("network: DQN replays single transitions; with a memory, use agents.r2d2")
    num_actions = space.n
    stored = config.period * vec.num_envs
    capacity = -(-config.replay_capacity // stored) * stored

    def agent(epsilons: jax.Array | float = 0.0) -> Agent:
        return q_agent(network, num_actions, epsilons)

    # Collecting ------------------------------------------------------------------------------

    def collect(key: jax.Array, state: TrainState) -> tuple[TrainState, Metrics]:
        """`period` more steps; stores the transitions that they complete."""
        epsilon = exploration(state.hparams, state.observations)
        rollout_state, steps = rollout(
            key,
            vec,
            agent(epsilon),
            state.params,
            state.rollout,
            config.period,
            keep=lambda record: (record.timestep._replace(info={}), record.action),
        )
        timesteps, actions = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), state.window, steps)
        # The last time step is where the last transition leads; its action is not known yet.
        closing = rollout_state.timestep._replace(info={})
        timesteps = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), timesteps, closing)
        window = jax.tree.map(lambda x: x[config.period :], (timesteps, actions))
        window = (jax.tree.map(lambda x: x[:-1], window[0]), window[1])
        made, valid = jax.vmap(transitions, (1, 1, None, None), 1)(
            timesteps, actions, config.n_step, state.hparams.discount
        )
        made, valid = jax.tree.map(lambda x: x.reshape(stored, *x.shape[2:]), (made, valid))
        new = jax.tree.map(lambda x: x[config.n_step :], timesteps)
        acted = ~steps[0].last
        metrics = {
            "reward": new.reward.sum() / jnp.maximum(acted.sum(), 1),
            "episodes": new.last.sum(dtype=jnp.int32),
            "epsilon": epsilon,
        }
        return dataclasses.replace(
            state,
            replay=replay_buffer.add(state.replay, made, valid),
            rollout=rollout_state,
            window=window,
            # Stands still before it would overflow.
            observations=state.observations + jnp.where(state.observations < 2**30, stored, 0),
        ), metrics

    # Learning --------------------------------------------------------------------------------

    def q_values(params: Any, observation: Any) -> jax.Array:
        """Observations `[N, ...]` -> float `[N, A]`."""
        count = jax.tree.leaves(observation)[0].shape[0]
        nothing = jnp.zeros(count, jnp.result_type(float))
        inputs = AgentInput(observation, no_action(space, count), nothing)
        start = jnp.zeros(count, bool)
        return network.step(params, network.initial_carry(count), inputs, start)[0].q_values

    def chosen(values: jax.Array, action: jax.Array) -> jax.Array:
        return jnp.take_along_axis(values, action[:, None], axis=-1)[:, 0]

    def loss_fn(
        params: Any, state: TrainState, batch: Transition, weights: jax.Array
    ) -> tuple[jax.Array, tuple[jax.Array, Metrics]]:
        following = q_values(state.target_params, batch.following)
        judge = q_values(params, batch.following) if config.double else following
        legal = legal_actions(batch.following, num_actions)
        best = chosen(following, greedy(judge, legal))
        target = jax.lax.stop_gradient(batch.reward + batch.discount * best)
        value = chosen(q_values(params, batch.observation), batch.action)
        losses = optax.huber_loss(value, target, delta=state.hparams.huber_delta)
        loss = (losses * weights).mean()
        return loss, (jnp.abs(target - value), {"loss": loss, "q_value": value.mean()})

    def learn(state: TrainState, key: jax.Array) -> tuple[TrainState, Metrics]:
        """One step of the optimiser; until the replay has `min_replay` it changes nothing."""
        hparams = state.hparams
        filled = (state.replay.priorities > 0).sum() >= min(config.min_replay, capacity)
        batch = replay_buffer.sample(key, state.replay, config.batch_size)
        weights = replay_buffer.importance_weights(
            state.replay, batch.probabilities, hparams.importance_exponent
        )
        grads, (errors, metrics) = jax.grad(loss_fn, has_aux=True)(
            state.params, state, batch.items, weights
        )
        metrics["gradient_norm"] = optax.tree.norm(grads)
        changes, memory = clipped_adam(hparams).update(grads, state.optimiser, state.params)
        params = optax.apply_updates(state.params, changes)
        updates = state.updates + 1
        if config.target == "polyak":
            mix = lambda new, old: old + hparams.target_rate * (new - old)  # noqa: E731
        else:
            copied = updates % hparams.target_period == 0
            mix = lambda new, old: jnp.where(copied, new, old)  # noqa: E731
        target_params = jax.tree.map(mix, params, state.target_params)
        replay = replay_buffer.set_priorities(
            state.replay, batch.indices, errors + 1e-3, hparams.priority_exponent
        )
        keep = lambda new, old: jnp.where(filled, new, old)  # noqa: E731
        # The items stay out of the choice: it would copy them.
        replay = dataclasses.replace(
            state.replay,
            priorities=keep(replay.priorities, state.replay.priorities),
            highest=keep(replay.highest, state.replay.highest),
        )
        learner = params, target_params, memory, updates
        before = state.params, state.target_params, state.optimiser, state.updates
        params, target_params, memory, updates = jax.tree.map(keep, learner, before)
        return dataclasses.replace(
            state,
            params=params,
            target_params=target_params,
            optimiser=memory,
            replay=replay,
            updates=updates,
        ), metrics

    # The trainer -----------------------------------------------------------------------------

    def init(key: jax.Array, hparams: DQNHParams, env_params: Any = None) -> TrainState:
        hparams = definite(hparams)
        init_key, env_key, key = jax.random.split(key, 3)
        rollout_state = start_rollout(env_key, vec, agent(), env_params)
        timestep = rollout_state.timestep._replace(info={})
        params = network.init(init_key, agent_input(space, rollout_state.carry, timestep))
        blank = lambda x: jnp.zeros((config.n_step - 1, *x.shape), x.dtype)  # noqa: E731
        early = jax.tree.map(blank, timestep)
        # Steps before the first one: nothing leads out of the end of an episode.
        early = early._replace(terminated=jnp.ones_like(early.terminated))
        action = jnp.zeros(vec.num_envs, jnp.int32)
        observation = jax.tree.map(lambda x: x[0], timestep.observation)
        zero = jnp.zeros((), timestep.reward.dtype)
        item = Transition(observation, action[0], zero, zero, observation)
        count = jnp.zeros((), jnp.int32)
        return TrainState(
            params=params,
            target_params=jax.tree.map(jnp.copy, params),
            optimiser=clipped_adam(hparams).init(params),
            replay=replay_buffer.init(item, capacity),
            rollout=rollout_state,
            window=(early, blank(action)),
            hparams=hparams,
            key=key,
            updates=count,
            observations=count,
        )

    def update(state: TrainState) -> tuple[TrainState, Metrics]:
        key, collect_key, learn_key = jax.random.split(state.key, 3)
        state, collected = collect(collect_key, dataclasses.replace(state, key=key))
        state, metrics = jax.lax.scan(
            learn, state, jax.random.split(learn_key, config.updates_per_collect)
        )
        return state, jax.tree.map(jnp.mean, metrics) | collected

    return DQN(init, update, agent)
