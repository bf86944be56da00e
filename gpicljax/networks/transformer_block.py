"""One layer of the transformer, with and without a cache of earlier tokens."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from gpicljax.batching import bound_rounds
from gpicljax.networks.attention import Implementation, causal_attention
from gpicljax.networks.layers import LayerNorm, Linear, default_float, gelu, scaled_uniform
from gpicljax.networks.tiled_attention import MASKED

MOST_SLOTS = 256  # of the cache looked at in one go


class KVCache(struct.PyTreeNode):
    """The tokens of the current trial that later ones may attend to.

    The token at position p of its trial is kept in slot p mod C.

    Attributes:
      keys: rotated, float `[B, layers, heads, C, d]`.
      values: float `[B, layers, heads, C, d]`.
      length: tokens of the trial so far, `int32[B]`.
      windowed: whether old tokens may be forgotten; static.
    """

    keys: jax.Array
    values: jax.Array
    length: jax.Array
    windowed: bool = struct.field(pytree_node=False)

    @property
    def capacity(self) -> int:
        """The number of slots, C."""
        return self.keys.shape[3]


class Context(struct.PyTreeNode):
    """Data that all layers of a pass share; `[B, ...]`, or `[1, ...]` where all rows are alike."""

    cosine: jax.Array  # float [B, d / 2, T]
    sine: jax.Array
    first: jax.Array | None = None  # of causal_attention, int32[B, T]
    slots: jax.Array | None = None  # where new tokens go, int32[B, T]; C is nowhere
    order: jax.Array | None = None  # a pass: the cache's slots from old to new, int32[B, C]
    newest: jax.Array | None = None  # a pass: the token that ends in each slot or -1, int32[B, C]
    visible: jax.Array | None = None  # a step: bool[B, T, C]
    used: jax.Array | None = None  # a step: slots in use in the longest trial, int32[]


class Block(nn.Module):
    """One pre-norm layer: attention, then a feed-forward net of four times the width.

    12 d^2 + 10 d parameters. Attributes as in `Transformer`.
    """

    width: int
    heads: int
    window: int | None
    tokens_per_step: int
    dtype: Any
    dropout: float
    residual_scale: float
    implementation: Implementation

    @nn.compact
    def __call__(
        self, state: tuple[jax.Array, KVCache | None], layer: jax.Array, context: Context
    ) -> tuple[tuple[jax.Array, KVCache | None], None]:
        """`float[B, T, d]` and the cache, `int32[]`, ... -> the same, as `nn.scan` wants it."""
        x, cache = state
        drop = nn.Dropout(self.dropout, deterministic=not self.has_rng("dropout"))
        dense = partial(Linear, dtype=self.dtype)
        closing = scaled_uniform(self.residual_scale)

        size = self.width // self.heads
        weights = self.param("qkv", scaled_uniform(), (self.width, 3 * self.width), default_float())
        mixed = jnp.einsum(
            "df,btd->bft", weights.astype(self.dtype), LayerNorm(name="norm1")(x).astype(self.dtype)
        )
        mixed = mixed.reshape(x.shape[0], 3, self.heads, size, x.shape[1])
        q, k = (_rotate(mixed[:, i], context).astype(self.dtype) for i in range(2))
        attended, cache = self._attend(q, k, mixed[:, 2], cache, layer, context)
        attended = attended.reshape(x.shape[0], self.width, x.shape[1]).swapaxes(1, 2)
        x = x + drop(dense(self.width, kernel_init=closing, name="out")(attended))
        up = dense(4 * self.width, kernel_init=scaled_uniform(), name="up")
        hidden = drop(gelu(up(LayerNorm(name="norm2")(x))))
        x = x + drop(dense(self.width, kernel_init=closing, name="down")(hidden))
        return (x, cache), None

    def _attend(
        self,
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        cache: KVCache | None,
        layer: jax.Array,
        context: Context,
    ) -> tuple[jax.Array, KVCache | None]:
        """Queries, keys and values `[B, H, d, T]` -> `[B, H, d, T]`, and the cache with them."""
        if cache is None:
            out = causal_attention(
                q,
                k,
                v,
                window=self.window,
                tokens_per_step=self.tokens_per_step,
                first=context.first,
                implementation=self.implementation,
            )
            return out, None
        if context.visible is not None:
            cache = _write(cache, k, v, layer, context)
            return _look_up(q, cache, layer, context), cache
        old = cache.keys[:, layer], cache.values[:, layer]
        assert context.order is not None and context.newest is not None
        order = context.order[:, None, :, None]
        ordered = (jnp.take_along_axis(x, order, 2).swapaxes(2, 3) for x in old)
        keys, values = (jnp.concatenate(x, -1) for x in zip(ordered, (k, v), strict=True))
        out = causal_attention(
            q,
            keys,
            values,
            window=self.window,
            tokens_per_step=self.tokens_per_step,
            first=context.first,
            implementation=self.implementation,
        )
        newest = context.newest[:, None, :, None]
        kept = (
            jnp.where(newest < 0, x, jnp.take_along_axis(new.swapaxes(2, 3), newest, 2, "clip"))
            for x, new in zip(old, (k, v), strict=True)
        )
        keys, values = kept
        return out, cache.replace(
            keys=cache.keys.at[:, layer].set(keys), values=cache.values.at[:, layer].set(values)
        )


def _rotate(x: jax.Array, context: Context) -> jax.Array:
    """Rotary position embedding of neighbouring pairs along d; `[B, H, d, T]`.

    Source: Su et al. (2024).
    """
    shape = x.shape
    x = x.reshape(*shape[:2], shape[2] // 2, 2, shape[3]).astype(default_float())
    cosine, sine = context.cosine[:, None], context.sine[:, None]
    even, odd = x[..., 0, :], x[..., 1, :]
    return jnp.stack([even * cosine - odd * sine, odd * cosine + even * sine], 3).reshape(shape)


def _write(
    cache: KVCache, k: jax.Array, v: jax.Array, layer: jax.Array, context: Context
) -> KVCache:
    """Puts keys and values `[B, H, d, T]` into their slots."""
    assert context.slots is not None
    rows = jnp.arange(k.shape[0])[:, None, None]
    heads = jnp.arange(k.shape[1])[None, :, None]
    at = (rows, layer, heads, context.slots[:, None, :])
    return cache.replace(
        keys=cache.keys.at[at].set(k.swapaxes(2, 3), mode="drop"),
        values=cache.values.at[at].set(v.swapaxes(2, 3), mode="drop"),
    )


def _look_up(q: jax.Array, cache: KVCache, layer: jax.Array, context: Context) -> jax.Array:
    """Attention of a step's queries `[B, H, d, T]` over the cache -> `[B, H, d, T]`.

    Slot by slot, with an online softmax, only as far as the longest trial has come; but on a GPU
    all slots, for it would have to ask the host for the number of rounds.
    """
    visible, used = context.visible, context.used
    assert visible is not None and used is not None
    batch, heads, size, tokens = q.shape
    count = min(MOST_SLOTS, cache.capacity)
    q = q.astype(default_float()) / size**0.5

    def chunk(i: jax.Array, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        most, total, value = carry
        # The last chunk may begin early; what came before is not counted twice.
        start = jnp.minimum(i * count, cache.capacity - count)
        zero = jnp.int32(0)
        corner = (zero, layer, zero, start, zero)
        shape = (batch, 1, heads, count, size)
        keys, values = (
            jax.lax.dynamic_slice(x, corner, shape)[:, 0].astype(q.dtype)
            for x in (cache.keys, cache.values)
        )
        fresh = start + jnp.arange(count, dtype=jnp.int32) >= i * count
        mask = jax.lax.dynamic_slice_in_dim(visible, start, count, 2) & fresh
        score = jnp.einsum("bhdt,bhcd->bhtc", q, keys)
        score = jnp.where(mask[:, None], score, jnp.asarray(MASKED, q.dtype))
        new = jnp.maximum(most, score.max(-1))
        weight, decay = jnp.exp(score - new[..., None]), jnp.exp(most - new)
        value = value * decay[:, :, None] + jnp.einsum("bhtc,bhcd->bhdt", weight, values)
        return new, total * decay + weight.sum(-1), value

    zeros = jnp.zeros((batch, heads, tokens), q.dtype)
    carry = (zeros + MASKED / 2, zeros, jnp.zeros(q.shape, q.dtype))
    most = -(-cache.capacity // count)
    chunks = bound_rounds(lambda used: (used + count - 1) // count, most, used)
    _, total, value = jax.lax.fori_loop(jnp.int32(0), chunks, chunk, carry)
    # A token that is not there sees nothing.
    return (value / jnp.where(total > 0, total, 1)[:, :, None]).astype(cache.values.dtype)
