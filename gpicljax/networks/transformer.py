"""Decoder-only transformer: one parallel pass over a sequence, or step by step from a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.checks import check, check_array, check_at_least, refusal
from gpicljax.networks.attention import Implementation, earliest_keys
from gpicljax.networks.contract import Network
from gpicljax.networks.layers import LayerNorm, default_float
from gpicljax.networks.policies import draw_choice
from gpicljax.networks.tiled_attention import lowest
from gpicljax.networks.transformer_block import Block, Context, KVCache
from gpicljax.typing import ArrayTree

ROPE_BASE = 1e4


class Transformer(nn.Module):
    """Layers over embedded tokens, and a final norm; `networks.contract` without the embedding.

    Inputs are float `[B, width]` per step, or `[B, tokens_per_step, width]` where that is not 1;
    outputs have the inputs' shape, and JAX's default float type. Positions count from the trial's
    start. Weights start as those of `torch.nn.Linear` do, the two of each layer that write into the
    residual stream smaller by sqrt(2 layers).

    `unroll` also takes None for the carry, which makes the sequence's beginning a start, keeps no
    cache (None is returned) and costs less; and None for `starts`, for no start inside. A traced
    `window: int32[]`, given to `unroll` and to `step`, limits attention as the attribute does, in
    one program for all windows; it saves neither time nor cache.

    With the dropout rate above 0, units are dropped where `apply` gets a key named "dropout" (in
    the residual stream and the feed-forward nets; attention weights are never dropped).

    Angles of positions have JAX's default float type: in float32 they are off by .002 at position
    10**7 and useless from 2**24 on, also within a window.

    Attributes:
      layers: number of blocks.
      width: d.
      heads: heads of attention, each of width / heads (an even number).
      capacity: tokens of a trial that the cache holds. Without a window, a trial that grows longer
        loses its oldest tokens, which is not what a pass without a cache computes.
      window: attend to this many steps, the current one included; None for the whole trial. The
        cache keeps no more than that.
      tokens_per_step: tokens that make up one step.
      lead: tokens at the front of a trial's first step that are not there (a last action);
        they are masked, positions start after them, and their outputs mean nothing.
      dtype: of the matrix products and the cache; None is JAX's default float type.
      dropout: rate.
      implementation: of the attention.

    Source: appendix A.1 of the GPICL paper.

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(Transformer(layers=2, width=16, heads=2, capacity=32))
    """

    layers: int
    width: int
    heads: int
    capacity: int = 4096
    window: int | None = None
    tokens_per_step: int = 1
    lead: int = 0
    dtype: Any = None
    dropout: float = 0.0
    implementation: Implementation = "auto"
    reads_none = True  # see `contract.as_network`

    def setup(self) -> None:
        """The layers, their parameters stacked along a first axis, and the norm."""
        _check(self)
        self.blocks = nn.scan(
            Block,
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=(0, nn.broadcast),  # type: ignore[arg-type]
            length=self.layers,
        )(
            width=self.width,
            heads=self.heads,
            window=self.window,
            tokens_per_step=self.tokens_per_step,
            dtype=self._dtype,
            dropout=self.dropout,
            residual_scale=(2 * self.layers) ** -0.5,
            implementation=self.implementation,
        )
        self.norm = LayerNorm()

    @property
    def _dtype(self) -> Any:
        return default_float() if self.dtype is None else self.dtype

    @property
    def _slots(self) -> int:
        """Length of the cache: a window's steps, and those written before the first token looks."""
        if self.window is None:
            return self.capacity
        return (self.window + 1) * self.tokens_per_step - 1

    def initial_carry(self, batch: int) -> KVCache:
        """Returns an empty cache."""
        size = self.width // self.heads
        shape = (batch, self.layers, self.heads, self._slots, size)
        # Two arrays: one given twice could not be donated.
        keys, values = jnp.zeros(shape, self._dtype), jnp.zeros(shape, self._dtype)
        length = jnp.full(batch, -self.lead, jnp.int32)
        return KVCache(keys, values, length, windowed=self.window is not None)

    def unroll(
        self,
        carry: KVCache | None,
        inputs: jax.Array,
        starts: jax.Array | None,
        window: jax.Array | None = None,
    ) -> tuple[jax.Array, KVCache | None]:
        """Inputs float `[T, B, (tokens_per_step,) d]`, `bool[T, B]` -> outputs, and the carry.

        Raises:
          ValueError: for a sequence that the carry's cache cannot hold.
        """
        steps, batch = inputs.shape[:2]
        count, slots = self.tokens_per_step, self._slots
        if carry is not None and self.window is None and steps * count > slots:
            size = f"{steps} steps of {count} tokens"
            accepted_values = f"{slots} tokens, the cache's capacity: raise it, or unroll from None"
            raise ValueError(refusal("inputs", size, accepted_values))
        x = jnp.moveaxis(inputs.reshape(steps, batch, count, self.width), 1, 0)
        length = jnp.full(1, -self.lead, jnp.int32) if carry is None else carry.length
        positions = self._positions(length, starts, steps)
        first = order = newest = slot = None
        offset = 0 if carry is None else slots
        if carry is not None or starts is not None or window is not None or self.lead:
            # A token that is not there sees itself only.
            clipped = jnp.maximum(positions, 0)
            first = earliest_keys(clipped, self.window, count, offset)
            if window is not None:
                first = jnp.maximum(first, earliest_keys(clipped, window, count, offset))
            if carry is not None and self.window is None:
                last = (jnp.arange(steps * count, dtype=jnp.int32) // count + 1) * count
                first = jnp.maximum(first, last)  # as a step does, which writes before it looks
            first = jnp.broadcast_to(first, (batch, steps * count))
        if carry is not None:
            order = (length[:, None] + jnp.arange(slots, dtype=jnp.int32)) % slots
            slot = jnp.where(positions < 0, slots, positions % slots)
            tokens = jnp.arange(steps * count, dtype=jnp.int32)
            newest = jnp.full((batch, slots), -1, jnp.int32)
            newest = newest.at[jnp.arange(batch)[:, None], slot].max(tokens, mode="drop")
        context = self._context(positions, first=first, order=order, newest=newest)
        x, carry = self._pass(x.reshape(batch, steps * count, self.width), carry, context)
        if carry is not None:
            carry = carry.replace(length=positions[:, -1] + 1)
        x = jnp.moveaxis(x.reshape(batch, steps, count, self.width), 0, 1)
        return x.reshape(inputs.shape), carry

    def step(
        self,
        carry: KVCache,
        inputs: jax.Array,
        start: jax.Array,
        window: jax.Array | None = None,
    ) -> tuple[jax.Array, KVCache]:
        """Runs one step: float `[B, (tokens_per_step,) d]`, `bool[B]` -> outputs, and the carry."""
        batch, count, slots = inputs.shape[0], self.tokens_per_step, self._slots
        positions = self._positions(carry.length, start[None], 1)
        # The position of the token in each slot once the step's are in; of old trials, below 0.
        last = positions[:, -1:]
        held = last - (last - jnp.arange(slots, dtype=jnp.int32)) % slots
        context = self._context(
            positions,
            slots=jnp.where(positions < 0, slots, positions % slots),
            visible=self._visible(positions, held, window),
            used=jnp.minimum(1 - lowest(-last), slots),
        )
        x, cache = self._pass(inputs.reshape(batch, count, self.width), carry, context)
        assert cache is not None
        return x.reshape(inputs.shape), cache.replace(length=positions[:, -1] + 1)

    def _visible(
        self, positions: jax.Array, slot_positions: jax.Array, window: jax.Array | None
    ) -> jax.Array:
        """Returns the slots that each of a step's tokens attends to, `bool[B, T, C]`."""
        positions, slot_positions = positions[:, :, None], slot_positions[:, None]
        visible = (slot_positions >= 0) & (slot_positions <= positions)
        count = self.tokens_per_step
        for limit in (self.window, window):
            if limit is not None:
                visible &= positions // count - slot_positions // count < limit
        return visible

    def _positions(self, length: jax.Array, starts: jax.Array | None, steps: int) -> jax.Array:
        """Positions in trials, `int32[B or 1, tokens]`, from the length so far, `int32[B or 1]`."""
        index = jnp.arange(steps, dtype=jnp.int32)[:, None]
        if starts is None:
            begin = length + index * self.tokens_per_step
        else:
            last = jax.lax.cummax(jnp.where(starts, index, -1), axis=0)
            begin = jnp.where(last < 0, length, -self.lead)
            begin += (index - jnp.maximum(last, 0)) * self.tokens_per_step
        tokens = begin.T[:, :, None] + jnp.arange(self.tokens_per_step, dtype=jnp.int32)
        return tokens.reshape(tokens.shape[0], -1)

    def _context(self, positions: jax.Array, **rest: Any) -> Context:
        size = self.width // self.heads
        frequency = ROPE_BASE ** (-jnp.arange(0, size, 2, dtype=default_float()) / size)
        angle = positions[:, None].astype(default_float()) * frequency[:, None]
        return Context(jnp.cos(angle), jnp.sin(angle), **rest)

    def _pass(
        self, x: jax.Array, cache: KVCache | None, context: Context
    ) -> tuple[jax.Array, KVCache | None]:
        layers = jnp.arange(self.layers, dtype=jnp.int32)
        (x, cache), _ = self.blocks((x.astype(default_float()), cache), layers, context)
        return self.norm(x), cache


def _check(trunk: Transformer) -> None:
    divides = trunk.heads >= 1 and trunk.width % (2 * trunk.heads) == 0
    check(divides, "width", trunk.width, f"a multiple of 2 x heads, with heads = {trunk.heads}")
    for name in ("layers", "heads", "capacity", "window", "tokens_per_step"):
        check_at_least(1, **{name: getattr(trunk, name)})
    count = trunk.tokens_per_step
    check_at_least(count, capacity=trunk.capacity)
    check(0 <= trunk.lead < count, "lead", trunk.lead, f"0 .. tokens_per_step - 1 = {count - 1}")
    check(0 <= trunk.dropout < 1, "dropout", trunk.dropout, "at least 0 and below 1")


class SequenceTransformer(nn.Module):
    """A transformer over any embedding, with heads on chosen tokens of each step.

    Attributes:
      embedding: from the inputs of a step to the trunk's (see `embeddings.Interleaved`).
      trunk: the transformer.
      heads: (name, index of the token within the step, head). Outputs are a dictionary of the
        heads' outputs; without heads, the trunk's.
    """

    embedding: nn.Module
    trunk: Transformer
    heads: Sequence[tuple[str, int, nn.Module]] = ()
    reads_none = True

    def initial_carry(self, batch: int) -> KVCache:
        """Returns an empty cache."""
        return self.trunk.initial_carry(batch)

    def _outputs(self, x: jax.Array) -> Any:
        if not self.heads:
            return x
        if self.trunk.tokens_per_step == 1:
            x = x[..., None, :]
        return {name: head(x[..., token, :]) for name, token, head in self.heads}  # type: ignore[operator]

    def unroll(
        self, carry: KVCache | None, inputs: ArrayTree, starts: jax.Array | None, **more: Any
    ) -> tuple[Any, KVCache | None]:
        """Inputs `[T, B, ...]`, `bool[T, B]` -> outputs `[T, B, ...]`, and the carry.

        What else is given (`window`) goes to the trunk.
        """
        x, carry = self.trunk.unroll(carry, self.embedding(inputs), starts, **more)  # type: ignore[operator]
        return self._outputs(x), carry

    def step(
        self, carry: KVCache, inputs: ArrayTree, start: jax.Array, **more: Any
    ) -> tuple[Any, KVCache]:
        """Inputs `[B, ...]`, `bool[B]` -> outputs `[B, ...]`, and the carry."""
        x, carry = self.trunk.step(carry, self.embedding(inputs), start, **more)  # type: ignore[operator]
        return self._outputs(x), carry


def generate(
    key: jax.Array,
    network: Network,
    params: ArrayTree,
    prompt: jax.Array,
    length: int,
    temperature: float | jax.Array = 1.0,
) -> jax.Array:
    """Continues prompts token by token, each drawn from the network's logits.

    The prompt is read in one pass; each further token costs one step.

    Args:
      key: PRNG key.
      network: from tokens to logits; any core.
      params: its parameters.
      prompt: `int[B, T]`, T >= 1.
      length: tokens to draw, at least 1; static.
      temperature: divides the logits; 0 takes the likeliest token.

    Returns:
      `int32[B, length]`, without the prompt.

    Raises:
      ValueError: if the prompt is empty, or the network's cache too small for both.

    Example:
      >>> from gpicljax.networks.language_model import LanguageModelSettings, language_model
      >>> model = language_model(LanguageModelSettings(layers=1, width=8, heads=1), capacity=16)
      >>> def write(key):
      ...     prompt = jnp.zeros((2, 4), jnp.int32)
      ...     return generate(key, model, model.init(key, prompt[:, 0]), prompt, length=8)
      >>> jax.eval_shape(write, jax.random.key(0)).shape
      (2, 8)
    """
    tokens = prompt.ndim == 2 and prompt.shape[1] and jnp.issubdtype(prompt.dtype, jnp.integer)
    check_array(tokens, "prompt", prompt, "int[B, T] with T >= 1")
    check_at_least(1, length=length)
    carry = network.initial_carry(prompt.shape[0])
    needed = prompt.shape[1] + length - 1
    for cache in jax.tree.leaves(carry, is_leaf=lambda x: isinstance(x, KVCache)):
        if isinstance(cache, KVCache) and not cache.windowed:
            room = f"a prompt and a length for {cache.capacity} tokens, the trunk's `capacity`"
            check(needed <= cache.capacity, "prompt", f"{needed} tokens to be kept", room)
    starts = jnp.zeros(prompt.T.shape, bool)
    logits, carry = network.unroll(params, carry, prompt.T, starts)
    going = starts[0]

    def tick(
        state: tuple[ArrayTree, jax.Array], key: jax.Array
    ) -> tuple[tuple[ArrayTree, jax.Array], jax.Array]:
        carry, token = state
        logits, carry = network.step(params, carry, token, going)
        token = draw_choice(key, logits, temperature)
        return (carry, token), token

    keys = jax.random.split(key, length)
    token = draw_choice(keys[0], logits[-1], temperature)
    _, tokens = jax.lax.scan(tick, (carry, token), keys[1:])
    return jnp.concatenate([token[:, None], tokens.T], axis=1)
