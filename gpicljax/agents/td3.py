"""TD3: twin delayed deterministic policy gradients (Fujimoto et al., 2018), and DDPG.

One update takes `period` steps in all environments, stores the transitions that they complete and
learns `updates_per_collect` times: so many steps of the critics, and one of the actor and of the
target networks after every `policy_delay` of them. Everything the next update depends on is in
`TrainState`, so that `vmap` over seeds and exact resumption need nothing else.

DDPG (Lillicrap et al., 2016) is what is left with one critic, a delay of 1 and no noise in the
targets: `ddpg_config`.

Noise is in units of half the range of an action. Returns end with the episode: one that was cut off
is worth the value of its last observation, one that terminated nothing.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from gpicljax.agents.acting import box_agent
from gpicljax.agents.off_policy import OffPolicy, OffPolicyConfig, OffPolicyState
from gpicljax.agents.optimisation import adam, polyak
from gpicljax.batching import strip_weak_types
from gpicljax.checks import Rate, Share, check
from gpicljax.data.replay import Replay
from gpicljax.data.transitions import NStepTransition
from gpicljax.interface import Agent, Trainer
from gpicljax.networks.contract import Network
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

    policy_delay: int = 2
    smooth_targets: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        divides = self.policy_delay >= 1 and self.updates_per_collect % self.policy_delay == 0
        accepted = f"a divisor of updates_per_collect = {self.updates_per_collect}"
        check(divides, "policy_delay", self.policy_delay, accepted)


def ddpg_config(**options: Any) -> TD3Config:
    """The configuration that makes TD3 DDPG, for a critic network of one Q-function."""
    plain = {"critics": 1, "policy_delay": 1, "smooth_targets": False}
    return TD3Config(**{**plain, **options})


@struct.dataclass
class TD3HParams:
    """Hyper-parameters of TD3. They may be traced, e.g. for a vmapped sweep.

    Attributes:
      actor_learning_rate: Adam's learning rate for the actor.
      critic_learning_rate: Adam's learning rate for the critics.
      adam_epsilon: Adam's epsilon.
      max_gradient_norm: global norm at which the gradients of the actor, and those of all critics
        together, are clipped; infinite for no clipping.
      discount: gamma.
      target_rate: tau of the Polyak averages.
      exploration_noise: standard deviation of the Gaussian noise on actions while collecting.
      random_share: share of the actions that are uniformly random instead while collecting.
        Hindsight replay was published with 0.2, and with 0.3 for Fetch.
      target_noise: standard deviation of the Gaussian noise on the target actor's actions.
      target_clip: largest absolute value of that noise.

    Example:
      >>> fetch = TD3HParams(exploration_noise=0.2, random_share=0.3)
      >>> fetch.random_share, fetch.target_clip
      (0.3, 0.5)
    """

    actor_learning_rate: Rate = 3e-4
    critic_learning_rate: Rate = 3e-4
    adam_epsilon: Rate = 1e-8
    max_gradient_norm: float = float("inf")
    discount: Share = 0.99
    target_rate: Share = 5e-3
    exploration_noise: Rate = 0.1
    random_share: Share = 0.0
    target_noise: Rate = 0.2
    target_clip: float = 0.5


@struct.dataclass
class TrainState(OffPolicyState):
    """Everything the next update depends on; the other fields are `OffPolicyState`'s.

    Attributes:
      target_params: of the actor's target network.
      critic_params: of the critics.
      target_critic_params: of their target networks.
      actor_opt_state: state of Adam.
      critic_opt_state: likewise.
    """

    target_params: Any
    critic_params: Any
    target_critic_params: Any
    actor_opt_state: Any
    critic_opt_state: Any


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

    Raises:
      ValueError: if environments or networks do not fit.

    Example:
      >>> import gpicljax
      >>> from gpicljax import agents
      >>> vec = gpicljax.VectorEnv(gpicljax.make("Pendulum-v1"), num_envs=4, resets="fresh")
      >>> algorithm = agents.get_algorithm("td3")
      >>> trainer = algorithm.make(algorithm.config(), vec, algorithm.network())
    """
    shared = OffPolicy("TD3", config, vec, actor, critic, replay)
    act, q_values = shared.act, shared.q_values

    def explorer(noise: jax.Array | float, uniform: jax.Array | float = False) -> Agent:
        """Gaussian noise of that deviation on the actor's actions, or, so often, uniform ones."""

        def choose(key: jax.Array, action: jax.Array) -> jax.Array:
            return jnp.clip(action + noise * jax.random.normal(key, action.shape), -1, 1)

        return box_agent(actor, shared.policy, choose, uniform)

    def agent(greedy: bool = False) -> Agent:
        if greedy:
            return box_agent(actor, shared.policy, lambda key, action: action)
        return explorer(TD3HParams.exploration_noise)

    def optimisers(hparams: TD3HParams) -> tuple[Any, Any]:
        options = hparams.adam_epsilon, hparams.max_gradient_norm
        return (
            adam(hparams.actor_learning_rate, *options),
            adam(hparams.critic_learning_rate, *options),
        )

    # Learning --------------------------------------------------------------------------------

    def targets(key: jax.Array, state: TrainState, batch: NStepTransition) -> jax.Array:
        """What the critics are drawn to, float `[N]`."""
        action = act(state.target_params, batch.following)
        if config.smooth_targets:
            noise = state.hparams.target_noise * jax.random.normal(key, action.shape)
            limit = state.hparams.target_clip
            action = jnp.clip(action + jnp.clip(noise, -limit, limit), -1, 1)
        values = q_values(state.target_critic_params, batch.following, action)
        return batch.reward + batch.discount * values.min(-1)

    def critic_step(state: TrainState, key: jax.Array, replay: Any) -> tuple[TrainState, Metrics]:
        draw_key, noise_key = jax.random.split(key)
        batch = shared.draw(draw_key, replay, state.params)
        critic_params, opt_state, metrics = shared.fit_critics(
            optimisers(state.hparams)[1],
            state.critic_params,
            state.critic_opt_state,
            batch,
            targets(noise_key, state, batch),
        )
        return dataclasses.replace(
            state,
            critic_params=critic_params,
            critic_opt_state=opt_state,
            updates=state.updates + 1,
        ), metrics

    def actor_step(state: TrainState, key: jax.Array, replay: Any) -> tuple[TrainState, Metrics]:
        """On the batch of the critics' step with the same key; then the targets follow."""
        batch = shared.draw(jax.random.split(key)[0], replay, state.params)

        def loss_fn(params: Any) -> jax.Array:
            action = act(params, batch.observation)
            return -q_values(state.critic_params, batch.observation, action)[:, 0].mean()

        before = state.params.network
        loss, grads = jax.value_and_grad(loss_fn)(before)
        steps, opt_state = optimisers(state.hparams)[0].update(grads, state.actor_opt_state)
        params = optax.apply_updates(before, steps)
        rate = state.hparams.target_rate
        metrics = {"actor_loss": loss, "actor_gradient_norm": optax.tree.norm(grads)}
        return dataclasses.replace(
            state,
            params=state.params._replace(network=params),
            actor_opt_state=opt_state,
            target_params=polyak(params, state.target_params, rate),
            target_critic_params=polyak(state.critic_params, state.target_critic_params, rate),
        ), metrics

    def learn(state: TrainState, keys: jax.Array, replay: Any) -> tuple[TrainState, Metrics]:
        """Steps of the critics, one for each of `keys: [policy_delay]`, and one of the actor."""
        state, valued = jax.lax.scan(lambda s, key: critic_step(s, key, replay), state, keys)
        state, acted = actor_step(state, keys[-1], replay)
        return state, jax.tree.map(jnp.mean, valued) | acted

    # The trainer -----------------------------------------------------------------------------

    def init(key: jax.Array, hparams: TD3HParams, env_params: Any = None) -> TrainState:
        hparams = strip_weak_types(hparams)
        start_key, key = jax.random.split(key)
        params, critic_params, common = shared.start(start_key, agent(), env_params)
        shared.check_actor(params, common["rollout"], shared.policy.size)
        actor_optimiser, critic_optimiser = optimisers(hparams)
        return TrainState(
            params=params,
            target_params=jax.tree.map(jnp.copy, params.network),
            critic_params=critic_params,
            target_critic_params=jax.tree.map(jnp.copy, critic_params),
            actor_opt_state=actor_optimiser.init(params.network),
            critic_opt_state=critic_optimiser.init(critic_params),
            hparams=hparams,
            key=key,
            **common,
        )

    def update(state: TrainState) -> tuple[TrainState, Metrics]:
        key, learn_key = jax.random.split(state.key)
        uniform = jnp.where(state.observations < config.warm_up, 1.0, state.hparams.random_share)
        noisy = explorer(state.hparams.exploration_noise, uniform)
        state, collected = shared.gather(dataclasses.replace(state, key=key), noisy)
        rounds = config.updates_per_collect // config.policy_delay
        keys = jax.random.split(learn_key, (rounds, config.policy_delay))
        state, metrics = shared.learn(state, keys, learn)
        return state, metrics | collected

    observations = config.period * vec.num_envs
    return Trainer(init, update, agent, observations, config.updates_per_collect)
