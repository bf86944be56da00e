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
from gpicljax.agents.off_policy import (
    OffPolicy,
    OffPolicyConfig,
    OffPolicyHParams,
    OffPolicyState,
    register_off_policy,
)
from gpicljax.agents.optimisation import adam, polyak
from gpicljax.agents.returns import one_step_target
from gpicljax.batching import donatable, strip_weak_types
from gpicljax.checks import Number, Positive, Rate
from gpicljax.data.replay import Replay
from gpicljax.interface import Agent, Trainer
from gpicljax.networks.continuous import GaussianActor
from gpicljax.networks.contract import Network
from gpicljax.typing import ArrayTree
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
class SACHParams(OffPolicyHParams):
    """Hyper-parameters of SAC, beside those of `OffPolicyHParams`.

    Attributes:
      temperature_learning_rate: Adam's learning rate for the logarithm of the temperature; 0 for a
        constant temperature.
      temperature: alpha at the start.
      entropy_scale: the target entropy is -D times this, in nats.

    Example:
      >>> constant = SACHParams(temperature=0.2, temperature_learning_rate=0.0)
      >>> constant.temperature, constant.discount
      (0.2, 0.99)
    """

    temperature_learning_rate: Rate = 3e-4
    temperature: Positive = 1.0
    entropy_scale: Number = 1.0


@struct.dataclass
class TrainState(OffPolicyState):
    """Everything the next update depends on; the other fields are `OffPolicyState`'s.

    Attributes:
      log_temperature: float `[]`.
      temperature_opt_state: state of Adam.
    """

    log_temperature: jax.Array
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
    """
    sac = SAC(config, vec, actor, critic, replay)
    observations = config.period * vec.num_envs
    return Trainer(sac.init, sac.update, sac.agent, observations, config.updates_per_collect)


def least(values: jax.Array) -> jax.Array:
    """Returns the least of K values, float `[N, K]` -> float `[N]`.

    The gradient of `min` compares it with the values again. Where the compiler computes those
    anew, rounded in another way, none of them is equal, and the gradient is NaN or wrong.
    """
    return jnp.take_along_axis(values, values.argmin(-1)[:, None], axis=-1)[:, 0]


def temperature_optimiser(hparams: SACHParams) -> optax.GradientTransformation:
    """Adam for the logarithm of the temperature, without clipping."""
    return adam(hparams.temperature_learning_rate, hparams.adam_epsilon)


@dataclasses.dataclass(frozen=True, eq=False)
class SAC(OffPolicy[TrainState]):
    """The algorithm; see `OffPolicy`, which has the arguments and checks them."""

    @donatable
    def init(self, key: jax.Array, hparams: SACHParams, env_params: ArrayTree = None) -> TrainState:
        """See `interface.Trainer`."""
        hparams = strip_weak_types(hparams)
        log_temperature = jnp.log(hparams.temperature)
        return TrainState(
            log_temperature=log_temperature,
            temperature_opt_state=temperature_optimiser(hparams).init(log_temperature),
            **self.start(key, hparams, env_params, 2 * self.policy.size),
        )

    # Acting ----------------------------------------------------------------------------------

    def agent(self, greedy: bool = False) -> Agent:
        """See `interface.Trainer`."""
        if not greedy:
            return self.explorer()
        return box_agent(self.actor, self.policy, lambda key, outputs: self.policy.mode(outputs))

    def collector(self, state: TrainState) -> Agent:
        """See `OffPolicy`."""
        return self.explorer(state.observations < self.config.warm_up)

    def explorer(self, uniform: jax.Array | bool = False) -> Agent:
        """Draws from the policy, or uniformly from all actions instead."""
        policy = self.policy
        draw = lambda key, outputs: policy.sample_and_log_prob(key, outputs)[0]  # noqa: E731
        return box_agent(self.actor, policy, draw, uniform)

    # Learning --------------------------------------------------------------------------------

    def step(
        self, state: TrainState, key: jax.Array, replay: ArrayTree
    ) -> tuple[TrainState, Metrics]:
        """Runs one step of every optimiser, on one batch."""
        hparams = state.hparams
        draw_key, target_key, actor_key = jax.random.split(key, 3)
        batch = self.draw(draw_key, replay, state.params)
        temperature = jnp.exp(state.log_temperature)

        outputs = self.act(state.params.network, batch.following)
        action, log_prob = self.policy.sample_and_log_prob(target_key, outputs)
        values = self.q_values(state.target_critic_params, batch.following, action).min(-1)
        worth = values - temperature * log_prob
        target = one_step_target(batch.reward, batch.discount, worth)
        state, metrics = self.fit_critics(state, batch, target)

        def actor_loss_fn(network_params: ArrayTree) -> tuple[jax.Array, Metrics]:
            outputs = self.act(network_params, batch.observation)
            action, log_prob = self.policy.sample_and_log_prob(actor_key, outputs)
            values = least(self.q_values(state.critic_params, batch.observation, action))
            return (temperature * log_prob - values).mean(), {"entropy": -log_prob.mean()}

        state, acted = self.fit_actor(state, actor_loss_fn)
        # The loss log(alpha) (entropy - target entropy) is smallest where they are equal.
        surplus = acted["entropy"] + hparams.entropy_scale * self.policy.size
        optimiser, before = temperature_optimiser(hparams), state.target_critic_params
        step: Any
        step, opt_state = optimiser.update(surplus, state.temperature_opt_state)
        return dataclasses.replace(
            state,
            target_critic_params=polyak(state.critic_params, before, hparams.target_rate),
            log_temperature=state.log_temperature + step,
            temperature_opt_state=opt_state,
        ), metrics | acted | {"temperature": temperature}


register_off_policy("sac", make, SACConfig, SACHParams, GaussianActor)
