"""Q-networks: R2D2's, recurrent and with auxiliary predictions, and one without a memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from gpicljax import spaces
from gpicljax.checks import Size, check, check_choice
from gpicljax.networks.contract import AgentInput, Network, as_network
from gpicljax.networks.encoder import Encoder
from gpicljax.networks.event_store import Event
from gpicljax.networks.feedforward import MLP, FeedForward, Predictor, dense
from gpicljax.networks.memories import MemorySettings
from gpicljax.networks.policies import by_choice, choices
from gpicljax.networks.recurrent import LSTMStack
from gpicljax.typing import ArrayTree


class QOutput(NamedTuple):
    """Action values, and auxiliary predictions.

    Attributes:
      q_values: float `[..., n]`; for K choices at once `[..., K, max]` (see `policies.by_choice`).
      predictions: a dictionary of float `[..., size]`.

    Example:
      >>> output = QOutput(jnp.array([[0.25, 0.75], [0.5, 0.0]]), predictions={})
      >>> output.q_values.argmax(-1).tolist()
      [1, 0]
    """

    q_values: jax.Array
    predictions: dict[str, jax.Array]


class DuelingHead(nn.Module):
    """Q = V + A - mean(A), each of one linear layer; over every choice for itself, with one V.

    Attributes:
      actions: see `policies.choices`.

    Source: Wang et al. (2016); of several choices, Tavakoli et al. (2018), equation 1.
    """

    actions: spaces.Space | int

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """`float[..., F] -> float[..., n]`, or `float[..., K, max]` of K choices."""
        space = choices(self.actions)
        value = dense(1, name="value")(inputs)
        advantage = dense(spaces.flat_size(space), name="advantage")(inputs)
        if isinstance(space, spaces.Discrete):
            return value + advantage - advantage.mean(-1, keepdims=True)
        ends = np.cumsum(space.sizes)[:-1].tolist()
        centred = [a - a.mean(-1, keepdims=True) for a in jnp.split(advantage, ends, axis=-1)]
        return by_choice(space, value + jnp.concatenate(centred, axis=-1))


class RecurrentQNetwork(nn.Module):
    """Encoder, mixing MLP, recurrent core, dueling head.

    One entry of a dictionary observation has an encoder of its own; its code, all other entries
    (integers one-hot), the last action (one-hot) and the last reward pass through a second MLP
    into the core. Without sizes, either MLP hands on what it is given.

    Attributes:
      observation_space: of the unbatched observation.
      actions: the space of actions, of one choice or of several (see `policies.choices`).
      encoded: name of the entry with its own encoder; None for an array observation or to encode
        all entries alike.
      encoder_sizes: hidden sizes of that encoder.
      mixer_sizes: hidden sizes of the second MLP.
      core: the recurrent core, or another memory (see `memories.memory`).
      event: what a step is to a core that stores events; None for cores that read the mixer. The
        heads read the mixer's output beside what such a core remembers.
      predictions: (name, size) of each auxiliary prediction from the core's output.
      prediction_hidden: hidden size of the predictors.
      residual: also feed the mixer's output to the heads, beside the core's.
      compare: predictions, of the encoded entry's size, whose squared difference from that entry
        is given to the Q head: "is what I see what I expect?".
      head_sizes: hidden sizes of the head.

    Source: appendix C and table 5 of the Meta-Referential Games paper (the defaults).

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(RecurrentQNetwork(spaces.Discrete(8), 4, core=LSTMStack((16,))))
      >>> jax.tree.leaves(network.initial_carry(4))[0].shape
      (4, 16)
    """

    observation_space: spaces.Space
    actions: spaces.Space | int
    encoded: str | None = None
    encoder_sizes: Sequence[int] = (512, 256, 128)
    mixer_sizes: Sequence[int] = (512, 256, 256)
    core: Any = LSTMStack((256, 128))
    event: Callable[[AgentInput], Event] | None = None
    predictions: Sequence[tuple[str, int]] = ()
    prediction_hidden: int = 512
    residual: bool = False
    compare: Sequence[str] = ()
    head_sizes: Sequence[int] = ()

    def setup(self) -> None:
        """The submodules, named after their part."""
        self.pictures = Encoder(self.observation_space)
        self.encoder = MLP(self.encoder_sizes)
        self.mixer = MLP(self.mixer_sizes)
        self.head = DuelingHead(self.actions)
        self.before_head = MLP(self.head_sizes)
        self.predictors = {
            name: Predictor(size, self.prediction_hidden) for name, size in self.predictions
        }

    def initial_carry(self, batch: int) -> Any:
        """Returns the core's carry for `batch` instances."""
        return self.core.initial_carry(batch)

    @property
    def attends(self) -> bool:
        """Whether the core stores events that it attends to."""
        return self.event is not None and getattr(self.core, "attends", False)

    def attention(self, inputs: AgentInput, starts: jax.Array) -> jax.Array:
        """Returns the core's attention, see `Network.attention`."""
        assert self.event is not None
        return self.core.attention(self.event(inputs), starts)

    def _mix(self, inputs: AgentInput) -> tuple[jax.Array, jax.Array | None]:
        observation, raw = inputs.observation, None
        if self.encoded is None:
            parts = [self.pictures(observation)]
        else:
            assert isinstance(self.observation_space, spaces.Dict)
            raw = spaces.flatten(self.observation_space[self.encoded], observation[self.encoded])
            rest = [item for item in self.observation_space.items if item[0] != self.encoded]
            parts = [self.encoder(raw), spaces.flatten(spaces.Dict(tuple(rest)), observation)]
        dtype = parts[0].dtype
        parts.append(spaces.flatten(choices(self.actions), inputs.last_action).astype(dtype))
        parts.append(inputs.last_reward[..., None].astype(dtype))
        return self.mixer(jnp.concatenate(parts, axis=-1)), raw

    def _core_input(self, inputs: AgentInput, mixed: jax.Array) -> Any:
        return mixed if self.event is None else self.event(inputs)

    def _heads(self, mixed: jax.Array, core: jax.Array, raw: jax.Array | None) -> QOutput:
        keeps_input = self.residual or self.event is not None
        features = jnp.concatenate([mixed, core], axis=-1) if keeps_input else core
        predictions = {name: predict(features) for name, predict in self.predictors.items()}
        for name in self.compare:
            assert raw is not None
            # The expectation is trained by its own loss alone.
            gap = jnp.square(jax.lax.stop_gradient(predictions[name]) - raw)
            features = jnp.concatenate([features, gap], axis=-1)
        return QOutput(self.head(self.before_head(features)), predictions)

    def unroll(
        self, carry: ArrayTree, inputs: AgentInput, starts: jax.Array
    ) -> tuple[QOutput, Any]:
        """Inputs `[T, B, ...]`, starts `bool[T, B]` -> outputs `[T, B, ...]`, and the carry."""
        mixed, raw = self._mix(inputs)
        core, carry = self.core.unroll(carry, self._core_input(inputs, mixed), starts)
        return self._heads(mixed, core, raw), carry

    def step(self, carry: ArrayTree, inputs: AgentInput, start: jax.Array) -> tuple[QOutput, Any]:
        """Inputs `[B, ...]`, start `bool[B]` -> outputs `[B, ...]`, and the carry."""
        mixed, raw = self._mix(inputs)
        core, carry = self.core.step(carry, self._core_input(inputs, mixed), start)
        return self._heads(mixed, core, raw), carry


@dataclasses.dataclass(frozen=True)
class RecurrentQSettings(MemorySettings):
    """Sizes of a `RecurrentQNetwork` in a configuration, and those of its memory.

    Attributes:
      encoded: see `RecurrentQNetwork`.
      encoder: hidden sizes of the encoder.
      mixer: hidden sizes of the second MLP.
      predictions: names of the auxiliary predictions, each of the encoded entry's size.
      predictor: hidden size of the predictors.
      residual: see `RecurrentQNetwork`.
      compare: see `RecurrentQNetwork`.
      head: hidden sizes of the head.

    Example:
      >>> settings = RecurrentQSettings("gru", core=(64,), mixer=(32,))
      >>> network = settings.network(spaces.Box(0.0, 1.0, (8,)), spaces.Discrete(3))
      >>> jax.tree.leaves(network.initial_carry(4))[0].shape
      (4, 64)
    """

    encoded: str | None = None
    encoder: tuple[Size, ...] = (512, 256, 128)
    mixer: tuple[Size, ...] = (128,)
    predictions: tuple[str, ...] = ()
    predictor: Size = 512
    residual: bool = False
    compare: tuple[str, ...] = ()
    head: tuple[Size, ...] = ()

    def network(self, observations: spaces.Space, actions: spaces.Space | int) -> Network:
        """Returns the network, for one agent's spaces.

        Raises:
          ValueError: if the entries that it encodes, predicts or compares are not there.
        """
        core, event = self.make(observations, choices(actions))
        size = 0
        if self.encoded is not None:
            entries = observations.spaces if isinstance(observations, spaces.Dict) else {}
            check_choice("encoded", self.encoded, entries)
            size = spaces.flat_size(entries[self.encoded])
        check(size or not self.predictions, "encoded", self.encoded, "what is predicted")
        for name in self.compare:
            check_choice("compare", name, self.predictions)
        module = RecurrentQNetwork(
            observations,
            actions,
            encoded=self.encoded,
            encoder_sizes=self.encoder,
            mixer_sizes=self.mixer,
            core=core,
            event=event,
            predictions=tuple((name, size) for name in self.predictions),
            prediction_hidden=self.predictor,
            residual=self.residual,
            compare=self.compare,
            head_sizes=self.head,
        )
        return as_network(module)


class QNetwork(FeedForward):
    """An MLP over the observation alone, and a linear or dueling head.

    Attributes:
      observation_space: of the unbatched observation; see `encoder.Encoder`.
      actions: the space of actions, of one choice or of several (see `policies.choices`).
      sizes: hidden sizes of the MLP.
      dueling: whether the head is `DuelingHead`.

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(QNetwork(spaces.Discrete(8), 4, dueling=True))
      >>> network.initial_carry(4)
      ()
    """

    observation_space: spaces.Space
    actions: spaces.Space | int
    sizes: Sequence[int] = (64, 64)
    dueling: bool = False

    @nn.compact
    def __call__(self, inputs: AgentInput) -> QOutput:
        """Inputs with any leading axes -> `QOutput` without predictions."""
        encoding = Encoder(self.observation_space, name="encoder")(inputs.observation)
        features = MLP(self.sizes)(encoding)
        if self.dueling:
            return QOutput(DuelingHead(self.actions, name="head")(features), {})
        space = choices(self.actions)
        values = dense(spaces.flat_size(space), name="head")(features)
        return QOutput(by_choice(space, values), {})


@dataclasses.dataclass(frozen=True)
class QNetworkSettings:
    """A Q-network without a memory.

    Attributes:
      sizes: hidden sizes.
      dueling: whether value and advantages have heads of their own.

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("FrozenLake-v1"), num_envs=4, resets="fresh")
      >>> small = QNetworkSettings(sizes=(32,), dueling=False)
      >>> gpicljax.agents.make("dqn", vec, network=small).observations
      16
    """

    sizes: tuple[Size, ...] = (64, 64)
    dueling: bool = True

    def network(self, observations: spaces.Space, actions: spaces.Space) -> Network:
        """Returns the network, for members of these spaces."""
        return as_network(QNetwork(observations, actions, self.sizes, self.dueling))
