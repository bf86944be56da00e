"""A world model and a policy in one: predicts observations and actions from the history.

Tokens of observations (a picture's latent vector) and of actions alternate. The output at an
observation's token is the policy, that at an action's token the prediction of the next observation.
Pictures go through an autoencoder, which is trained before and stays fixed.

In an agent's step the last action comes first and the observation second. The order of tokens is
the same as for steps of an observation and its action, and windows count such pairs: a window of
one step is a model without context.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
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
from gpicljax.networks.contract import AgentInput, Core, Network
from gpicljax.networks.embeddings import (
    Interleaved,
    ResidualHead,
    TokenEmbedding,
    VectorEmbedding,
)
from gpicljax.networks.event_store import Event, EventStore, Stored
from gpicljax.networks.feedforward import dense
from gpicljax.networks.learnt_places import PoseReader
from gpicljax.networks.linear_attention import LinearTransformer
from gpicljax.networks.map_memory import (
    STEPS,
    UNLIMITED,
    MapReader,
    PlacedTokens,
    PlaceEmbedding,
)
from gpicljax.networks.map_planning import SIGHTS, MapPlanner
from gpicljax.networks.policies import Policy, policy_for
from gpicljax.networks.recurrent import LSTMStack
from gpicljax.networks.transformer import SequenceTransformer, Transformer
from gpicljax.typing import ArrayTree, Variables

MODEL, AUTOENCODER, WINDOW = "model", "autoencoder", "window"
"""Entries of the parameters."""
MEAN_PAUSE = 14
"""Observations between hidden spans, less one, on average."""
Kind = Literal["transformer", "linear-attention", "lstm", "events"]


class CausalOutput(NamedTuple):
    """Output of the model at a step; all float.

    Attributes:
      policy: `[..., P]`, what the policy over actions reads (logits, where they are discrete).
      latent: `[..., Z]`, the prediction of this step's latent. It has no meaning at a trial's
        first step, nor have `image` and `reward`.
      observed_latent: `[..., Z]`, the latent of the observation.
      image: `[..., H, W, 3]` in [0, 1], the picture of `latent`.
      reconstruction: `[..., H, W, 3]`, the picture of `observed_latent`.
      reward: `[...]`, the predicted reward; None without such a head.
      moved: `[...]`, the logit that the last action moved the agent; None without a map.
      has_moved: `bool[...]`, whether it did; likewise.
      features: float `[..., width]`, what the policy's head reads.
      shown: of a planner that is trained, `[..., K, 2 + L]`, logits that cells are walls, that they
        are seen, and that they hold a landmark, and `[..., L]`, those of the one commanded.
      address: `[...]`, nats of the earlier steps that showed the same, by a learnt look-up; 0 where
        none did, and None without one.
    """

    policy: jax.Array
    latent: jax.Array
    observed_latent: jax.Array
    image: jax.Array
    reconstruction: jax.Array
    reward: jax.Array | None
    moved: jax.Array | None = None
    has_moved: jax.Array | None = None
    features: jax.Array | None = None
    shown: tuple[jax.Array, jax.Array] | None = None
    address: jax.Array | None = None


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
      masked: greatest share of observations hidden in training; each sequence draws its share from
        0 to this.
      noisy: greatest share of observations disturbed in training, likewise.
      noise: standard deviation of the disturbance, in units of the latents.
      precision: of a transformer's matrix products.
      dropout: rate of a transformer while it is trained.
      map_memory: cells that a map of what was seen where reaches from the start along each axis
        (`map_memory.MapReader`); 0 for none. Actions are those of a maze's agent, which turns and
        goes.
      plan_sweeps: cells of the longest way that is planned on the map (`map_planning.MapPlanner`);
        0 for a policy that does not plan.
      landmarks: those that a planner tells apart.
      learnt_map: parts of a learnt pose by which what was seen is looked up
        (`learnt_places.PoseReader`), instead of `map_memory`; 0 for none.
      hidden_span: the longest span of observations hidden in training, 0 for none. Their lengths
        are uniform from 1, and about 15 observations between them are seen. What a model with
        such spans imagines is hidden from it likewise.

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
    map_memory: Natural = 0
    plan_sweeps: Natural = 0
    landmarks: Size = 4
    learnt_map: Natural = 0
    hidden_span: Natural = 0

    def __post_init__(self) -> None:
        check_fields(self)
        check_choice("kind", self.kind, get_args(Kind))
        unit = 2 * self.heads if self.kind == "transformer" else self.heads
        even = self.kind == "lstm" or self.width % unit == 0
        check(even, "width", self.width, f"a multiple of {unit}, for {self.heads} heads")
        windowed = not self.window or self.kind == "transformer"
        check(windowed, "window", self.window, f"0, for the kind {self.kind}")
        single = not (self.map_memory and self.learnt_map)
        check(single, "learnt_map", self.learnt_map, "0, with map_memory")
        known = not self.has_map or not self.noisy
        check(known, "noisy", self.noisy, "0, with a map: it is kept of what is seen")
        fits = bool(self.map_memory) or not self.plan_sweeps
        check(fits, "plan_sweeps", self.plan_sweeps, "0, without a map")

    @property
    def has_map(self) -> bool:
        """Whether what was seen is looked up by where it was."""
        return bool(self.map_memory or self.learnt_map)

    @property
    def sights(self) -> np.ndarray | None:
        """The cells of which a planner learns what they hold; None without one."""
        return SIGHTS if self.plan_sweeps else None

    def policy(self, actions: spaces.Space) -> Policy:
        """Returns the policy over one agent's actions."""
        return policy_for(actions, bins=self.bins if isinstance(actions, spaces.Box) else 0)


class RememberingLSTM(Core):
    """An LSTM layer that stores its outputs, and attends to the earlier ones of the trial.

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
        """Returns the carry without outputs and stored events."""
        apart = {"parent": None}
        return self._core(**apart).initial_carry(batch), self._store(**apart).initial_carry(batch)

    def unroll(
        self, carry: tuple[Sequence[ArrayTree], Stored], inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, Any]:
        """Float `[T, B, width]`, `bool[T, B]` -> outputs float `[T, B, width]`, and the carry."""
        hidden, layer = self.core.unroll(carry[0], inputs, starts)
        event = Event(hidden, hidden[..., :0], jnp.ones(hidden.shape[:-1], bool))
        read, stored = self.store.unroll(carry[1], event, starts)
        return hidden + self.mix(jnp.concatenate([hidden, read], axis=-1)), (layer, stored)


class TokenByToken(Core):
    """A core over steps of several tokens, read one after the other.

    Attributes:
      core: a module with `initial_carry` and `unroll` over vectors of one width.
      tokens_per_step: K.
    """

    core: Any
    tokens_per_step: int = 2

    def initial_carry(self, batch: int) -> Any:
        """Returns the core's carry."""
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


def sequence_model(
    settings: CausalModelSettings, latent: int, actions: spaces.Space, capacity: int
) -> SequenceTransformer | MapReader | PoseReader:
    """Returns the model over latents: 25,737,216 parameters at 8 x 512 and 237,407,744 at 12 x
    1280, heads not counted.

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
    radius = settings.map_memory
    if settings.has_map:
        fits = isinstance(actions, spaces.Discrete) and actions.n == len(STEPS)
        check(fits, "actions", actions, f"Discrete({len(STEPS)}), with a map")
        places = functools.partial(PlaceEmbedding, radius) if radius else dense
        parts = {name: PlacedTokens(part, places(width), width) for name, part in parts.items()}
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
    heads: list[tuple[str, int, Any]] = [("policy", 1, ResidualHead(policy.size))]
    heads += [("latent", 0, ResidualHead(latent)), ("features", 1, jnp.asarray)]
    if settings.rewards:
        heads.append(("reward", 0, ResidualHead(1)))
    model = SequenceTransformer(Interleaved(parts, ("action", "latent")), trunk, heads)
    planned = radius, settings.plan_sweeps, settings.landmarks
    planner = MapPlanner(*planned) if settings.plan_sweeps else None
    has_window = settings.kind == "transformer"
    if settings.learnt_map:
        return PoseReader(model, latent, capacity, settings.learnt_map, has_window)
    return MapReader(model, latent, radius, planner, has_window) if radius else model


def causal_model(
    settings: CausalModelSettings,
    autoencoder: Autoencoder,
    actions: spaces.Space,
    capacity: int = 2048,
    part: int | None = None,
) -> Network:
    """Returns the network of some settings, from `AgentInput` to `CausalOutput`.

    Observations are pictures `uint8[..., H, W, 3]`, or float `[..., Z]`: latents, where the model
    reads its own predictions.

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

    def read(observed: jax.Array, inputs: AgentInput, latents: Any = None) -> dict[str, Any]:
        latents = observed if latents is None else latents
        hidden = latents[1] if isinstance(latents, tuple) else jnp.zeros(observed.shape[:-1], bool)
        parts = {"latent": latents, "action": inputs.last_action}
        return parts | {"observed": observed, "hidden": hidden} if settings.has_map else parts

    def limit(params: Variables) -> dict[str, Any]:
        has_window = settings.kind == "transformer" or settings.has_map
        return {"window": params[WINDOW]} if has_window else {}

    def output(params: Variables, observed: jax.Array, outputs: dict[str, Any]) -> CausalOutput:
        # The compiler leaves out a picture that is not used.
        image, reconstruction = (
            decode_in_parts(autoencoder, params[AUTOENCODER], latents, part)
            for latents in (outputs["latent"], observed)
        )
        reward = outputs["reward"][..., 0] if settings.rewards else None
        moves = outputs.get("moved"), outputs.get("has_moved")
        policy, latent = outputs["policy"], outputs["latent"]
        heads = policy, latent, observed, image, reconstruction, reward, *moves
        more = (outputs.get(name) for name in ("shown", "address"))
        return CausalOutput(*heads, outputs["features"], *more)

    def init(key: jax.Array, inputs: AgentInput) -> dict[str, Any]:
        model_key, picture_key = jax.random.split(key)
        pictures = autoencoder.init(picture_key)
        latents = latents_of({AUTOENCODER: pictures}, inputs.observation)
        batch = latents.shape[0]
        carry, start = module.initial_carry(batch), jnp.zeros(batch, bool)
        variables = module.init(model_key, carry, read(latents, inputs), start, method="step")
        window = jnp.asarray(UNLIMITED, jnp.int32)
        return {MODEL: variables, AUTOENCODER: pictures, WINDOW: window}

    def step(
        params: Variables, carry: ArrayTree, inputs: AgentInput, start: jax.Array
    ) -> tuple[CausalOutput, Any]:
        latents = latents_of(params, inputs.observation)
        imagined = jnp.issubdtype(inputs.observation.dtype, jnp.floating)
        is_hidden = jnp.full(latents.shape[:-1], imagined)
        given = (latents, is_hidden) if settings.hidden_span else latents
        features, variables = read(latents, inputs, given), params[MODEL]
        more = limit(params) | ({"imagined": imagined} if settings.has_map else {})
        outputs, carry = module.apply(variables, carry, features, start, method="step", **more)  # type: ignore[misc]
        return output(params, latents, outputs), carry

    def unroll(
        params: Variables,
        carry: ArrayTree,
        inputs: AgentInput,
        starts: jax.Array | None,
        key: jax.Array | None = None,
    ) -> tuple[CausalOutput, Any]:
        observed_latent = latents_of(params, inputs.observation)
        latents: Any = observed_latent
        rngs = None
        if key is not None:
            hide_key, drop_key = jax.random.split(key)
            rngs = {"dropout": drop_key}
            if settings.masked or settings.noisy or settings.hidden_span:
                latents = _disturb(hide_key, observed_latent, settings)
        features, variables = read(observed_latent, inputs, latents), params[MODEL]
        outputs, carry = module.apply(
            variables, carry, features, starts, rngs=rngs, method="unroll", **limit(params)
        )  # type: ignore[misc]
        return output(params, observed_latent, outputs), carry

    return Network(jax.jit(init), module.initial_carry, step, unroll)


def _disturb(
    key: jax.Array, latents: jax.Array, settings: CausalModelSettings
) -> tuple[jax.Array, jax.Array]:
    """Latents `[T, B, Z]`, some of them with noise, and which ones are hidden, `bool[T, B]`."""
    masked_key, noisy_key, noise_key = jax.random.split(key, 3)

    def draw_mask(key: jax.Array, most: float) -> jax.Array:
        share_key, key = jax.random.split(key)
        share = most * jax.random.uniform(share_key, latents.shape[1:2])
        return jax.random.uniform(key, latents.shape[:2]) < share

    noise = settings.noise * jax.random.normal(noise_key, latents.shape, latents.dtype)
    noisy = draw_mask(noisy_key, settings.noisy)
    disturbed = latents + jnp.where(noisy[..., None], noise, 0)
    masked = draw_mask(masked_key, settings.masked)
    if settings.hidden_span:
        keys = jax.random.split(jax.random.fold_in(key, 0), latents.shape[1])
        spans = functools.partial(draw_spans, steps=len(latents), longest=settings.hidden_span)
        masked |= jax.vmap(spans, out_axes=1)(keys)
    return disturbed, masked


def draw_spans(key: jax.Array, steps: int, longest: int) -> jax.Array:
    """Returns the steps in spans of 1 to `longest` with pauses between them, `bool[T]`."""
    pause_key, span_key = jax.random.split(key)
    pauses = 1 + jax.random.geometric(pause_key, 1 / MEAN_PAUSE, (steps,))
    spans = jax.random.randint(span_key, (steps,), 1, longest + 1)
    ends = jnp.cumsum(jnp.stack([pauses, spans], axis=1).reshape(-1))
    return jnp.searchsorted(ends, jnp.arange(steps), side="right") % 2 == 1
