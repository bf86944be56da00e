"""PPO: proximal policy optimisation (Schulman et al., 2017), with or without a memory.

One update collects `unroll` steps from all environments and learns from them `epochs` times, in
minibatches. Everything the next update depends on is in `TrainState`, so that `vmap` over seeds,
exact resumption and sharding need nothing else.

A rollout runs on across episodes and trials. The step after the end of an episode ignores its
action: it carries no policy loss, and no advantage flows over it. An episode that was cut off is
worth the value of its last observation, one that terminated nothing. With `horizon="trial"` what
counts are all episodes of a trial together: exploring in one of them pays in the next (Duan et
al., 2016, "RL²").

Several agents (an agent axis behind the batch's) share their parameters or have their own; each
learns from its own reward and values, with the others as part of its environment (de Witt et al.,
2020, "Is independent learning all you need?").

The environments may be spread over devices, each with its part of the batch (`runtime.per_part`).
Sums that enter gradients and statistics are summed over them, and actions are drawn from each
instance's own keys. So with one minibatch, or with minibatches of every instance's own windows (the
usual case without a memory), the result is that of one device within rounding. Where minibatches
are made of whole instances, each device shuffles its own, so that the groups differ.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct

from gpicljax import spaces
from gpicljax.agents.acting import (
    Params,
    agent_input,
    check_whole_trials,
    network_agent,
    over_params,
    policy_agent,
)
from gpicljax.agents.algorithm import (
    Algorithm,
    NetworkSettings,
    agent_spaces,
    network_from,
    register_algorithm,
)
from gpicljax.agents.fits import need_actions
from gpicljax.agents.normalisation import (
    ReturnScale,
    no_moments,
    no_return_scale,
    scale_rewards,
    update_moments,
)
from gpicljax.agents.optimisation import AdamHParams, clipped_adam
from gpicljax.agents.ppo_loss import Batch, into_windows, loss, minibatches
from gpicljax.agents.returns import generalised_advantages
from gpicljax.batching import donatable, strip_weak_types
from gpicljax.checks import Count, Limit, Rate, Share, check, check_fields
from gpicljax.interface import Agent, TimeStep, Trainer, prefix_of
from gpicljax.networks.actor_critic import ActorCriticSettings, PolicyOutput
from gpicljax.networks.contract import AgentInput, Network, over_agents
from gpicljax.networks.policies import Bounds, Policy, policy_for
from gpicljax.networks.recurrent_settings import RecurrentSettings
from gpicljax.rollout import Record, RolloutState, rollout, start_rollout
from gpicljax.typing import ArrayTree, Observation
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
      share_parameters: whether several agents have the same parameters.
      whole_trials: whether a window is one trial of an instance, from its start to the step into
        the next: so no memory is kept beside it. T is then the trial's length plus 1.
      temperature: of discrete actions where the agent is to be greedy; 0 takes the most probable
        ones.

    Example:
      >>> PPOConfig(unroll=64, minibatches=2).horizon
      'episode'
      >>> PPOConfig(unroll=64, window=10)
      Traceback (most recent call last):
      ValueError: window: got 10; accepted: a divisor of unroll = 64
    """

    unroll: Count = 128
    epochs: Count = 4
    minibatches: Count = 4
    window: Count | None = None
    horizon: Horizon = "episode"
    normalise_advantages: bool = True
    normalise_observations: bool = False
    normalise_rewards: bool = False
    bounds: Bounds = "clip"
    share_parameters: bool = True
    whole_trials: bool = False
    temperature: Rate = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        divides = self.window is None or self.unroll % self.window == 0
        check(divides, "window", self.window, f"a divisor of unroll = {self.unroll}")


@struct.dataclass
class PPOHParams(AdamHParams):
    """Hyper-parameters of PPO, beside Adam's. They may be traced, e.g. for a vmapped sweep.

    Attributes:
      discount: gamma.
      gae_lambda: lambda of the advantages.
      clip: largest distance from 1 up to which the ratio of probabilities is followed.
      value_clip: largest distance from the rollout's values up to which values are followed;
        infinite for no limit.
      value_coefficient: weight of the value loss.
      entropy_coefficient: weight of the entropy bonus.

    Example:
      >>> sweep = jax.vmap(lambda rate: PPOHParams(learning_rate=rate))(jnp.array([1e-3, 1e-4]))
      >>> sweep.learning_rate.shape
      (2,)
    """

    adam_epsilon: Rate = 1e-5
    max_gradient_norm: Limit = 0.5
    discount: Share = 0.99
    gae_lambda: Share = 0.95
    clip: Rate = 0.2
    value_clip: Limit = float("inf")
    value_coefficient: Rate = 0.5
    entropy_coefficient: Rate = 0.01


@struct.dataclass
class TrainState:
    """Everything the next update depends on.

    Attributes:
      params: of the agent.
      opt_state: of Adam.
      rollout: environments, current time step, agents' carries.
      reward_scale: None unless rewards are normalised.
      hparams: traced hyper-parameters.
      key: of the shuffling, the same throughout; actions are drawn from the instances' keys.
      updates: `int32[]`, updates made.
    """

    params: Params
    opt_state: Any
    rollout: RolloutState
    reward_scale: ReturnScale | None
    hparams: PPOHParams
    key: jax.Array
    updates: jax.Array


class RolloutStep(NamedTuple):
    """One step as collected; leaves `[T, B, ...]`, with an agent axis where there are several.

    Attributes:
      inputs: what the network read.
      raw: the observation as it was; None unless observations are normalised.
      start: `bool[T, B]`, a new trial begins here.
      sample: what was drawn (see `networks.policies`).
      log_prob: its log-probability.
      value: of this step.
      reward: received on arriving at the next step.
      terminated: `bool[T, B]`, the next step terminates what counts.
      over: `bool[T, B]`, nothing that counts comes after the next step.
      ends: `bool[T, B]`, the next step is the last one of an episode.
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


def make(
    config: PPOConfig,
    vec: VectorEnv,
    network: NetworkSettings | Network,
    axis: str | None = None,
) -> Trainer:
    """Builds the trainer.

    Args:
      config: sizes and switches.
      vec: the environments. With `axis`, one device's part of them (`VectorEnv.part`).
      network: of one agent, or settings of one; outputs `PolicyOutput`.
      axis: the mesh axis over which `update` runs inside `shard_map`. None outside.

    Returns:
      The trainer. Its agent draws its actions, or takes the most probable ones if greedy. Its
      metrics are means over the minibatches: `policy_loss`, `value_loss`, `entropy` (nats), `kl`
      (of the policy now from that of the rollout, nats), `clip_share` (of steps whose ratio is out
      of bounds), `gradient_norm` before clipping; and `reward` (mean per step, and agent) and
      `episodes` (ended) of the rollout.

    Raises:
      ValueError: if the environments do not fit, or cannot be parted into minibatches.
    """
    policy = policy_for(agent_spaces(vec.env)[1], config.bounds)
    network, agents = network_from(network, vec), vec.env.num_agents
    if agents is not None:
        network = over_agents(network, agents, config.share_parameters)
    recurrent = bool(jax.tree.leaves(network.initial_carry(1)))
    window = config.window or (config.unroll if recurrent else 1)
    windows = config.unroll // window
    divides = not windows % config.minibatches or not vec.num_envs % config.minibatches
    accepted_values = (
        f"a divisor of the {windows} windows of an instance or of the {vec.num_envs} instances"
    )
    check(divides, "minibatches", config.minibatches, accepted_values)
    check_whole_trials(config.whole_trials, vec, window)
    ppo = PPO(config, vec, network, policy, recurrent, windows, axis)
    return Trainer(
        ppo.init, ppo.update, ppo.agent, config.unroll * vec.num_envs, partition=ppo.partition
    )


def like_values(flags: jax.Array, values: jax.Array) -> jax.Array:
    """`[T, B]` for every agent, where `values` has an agent axis `[..., B, A]`."""
    if values.ndim == 2:
        return flags
    return jnp.broadcast_to(flags[..., None], (*flags.shape, values.shape[-1]))


@dataclasses.dataclass(frozen=True, eq=False)
class PPO:
    """The algorithm; see `make`, which checks the arguments.

    Args:
      config: sizes and switches.
      vec: the environments.
      network: of all agents.
      policy: of one agent.
      recurrent: whether the network has a memory.
      windows: W, those of one instance.
      axis: the mesh axis, if there is one.
    """

    config: PPOConfig
    vec: VectorEnv
    network: Network
    policy: Policy
    recurrent: bool
    windows: int
    axis: str | None

    @donatable
    def init(self, key: jax.Array, hparams: PPOHParams, env_params: ArrayTree = None) -> TrainState:
        """See `interface.Trainer`."""
        hparams = strip_weak_types(hparams)
        init_key, env_key, key = jax.random.split(key, 3)
        start = start_rollout(env_key, self.vec, self.agent(), env_params)
        timestep = start.timestep
        inputs = agent_input(self._space, start.carry, timestep)
        params = strip_weak_types(self.network.init(init_key, inputs))
        output, _ = jax.eval_shape(
            self.network.step, params, start.carry.core, inputs, timestep.trial_start
        )
        shape, expected = output.logits.shape, (*timestep.reward.shape, self.policy.size)
        accepted_values = f"{expected}, for {self.vec.env.action_space()}"
        check(shape == expected, "network", f"logits of shape {shape}", accepted_values)
        scale = reward_scale = None
        if self.config.normalise_observations:
            scale = no_moments(jax.tree.map(lambda x: x[0], timestep.observation))
        if self.config.normalise_rewards:
            reward_scale = no_return_scale(timestep.reward)
        return TrainState(
            params=Params(params, scale),
            opt_state=clipped_adam(hparams).init(params),
            rollout=start,
            reward_scale=reward_scale,
            hparams=hparams,
            key=key,
            updates=jnp.zeros((), jnp.int32),
        )

    def update(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """See `interface.Trainer`: a rollout, its advantages, epochs of minibatches."""
        rollout, memories, steps = self.collect(state)
        last = self._value(state.params, rollout)
        values = jnp.concatenate([steps.value, last[None]])
        ignored, acted, valued = self.loss_masks(state.rollout, steps)
        reward_scale, rewards = state.reward_scale, steps.reward
        over = like_values(steps.over, values)
        if reward_scale is not None:
            reward_scale, rewards = scale_rewards(
                reward_scale, rewards, over, acted, state.hparams.discount, self.axis
            )
        advantage = generalised_advantages(
            rewards,
            like_values(steps.terminated, values),
            over,
            ignored,
            values,
            state.hparams.discount,
            state.hparams.gae_lambda,
        )
        per_step = (steps.inputs, steps.start, steps.sample, steps.log_prob, steps.value)
        batch = Batch(
            jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), memories),
            *jax.tree.map(
                lambda x: into_windows(x, self.windows), (*per_step, advantage, acted, valued)
            ),
        )
        network_params, opt_state, metrics = self.learn(state, batch)
        paid = jnp.where(acted > 0, steps.reward, 0).sum()
        metrics["reward"] = self._total(paid) / jnp.maximum(self._total(acted.sum()), 1)
        metrics["episodes"] = self._total(steps.ends.sum(dtype=jnp.int32))
        params = self.with_scale_of(state.params, steps)._replace(network=network_params)
        return dataclasses.replace(
            state,
            params=params,
            opt_state=opt_state,
            rollout=rollout,
            reward_scale=reward_scale,
            updates=state.updates + 1,
        ), metrics

    def partition(self, batch: object, replicated: object) -> TrainState:
        """See `interface.Trainer`."""
        normalised = self.config.normalise_rewards
        return prefix_of(
            TrainState,
            params=replicated,
            opt_state=replicated,
            rollout=prefix_of(RolloutState, self.vec.partition(batch, replicated), batch, batch),
            reward_scale=prefix_of(ReturnScale, batch, replicated) if normalised else None,
            hparams=replicated,
            key=replicated,
            updates=replicated,
        )

    def _total(self, x: ArrayTree) -> Any:
        return x if self.axis is None else jax.lax.psum(x, self.axis)

    @property
    def _space(self) -> spaces.Space:
        """The space of all agents' actions."""
        agents, space = self.vec.env.num_agents, self.policy.space
        return space if agents is None else spaces.repeat(space, agents)

    # Acting ----------------------------------------------------------------------------------

    def agent(self, greedy: bool = False) -> Agent:
        """See `interface.Trainer`."""
        if greedy and self.config.temperature > 0:
            return over_params(policy_agent(self.network, self._space, self.config.temperature))

        acting = self._acting(greedy)

        def act(
            keys: jax.Array, params: Params, carry: ArrayTree, timestep: TimeStep
        ) -> tuple[Any, ...]:
            action, aux, carry = acting.act(keys, params, carry, timestep)
            return action, {name: aux[name] for name in ("log_prob", "value")}, carry

        return Agent(acting.initial_carry, act)

    def _acting(self, greedy: bool = False) -> Agent:
        """Returns the agent; `aux` has all that is learnt from."""

        def draw(key: jax.Array, logits: jax.Array, observation: Observation) -> Any:
            distribution = self.policy.distribution(logits, observation)
            if not greedy:
                return distribution.sample_and_log_prob(seed=key)
            sample = distribution.mode()
            return sample, distribution.log_prob(sample)

        def choose(keys: jax.Array, inputs: AgentInput, output: PolicyOutput) -> tuple[Any, ...]:
            sample, log_prob = jax.vmap(draw)(keys, output.logits, inputs.observation)
            action = self.policy.to_action(sample)
            aux = {"inputs": inputs, "sample": sample, "log_prob": log_prob, "value": output.value}
            return action, aux, action

        return over_params(network_agent(self.network, self._space, choose))

    def _value(self, params: Params, rollout: RolloutState) -> jax.Array:
        """The value of what is seen now, float `[B]`."""
        carry, timestep = rollout.carry, rollout.timestep
        scaled = timestep._replace(observation=params.scale_observation(timestep.observation))
        inputs = agent_input(self._space, carry, scaled)
        return self.network.step(params.network, carry.core, inputs, timestep.trial_start)[0].value

    # Collecting ------------------------------------------------------------------------------

    def collect(self, state: TrainState) -> tuple[RolloutState, Any, RolloutStep]:
        """Returns the rollout, the memories at the start of each window, and all steps."""
        agent, config = self._acting(), self.config

        def keep(record: Record) -> RolloutStep:
            before, after = record.timestep, record.next_timestep
            over = self.is_closed(record.next_vstate, after)
            return RolloutStep(
                raw=before.observation if config.normalise_observations else None,
                start=before.trial_start,
                reward=after.reward,
                terminated=after.terminated & over,
                over=over,
                ends=after.last,
                **record.aux,
            )

        def one_window(
            start: RolloutState, _: None
        ) -> tuple[RolloutState, tuple[Any, RolloutStep]]:
            length = config.unroll // scanned
            following, steps = rollout(self.vec, agent, state.params, start, length, keep)
            memory = None if config.whole_trials else start.carry.core
            return following, (memory, steps)

        scanned = self.windows if self.recurrent else 1
        following, (memories, steps) = jax.lax.scan(one_window, state.rollout, None, scanned)
        steps = jax.tree.map(lambda x: x.reshape(config.unroll, *x.shape[2:]), steps)
        return following, memories, steps

    def is_closed(self, vstate: VectorState, timestep: TimeStep) -> jax.Array:
        """`bool[B]`: what comes after this step does not count."""
        vec = self.vec
        if self.config.horizon == "episode":
            return timestep.last
        if vec.steps_per_trial is not None:
            return timestep.last & (vstate.trial_time >= vec.steps_per_trial)
        return timestep.last & (vstate.episode + 1 >= vec.episodes_per_trial)

    def loss_masks(
        self, start: RolloutState, steps: RolloutStep
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns whether actions were ignored, and 0-1 masks of the policy and value losses."""
        ignored = jnp.concatenate([start.timestep.last[None], steps.ends[:-1]])
        acted = valued = (~ignored).astype(steps.value.dtype)
        if self.config.horizon == "trial":
            # Between two episodes of a trial nothing is chosen, but their values pass through.
            closed = self.is_closed(start.vstate, start.timestep)
            closed = jnp.concatenate([closed[None], steps.over[:-1]])
            valued = (~closed).astype(steps.value.dtype)
        broadcast = functools.partial(like_values, values=steps.value)
        return broadcast(ignored), broadcast(acted), broadcast(valued)

    def with_scale_of(self, params: Params, steps: RolloutStep) -> Params:
        """Returns the parameters with the rollout's observations in their scale."""
        if params.scale is None:
            return params
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), steps.raw)
        weights = jnp.ones(self.config.unroll * self.vec.num_envs, jnp.result_type(float))
        return params._replace(scale=update_moments(params.scale, flat, weights, self.axis))

    # Learning --------------------------------------------------------------------------------

    def learn(self, state: TrainState, batch: Batch) -> tuple[Any, Any, Metrics]:
        """The network's parameters and the optimiser's state after all epochs; mean metrics."""
        epochs, parts = self.config.epochs, self.config.minibatches
        optimiser = clipped_adam(state.hparams, epochs * parts)

        def loss_of(params: ArrayTree, batch: Batch) -> tuple[jax.Array, Metrics]:
            starts = None if self.config.whole_trials else batch.start
            output, _ = self.network.unroll(params, batch.carry, batch.inputs, starts)
            distribution = self.policy.distribution(output.logits, batch.inputs.observation)
            scaled = self.config.normalise_advantages
            return loss(state.hparams, output, distribution, batch, scaled, self.axis)

        def step(learner: tuple[Any, Any], batch: Batch) -> tuple[tuple[Any, Any], Metrics]:
            params, opt_state = learner
            batch = Batch(batch.carry, *jax.tree.map(lambda x: x.swapaxes(0, 1), batch[1:]))
            # The gradient of this device's part, summed outside: `grad` of a sum that crosses
            # devices would count every device's share once per device.
            grads, metrics = jax.grad(loss_of, has_aux=True)(params, batch)
            grads, metrics = self._total((grads, metrics))
            metrics["gradient_norm"] = optax.tree.norm(grads)
            steps, opt_state = optimiser.update(grads, opt_state, params)
            return (optax.apply_updates(params, steps), opt_state), metrics

        def epoch(learner: tuple[Any, Any], key: jax.Array) -> tuple[tuple[Any, Any], Metrics]:
            if parts == 1:
                return step(learner, batch)
            return jax.lax.scan(
                lambda learner, group: step(learner, jax.tree.map(lambda x: x[group], batch)),
                learner,
                minibatches(key, self.windows, self.vec.num_envs, parts, self.axis),
            )

        keys = jax.random.split(jax.random.fold_in(state.key, state.updates), epochs)
        learner, metrics = jax.lax.scan(epoch, (state.params.network, state.opt_state), keys)
        return *learner, jax.tree.map(jnp.mean, metrics)


_PPO = Algorithm(
    "ppo", make, need_actions, PPOConfig, PPOHParams, ActorCriticSettings, multi_agent=True
)
register_algorithm(_PPO)
register_algorithm(
    dataclasses.replace(_PPO, name="recurrent-ppo", network=RecurrentSettings, remembers=True)
)
