"""Q-networks: R2D2's, recurrent and with auxiliary predictions, and one without a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax import spaces
from gpicljax.networks.fast_weights import DeltaMemory
from gpicljax.networks.feedforward import MLP, DuelingHead, FeedForward, Predictor, dense
from gpicljax.networks.recurrent import LSTMStack

RecurrentCore = LSTMStack | DeltaMemory


class AgentInput(NamedTuple):
    """What an agent reads at each step.

    Attributes:
      observation: the environment's observation.
      last_action: `int32[...]`, -1 at the start of a trial; of continuous actions float, then 0.
      last_reward: float `[...]`.
    """

    observation: Any
    last_action: jax.Array
    last_reward: jax.Array


class QOutput(NamedTuple):
    """`q_values` float `[..., A]`, and `predictions`, a dictionary of float `[..., size]`."""

    q_values: jax.Array
    predictions: dict[str, jax.Array]


class RecurrentQNetwork(nn.Module):
    """Encoder, mixing MLP, recurrent core, dueling head.

    One entry of a dictionary observation has an encoder of its own; its code, all other entries
    (integers one-hot), the last action (one-hot) and the last reward pass through a second MLP
    into the core.

    Attributes:
      observation_space: of the unbatched observation.
      num_actions: A.
      encoded: name of the entry with its own encoder; None for an array observation or to encode
        all entries alike.
      encoder_sizes: hidden sizes of that encoder.
      mixer_sizes: hidden sizes of the second MLP.
      core: the recurrent core.
      predictions: (name, size) of each auxiliary prediction from the core's output.
      prediction_hidden: hidden size of the predictors.
      residual: also feed the mixer's output to the heads, beside the core's.
      compare: predictions, of the encoded entry's size, whose squared difference from that entry
        is given to the Q head: "is what I see what I expect?".

    Source: appendix C and table 5 of the Meta-Referential Games paper (the defaults).
    """

    observation_space: spaces.Space
    num_actions: int
    encoded: str | None = None
    encoder_sizes: Sequence[int] = (512, 256, 128)
    mixer_sizes: Sequence[int] = (512, 256, 256)
    core: RecurrentCore = LSTMStack((256, 128))
    predictions: Sequence[tuple[str, int]] = ()
    prediction_hidden: int = 512
    residual: bool = False
    compare: Sequence[str] = ()

    def setup(self) -> None:
        """The submodules, named after their part."""
        self.encoder = MLP(self.encoder_sizes)
        self.mixer = MLP(self.mixer_sizes)
        self.head = DuelingHead(self.num_actions)
        self.predictors = {
            name: Predictor(size, self.prediction_hidden) for name, size in self.predictions
        }

    def initial_carry(self, batch: int) -> Any:
        """The core's carry for `batch` instances."""
        return self.core.initial_carry(batch)

    def _mix(self, inputs: AgentInput) -> tuple[jax.Array, jax.Array | None]:
        observation, raw = inputs.observation, None
        if self.encoded is None:
            parts = [spaces.flatten(self.observation_space, observation)]
        else:
            assert isinstance(self.observation_space, spaces.Dict)
            raw = spaces.flatten(self.observation_space[self.encoded], observation[self.encoded])
            rest = [item for item in self.observation_space.items if item[0] != self.encoded]
            parts = [self.encoder(raw), spaces.flatten(spaces.Dict(tuple(rest)), observation)]
        dtype = parts[0].dtype
        parts.append(jax.nn.one_hot(inputs.last_action, self.num_actions, dtype=dtype))
        parts.append(inputs.last_reward[..., None].astype(dtype))
        return self.mixer(jnp.concatenate(parts, axis=-1)), raw

    def _heads(self, mixed: jax.Array, core: jax.Array, raw: jax.Array | None) -> QOutput:
        features = jnp.concatenate([mixed, core], axis=-1) if self.residual else core
        predictions = {name: predict(features) for name, predict in self.predictors.items()}
        for name in self.compare:
            assert raw is not None
            # The expectation is trained by its own loss alone.
            gap = jnp.square(jax.lax.stop_gradient(predictions[name]) - raw)
            features = jnp.concatenate([features, gap], axis=-1)
        return QOutput(self.head(features), predictions)

    def unroll(self, carry: Any, inputs: AgentInput, starts: jax.Array) -> tuple[QOutput, Any]:
        """Inputs `[T, B, ...]`, starts `bool[T, B]` -> outputs `[T, B, ...]`, and the carry."""
        mixed, raw = self._mix(inputs)
        core, carry = self.core.unroll(carry, mixed, starts)
        return self._heads(mixed, core, raw), carry

    def step(self, carry: Any, inputs: AgentInput, start: jax.Array) -> tuple[QOutput, Any]:
        """Inputs `[B, ...]`, start `bool[B]` -> outputs `[B, ...]`, and the carry."""
        mixed, raw = self._mix(inputs)
        core, carry = self.core.step(carry, mixed, start)
        return self._heads(mixed, core, raw), carry


class QNetwork(FeedForward):
    """An MLP over the observation alone, and a linear or dueling head.

    Attributes:
      observation_space: of the unbatched observation; its entries are flattened, integers one-hot.
      num_actions: A.
      sizes: hidden sizes of the MLP.
      dueling: whether the head is `DuelingHead`.
    """

    observation_space: spaces.Space
    num_actions: int
    sizes: Sequence[int] = (64, 64)
    dueling: bool = False

    @nn.compact
    def __call__(self, inputs: AgentInput) -> QOutput:
        """Inputs with any leading axes -> `QOutput` without predictions."""
        features = MLP(self.sizes)(spaces.flatten(self.observation_space, inputs.observation))
        if self.dueling:
            return QOutput(DuelingHead(self.num_actions, name="head")(features), {})
        return QOutput(dense(self.num_actions, name="head")(features), {})
