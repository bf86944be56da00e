"""Actor-critics: a policy and a value, with a recurrent core or without a memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax import spaces
from gpicljax.checks import Size
from gpicljax.networks.contract import AgentInput, Network, as_network
from gpicljax.networks.encoder import Encoder
from gpicljax.networks.event_store import Event
from gpicljax.networks.feedforward import MLP, Activation, FeedForward, dense
from gpicljax.networks.policies import policy_for
from gpicljax.networks.recurrent import LSTMStack
from gpicljax.typing import ArrayTree


class PolicyOutput(NamedTuple):
    """Output of a policy network: `logits` float `[..., P]` and `value` float `[...]`.

    For discrete actions the logits are those of the actions; for several choices, those of one
    choice after the other. For continuous actions they are what `policies.GaussianPolicy` reads.

    Example:
      >>> output = PolicyOutput(logits=jnp.array([[2.0, 0.0, -1.0]]), value=jnp.array([0.5]))
      >>> output.logits.argmax(-1).tolist()  # the most probable action
      [0]
    """

    logits: jax.Array
    value: jax.Array


class PolicyHead(nn.Module):
    """A linear layer to the outputs that a policy over `action_space` reads.

    Its small weights start the policy near uniform. The log standard deviations of continuous
    actions are parameters of their own, the same in every state, and start at 0.
    """

    action_space: spaces.Space

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        """`float[..., F] -> float[..., P]`."""
        small = nn.initializers.variance_scaling(1e-2, "fan_in", "normal")
        size = policy_for(self.action_space).size
        if not isinstance(self.action_space, spaces.Box):
            return dense(size, kernel_init=small, name="logits")(features)
        mean = dense(size // 2, kernel_init=small, name="mean")(features)
        zeros = nn.initializers.zeros
        log_std = self.param("log_std", zeros, (size // 2,), jnp.result_type(float))
        return jnp.concatenate([mean, jnp.broadcast_to(log_std, mean.shape)], axis=-1)


class ActorCritic(FeedForward):
    """MLPs over the observation alone: one for the policy and one for the value, or a shared one.

    Attributes:
      observation_space: of the unbatched observation; see `encoder.Encoder`.
      action_space: of the unbatched action.
      sizes: hidden sizes of the MLP.
      separate_value: whether the value has an MLP of its own.
      activation: of the hidden layers.

    Example:
      >>> from gpicljax import spaces
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(ActorCritic(spaces.Box(0.0, 1.0, (4,)), spaces.Discrete(3)))
    """

    observation_space: spaces.Space
    action_space: spaces.Space
    sizes: Sequence[int] = (64, 64)
    separate_value: bool = True
    activation: Callable[[jax.Array], jax.Array] = nn.relu

    @nn.compact
    def __call__(self, inputs: AgentInput) -> PolicyOutput:
        """Inputs with any leading axes -> `PolicyOutput`."""
        encoding = Encoder(self.observation_space, name="encoder")(inputs.observation)
        torso = MLP(self.sizes, self.activation, name="torso")(encoding)
        value_torso = torso
        if self.separate_value:
            value_torso = MLP(self.sizes, self.activation, name="value_torso")(encoding)
        value = dense(1, name="value")(value_torso)
        return PolicyOutput(PolicyHead(self.action_space, name="policy")(torso), value[..., 0])


class RecurrentActorCritic(nn.Module):
    """An MLP over observation, last action and last reward; a recurrent core; two linear heads.

    What makes it learn in context are the last action and reward beside the observation (Duan et
    al., 2016; Wang et al., 2016).

    Attributes:
      observation_space: of the unbatched observation; see `encoder.Encoder`.
      action_space: of the unbatched action.
      sizes: hidden sizes of the MLP.
      core: the recurrent core, or another memory (see `memories.memory`).
      event: what a step is to a core that stores events; None for cores that read the MLP. The
        heads read the MLP's output beside what such a core remembers.

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> observations, actions = spaces.Discrete(8), spaces.Discrete(4)
      >>> module = RecurrentActorCritic(observations, actions, core=LSTMStack((16,)))
      >>> network = as_network(module)
      >>> jax.tree.leaves(network.initial_carry(2))[0].shape
      (2, 16)
    """

    observation_space: spaces.Space
    action_space: spaces.Space
    sizes: Sequence[int] = (128,)
    core: Any = LSTMStack((128,))
    event: Callable[[AgentInput], Event] | None = None

    def setup(self) -> None:
        """The submodules."""
        self.encoder = Encoder(self.observation_space)
        self.torso = MLP(self.sizes)
        self.policy = PolicyHead(self.action_space)
        self.value = dense(1)

    def initial_carry(self, batch: int) -> Any:
        """Returns the core's carry for `batch` instances."""
        return self.core.initial_carry(batch)

    def _features(self, inputs: AgentInput) -> jax.Array:
        encoding = self.encoder(inputs.observation)
        action = spaces.flatten(self.action_space, inputs.last_action).astype(encoding.dtype)
        reward = inputs.last_reward[..., None].astype(encoding.dtype)
        return self.torso(jnp.concatenate([encoding, action, reward], axis=-1))

    def _core_input(self, inputs: AgentInput, features: jax.Array) -> Any:
        return features if self.event is None else self.event(inputs)

    def _heads(self, features: jax.Array, core: jax.Array) -> PolicyOutput:
        if self.event is not None:
            core = jnp.concatenate([features, core], axis=-1)
        return PolicyOutput(self.policy(core), self.value(core)[..., 0])

    def unroll(
        self, carry: ArrayTree, inputs: AgentInput, starts: jax.Array
    ) -> tuple[PolicyOutput, Any]:
        """Inputs `[T, B, ...]`, starts `bool[T, B]` -> outputs `[T, B, ...]`, and the carry."""
        features = self._features(inputs)
        core, carry = self.core.unroll(carry, self._core_input(inputs, features), starts)
        return self._heads(features, core), carry

    def step(
        self, carry: ArrayTree, inputs: AgentInput, start: jax.Array
    ) -> tuple[PolicyOutput, Any]:
        """Inputs `[B, ...]`, start `bool[B]` -> outputs `[B, ...]`, and the carry."""
        features = self._features(inputs)
        core, carry = self.core.step(carry, self._core_input(inputs, features), start)
        return self._heads(features, core), carry


@dataclasses.dataclass(frozen=True)
class ActorCriticSettings:
    """Networks without a memory, for a policy and its value.

    Attributes:
      sizes: hidden sizes.
      activation: activation function of the hidden layers.
      separate_value: whether the value has hidden layers of its own.

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("FrozenLake-v1"), num_envs=4, resets="fresh")
      >>> small = ActorCriticSettings(sizes=(32,), activation="relu")
      >>> gpicljax.agents.make("ppo", vec, network=small).observations
      512
    """

    sizes: tuple[Size, ...] = (64, 64)
    activation: Activation = "tanh"
    separate_value: bool = True

    def network(self, observations: spaces.Space, actions: spaces.Space) -> Network:
        """Returns the network, for members of these spaces."""
        activation = getattr(jax.nn, self.activation)
        sizes = self.sizes, self.separate_value
        return as_network(ActorCritic(observations, actions, *sizes, activation))
