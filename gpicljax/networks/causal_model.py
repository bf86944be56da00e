"""A world model and a policy in one: what is seen next, and what to do, from all that was before.

Tokens alternate: what is seen (a picture's latent vector) and what is done. The token of what is
seen says what to do; the token of what was done says what is seen then. Pictures go through an
autoencoder, which is trained before and stays what it is.

In a step, as agents take them, the last action comes first and what is seen now second. The order
of tokens is the same as where a step is what is seen and what is done about it, and windows count
such pairs: a window of one step is a model without context.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax import spaces
from gpicljax.checks import (
    BelowOne,
    Natural,
    Rate,
    Share,
    Size,
    check,
    check_choice,
    check_fields,
)
from gpicljax.networks.autoencoder import Autoencoder, decode_in_parts, encode_in_parts
from gpicljax.networks.contract import AgentInput, Network
from gpicljax.networks.embeddings import (
    Interleaved,
    ResidualHead,
    TokenEmbedding,
    VectorEmbedding,
)
from gpicljax.networks.event_store import Event, EventStore, Stored
from gpicljax.networks.feedforward import dense
from gpicljax.networks.linear_attention import LinearTransformer
from gpicljax.networks.policies import Policy, policy_for
from gpicljax.networks.recurrent import LSTMStack
from gpicljax.networks.transformer import SequenceTransformer, Transformer
from gpicljax.typing import ArrayTree, Variables

MODEL, AUTOENCODER, WINDOW = "model", "autoencoder", "window"
"""Entries of the parameters."""
UNLIMITED = 2**20
"""A window that no sequence outgrows."""
Kind = Literal["transformer", "linear-attention", "lstm", "events"]


class CausalOutput(NamedTuple):
    """What the model says at a step; all float.

    Attributes:
      policy: `[..., P]`, what the policy over actions reads (logits, where they are discrete).
      latent: `[..., Z]`, what it expected to see now, before it did. Without meaning at a trial's
        first step, as `image` and `reward` are.
      seen: `[..., Z]`, what it saw.
      image: `[..., H, W, 3]` in [0, 1], the picture of `latent`.
      again: `[..., H, W, 3]`, the picture of `seen`.
      reward: `[...]`, the reward it expected with it; None if it has no such head.
    """

    policy: jax.Array
    latent: jax.Array
    seen: jax.Array
    image: jax.Array
    again: jax.Array
    reward: jax.Array | None


@dataclasses.dataclass(frozen=True)
class CausalModelSettings:
    """Kind and size of a causal model.

    The paper's transformers are 8 x 512 with 8 heads and 12 x 1280 with 16, without dropout.

    Attributes:
      kind: a transformer; linear attention; LSTM layers; or one LSTM layer that stores each of its
        outputs and attends to them.
      layers: of a transformer, of linear attention, of an LSTM.
      width: of every layer.
      heads: of attention.
      window: steps that a transformer attends to, 0 for all; its cache is then as small.
      slots: outputs that an LSTM with events stores.
      bins: values of each entry of a continuous action; 0 for a Gaussian.
      rewards: whether rewards are predicted.
      masked: most of what is seen that is hidden in training; each sequence draws its share from 0
        to this.
      noisy: most of what is seen that is disturbed in training, likewise.
      noise: standard deviation of the disturbance, in units of the latents.
      precision: of a transformer's matrix products.
      dropout: rate of a transformer while it is trained.

    Raises:
      ValueError: for numbers out of range, and a width that the heads do not divide.

    Source: sections 3.2 and A.3 of the GPICL paper: 10 % of latents are masked and 10 % disturbed
      in A.3, 15 % together in 3.2; the reference code draws both shares for each sequence from
      [0, 10 %].
    """

    kind: Kind = "transformer"
    layers: Size = 3
    width: Size = 64
    heads: Size = 4
    window: Natural = 0
    slots: Size = 256
    bins: Natural = 0
    rewards: bool = False
    masked: Share = 0.1
    noisy: Share = 0.1
    noise: Rate = 1.0
    precision: Literal["float32", "bfloat16"] = "float32"
    dropout: BelowOne = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        check_choice("kind", self.kind, get_args(Kind))
        unit = 2 * self.heads if self.kind == "transformer" else self.heads
        even = self.kind == "lstm" or self.width % unit == 0
        check(even, "width", self.width, f"a multiple of {unit}, for {self.heads} heads")
        windowed = not self.window or self.kind == "transformer"
        check(windowed, "window", self.window, f"0, for the kind {self.kind}")

    def policy(self, actions: spaces.Space) -> Policy:
        """The policy over one agent's actions."""
        return policy_for(actions, bins=self.bins if isinstance(actions, spaces.Box) else 0)


class RememberingLSTM(nn.Module):
    """An LSTM layer that stores what it says, and attends to what it said before in the trial.

    Attributes:
      width: of its inputs and outputs.
      slots: how much it stores.
      heads: of its attention.
    """

    width: int
    slots: int = 256
    heads: int = 4

    def setup(self) -> None:
        """The layer, its memory, and what mixes both."""
        self.core, self.store = self._core(), self._store()
        self.mix = dense(self.width)

    def _core(self, **where: Any) -> LSTMStack:
        return LSTMStack((self.width,), **where)

    def _store(self, **where: Any) -> EventStore:
        size = self.width // self.heads
        return EventStore(self.width, 0, self.slots, self.heads, size, **where)

    def initial_carry(self, batch: int) -> Any:
        """Nothing said, nothing stored."""
        apart = {"parent": None}
        return self._core(**apart).initial_carry(batch), self._store(**apart).initial_carry(batch)

    def unroll(
        self, carry: tuple[Sequence[ArrayTree], Stored], inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, Any]:
        """Float `[T, B, width]`, `bool[T, B]` -> outputs float `[T, B, width]`, and the carry."""
        said, layer = self.core.unroll(carry[0], inputs, starts)
        event = Event(said, said[..., :0], jnp.ones(said.shape[:-1], bool))
        read, stored = self.store.unroll(carry[1], event, starts)
        return said + self.mix(jnp.concatenate([said, read], axis=-1)), (layer, stored)

    def step(
        self, carry: tuple[Sequence[ArrayTree], Stored], inputs: jax.Array, start: jax.Array
    ) -> tuple[jax.Array, Any]:
        """Float `[B, width]`, `bool[B]` -> outputs float `[B, width]`, and the carry."""
        outputs, carry = self.unroll(carry, inputs[None], start[None])
        return outputs[0], carry


class TokenByToken(nn.Module):
    """Any core over steps of several tokens, which it reads one after the other.

    Attributes:
      core: a module with `initial_carry` and `unroll` over vectors of one width.
      tokens_per_step: K.
    """

    core: Any
    tokens_per_step: int = 2

    def initial_carry(self, batch: int) -> Any:
        """The core's."""
        return self.core.initial_carry(batch)

    def unroll(
        self, carry: ArrayTree, inputs: jax.Array, starts: jax.Array | None
    ) -> tuple[jax.Array, Any]:
        """Float `[T, B, K, d]`, `bool[T, B]` or None -> outputs `[T, B, K, d]`, and the carry."""
        steps, batch, count, _ = inputs.shape
        carry = self.initial_carry(batch) if carry is None else carry
        first = jnp.zeros((steps, count, batch), bool)
        if starts is not None:
            first = first.at[:, 0].set(starts)
        tokens = inputs.swapaxes(1, 2).reshape(steps * count, batch, -1)
        outputs, carry = self.core.unroll(carry, tokens, first.reshape(steps * count, batch))
        outputs = outputs.reshape(steps, count, batch, -1).swapaxes(1, 2)
        return outputs, carry

    def step(self, carry: ArrayTree, inputs: jax.Array, start: jax.Array) -> tuple[jax.Array, Any]:
        """Float `[B, K, d]`, `bool[B]` -> outputs `[B, K, d]`, and the carry."""
        outputs, carry = self.unroll(carry, inputs[None], start[None])
        return outputs[0], carry


def sequence_model(
    settings: CausalModelSettings, latent: int, actions: spaces.Space, capacity: int
) -> SequenceTransformer:
    """The model over latents: 25,737,216 parameters at 8 x 512 and 237,407,744 at 12 x 1280, heads
    not counted.

    Args:
      settings: kind and size.
      latent: Z, numbers that a picture becomes.
      actions: of one agent.
      capacity: steps of a trial that a transformer's cache holds.

    Source: section 3.2 and Table 1 of the GPICL paper.
    """
    width, policy = settings.width, settings.policy(actions)
    if isinstance(actions, spaces.Discrete):
        done: nn.Module = TokenEmbedding(actions.n, width)
    else:
        check(isinstance(actions, spaces.Box), "actions", actions, "Discrete, or a Box")
        done = VectorEmbedding(spaces.flat_size(actions), width, maskable=False)
    parts = {"action": done, "latent": VectorEmbedding(latent, width)}
    if settings.kind == "transformer":
        trunk: Any = Transformer(
            settings.layers,
            width,
            settings.heads,
            capacity=2 * capacity,
            window=settings.window or None,
            tokens_per_step=2,
            lead=1,
            dtype=getattr(jnp, settings.precision),
            dropout=settings.dropout,
        )
    elif settings.kind == "linear-attention":
        layers = settings.layers, width, settings.heads, 4 * width
        trunk = TokenByToken(LinearTransformer(*layers))
    elif settings.kind == "lstm":
        trunk = TokenByToken(LSTMStack((width,) * settings.layers))
    else:
        trunk = TokenByToken(RememberingLSTM(width, settings.slots, settings.heads))
    heads = [("policy", 1, ResidualHead(policy.size)), ("latent", 0, ResidualHead(latent))]
    if settings.rewards:
        heads.append(("reward", 0, ResidualHead(1)))
    return SequenceTransformer(Interleaved(parts, ("action", "latent")), trunk, heads)


def causal_model(
    settings: CausalModelSettings,
    autoencoder: Autoencoder,
    actions: spaces.Space,
    capacity: int = 2048,
    part: int | None = None,
) -> Network:
    """The network of some settings: reads `AgentInput`, says `CausalOutput`.

    Observations are pictures `uint8[..., H, W, 3]`, or float `[..., Z]`: latents, as they are where
    the model goes on from what it expects to see.

    Its parameters are a dictionary: `"model"`; `"autoencoder"`; and `"window"`, `int32[]`, steps
    that a transformer attends to, so that one compiled program serves models with and without
    context. Trainers are to freeze the last two, or at least the last.

    Args:
      settings: kind and size.
      autoencoder: of the pictures.
      actions: of one agent.
      capacity: steps of a trial that a transformer's cache holds when it acts.
      part: pictures that are encoded or decoded at a time; None for all at once.

    Source: section 3.2, equations 2 to 4, of the GPICL paper.
    """
    module = sequence_model(settings, autoencoder.latent, actions, capacity)

    def latents_of(params: Variables, observation: jax.Array) -> jax.Array:
        if jnp.issubdtype(observation.dtype, jnp.floating):
            return observation
        return encode_in_parts(autoencoder, params[AUTOENCODER], observation, part)[0]

    def read(latents: jax.Array, inputs: AgentInput) -> dict[str, Any]:
        return {"latent": latents, "action": inputs.last_action}

    def limit(params: Variables) -> dict[str, Any]:
        return {"window": params[WINDOW]} if settings.kind == "transformer" else {}

    def output(params: Variables, seen: jax.Array, said: dict[str, jax.Array]) -> CausalOutput:
        # The compiler leaves out a picture that is not used.
        image, again = (
            decode_in_parts(autoencoder, params[AUTOENCODER], latents, part)
            for latents in (said["latent"], seen)
        )
        reward = said["reward"][..., 0] if settings.rewards else None
        return CausalOutput(said["policy"], said["latent"], seen, image, again, reward)

    def init(key: jax.Array, inputs: AgentInput) -> dict[str, Any]:
        own_key, other_key = jax.random.split(key)
        pictures = autoencoder.init(other_key)
        seen = latents_of({AUTOENCODER: pictures}, inputs.observation)
        batch = seen.shape[0]
        carry, start = module.initial_carry(batch), jnp.zeros(batch, bool)
        said = module.init(own_key, carry, read(seen, inputs), start, method="step")
        window = jnp.asarray(UNLIMITED, jnp.int32)
        return {MODEL: said, AUTOENCODER: pictures, WINDOW: window}

    def step(
        params: Variables, carry: ArrayTree, inputs: AgentInput, start: jax.Array
    ) -> tuple[CausalOutput, Any]:
        seen = latents_of(params, inputs.observation)
        given, own = read(seen, inputs), params[MODEL]
        said, carry = module.apply(own, carry, given, start, method="step", **limit(params))  # type: ignore[misc]
        return output(params, seen, said), carry

    def unroll(
        params: Variables,
        carry: ArrayTree,
        inputs: AgentInput,
        starts: jax.Array | None,
        key: jax.Array | None = None,
    ) -> tuple[CausalOutput, Any]:
        seen = latents_of(params, inputs.observation)
        latents: Any = seen
        rngs = None
        if key is not None:
            hide_key, drop_key = jax.random.split(key)
            rngs = {"dropout": drop_key}
            if settings.masked or settings.noisy:
                latents = _disturbed(hide_key, seen, settings)
        given, own = read(latents, inputs), params[MODEL]
        said, carry = module.apply(
            own, carry, given, starts, rngs=rngs, method="unroll", **limit(params)
        )  # type: ignore[misc]
        return output(params, seen, said), carry

    return Network(jax.jit(init), module.initial_carry, step, unroll)


def _disturbed(
    key: jax.Array, latents: jax.Array, settings: CausalModelSettings
) -> tuple[jax.Array, jax.Array]:
    """Latents `[T, B, Z]`, some of them with noise, and which ones are hidden, `bool[T, B]`."""
    masked_key, noisy_key, noise_key = jax.random.split(key, 3)

    def some(key: jax.Array, most: float) -> jax.Array:
        share_key, key = jax.random.split(key)
        share = most * jax.random.uniform(share_key, latents.shape[1:2])
        return jax.random.uniform(key, latents.shape[:2]) < share

    noise = settings.noise * jax.random.normal(noise_key, latents.shape, latents.dtype)
    noisy = some(noisy_key, settings.noisy)
    disturbed = latents + jnp.where(noisy[..., None], noise, 0)
    return disturbed, some(masked_key, settings.masked)
