"""SAC: soft actor-critic with an automatic temperature (Haarnoja et al., 2018b).

One update takes `period` steps in all environments, stores the transitions that they complete and
learns `updates_per_collect` times: a step of the critics, of the actor, of the temperature and of
the critics' target networks. Everything the next update depends on is in `TrainState`, so that
`vmap` over seeds and exact resumption need nothing else.

Returns end with the episode: one that was cut off is worth the value of its last observation, one
that terminated nothing. Log-probabilities are densities over [-1, 1]^D, to which actions are
scaled. Returns over n > 1 steps leave out the entropy of the steps on the way.
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
from gpicljax.checks import Rate, Share
from gpicljax.data.replay import Replay
from gpicljax.interface import Agent, Trainer
from gpicljax.networks.contract import Network
from gpicljax.vector import VectorEnv

Metrics = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class SACConfig(OffPolicyConfig):
    """Sizes and switches of SAC; all are static. They are those of `OffPolicyConfig`.

    Example:
      >>> SACConfig(updates_per_collect=4, normalise_observations=True).critics
      2
    """


@struct.dataclass
class SACHParams:
    """Hyper-parameters of SAC. They may be traced, e.g. for a vmapped sweep.

    Attributes:
      actor_learning_rate: Adam's learning rate for the actor.
      critic_learning_rate: Adam's learning rate for the critics.
      temperature_learning_rate: Adam's learning rate for the logarithm of the temperature; 0 for a
        constant temperature.
      adam_epsilon: Adam's epsilon.
      max_gradient_norm: global norm at which the gradients of the actor, and those of all critics
        together, are clipped; infinite for no clipping.
      discount: gamma.
      target_rate: tau of the Polyak average.
      temperature: alpha at the start.
      entropy_scale: the target entropy is -D times this, in nats.

    Example:
      >>> constant = SACHParams(temperature=0.2, temperature_learning_rate=0.0)
      >>> constant.temperature, constant.discount
      (0.2, 0.99)
    """

    actor_learning_rate: Rate = 3e-4
    critic_learning_rate: Rate = 3e-4
    temperature_learning_rate: Rate = 3e-4
    adam_epsilon: Rate = 1e-8
    max_gradient_norm: float = float("inf")
    discount: Share = 0.99
    target_rate: Share = 5e-3
    temperature: float = 1.0
    entropy_scale: float = 1.0


@struct.dataclass
class TrainState(OffPolicyState):
    """Everything the next update depends on; the other fields are `OffPolicyState`'s.

    Attributes:
      critic_params: of the critics.
      target_critic_params: of their target networks.
      log_temperature: float `[]`.
      actor_opt_state: state of Adam.
      critic_opt_state: likewise.
      temperature_opt_state: likewise.
    """

    critic_params: Any
    target_critic_params: Any
    log_temperature: jax.Array
    actor_opt_state: Any
    critic_opt_state: Any
    temperature_opt_state: Any


def make(
    config: SACConfig,
    vec: VectorEnv,
    actor: Network,
    critic: Network,
    replay: Replay | None = None,
) -> Trainer:
    """Builds the trainer.

    Args:
      config: sizes and switches.
      vec: the environments; one agent, a bounded box of float actions.
      actor: outputs what `policies.TanhPolicy` reads, see `networks.continuous.GaussianActor`.
      critic: outputs `config.critics` values, see `networks.continuous.Critics`.
      replay: stores and draws the transitions; by default what `config.replay` names.

    Returns:
      The trainer. Unless greedy, its agent draws from the policy; else it takes the tanh of the
      mean. Its metrics are means over the steps of the optimisers: `critic_loss`, summed
      over critics; `q_value`, of the batch's actions, over critics; `critic_gradient_norm` before
      clipping; `actor_loss` and `actor_gradient_norm` likewise; `entropy` (nats, of the policy at
      the batch's observations) and `temperature`; and `reward` (mean per step) and `episodes`
      (ended) while collecting.

    Raises:
      ValueError: if environments or networks do not fit.

    Example:
      >>> import gpicljax
      >>> from gpicljax import agents
      >>> vec = gpicljax.VectorEnv(gpicljax.make("Pendulum-v1"), num_envs=4, resets="fresh")
      >>> algorithm = agents.get_algorithm("sac")
      >>> trainer = algorithm.make(algorithm.config(), vec, algorithm.network())
    """
    shared = OffPolicy("SAC", config, vec, actor, critic, replay)
    policy, act, q_values = shared.policy, shared.act, shared.q_values

    def explorer(uniform: jax.Array | bool = False) -> Agent:
        """Draws from the policy, or uniformly from all actions instead."""
        draw = lambda key, outputs: policy.sample_and_log_prob(key, outputs)[0]  # noqa: E731
        return box_agent(actor, policy, draw, uniform)

    def agent(greedy: bool = False) -> Agent:
        if greedy:
            return box_agent(actor, policy, lambda key, outputs: policy.mode(outputs))
        return explorer()

    def optimisers(hparams: SACHParams) -> tuple[Any, Any, Any]:
        options = hparams.adam_epsilon, hparams.max_gradient_norm
        return (
            adam(hparams.actor_learning_rate, *options),
            adam(hparams.critic_learning_rate, *options),
            adam(hparams.temperature_learning_rate, hparams.adam_epsilon),
        )

    # Learning --------------------------------------------------------------------------------

    def least(values: jax.Array) -> jax.Array:
        """The least of K values, float `[N, K]` -> float `[N]`.

        The gradient of `min` compares it with the values again. Where the compiler computes those
        anew, rounded in another way, none of them is equal, and the gradient is NaN or wrong.
        """
        return jnp.take_along_axis(values, values.argmin(-1)[:, None], axis=-1)[:, 0]

    def learn(state: TrainState, key: jax.Array, replay: Any) -> tuple[TrainState, Metrics]:
        """One step of every optimiser, on one batch."""
        hparams = state.hparams
        draw_key, target_key, actor_key = jax.random.split(key, 3)
        batch = shared.draw(draw_key, replay, state.params)
        actor_optimiser, critic_optimiser, temperature_optimiser = optimisers(hparams)
        temperature = jnp.exp(state.log_temperature)

        outputs = act(state.params.network, batch.following)
        action, log_prob = policy.sample_and_log_prob(target_key, outputs)
        values = q_values(state.target_critic_params, batch.following, action).min(-1)
        target = batch.reward + batch.discount * (values - temperature * log_prob)

        critic_params, critic_opt_state, metrics = shared.fit_critics(
            critic_optimiser, state.critic_params, state.critic_opt_state, batch, target
        )

        def actor_loss_fn(params: Any) -> tuple[jax.Array, jax.Array]:
            outputs = act(params, batch.observation)
            action, log_prob = policy.sample_and_log_prob(actor_key, outputs)
            values = least(q_values(critic_params, batch.observation, action))
            return (temperature * log_prob - values).mean(), -log_prob.mean()

        before = state.params.network
        (actor_loss, entropy), actor_grads = jax.value_and_grad(actor_loss_fn, has_aux=True)(before)
        steps, actor_opt_state = actor_optimiser.update(actor_grads, state.actor_opt_state)
        params = optax.apply_updates(before, steps)

        # The loss log(alpha) (entropy - target entropy) is smallest where they are equal.
        surplus = entropy + hparams.entropy_scale * policy.size
        step, opt_state = temperature_optimiser.update(surplus, state.temperature_opt_state)
        metrics |= {
            "actor_loss": actor_loss,
            "actor_gradient_norm": optax.tree.norm(actor_grads),
            "entropy": entropy,
            "temperature": temperature,
        }
        return dataclasses.replace(
            state,
            params=state.params._replace(network=params),
            critic_params=critic_params,
            target_critic_params=polyak(
                critic_params, state.target_critic_params, hparams.target_rate
            ),
            log_temperature=state.log_temperature + step,
            actor_opt_state=actor_opt_state,
            critic_opt_state=critic_opt_state,
            temperature_opt_state=opt_state,
            updates=state.updates + 1,
        ), metrics

    # The trainer -----------------------------------------------------------------------------

    def init(key: jax.Array, hparams: SACHParams, env_params: Any = None) -> TrainState:
        hparams = strip_weak_types(hparams)
        start_key, key = jax.random.split(key)
        params, critic_params, common = shared.start(start_key, agent(), env_params)
        shared.check_actor(params, common["rollout"], 2 * policy.size)
        actor_optimiser, critic_optimiser, temperature_optimiser = optimisers(hparams)
        log_temperature = jnp.log(hparams.temperature)
        return TrainState(
            params=params,
            critic_params=critic_params,
            target_critic_params=jax.tree.map(jnp.copy, critic_params),
            log_temperature=log_temperature,
            actor_opt_state=actor_optimiser.init(params.network),
            critic_opt_state=critic_optimiser.init(critic_params),
            temperature_opt_state=temperature_optimiser.init(log_temperature),
            hparams=hparams,
            key=key,
            **common,
        )

    def update(state: TrainState) -> tuple[TrainState, Metrics]:
        key, learn_key = jax.random.split(state.key)
        uniform = state.observations < config.warm_up
        state, collected = shared.gather(dataclasses.replace(state, key=key), explorer(uniform))
        keys = jax.random.split(learn_key, config.updates_per_collect)
        state, metrics = shared.learn(state, keys, learn)
        return state, metrics | collected

    observations = config.period * vec.num_envs
    return Trainer(init, update, agent, observations, config.updates_per_collect)
