"""TD3: twin delayed deterministic policy gradients (Fujimoto et al., 2018), and DDPG.

One update takes `period` steps in all environments, stores the transitions that they complete and
learns `updates_per_collect` times: so many steps of the critics, and one of the actor and of the
target networks after every `policy_delay` of them. Everything the next update depends on is in
`TrainState`, so that `vmap` over seeds and exact resumption need nothing else.

DDPG (Lillicrap et al., 2016) is what is left with one critic, a delay of 1 and no noise in the
targets: `DDPGConfig`.

Noise is in units of half the range of an action. Returns end with the episode: one that was cut off
is worth the value of its last observation, one that terminated nothing.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.agents.acting import box_agent
from gpicljax.agents.off_policy import (
    OffPolicy,
    OffPolicyConfig,
    OffPolicyHParams,
    OffPolicyState,
    register_off_policy,
)
from gpicljax.agents.optimisation import polyak
from gpicljax.agents.returns import one_step_target
from gpicljax.batching import donatable, strip_weak_types
from gpicljax.checks import Count, Limit, Range, Rate, Share, check
from gpicljax.data.replay import Replay
from gpicljax.data.transitions import NStepTransition
from gpicljax.interface import Agent, Trainer
from gpicljax.networks.continuous import DeterministicActor
from gpicljax.networks.contract import Network
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

Metrics = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class TD3Config(OffPolicyConfig):
    """Sizes and switches of TD3; all are static. They are those of `OffPolicyConfig`, and two more.

    Attributes:
      policy_delay: steps of the critics before one of the actor; divides `updates_per_collect`.
      smooth_targets: whether the target actor's actions are noisy.

    Example:
      >>> TD3Config(updates_per_collect=4).policy_delay
      2
      >>> TD3Config(updates_per_collect=3)
      Traceback (most recent call last):
      ValueError: policy_delay: got 2; accepted: a divisor of updates_per_collect = 3
    """

    policy_delay: Count = 2
    smooth_targets: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        divides = self.updates_per_collect % self.policy_delay == 0
        accepted_values = f"a divisor of updates_per_collect = {self.updates_per_collect}"
        check(divides, "policy_delay", self.policy_delay, accepted_values)


@dataclasses.dataclass(frozen=True)
class DDPGConfig(TD3Config):
    """Sizes and switches of TD3, with the defaults that make it DDPG.

    Example:
      >>> config = DDPGConfig(n_step=3)
      >>> config.critics, config.policy_delay, config.smooth_targets
      (1, 1, False)
    """

    critics: Count = 1
    policy_delay: Count = 1
    smooth_targets: bool = False


@struct.dataclass
class TD3HParams(OffPolicyHParams):
    """Hyper-parameters of TD3, beside those of `OffPolicyHParams`.

    Attributes:
      exploration_noise: standard deviation of the Gaussian noise on actions while collecting.
      random_share: share of the actions that are uniformly random instead while collecting.
        Hindsight replay was published with 0.2, and with 0.3 for Fetch.
      target_noise: standard deviation of the Gaussian noise on the target actor's actions.
      target_clip: largest absolute value of that noise.
      action_cost: weight of the actions' mean square in the actor's loss, so that it keeps away
        from the ends of their range, where `tanh` has no gradient. Hindsight replay was published
        with 1.
      most_target: upper bound of what critics are drawn to; 0 where no reward is positive.

    Example:
      >>> fetch = TD3HParams(random_share=0.3, action_cost=1.0, most_target=0.0)
      >>> fetch.random_share, fetch.target_clip
      (0.3, 0.5)
    """

    exploration_noise: Rate = 0.1
    random_share: Share = 0.0
    target_noise: Rate = 0.2
    target_clip: Limit = 0.5
    action_cost: Rate = 0.0
    most_target: Annotated[float, Range(infinite=True)] = float("inf")


@struct.dataclass
class TrainState(OffPolicyState):
    """Everything the next update depends on; the other fields are `OffPolicyState`'s.

    Attributes:
      target_params: of the actor's target network.
    """

    target_params: Any


def make(
    config: TD3Config,
    vec: VectorEnv,
    actor: Network,
    critic: Network,
    replay: Replay | None = None,
) -> Trainer:
    """Builds the trainer.

    Args:
      config: sizes and switches.
      vec: the environments; one agent, a bounded box of float actions.
      actor: outputs actions within [-1, 1], see `networks.continuous.DeterministicActor`.
      critic: outputs `config.critics` values, see `networks.continuous.Critics`.
      replay: stores and draws the transitions; by default what `config.replay` names.

    Returns:
      The trainer. Unless greedy, its agent's actions have the noise that is the default while
      collecting. Its metrics are means over the steps of the optimisers: `critic_loss`, summed
      over critics; `q_value`, of the batch's actions, over critics; `critic_gradient_norm` before
      clipping; `actor_loss` and `actor_gradient_norm` likewise; and `reward` (mean per step) and
      `episodes` (ended) while collecting.
    """
    td3 = TD3(config, vec, actor, critic, replay)
    observations = config.period * vec.num_envs
    return Trainer(td3.init, td3.update, td3.agent, observations, config.updates_per_collect)


@dataclasses.dataclass(frozen=True, eq=False)
class TD3(OffPolicy[TrainState]):
    """The algorithm; see `OffPolicy`, which has the arguments and checks them."""

    config: TD3Config

    @donatable
    def init(self, key: jax.Array, hparams: TD3HParams, env_params: ArrayTree = None) -> TrainState:
        """See `interface.Trainer`."""
        common = self.start(key, strip_weak_types(hparams), env_params, self.policy.size)
        target_params = jax.tree.map(jnp.copy, common["params"].network)
        return TrainState(target_params=target_params, **common)

    # Acting ----------------------------------------------------------------------------------

    def agent(self, greedy: bool = False) -> Agent:
        """See `interface.Trainer`."""
        if greedy:
            return box_agent(self.actor, self.policy, lambda key, action: action)
        return self.explorer(TD3HParams.exploration_noise)

    def collector(self, state: TrainState) -> Agent:
        """See `OffPolicy`."""
        random_share = state.hparams.random_share
        uniform = jnp.where(state.observations < self.config.warm_up, 1.0, random_share)
        return self.explorer(state.hparams.exploration_noise, uniform)

    def explorer(self, noise: jax.Array | float, uniform: jax.Array | float = False) -> Agent:
        """Returns an agent with Gaussian noise on actions, and a share of uniform actions."""

        def choose(key: jax.Array, action: jax.Array) -> jax.Array:
            return jnp.clip(action + noise * jax.random.normal(key, action.shape), -1, 1)

        return box_agent(self.actor, self.policy, choose, uniform)

    # Learning --------------------------------------------------------------------------------

    def keys(self, key: jax.Array) -> jax.Array:
        """See `OffPolicy`; a round has a key for every step of the critics."""
        delay = self.config.policy_delay
        return jax.random.split(key, (self.config.updates_per_collect // delay, delay))

    def step(
        self, state: TrainState, key: jax.Array, replay: ArrayTree
    ) -> tuple[TrainState, Metrics]:
        """Steps of the critics, one for each of `key: [policy_delay]`, and one of the actor."""
        state, valued = jax.lax.scan(lambda s, k: self.critic_step(s, k, replay), state, key)
        state, acted = self.actor_step(state, key[-1], replay)
        return state, jax.tree.map(jnp.mean, valued) | acted

    def critic_step(
        self, state: TrainState, key: jax.Array, replay: ArrayTree
    ) -> tuple[TrainState, Metrics]:
        """Runs one step of the critics, on a batch drawn from the replay."""
        draw_key, noise_key = jax.random.split(key)
        batch = self.draw(draw_key, replay, state.params)
        return self.fit_critics(state, batch, self.targets(noise_key, state, batch))

    def targets(self, key: jax.Array, state: TrainState, batch: NStepTransition) -> jax.Array:
        """Returns the critics' targets, float `[N]`."""
        action = self.act(state.target_params, batch.following)
        if self.config.smooth_targets:
            noise = state.hparams.target_noise * jax.random.normal(key, action.shape)
            limit = state.hparams.target_clip
            action = jnp.clip(action + jnp.clip(noise, -limit, limit), -1, 1)
        values = self.q_values(state.target_critic_params, batch.following, action)
        target = one_step_target(batch.reward, batch.discount, values.min(-1))
        return jnp.minimum(target, state.hparams.most_target)

    def actor_step(
        self, state: TrainState, key: jax.Array, replay: ArrayTree
    ) -> tuple[TrainState, Metrics]:
        """Fits the actor on the critics' batch of the same key, then moves the targets."""
        batch = self.draw(jax.random.split(key)[0], replay, state.params)

        def loss_fn(network_params: ArrayTree) -> tuple[jax.Array, Metrics]:
            action = self.act(network_params, batch.observation)
            values = self.q_values(state.critic_params, batch.observation, action)
            cost = state.hparams.action_cost * jnp.square(action).mean()
            return cost - values[:, 0].mean(), {}

        state, metrics = self.fit_actor(state, loss_fn)
        follow = functools.partial(polyak, rate=state.hparams.target_rate)
        return dataclasses.replace(
            state,
            target_params=follow(state.params.network, state.target_params),
            target_critic_params=follow(state.critic_params, state.target_critic_params),
        ), metrics


register_off_policy("td3", make, TD3Config, TD3HParams, DeterministicActor)
register_off_policy("ddpg", make, DDPGConfig, TD3HParams, DeterministicActor)
