"""Actors over a bounded box of actions, and critics that value actions; without a memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax import spaces
from gpicljax.checks import Size
from gpicljax.networks.contract import AgentInput, Network, as_network
from gpicljax.networks.encoder import Encoder
from gpicljax.networks.feedforward import MLP, Activation, FeedForward, dense
from gpicljax.typing import Observation

_SMALL = nn.initializers.variance_scaling(1e-2, "fan_in", "normal")


class CriticInput(NamedTuple):
    """The environment's `observation`, and `action` float `[..., D]` within [-1, 1]."""

    observation: Observation
    action: jax.Array


class DeterministicActor(FeedForward):
    """An MLP over the observation and a linear layer, squashed by tanh; it starts near 0.

    Attributes:
      observation_space: of the unbatched observation; see `encoder.Encoder`.
      action_space: of the unbatched action, with D entries.
      sizes: hidden sizes of the MLP.
      activation: of the hidden layers.

    Example:
      >>> import gpicljax
      >>> from gpicljax.networks.contract import as_network
      >>> env = gpicljax.make("Pendulum-v1")
      >>> actor = DeterministicActor(env.observation_space(), env.action_space(), sizes=(8,))
      >>> network = as_network(actor)
      >>> network.initial_carry(4)
      ()
    """

    observation_space: spaces.Space
    action_space: spaces.Space
    sizes: Sequence[int] = (256, 256)
    activation: Callable[[jax.Array], jax.Array] = nn.relu

    @nn.compact
    def __call__(self, inputs: AgentInput) -> jax.Array:
        """Inputs with any leading axes -> float `[..., D]` within [-1, 1]."""
        encoding = Encoder(self.observation_space, name="encoder")(inputs.observation)
        torso = MLP(self.sizes, self.activation, name="torso")(encoding)
        size = spaces.flat_size(self.action_space)
        return jnp.tanh(dense(size, kernel_init=_SMALL, name="action")(torso))


class GaussianActor(FeedForward):
    """An MLP over the observation, and linear layers to means and log standard deviations.

    Its outputs are what `policies.TanhPolicy` reads; they start near 0.

    Attributes:
      observation_space: of the unbatched observation; see `encoder.Encoder`.
      action_space: of the unbatched action, with D entries.
      sizes: hidden sizes of the MLP.
      activation: of the hidden layers.
      log_std_low: least log standard deviation, to which it is clipped.
      log_std_high: likewise, the greatest.

    Example:
      >>> import gpicljax
      >>> from gpicljax.networks.contract import as_network
      >>> env = gpicljax.make("Pendulum-v1")
      >>> network = as_network(GaussianActor(env.observation_space(), env.action_space(), (8,)))
      >>> network.initial_carry(4)
      ()
    """

    observation_space: spaces.Space
    action_space: spaces.Space
    sizes: Sequence[int] = (256, 256)
    activation: Callable[[jax.Array], jax.Array] = nn.relu
    log_std_low: float = -20.0
    log_std_high: float = 2.0

    @nn.compact
    def __call__(self, inputs: AgentInput) -> jax.Array:
        """Inputs with any leading axes -> float `[..., 2 D]`."""
        encoding = Encoder(self.observation_space, name="encoder")(inputs.observation)
        torso = MLP(self.sizes, self.activation, name="torso")(encoding)
        size = spaces.flat_size(self.action_space)
        mean = dense(size, kernel_init=_SMALL, name="mean")(torso)
        log_std = dense(size, kernel_init=_SMALL, name="log_std")(torso)
        return jnp.concatenate([mean, jnp.clip(log_std, self.log_std_low, self.log_std_high)], -1)


class _Critic(nn.Module):
    """An MLP over observation and action, both flat, and a linear layer to one value."""

    sizes: Sequence[int]
    activation: Callable[[jax.Array], jax.Array]

    @nn.compact
    def __call__(self, flat: jax.Array) -> jax.Array:
        return dense(1, name="value")(MLP(self.sizes, self.activation, name="torso")(flat))[..., 0]


class Critics(FeedForward):
    """K separate Q-functions of observation and action, computed together.

    Their parameters are stacked: every leaf has a leading axis K.

    Attributes:
      observation_space: of the unbatched observation; see `encoder.Encoder`.
      sizes: hidden sizes of every MLP.
      count: K.
      activation: of the hidden layers.

    Example:
      >>> import gpicljax
      >>> critics = Critics(gpicljax.make("Pendulum-v1").observation_space(), sizes=(8,))
      >>> inputs = CriticInput(jnp.zeros((4, 3)), jnp.zeros((4, 1)))
      >>> params = jax.eval_shape(critics.init, jax.random.key(0), inputs)
      >>> jax.eval_shape(critics.apply, params, inputs).shape
      (4, 2)
    """

    observation_space: spaces.Space
    sizes: Sequence[int] = (256, 256)
    count: int = 2
    activation: Callable[[jax.Array], jax.Array] = nn.relu

    @nn.compact
    def __call__(self, inputs: CriticInput) -> jax.Array:
        """Inputs with any leading axes -> float `[..., K]`."""
        encoding = Encoder(self.observation_space, name="encoder")(inputs.observation)
        flat = jnp.concatenate([encoding, inputs.action.astype(encoding.dtype)], axis=-1)
        ensemble = nn.vmap(
            _Critic,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=None,  # type: ignore[arg-type]
            out_axes=-1,
            axis_size=self.count,
        )
        return ensemble(self.sizes, self.activation, name="critics")(flat)


@dataclasses.dataclass(frozen=True)
class OffPolicyNetworkSettings:
    """Networks without a memory, for actions and for their values.

    Attributes:
      actor: hidden sizes of the actor.
      critic: hidden sizes of each critic.
      activation: activation function of the hidden layers.

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("Pendulum-v1"), num_envs=4, resets="fresh")
      >>> small = OffPolicyNetworkSettings(actor=(32,), critic=(64,))
      >>> gpicljax.agents.make("sac", vec, network=small).observations
      4
    """

    actor: tuple[Size, ...] = (256, 256)
    critic: tuple[Size, ...] = (256, 256)
    activation: Activation = "relu"

    def networks(
        self,
        kind: type[DeterministicActor] | type[GaussianActor],
        observations: spaces.Space,
        actions: spaces.Space,
        critics: int,
    ) -> tuple[Network, Network]:
        """Returns an actor of this kind and so many critics, for members of these spaces."""
        activation = getattr(jax.nn, self.activation)
        actor = kind(observations, actions, self.actor, activation)
        return as_network(actor), as_network(
            Critics(observations, self.critic, critics, activation)
        )
