"""PPO: proximal policy optimisation (Schulman et al., 2017), with or without a memory.

One update collects `unroll` steps from all environments and learns from them `epochs` times, in
minibatches. Everything the next update depends on is in `TrainState`, so that `vmap` over seeds,
exact resumption and sharding need nothing else.

A rollout runs on across episodes and trials. The step after the end of an episode ignores its
action: it carries no policy loss, and no advantage flows over it. An episode that was cut off is
worth the value of its last observation, one that terminated nothing. With `horizon="trial"` what
counts are all episodes of a trial together: exploring in one of them pays in the next (Duan et
al., 2016, "RL²").

The environments may be spread over devices, each with its part of the batch (`runtime.per_part`).
Sums that enter gradients and statistics are summed over them, and actions are drawn from each
instance's own keys. So with one minibatch, or with minibatches of every instance's own windows (the
usual case without a memory), the result is that of one device within rounding. Where minibatches
are made of whole instances, each device shuffles its own, so that the groups differ.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import optax
from flax import struct

from gpicljax.agents.acting import AgentCarry, Params, agent_input, initial_memory
from gpicljax.agents.normalisation import Moments, no_moments, normalise, update_moments
from gpicljax.agents.optimisation import clipped_adam, definite
from gpicljax.interface import Agent, TimeStep
from gpicljax.networks.contract import Network
from gpicljax.networks.policies import policy_for
from gpicljax.networks.q_network import AgentInput
from gpicljax.rollout import RolloutState, start_rollout
from gpicljax.vector import VectorEnv, VectorState

Metrics = dict[str, jax.Array]
Horizon = Literal["episode", "trial"]


@dataclasses.dataclass(frozen=True)
class PPOConfig:
    """Sizes and switches, all static.

    Attributes:
      unroll: T, steps per update.
      epochs: passes over them.
      minibatches: M, parts of a pass.
      window: steps that the gradient flows back through the memory, a divisor of T; by default T,
        or 1 for a network without a memory. Minibatches consist of windows. If M divides T / window
        each has equally many of every instance; else M must divide the instances.
      horizon: where returns end, see above.
      normalise_advantages: whether to scale them to mean 0 and variance 1 in every minibatch.
      normalise_observations: whether the network sees them by their running mean and variance.
      normalise_rewards: whether to divide them by the running deviation of the return.
      bounds: how continuous actions come within theirs, see `policies.GaussianPolicy`.
    """

    unroll: int = 128
    epochs: int = 4
    minibatches: int = 4
    window: int | None = None
    horizon: Horizon = "episode"
    normalise_advantages: bool = True
    normalise_observations: bool = False
    normalise_rewards: bool = False
    bounds: Literal["clip", "squash"] = "clip"

    def __post_init__(self) -> None:
        for field in ("unroll", "epochs", "minibatches"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} = {getattr(self, field)}: at least 1 is needed")
        if self.window is not None and (self.window < 1 or self.unroll % self.window):
            raise ValueError(
                f"window = {self.window}: a divisor of unroll = {self.unroll} is needed"
            )
        if self.horizon not in get_args(Horizon):
            raise ValueError(f"horizon = {self.horizon!r}: choose from {get_args(Horizon)}")


@struct.dataclass
class PPOHParams:
    """Hyper-parameters that may be traced, e.g. for a vmapped sweep.

    Attributes:
      learning_rate: of Adam, at the start.
      final_share: share of the learning rate that is left after `decay_updates`.
      decay_updates: updates over which the learning rate falls linearly.
      adam_epsilon: of Adam.
      max_gradient_norm: clip by global norm; infinite for none.
      discount: gamma.
      trace: lambda of the advantages.
      clip: furthest that the ratio of probabilities is followed from 1.
      value_clip: furthest that values are followed from those of the rollout; infinite for any.
      value_coefficient: weight of the value loss.
      entropy_coefficient: weight of the entropy bonus.
    """

    learning_rate: float = 3e-4
    final_share: float = 1.0
    decay_updates: int = 1
    adam_epsilon: float = 1e-5
    max_gradient_norm: float = 0.5
    discount: float = 0.99
    trace: float = 0.95
    clip: float = 0.2
    value_clip: float = float("inf")
    value_coefficient: float = 0.5
    entropy_coefficient: float = 0.01


class ReturnScale(NamedTuple):
    """For scaling rewards: every instance's discounted rewards so far, `[B]`, and moments."""

    returns: jax.Array
    moments: Moments


@struct.dataclass
class TrainState:
    """Everything the next update depends on.

    Attributes:
      params: of the agent.
      optimiser: state of Adam.
      rollout: environments, current time step, agents' carries.
      reward_scale: see `ReturnScale`; None unless rewards are normalised.
      hparams: traced hyper-parameters.
      key: of the shuffling, the same throughout; actions are drawn from the instances' keys.
      updates: `int32[]`, updates made.
    """

    params: Params
    optimiser: Any
    rollout: RolloutState
    reward_scale: ReturnScale | None
    hparams: PPOHParams
    key: jax.Array
    updates: jax.Array


class Step(NamedTuple):
    """One step as collected; leaves `[T, B, ...]`.

    Attributes:
      inputs: what the network read.
      raw: the observation as it was; None unless observations are normalised.
      start: a new trial begins here.
      sample: what was drawn (see `networks.policies`), and its log-probability.
      log_prob: likewise.
      value: of this step.
      reward: received on arriving at the next step.
      terminated: the next step terminates what counts.
      over: nothing that counts comes after the next step.
      ends: the next step is the last one of an episode.
    """

    inputs: AgentInput
    raw: Any
    start: jax.Array
    sample: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    terminated: jax.Array
    over: jax.Array
    ends: jax.Array


class Batch(NamedTuple):
    """What is learnt from: windows, leaves `[W * B, window, ...]`; `carry` without the window."""

    carry: Any
    inputs: AgentInput
    start: jax.Array
    sample: jax.Array
    log_prob: jax.Array
    value: jax.Array
    advantage: jax.Array
    acted: jax.Array
    valued: jax.Array


class PPO(NamedTuple):
    """The trainer: `init` and `update`, jittable and vmappable over seeds.

    Attributes:
      init: `(key, hparams, env_params=None) -> TrainState`.
      update: `TrainState -> (TrainState, metrics)`.
      agent: `(greedy=False) -> Agent` over `state.params`; it samples its actions, or takes the
        most probable ones.
      partition: `(batch, whole) -> TrainState`: a prefix of the state with `batch` at what belongs
        to single instances and `whole` at what all of them share, such as partition specs.
    """

    init: Callable[..., TrainState]
    update: Callable[[TrainState], tuple[TrainState, Metrics]]
    agent: Callable[..., Agent]
    partition: Callable[[Any, Any], TrainState]


def advantages(
    reward: jax.Array,
    terminated: jax.Array,
    over: jax.Array,
    ignored: jax.Array,
    values: jax.Array,
    discount: jax.Array | float,
    trace: jax.Array | float,
) -> jax.Array:
    """Generalised advantages of one instance's steps; those of ignored steps mean nothing.

    Args:
      reward: float `[T]`, received on arriving at step t + 1.
      terminated: `bool[T]`, step t + 1 is terminal and worth nothing.
      over: `bool[T]`, step t + 1 is the last that counts: terminal, or cut off and worth its value.
      ignored: `bool[T]`, step t's action is ignored: it leads on without a discount.
      values: float `[T + 1]`.
      discount: gamma.
      trace: lambda.

    Returns:
      float `[T]`.

    Source: Schulman et al. (2016), equation 16.
    """
    import rlax

    estimate: Any = rlax.truncated_generalized_advantage_estimation
    dtype = values.dtype
    discounts = jnp.where(ignored, 1.0, discount) * (1 - terminated.astype(dtype))
    traces = jnp.where(ignored, 1.0, trace) * (1 - over.astype(dtype))
    return estimate(reward.astype(dtype), discounts.astype(dtype), traces.astype(dtype), values)


def make(config: PPOConfig, vec: VectorEnv, network: Network, axis: str | None = None) -> PPO:
    """Builds the trainer.

    Args:
      config: sizes and switches.
      vec: the environments; one agent, discrete or continuous actions. With `axis`, one device's
        part of them (`VectorEnv.part`).
      network: outputs `PolicyOutput`.
      axis: the mesh axis over which `update` runs inside `shard_map`. None outside.

    Returns:
      The trainer. Its metrics are means over the minibatches: `policy_loss`, `value_loss`,
      `entropy` (nats), `kl` (of the policy now from that of the rollout, nats), `clip_share` (of
      steps whose ratio is out of bounds), `gradient_norm` before clipping; and `reward` (mean per
      step) and `episodes` (ended) of the rollout.

    Raises:
      ValueError: if the environments do not fit, or cannot be parted into minibatches.
    """
    if vec.env.num_agents is not None:
        raise ValueError(f"env = {vec.env.name} has {vec.env.num_agents} agents: PPO trains one")
    space = vec.env.action_space()
    policy = policy_for(space, config.bounds)
    memory = bool(jax.tree.leaves(network.initial_carry(1)))
    window = config.window or (config.unroll if memory else 1)
    windows, parts, num_envs = config.unroll // window, config.minibatches, vec.num_envs
    if windows % parts and num_envs % parts:
        raise ValueError(
            f"minibatches = {parts}: a divisor of the {windows} windows of an instance or of the "
            f"{num_envs} instances is needed"
        )

    def total(x: Any) -> Any:
        return x if axis is None else jax.lax.psum(x, axis)

    # Acting ----------------------------------------------------------------------------------

    def judge(params: Params, carry: AgentCarry, timestep: TimeStep) -> tuple[AgentInput, Any, Any]:
        """The network's input, its output and its carry at one time step."""
        inputs = agent_input(space, carry, timestep)
        inputs = inputs._replace(observation=params.scaled(inputs.observation))
        output, core = network.step(params.network, carry.core, inputs, timestep.trial_start)
        return inputs, output, core

    def draw(key: jax.Array, logits: jax.Array, observation: Any) -> tuple[jax.Array, jax.Array]:
        """A sample and its log-probability, unbatched."""
        drawn: Any = policy.distribution(logits, observation).sample_and_log_prob(seed=key)
        return drawn

    def agent(greedy: bool = False) -> Agent:
        def act(
            key: jax.Array, params: Params, carry: AgentCarry, timestep: TimeStep
        ) -> tuple[jax.Array, Any, AgentCarry]:
            inputs, output, core = judge(params, carry, timestep)
            distribution = policy.distribution(output.logits, inputs.observation)
            sample: Any = distribution.mode() if greedy else distribution.sample(seed=key)
            action = policy.to_action(sample)
            aux = {"log_prob": distribution.log_prob(sample), "value": output.value}
            return action, aux, AgentCarry(core, action)

        return Agent(lambda batch: initial_memory(network, space, batch), act)

    # Collecting ------------------------------------------------------------------------------

    def is_closed(vstate: VectorState, timestep: TimeStep) -> jax.Array:
        """`bool[B]`: what comes after this step does not count."""
        if config.horizon == "episode":
            return timestep.last
        if vec.steps_per_trial is not None:
            return timestep.last & (vstate.trial_time >= vec.steps_per_trial)
        return timestep.last & (vstate.episode + 1 >= vec.episodes_per_trial)

    def collect(state: TrainState) -> tuple[RolloutState, Any, Step]:
        """The rollout, the memories at the start of each window, and all steps."""

        def step(rollout: RolloutState, _: None) -> tuple[RolloutState, Step]:
            vstate, timestep, carry = rollout
            inputs, output, core = judge(state.params, carry, timestep)
            sample, log_prob = jax.vmap(draw)(
                vec.choice_keys(vstate), output.logits, inputs.observation
            )
            action = policy.to_action(sample)
            vstate, following = vec.step(vstate, action)
            over = is_closed(vstate, following)
            kept = Step(
                inputs=inputs,
                raw=timestep.observation if config.normalise_observations else None,
                start=timestep.trial_start,
                sample=sample,
                log_prob=log_prob,
                value=output.value,
                reward=following.reward,
                terminated=following.terminated & over,
                over=over,
                ends=following.last,
            )
            return RolloutState(vstate, following, AgentCarry(core, action)), kept

        def stretch(rollout: RolloutState, _: None) -> tuple[RolloutState, tuple[Any, Step]]:
            following, steps = jax.lax.scan(step, rollout, None, config.unroll // stretches)
            return following, (rollout.carry.core, steps)

        stretches = windows if memory else 1
        rollout, (memories, steps) = jax.lax.scan(stretch, state.rollout, None, stretches)
        steps = jax.tree.map(lambda x: x.reshape(config.unroll, *x.shape[2:]), steps)
        return rollout, memories, steps

    def scale_rewards(
        state: TrainState, steps: Step, acted: jax.Array
    ) -> tuple[ReturnScale | None, jax.Array]:
        if state.reward_scale is None:
            return None, steps.reward

        def add(returns: jax.Array, x: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            returns = state.hparams.discount * returns + x[0]
            return jnp.where(x[1], 0, returns), returns

        returns, seen = jax.lax.scan(add, state.reward_scale.returns, (steps.reward, steps.over))
        moments = update_moments(state.reward_scale.moments, seen.ravel(), acted.ravel(), axis)
        centred = dataclasses.replace(moments, mean=jnp.zeros_like(moments.mean))
        return ReturnScale(returns, moments), normalise(centred, steps.reward)

    def seen_observations(params: Params, steps: Step) -> Params:
        """The parameters with the rollout's observations in their scale."""
        if params.scale is None:
            return params
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), steps.raw)
        weights = jnp.ones(config.unroll * num_envs, jnp.result_type(float))
        return params._replace(scale=update_moments(params.scale, flat, weights, axis))

    # Learning --------------------------------------------------------------------------------

    def into_windows(x: jax.Array) -> jax.Array:
        """`[T, B, ...]` -> `[W * B, window, ...]`."""
        x = x.reshape(windows, window, *x.shape[1:]).swapaxes(1, 2)
        return x.reshape(windows * num_envs, window, *x.shape[3:])

    def groups(key: jax.Array) -> jax.Array:
        """The windows of each minibatch, `int32[M, W * B / M]`."""
        index = 0 if axis is None else jax.lax.axis_index(axis)
        if windows % parts:
            order = jax.random.permutation(jax.random.fold_in(key, index), num_envs)
            order = order + num_envs * jnp.arange(windows)[:, None]
            return order.reshape(windows, parts, -1).swapaxes(0, 1).reshape(parts, -1)
        # One order of the windows, which every instance begins at a place of its own: much cheaper
        # than as many orders, and the groups do not depend on the number of devices.
        order_key, place_key = jax.random.split(key)
        instance = jnp.arange(num_envs)
        place = jax.vmap(lambda i: jax.random.bits(jax.random.fold_in(place_key, i)))(
            index * num_envs + instance
        )
        turn = jnp.arange(windows)[:, None] + (place % windows).astype(jnp.int32)
        order = jax.random.permutation(order_key, windows)[turn % windows]
        return (order * num_envs + instance).reshape(parts, -1)

    def loss_fn(
        network_params: Any, hparams: PPOHParams, batch: Batch
    ) -> tuple[jax.Array, Metrics]:
        """This device's part of the loss; summed over devices it is a mean."""
        output, _ = network.unroll(network_params, batch.carry, batch.inputs, batch.start)
        distribution = policy.distribution(output.logits, batch.inputs.observation)
        log_ratio = distribution.log_prob(batch.sample) - batch.log_prob
        ratio = jnp.exp(log_ratio)
        acted = batch.acted / jnp.maximum(total(batch.acted.sum()), 1)
        valued = batch.valued / jnp.maximum(total(batch.valued.sum()), 1)

        gain = batch.advantage
        if config.normalise_advantages:
            gain = gain - total((gain * acted).sum())
            gain = gain / (jnp.sqrt(total((jnp.square(gain) * acted).sum())) + 1e-8)
        clipped = jnp.clip(ratio, 1 - hparams.clip, 1 + hparams.clip)
        policy_loss = -(jnp.minimum(ratio * gain, clipped * gain) * acted).sum()

        target = batch.advantage + batch.value
        change = jnp.clip(output.value - batch.value, -hparams.value_clip, hparams.value_clip)
        errors = jnp.maximum(
            jnp.square(output.value - target), jnp.square(batch.value + change - target)
        )
        value_loss = 0.5 * (errors * valued).sum()

        entropy = (distribution.entropy() * acted).sum()
        loss = policy_loss + hparams.value_coefficient * value_loss
        metrics = {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "kl": ((ratio - 1 - log_ratio) * acted).sum(),
            "clip_share": ((jnp.abs(ratio - 1) > hparams.clip) * acted).sum(),
        }
        return loss - hparams.entropy_coefficient * entropy, metrics

    def learn(state: TrainState, batch: Batch) -> tuple[Any, Any, Metrics]:
        optimiser = clipped_adam(state.hparams, config.epochs * parts)

        def descend(learner: tuple[Any, Any], batch: Batch) -> tuple[tuple[Any, Any], Metrics]:
            params, memory = learner
            batch = Batch(batch.carry, *jax.tree.map(lambda x: x.swapaxes(0, 1), batch[1:]))
            # The gradient of this device's part, summed outside: `grad` of a sum that crosses
            # devices would count every device's share once per device.
            grads, metrics = jax.grad(loss_fn, has_aux=True)(params, state.hparams, batch)
            grads, metrics = total((grads, metrics))
            metrics["gradient_norm"] = optax.tree.norm(grads)
            changes, memory = optimiser.update(grads, memory, params)
            return (optax.apply_updates(params, changes), memory), metrics

        def epoch(learner: tuple[Any, Any], key: jax.Array) -> tuple[tuple[Any, Any], Metrics]:
            if parts == 1:
                return descend(learner, batch)
            return jax.lax.scan(
                lambda learner, group: descend(learner, jax.tree.map(lambda x: x[group], batch)),
                learner,
                groups(key),
            )

        keys = jax.random.split(jax.random.fold_in(state.key, state.updates), config.epochs)
        learner, metrics = jax.lax.scan(epoch, (state.params.network, state.optimiser), keys)
        return *learner, jax.tree.map(jnp.mean, metrics)

    # The trainer -----------------------------------------------------------------------------

    def update(state: TrainState) -> tuple[TrainState, Metrics]:
        rollout, memories, steps = collect(state)
        _, last, _ = judge(state.params, rollout.carry, rollout.timestep)
        values = jnp.concatenate([steps.value, last.value[None]])
        first = state.rollout.timestep.last
        ignored = jnp.concatenate([first[None], steps.ends[:-1]])
        acted = valued = (~ignored).astype(values.dtype)
        if config.horizon == "trial":
            # Between two episodes of a trial nothing is chosen, but their values pass through.
            closed = is_closed(state.rollout.vstate, state.rollout.timestep)
            closed = jnp.concatenate([closed[None], steps.over[:-1]])
            valued = (~closed).astype(values.dtype)
        reward_scale, rewards = scale_rewards(state, steps, acted)
        gains = jax.vmap(advantages, (1, 1, 1, 1, 1, None, None), 1)(
            rewards,
            steps.terminated,
            steps.over,
            ignored,
            values,
            state.hparams.discount,
            state.hparams.trace,
        )
        per_step = (steps.inputs, steps.start, steps.sample, steps.log_prob, steps.value)
        batch = Batch(
            jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), memories),
            *jax.tree.map(into_windows, (*per_step, gains, acted, valued)),
        )
        network_params, memory, metrics = learn(state, batch)
        metrics["reward"] = total((steps.reward * acted).sum()) / total(acted.sum())
        metrics["episodes"] = total(steps.ends.sum(dtype=jnp.int32))
        return dataclasses.replace(
            state,
            params=seen_observations(state.params, steps)._replace(network=network_params),
            optimiser=memory,
            rollout=rollout,
            reward_scale=reward_scale,
            updates=state.updates + 1,
        ), metrics

    def init(key: jax.Array, hparams: PPOHParams, env_params: Any = None) -> TrainState:
        hparams = definite(hparams)
        init_key, env_key, key = jax.random.split(key, 3)
        rollout = start_rollout(env_key, vec, agent(), env_params)
        inputs = agent_input(space, rollout.carry, rollout.timestep)
        params = network.init(init_key, inputs)
        start = rollout.timestep.trial_start
        output, _ = jax.eval_shape(network.step, params, rollout.carry.core, inputs, start)
        if output.logits.shape != (num_envs, policy.size):
            raise ValueError(
                f"network: got logits of shape {output.logits.shape}; {space} needs "
                f"{(num_envs, policy.size)}"
            )
        scale = reward_scale = None
        if config.normalise_observations:
            scale = no_moments(jax.tree.map(lambda x: x[0], rollout.timestep.observation))
        if config.normalise_rewards:
            reward = rollout.timestep.reward
            reward_scale = ReturnScale(jnp.zeros_like(reward), no_moments(reward[0]))
        return TrainState(
            params=Params(params, scale),
            optimiser=clipped_adam(hparams).init(params),
            rollout=rollout,
            reward_scale=reward_scale,
            hparams=hparams,
            key=key,
            updates=jnp.zeros((), jnp.int32),
        )

    def partition(batch: Any, whole: Any) -> TrainState:
        return TrainState(
            params=whole,  # type: ignore[arg-type]
            optimiser=whole,
            rollout=RolloutState(vec.partition(batch, whole), batch, batch),
            reward_scale=ReturnScale(batch, whole) if config.normalise_rewards else None,
            hparams=whole,
            key=whole,
            updates=whole,
        )

    return PPO(init, update, agent, partition)
