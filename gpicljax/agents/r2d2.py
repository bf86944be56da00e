"""R2D2: recurrent Q-learning from stored-state sequence replay (Kapturowski et al., 2019).

One update collects `unroll - overlap` steps from all actors, inserts one sequence per actor and
learns `updates_per_collect` times. Everything the next update depends on is in `TrainState`, so
that `vmap` over seeds, exact resumption and sharding need nothing else.

Sequences run on across episodes and trials: start flags clear the carry in mid-sequence, and steps
whose action the environment ignores carry no loss. So no padding is stored or learnt from.
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
from gpicljax.agents.acting import AgentCarry, greedy, q_agent
from gpicljax.agents.optimisation import (
    Target,
    check_target,
    clipped_adam,
    definite,
    learnt_if,
    target_update,
)
from gpicljax.agents.transitions import counted
from gpicljax.data import replay as replay_buffer
from gpicljax.interface import Agent, TimeStep
from gpicljax.networks.contract import Network
from gpicljax.networks.policies import legal_actions
from gpicljax.networks.q_network import AgentInput
from gpicljax.rollout import RolloutState, rollout, start_rollout
from gpicljax.vector import VectorEnv

Metrics = dict[str, jax.Array]


class Auxiliary(NamedTuple):
    """An auxiliary regression inside the unroll.

    Attributes:
      name: of the network's prediction.
      target: `(observation, next_observation) -> (target, weight)`: what to predict at a step,
        float `[..., size]`, and float `[...]`, 0 where nothing is to be predicted.
      coefficient: weight of its loss.
    """

    name: str
    target: Callable[[Any, Any], tuple[jax.Array, jax.Array]]
    coefficient: float = 1.0


@dataclasses.dataclass(frozen=True)
class R2D2Config:
    """Sizes and switches, all static. Defaults: Table 5 of the Meta-Referential Games paper.

    Attributes:
      num_envs: actors.
      unroll: transitions per sequence, burn-in included.
      overlap: transitions that successive sequences share; `unroll - overlap` must divide it.
      burn_in: transitions that only warm the carry up.
      n_step: n of the n-step return (shorter at the end of a sequence).
      replay_capacity: sequences; rounded up to a multiple of `num_envs`.
      min_replay: sequences collected before anything is learnt.
      batch_size: sequences per update.
      updates_per_collect: updates per collection of `unroll - overlap` steps.
      bootstrap: learn from returns; False learns the immediate reward only (discount 0), and
        neither needs nor has a target network.
      target: `"hard"` copies every `target_period` updates, `"polyak"` averages with `target_rate`.
      rescale: learn in the rescaled value space h of Pohlen et al. (2018).
      forced_steps: whether steps with a single legal action carry Q loss. Where actions do not
        change what is reached, they only cost capacity.
    """

    num_envs: int = 32
    unroll: int = 20
    overlap: int = 10
    burn_in: int = 10
    n_step: int = 3
    replay_capacity: int = 5_000
    min_replay: int = 320
    batch_size: int = 32
    updates_per_collect: int = 10
    bootstrap: bool = True
    target: Target = "hard"
    rescale: bool = False
    forced_steps: bool = True

    def __post_init__(self) -> None:
        for field in (
            "num_envs",
            "unroll",
            "n_step",
            "replay_capacity",
            "batch_size",
            "updates_per_collect",
        ):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} = {getattr(self, field)}: at least 1 is needed")
        if not 0 <= self.overlap < self.unroll or self.overlap % (self.unroll - self.overlap):
            raise ValueError(
                f"unroll = {self.unroll}, overlap = {self.overlap}: the step between sequences, "
                "unroll - overlap, must be at least 1 and divide the overlap"
            )
        if not 0 <= self.burn_in < self.unroll:
            raise ValueError(f"burn_in = {self.burn_in}: choose from 0 .. {self.unroll - 1}")
        check_target(self.target)

    @property
    def period(self) -> int:
        """Steps between the starts of successive sequences."""
        return self.unroll - self.overlap

    @property
    def capacity(self) -> int:
        """Replay capacity in sequences, a multiple of `num_envs`."""
        return -(-self.replay_capacity // self.num_envs) * self.num_envs

    @property
    def opening(self) -> int:
        """Collections before the first window of `unroll` steps is full."""
        return self.overlap // self.period


@struct.dataclass
class R2D2HParams:
    """Hyper-parameters that may be traced, e.g. for a vmapped sweep.

    Attributes:
      learning_rate: of Adam, at the start.
      final_share: share of the learning rate that is left after `decay_updates`.
      decay_updates: updates over which the learning rate falls linearly.
      adam_epsilon: of Adam.
      max_gradient_norm: clip by global norm; infinite for none.
      discount: gamma; unused without `bootstrap`.
      target_period: updates between hard copies of the target network.
      target_rate: tau of the Polyak average.
      priority_exponent: alpha.
      importance_exponent: beta.
      priority_eta: share of the largest error in a sequence's priority, the rest is the mean.
      epsilon_base: actor i explores with base ** (1 + alpha i / (actors - 1)).
      epsilon_alpha: alpha in that formula.
    """

    learning_rate: float = 6.25e-5
    final_share: float = 1.0
    decay_updates: int = 1
    adam_epsilon: float = 1e-12
    max_gradient_norm: float = float("inf")
    discount: float = 0.997
    target_period: int = 2500
    target_rate: float = 4e-4
    priority_exponent: float = 0.9
    importance_exponent: float = 0.6
    priority_eta: float = 0.9
    epsilon_base: float = 0.4
    epsilon_alpha: float = 2.0


class Sequence(NamedTuple):
    """A replayed sequence; leaves `[unroll + 1, ...]` but for the carry.

    Attributes:
      timestep: what was seen (without `info`).
      action: what was done.
      carry: the agent's carry before the first step.
    """

    timestep: TimeStep
    action: jax.Array
    carry: AgentCarry


@struct.dataclass
class TrainState:
    """Everything the next update depends on.

    Attributes:
      params: of the network.
      target_params: of the target network; None without `bootstrap`.
      optimiser: state of the optimiser.
      replay: the sequences.
      rollout: environments, current time step, agents' carries.
      window: time steps and actions since the current window's start, leaves `[overlap, B, ...]`.
      carries: carries at the starts of the open windows, leaves `[overlap / period, B, ...]`.
      hparams: traced hyper-parameters.
      key: of everything random.
      updates: `int32[]`, optimiser updates.
      observations: `int32[]`, environment steps times actors.
    """

    params: Any
    target_params: Any
    optimiser: Any
    replay: replay_buffer.ReplayState
    rollout: RolloutState
    window: Any
    carries: Any
    hparams: R2D2HParams
    key: jax.Array
    updates: jax.Array
    observations: jax.Array


def actor_epsilons(hparams: R2D2HParams, num_envs: int) -> jax.Array:
    """base ** (1 + alpha i / (N - 1)) for actor i of N, `float[N]`. Source: Ape-X."""
    places = jnp.arange(num_envs) / max(num_envs - 1, 1)
    return jnp.power(hparams.epsilon_base, 1 + hparams.epsilon_alpha * places)


def _rescale(x: Any) -> Any:
    import rlax

    return rlax.signed_hyperbolic(x)


def _unscale(x: Any) -> Any:
    import rlax

    return rlax.signed_parabolic(x)


def n_step_targets(
    rewards: jax.Array,
    discounts: jax.Array,
    continues: jax.Array,
    values: jax.Array,
    n_step: int,
    rescale: bool = False,
) -> jax.Array:
    """n-step returns along the leading axis; the last n - 1 steps use what is left.

    Args:
      rewards: float `[T]`, received on arriving at step t + 1.
      discounts: float `[T]`, gamma, or 0 where step t + 1 is terminal.
      continues: float `[T]`, 0 where the episode is cut off at step t + 1: the return ends there
        with that step's value.
      values: float `[T]`, of step t + 1.
      n_step: n.
      rescale: values and returns are in the rescaled space.

    Returns:
      float `[T]`, without gradient.
    """
    import rlax

    if rescale:
        values = _unscale(values)
    returns: Any = rlax.n_step_bootstrapped_returns(rewards, discounts, values, n_step, continues)
    return jax.lax.stop_gradient(_rescale(returns) if rescale else returns)


class R2D2(NamedTuple):
    """The trainer: `init` and `update`, both jittable and vmappable over seeds.

    Attributes:
      init: `(key, hparams, env_params=None) -> TrainState`.
      update: `TrainState -> (TrainState, metrics)`.
      agent: epsilon-greedy agents over `state.params`, greedy by default.
    """

    init: Callable[..., TrainState]
    update: Callable[[TrainState], tuple[TrainState, Metrics]]
    agent: Callable[..., Agent]


def make(
    config: R2D2Config,
    vec: VectorEnv,
    network: Network,
    auxiliaries: tuple[Auxiliary, ...] = (),
) -> R2D2:
    """Builds the trainer.

    Args:
      config: sizes and switches.
      vec: the actors' environments; one agent, discrete actions.
      network: outputs `QOutput`.
      auxiliaries: regressions trained along.

    Returns:
      The trainer.

    Raises:
      ValueError: if the environments do not fit.
    """
    space = vec.env.action_space()
    if not isinstance(space, spaces.Discrete):
        raise ValueError(f"R2D2 needs one agent with discrete actions, not {space}")
    if vec.num_envs != config.num_envs:
        raise ValueError(f"num_envs = {config.num_envs}, but the batch has {vec.num_envs}")
    num_actions = space.n

    def agent(epsilons: jax.Array | float = 0.0) -> Agent:
        return q_agent(network, num_actions, epsilons)

    # Collecting ------------------------------------------------------------------------------

    def collect(key: jax.Array, state: TrainState) -> tuple[TrainState, Sequence]:
        """`period` more steps; returns the sequence of each actor that they complete."""
        actors = agent(actor_epsilons(state.hparams, config.num_envs))
        before = state.rollout.carry
        rollout_state, steps = rollout(
            key,
            vec,
            actors,
            state.params,
            state.rollout,
            config.period,
            keep=lambda record: (record.timestep._replace(info={}), record.action),
        )
        # The last time step closes the sequence: it is where the last transition leads. Its action
        # is not known yet, nor needed.
        following = rollout_state.timestep._replace(info={})
        closing = (following, jnp.zeros_like(steps[1][0]))
        window = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), state.window, steps)
        carries = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), state.carries, before)
        timestep, action = jax.tree.map(
            lambda a, b: jnp.moveaxis(jnp.concatenate([a, b[None]]), 0, 1), window, closing
        )
        sequence = Sequence(timestep, action, jax.tree.map(lambda c: c[0], carries))
        state = dataclasses.replace(
            state,
            rollout=rollout_state,
            window=jax.tree.map(lambda w: w[config.period :], window),
            carries=jax.tree.map(lambda c: c[1:], carries),
            observations=counted(state.observations, config.period * config.num_envs),
        )
        return state, sequence

    # Learning --------------------------------------------------------------------------------

    def inputs_of(sequence: Sequence) -> AgentInput:
        """The network's inputs, time-major."""
        timestep = sequence.timestep
        previous = jnp.concatenate([sequence.carry.last_action[None], sequence.action[:-1]])
        previous = jnp.where(timestep.trial_start, -1, previous)
        return AgentInput(timestep.observation, previous, timestep.reward)

    def loss_fn(
        params: Any,
        target_params: Any,
        hparams: R2D2HParams,
        sequence: Sequence,
        weights: jax.Array,
    ) -> tuple[jax.Array, tuple[jax.Array, Metrics]]:
        timestep, inputs = sequence.timestep, inputs_of(sequence)
        starts = timestep.trial_start

        def unroll(p: Any) -> Any:
            """Outputs at the steps after the burn-in, whose carry gets no gradient."""
            carry = sequence.carry.core
            if config.burn_in:
                early = jax.tree.map(lambda x: x[: config.burn_in], (inputs, starts))
                _, carry = network.unroll(p, carry, early[0], early[1])
                carry = jax.lax.stop_gradient(carry)
            late = jax.tree.map(lambda x: x[config.burn_in :], (inputs, starts))
            return network.unroll(p, carry, late[0], late[1])[0]

        online = unroll(params)
        timestep = jax.tree.map(lambda x: x[config.burn_in :], timestep)
        action = sequence.action[config.burn_in : -1]
        legal = legal_actions(timestep.observation, num_actions)
        legal = jnp.broadcast_to(legal, online.q_values.shape)
        chosen = jnp.take_along_axis(online.q_values[:-1], action[..., None], axis=-1)[..., 0]

        rewards = timestep.reward[1:]
        if config.bootstrap:
            best = greedy(online.q_values[1:], legal[1:])
            values = jnp.take_along_axis(
                unroll(target_params).q_values[1:], best[..., None], axis=-1
            )[..., 0]
            over, cut = timestep.terminated[1:], timestep.truncated[1:]
            # Behind the end of an episode lies a step of no account: nothing flows over it.
            discounts = hparams.discount * (1 - over.astype(values.dtype))
            targets = jax.vmap(
                lambda r, d, c, v: n_step_targets(r, d, c, v, config.n_step, config.rescale),
                in_axes=1,
                out_axes=1,
            )(rewards, discounts, 1 - cut.astype(values.dtype), values)
        else:
            targets = _rescale(rewards) if config.rescale else rewards
        errors = targets - chosen

        # No transition leads out of an ended episode, nor over a renewal into another trial.
        real = ~(timestep.last[:-1] | timestep.trial_start[1:])
        counts = real if config.forced_steps else real & (legal[:-1].sum(-1) > 1)
        mask = counts.astype(errors.dtype)
        q_loss = (0.5 * jnp.square(errors) * mask * weights).sum() / jnp.maximum(mask.sum(), 1)

        metrics = {"q_loss": q_loss}
        loss = q_loss
        for auxiliary in auxiliaries:
            here = jax.tree.map(lambda x: x[:-1], timestep.observation)
            following = jax.tree.map(lambda x: x[1:], timestep.observation)
            target, weight = auxiliary.target(here, following)
            weight = weight * real
            error = jnp.square(online.predictions[auxiliary.name][:-1] - target).mean(-1)
            value = (error * weight).sum() / jnp.maximum(weight.sum(), 1)
            loss = loss + auxiliary.coefficient * value
            metrics[auxiliary.name + "_loss"] = value

        size = jnp.abs(errors) * mask
        mean = size.sum(0) / jnp.maximum(mask.sum(0), 1)
        eta = hparams.priority_eta
        priorities = eta * size.max(0) + (1 - eta) * mean + 1e-4
        return loss, (priorities, metrics)

    def learn(key: jax.Array, state: TrainState) -> tuple[TrainState, Metrics]:
        hparams = state.hparams
        batch = replay_buffer.sample(key, state.replay, config.batch_size)
        weights = replay_buffer.importance_weights(
            state.replay, batch.probabilities, hparams.importance_exponent
        )
        steps = jax.tree.map(
            lambda x: jnp.moveaxis(x, 0, 1), (batch.items.timestep, batch.items.action)
        )
        sequence = Sequence(steps[0], steps[1], batch.items.carry)
        grads, (priorities, metrics) = jax.grad(loss_fn, has_aux=True)(
            state.params, state.target_params, hparams, sequence, weights
        )
        deltas, opt_state = clipped_adam(hparams).update(grads, state.optimiser, state.params)
        params = optax.apply_updates(state.params, deltas)
        updates = state.updates + 1
        target_params = state.target_params
        if config.bootstrap:
            target_params = target_update(config.target, params, target_params, updates, hparams)
        metrics["gradient_norm"] = optax.tree.norm(grads)
        state = dataclasses.replace(
            state,
            params=params,
            target_params=target_params,
            optimiser=opt_state,
            replay=replay_buffer.set_priorities(
                state.replay, batch.indices, priorities, hparams.priority_exponent
            ),
            updates=updates,
        )
        return state, metrics

    # The trainer -----------------------------------------------------------------------------

    def gather(state: TrainState, key: jax.Array) -> TrainState:
        full = state.observations >= config.opening * config.period * config.num_envs
        state, sequences = collect(key, state)
        return dataclasses.replace(state, replay=replay_buffer.add(state.replay, sequences, full))

    def learn_when_filled(state: TrainState, key: jax.Array) -> tuple[TrainState, Metrics]:
        """Until the replay has `min_replay` sequences an update changes nothing."""
        filled = (state.replay.priorities > 0).sum() >= min(config.min_replay, config.capacity)
        learnt, metrics = learn(key, state)
        return learnt_if(filled, learnt, state), metrics

    def init(key: jax.Array, hparams: R2D2HParams, env_params: Any = None) -> TrainState:
        hparams = definite(hparams)
        init_key, env_key, key = jax.random.split(key, 3)
        rollout_state = start_rollout(env_key, vec, agent(), env_params)
        timestep = rollout_state.timestep._replace(info={})
        inputs = AgentInput(timestep.observation, rollout_state.carry.last_action, timestep.reward)
        params = network.init(init_key, inputs)
        action = jnp.zeros(config.num_envs, jnp.int32)
        overlap = lambda x, n: jnp.zeros((n, *x.shape), x.dtype)  # noqa: E731
        one = jax.tree.map(
            lambda x: jnp.zeros((config.unroll + 1, *x.shape[1:]), x.dtype), (timestep, action)
        )
        item = Sequence(one[0], one[1], jax.tree.map(lambda c: c[0], rollout_state.carry))
        zero = jnp.zeros((), jnp.int32)
        return TrainState(
            params=params,
            target_params=jax.tree.map(jnp.copy, params) if config.bootstrap else None,
            optimiser=clipped_adam(hparams).init(params),
            replay=replay_buffer.init(item, config.capacity),
            rollout=rollout_state,
            window=jax.tree.map(lambda x: overlap(x, config.overlap), (timestep, action)),
            carries=jax.tree.map(lambda c: overlap(c, config.opening), rollout_state.carry),
            hparams=hparams,
            key=key,
            updates=zero,
            observations=zero,
        )

    def update(state: TrainState) -> tuple[TrainState, Metrics]:
        key, collect_key, learn_key = jax.random.split(state.key, 3)
        state = gather(dataclasses.replace(state, key=key), collect_key)
        learn_keys = jax.random.split(learn_key, config.updates_per_collect)
        state, metrics = jax.lax.scan(learn_when_filled, state, learn_keys)
        return state, jax.tree.map(lambda m: m.mean(0), metrics)

    return R2D2(init, update, agent)
