"""Exact causal attention whose memory grows with the length, not with its square.

The scores are computed tile by tile and never stored: the forward pass keeps a running maximum and
sum per query (online softmax), the backward pass computes each tile again from the saved
log-sum-exp. Tiles that no query of theirs may look at are left out.

Source: Rabe & Staats (2021); Dao et al. (2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

_Arrays: TypeAlias = tuple[jax.Array, ...]
_Tile: TypeAlias = Callable[[jax.Array, int, jax.Array | None, _Arrays], _Arrays]

MASKED = -1e30  # finite, so that differences of two such scores are numbers

# 2^f = 1 + f p(f) on [-1/2, 1/2], relative error 9.2e-8: a minimax fit with 2^0 = 1 exactly.
EXP2_COEFFICIENTS = (
    0.0013264727123831598,
    0.0096715126448228,
    0.055507337434968045,
    0.24022242085262321,
    0.693146977598993,
    1.0,
)


class _Sizes(NamedTuple):
    """Sizes that suit a platform; any choice gives the same results up to rounding."""

    rows: int  # queries of a tile, at most
    heads: int | None  # that are worked on together, at most; None for all
    waits: bool  # whether a loop may end where the data says


# Four heads' tiles of 128 x 128 scores fit into a core's second cache. A GPU has to ask the host
# whether a loop goes on unless the number of rounds is known: it goes through all tiles of keys.
_CPU, _GPU, _TPU = _Sizes(128, 4, True), _Sizes(512, None, False), _Sizes(512, None, True)


class _Plan(NamedTuple):
    """Layout of the tiles; static. Lengths and positions include padding.

    Every tile of queries meets one masked tile of keys that ends where it ends. Before that come,
    if `looped`, as many tiles of keys as its queries see.
    """

    rows: int  # queries of a tile
    keys: int  # keys of the masked tile
    offset: int  # key at which the first query stands
    looped: bool
    waits: bool  # whether the tiles of keys are only those that are seen
    tiles: int  # of queries


def tiled_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, first: jax.Array | None, span: int | None
) -> jax.Array:
    """Causal attention over arrays `[B, H, d, T]`, with more keys than queries if need be.

    Args:
      q: float `[B, H, d, T]`; the last query stands at the last key.
      k: float `[B, H, d, S]`.
      v: float `[B, H, d, S]`.
      first: earliest key of each query, `int32[B, T]`; None for all keys up to the query.
      span: if given, `first` lies fewer than `span` keys before the query.

    Returns:
      Float `[B, H, d, T]` of the queries' dtype.
    """
    dtype = jnp.promote_types(q.dtype, jnp.float32)
    first = None if first is None else first.astype(jnp.int32)
    out: jax.Array = _attend(q.astype(dtype), k.astype(dtype), v.astype(dtype), first, span)  # type: ignore[assignment]
    return out.astype(q.dtype)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _attend(
    q: jax.Array, k: jax.Array, v: jax.Array, first: jax.Array | None, span: int | None
) -> jax.Array:
    """`[B, H, d, T]`, `[B, H, d, S]` twice, `int32[B, T]` -> `[B, H, d, T]`."""
    return _on_platform(_all_forward, span, q, k, v, first)[0]


def _attend_forward(
    q: jax.Array, k: jax.Array, v: jax.Array, first: jax.Array | None, span: int | None
) -> tuple[jax.Array, Any]:
    out, lse = _on_platform(_all_forward, span, q, k, v, first)
    return out, (q, k, v, first, out, lse)


def _attend_backward(
    span: int | None, saved: tuple[jax.Array | None, ...], d_out: jax.Array
) -> tuple[Any, ...]:
    return *_on_platform(_all_backward, span, *saved, d_out), None


_attend.defvjp(_attend_forward, _attend_backward)


def _on_platform(function: Callable[..., Any], span: int | None, *arrays: Any) -> Any:
    cpu, tpu, gpu = (partial(function, sizes, span) for sizes in (_CPU, _TPU, _GPU))
    return lax.platform_dependent(*arrays, cpu=cpu, tpu=tpu, default=gpu)


class _Tiling(NamedTuple):
    """Conversion of arrays of all heads to padded groups of heads, and back."""

    plan: _Plan
    group: int
    before: int  # keys that are put before the first
    after: int  # queries and keys that are put behind the last

    def spread(self, x: jax.Array, before: int = 0) -> jax.Array:
        """`[B, H, ..., T]` -> `[N, G, ..., before + T + after]`."""
        x = jnp.pad(x, ((0, 0),) * (x.ndim - 1) + ((before, self.after),))
        return x.reshape(-1, self.group, *x.shape[2:])

    def join(self, x: jax.Array, like: jax.Array, before: int = 0) -> jax.Array:
        """Returns the reverse, with the shape of `like` but for the axis of the width."""
        x = x.reshape(*like.shape[:2], *x.shape[2:])
        return x[..., before : before + like.shape[-1]]

    def limits(self, first: jax.Array | None, like: jax.Array) -> jax.Array | None:
        """Returns the earliest keys, `int32[N, G, T]`."""
        batch, heads, _, length = like.shape
        if first is None and (self.before or self.plan.offset > self.before):
            first = jnp.zeros((batch, length), jnp.int32)
        if first is None:
            return None
        first = jnp.pad(first + self.before, ((0, 0), (0, self.after)), mode="edge")
        return jnp.repeat(first, heads, axis=0).reshape(-1, self.group, first.shape[1])


def _tiling(sizes: _Sizes, span: int | None, q: jax.Array, k: jax.Array) -> _Tiling:
    batch, heads, _, length = q.shape
    offset = k.shape[3] - length
    together = batch * heads if sizes.heads is None else sizes.heads
    group = max(g for g in range(1, together + 1) if batch * heads % g == 0)
    rows = min(sizes.rows, -(-length // 16) * 16)
    looped = span is None or span > 4 * rows
    if span is None or looped:
        keys = rows
    else:
        rows = min(rows, 64)
        keys = -(-(span - 1 + rows) // 16) * 16
    # Before: the first slice must not begin below 0, and tiles of the loop are aligned with those
    # of the queries. After: as many keys as queries, which no true query sees.
    before = -offset % rows if looped else max(keys - rows - offset, 0)
    tiles = -(-length // rows)
    plan = _Plan(rows, keys, offset + before, looped, sizes.waits, tiles)
    return _Tiling(plan, group, before, tiles * rows - length)


def _all_forward(
    sizes: _Sizes,
    span: int | None,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    first: jax.Array | None,
) -> tuple[jax.Array, jax.Array]:
    """Outputs `[B, H, d, T]` and log2-sum-exp2 `[B, H, T]`."""
    tiling = _tiling(sizes, span, q, k)
    keys, values = (tiling.spread(x, tiling.before) for x in (k, v))
    arrays = (tiling.spread(q), keys, values, tiling.limits(first, q))
    out, lse = _map(partial(_forward, tiling.plan), *arrays)
    return tiling.join(out, q), tiling.join(lse, q)


def _all_backward(
    sizes: _Sizes,
    span: int | None,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    first: jax.Array | None,
    out: jax.Array,
    lse: jax.Array,
    d_out: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Gradients of q, k and v, of their shapes."""
    tiling = _tiling(sizes, span, q, k)
    keys, values = (tiling.spread(x, tiling.before) for x in (k, v))
    outputs = (tiling.spread(x) for x in (out, lse, d_out))
    arrays = (tiling.spread(q), keys, values, tiling.limits(first, q), *outputs)
    d_q, d_k, d_v = _map(partial(_backward, tiling.plan), *arrays)
    before = tiling.before
    return tiling.join(d_q, q), tiling.join(d_k, k, before), tiling.join(d_v, v, before)


def _map(function: Callable[..., Any], first: jax.Array, *rest: jax.Array | None) -> Any:
    arrays = first, *rest
    if first.shape[0] == 1:
        out = function(*jax.tree.map(lambda x: x[0], arrays))
        return jax.tree.map(lambda x: x[None], out)
    return lax.map(lambda x: function(*x), arrays)


_slice = lax.dynamic_slice_in_dim
_update = lax.dynamic_update_slice_in_dim


def _swap(x: jax.Array) -> jax.Array:
    return jnp.swapaxes(x, 1, 2)


def _scale(width: int) -> float:
    """Scale of the queries: the softmax is taken with powers of 2."""
    return math.log2(math.e) / math.sqrt(width)


def _exp2(x: jax.Array) -> jax.Array:
    """2^x for x <= 127, exactly 0 for very small x; three times as fast as `jnp.exp2` on a CPU."""
    if x.dtype != jnp.float32:
        return jnp.exp2(x)
    x = jnp.maximum(x, -127.0)
    whole = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    rest = x - whole
    power = jnp.full_like(x, EXP2_COEFFICIENTS[0])
    for coefficient in EXP2_COEFFICIENTS[1:]:
        power = power * rest + coefficient
    # Adds the whole part to the exponent. The sum with 1.5 * 2^23 has it in its lowest bits.
    bits = partial(lax.bitcast_convert_type, new_dtype=jnp.int32)
    exponent = lax.shift_left(bits(whole + 12582912.0), jnp.int32(23))
    return lax.bitcast_convert_type(bits(power) + exponent, jnp.float32)


@custom_vmap
def lowest(x: jax.Array) -> jax.Array:
    """Returns the minimum, also of all that `vmap` maps over: loop bounds must not become batched.

    A batched bound would make every round of the loop copy its whole state.
    """
    return x.min()


@lowest.def_vmap
def _lowest_of_all(_: int, __: object, x: jax.Array) -> tuple[jax.Array, bool]:
    return lowest(x), False


def _loop(
    plan: _Plan, i: jax.Array, first: jax.Array | None, tile: _Tile, carry: _Arrays
) -> _Arrays:
    """Applies `tile(start, keys, end, carry)` to the tiles of keys of the i-th tile of queries.

    Args:
      plan: the plan.
      i: `int32[]`.
      first: of the tile's queries, `int32[G, rows]`.
      tile: the function; keys from `end` on are masked, and all are seen if it is None.
      carry: what it passes on.
    """
    diagonal = plan.offset + i * plan.rows
    if plan.looped:

        def run(
            start: jax.Array | int, stop: jax.Array | int, end: jax.Array | None, carry: _Arrays
        ) -> _Arrays:
            def body(j: jax.Array, carry: _Arrays) -> _Arrays:
                return tile(j * plan.rows, plan.rows, end, carry)

            return lax.fori_loop(start, stop, body, carry)

        stop, clear = diagonal // plan.rows, jnp.int32(0)
        if not plan.waits:
            most = (plan.offset + (plan.tiles - 1) * plan.rows) // plan.rows
            carry = run(0, most, stop * plan.rows, carry)
        else:
            if first is not None:
                # From `clear` on, all queries see the whole tile.
                clear = jnp.minimum(-(lowest(-first) // plan.rows), stop)
                carry = run(lowest(first) // plan.rows, clear, stop * plan.rows, carry)
            carry = run(clear, stop, None, carry)
    end = diagonal + plan.rows
    return tile(end - plan.keys, plan.keys, end, carry)


def _forward(
    plan: _Plan, q: jax.Array, k: jax.Array, v: jax.Array, first: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """`[G, d, T]`, ... -> outputs `[G, d, T]` and log2-sum-exp2 `[G, T]`.

    Scores are `[G, keys, queries]`: sums over keys are sums of vectors then.
    """
    group, width, length = q.shape
    rows = plan.rows
    q, k = q * _scale(width), _swap(k)
    zeros = jnp.zeros((group, rows), q.dtype)

    def queries(i: jax.Array, result: _Arrays) -> _Arrays:
        out, lse = result
        queries = _slice(q, i * rows, rows, 2)
        earliest = None if first is None else _slice(first, i * rows, rows, 1)
        place = plan.offset + i * rows + jnp.arange(rows, dtype=jnp.int32)

        def tile(start: jax.Array, keys: int, end: jax.Array | None, carry: _Arrays) -> _Arrays:
            most, total, value = carry
            score = jnp.einsum("gkd,gdq->gkq", _slice(k, start, keys, 1), queries)
            if end is not None:
                key = (start + jnp.arange(keys, dtype=jnp.int32))[:, None]
                mask = key <= jnp.minimum(place, end - 1)
                mask = mask if earliest is None else mask & (key >= earliest[:, None])
                score = jnp.where(mask, score, jnp.asarray(MASKED, score.dtype))
            new = jnp.maximum(most, score.max(1))
            weight, decay = _exp2(score - new[:, None]), _exp2(most - new)
            value = value * decay[:, None]
            value += jnp.einsum("gdk,gkq->gdq", _slice(v, start, keys, 2), weight)
            return new, total * decay + weight.sum(1), value

        # A lowest maximum far above masked scores: what is all masked so far counts nothing.
        carry = (zeros + MASKED / 2, zeros, jnp.zeros((group, width, rows), q.dtype))
        most, total, value = _loop(plan, i, earliest, tile, carry)
        out = _update(out, value / total[:, None], i * rows, 2)
        return out, _update(lse, most + jnp.log2(total), i * rows, 1)

    result = (jnp.zeros_like(q), jnp.zeros((group, length), q.dtype))
    return lax.fori_loop(jnp.int32(0), jnp.int32(length // rows), queries, result)


def _backward(
    plan: _Plan,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    first: jax.Array | None,
    out: jax.Array,
    lse: jax.Array,
    d_out: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Gradients of q, k and v, `[G, d, T]`.

    Scores are `[G, queries, keys]`, gradients of keys and values `[G, d, keys]`: of the products'
    layouts, these are the ones that run at full speed.
    """
    _, width, length = q.shape
    rows = plan.rows
    delta = (out * d_out).sum(1)
    q = q * _scale(width)
    across = (q, d_out, k, v)
    q, d_out, k = (_swap(x) for x in (q, d_out, k))

    def queries(i: jax.Array, result: _Arrays) -> _Arrays:
        dq, dk, dv = result
        query, d_value = (_slice(x, i * rows, rows, 1) for x in (q, d_out))
        query_across, d_value_across = (_slice(x, i * rows, rows, 2) for x in across[:2])
        total, mean = (_slice(x, i * rows, rows, 1)[:, :, None] for x in (lse, delta))
        earliest = None if first is None else _slice(first, i * rows, rows, 1)
        place = (plan.offset + i * rows + jnp.arange(rows, dtype=jnp.int32))[:, None]

        def tile(start: jax.Array, keys: int, end: jax.Array | None, carry: _Arrays) -> _Arrays:
            d_query, dk, dv = carry
            key_across, value_across = (_slice(x, start, keys, 2) for x in across[2:])
            score = jnp.einsum("gqd,gdk->gqk", query, key_across)
            if end is not None:
                key = start + jnp.arange(keys, dtype=jnp.int32)
                mask = key <= jnp.minimum(place, end - 1)
                mask = mask if earliest is None else mask & (key >= earliest[:, :, None])
                score = jnp.where(mask, score, jnp.asarray(MASKED, score.dtype))
            weight = _exp2(score - total)
            d_weight = jnp.einsum("gqd,gdk->gqk", d_value, value_across)
            d_score = weight * (d_weight - mean)
            d_query += jnp.einsum("gqk,gkd->gqd", d_score, _slice(k, start, keys, 1))
            d_key = jnp.einsum("gdq,gqk->gdk", query_across, d_score)
            d_val = jnp.einsum("gdq,gqk->gdk", d_value_across, weight)
            dk = _update(dk, _slice(dk, start, keys, 2) + d_key, start, 2)
            dv = _update(dv, _slice(dv, start, keys, 2) + d_val, start, 2)
            return d_query, dk, dv

        d_query, dk, dv = _loop(plan, i, earliest, tile, (jnp.zeros_like(query), dk, dv))
        return _update(dq, _swap(d_query), i * rows, 2), dk, dv

    result = tuple(jnp.zeros_like(x) for x in (across[0], across[2], across[3]))
    dq, dk, dv = lax.fori_loop(jnp.int32(0), jnp.int32(length // rows), queries, result)
    return dq / math.sqrt(width), dk / math.log2(math.e), dv
