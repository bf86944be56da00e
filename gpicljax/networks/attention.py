"""Exact causal attention: which keys a query sees, and which implementation computes it."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from gpicljax.checks import check, check_at_least, check_choice, refusal
from gpicljax.networks.tiled_attention import tiled_attention

Implementation = Literal["auto", "tiled", "cudnn", "xla"]
IMPLEMENTATIONS = ("auto", "tiled", "cudnn", "xla")


def causal_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    window: int | None = None,
    tokens_per_step: int = 1,
    starts: jax.Array | None = None,
    first: jax.Array | None = None,
    implementation: Implementation = "auto",
) -> jax.Array:
    """Softmax attention over the keys at and before each query, scaled by 1 / sqrt(d).

    Computed in float32 (float64 for float64 inputs) by the tiled and plain implementations.

    Args:
      q: queries float `[B, H, d, T]`, the layout in which a CPU is fastest; the last one stands at
        the last key, so that with more keys than queries (a cache before them) query i stands at
        key S - T + i.
      k: keys float `[B, H, d, S]`, S >= T.
      v: values float `[B, H, d, S]`.
      window: attend to keys of the last `window` steps only, the query's own among them; 1 is the
        query's own step.
      tokens_per_step: tokens of which a step consists.
      starts: `bool[T / tokens_per_step, B]`, set where a trial starts; attention stops there.
      first: `int32[B, T]`, the earliest key that each query attends to, at most the query itself;
        replaces `starts`. With a window it has to keep to that.
      implementation: "tiled" runs everywhere; "cudnn" on NVIDIA GPUs, in half precision, without
        starts; "xla" builds all T x S scores. "auto" is "cudnn" where that is possible, else
        "tiled".

    Returns:
      Float `[B, H, d, T]` of the queries' dtype.

    Raises:
      ValueError: for shapes that do not fit, or an implementation that cannot do it.

    Note:
      Batches spread over devices: call it inside `shard_map`, as `runtime.per_part` does. Left to
      the partitioner the result is the same, but every device computes all of it.

    Source: section 3.3, appendix A.1 and figure 13 of the GPICL paper (windows).
    """
    _check(q, k, v, window, tokens_per_step, starts, first, implementation)
    batch, _, _, length = q.shape
    offset = k.shape[3] - length
    # Without starts, steps are counted from the first key.
    plain = starts is None and first is None
    span = None if window is None else window * tokens_per_step
    if span is not None and span >= k.shape[3]:
        window = span = None
    if implementation in ("auto", "cudnn"):
        fits = plain and offset == 0 and (span is None or tokens_per_step == 1)
        fused = partial(_fused_attention, span=span)
        if fits and _runs_fused(fused, q, k, v, implementation):
            if implementation == "cudnn":
                return fused(q, k, v)
            return lax.platform_dependent(
                q, k, v, cuda=fused, default=partial(tiled_attention, first=None, span=span)
            )
        if implementation == "cudnn":
            accepted_values = (
                "an NVIDIA GPU with cuDNN, float16 or bfloat16, heads of a multiple of 8 to 128, "
                "and neither starts, nor a cache, nor a window over steps of several tokens"
            )
            case = f"cudnn with {q.dtype}, [B, H, d, T] = {q.shape}"
            raise ValueError(refusal("implementation", case, accepted_values))
    if first is None and not (plain and span is None):
        if starts is None:
            positions = jnp.arange(offset, offset + length, dtype=jnp.int32)[None]
        else:
            positions = trial_positions(starts, tokens_per_step)
        first = earliest_keys(positions, window, tokens_per_step, offset)
        first = jnp.broadcast_to(first, (batch, length))
    if implementation == "xla":
        return _plain(q, k, v, first)
    return tiled_attention(q, k, v, first, span)


def trial_positions(starts: jax.Array, tokens_per_step: int = 1) -> jax.Array:
    """Returns each token's position in its trial; `bool[T, B]` -> `int32[B, T * tokens_per_step]`.

    The sequence's beginning counts as a start.
    """
    steps = jnp.arange(starts.shape[0], dtype=jnp.int32)[:, None]
    since = steps - lax.cummax(jnp.where(starts, steps, 0), axis=0)
    tokens = since.T[:, :, None] * tokens_per_step + jnp.arange(tokens_per_step, dtype=jnp.int32)
    return tokens.reshape(starts.shape[1], -1)


def earliest_keys(
    positions: jax.Array,
    window: int | jax.Array | None,
    tokens_per_step: int = 1,
    offset: int = 0,
) -> jax.Array:
    """`first` of `causal_attention` from positions in trials, `int32[B, T] -> int32[B, T]`.

    Args:
      positions: of the queries in their trials, `int32[B, T]`; query i's trial started as many keys
        before key `offset` + i.
      window: in steps; None looks back to the trial's start.
      tokens_per_step: tokens of which a step consists.
      offset: keys before the first query.

    Returns:
      Indices of keys, not below 0.
    """
    back = positions
    if window is not None:
        token = positions % tokens_per_step
        back = jnp.minimum(back, (window - 1) * tokens_per_step + token)
    query_places = jnp.arange(offset, offset + positions.shape[1], dtype=jnp.int32)
    return jnp.maximum(query_places - back, 0)


def _check(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    window: int | None,
    tokens_per_step: int,
    starts: jax.Array | None,
    first: jax.Array | None,
    implementation: str,
) -> None:
    """Refuses arguments that do not fit together; all checks are static."""
    check_choice("implementation", implementation, IMPLEMENTATIONS)
    shapes = f"{q.shape}, {k.shape}, {v.shape}"
    check(q.ndim == k.ndim == v.ndim == 4, "q, k, v", shapes, "[B, H, d, T] each")
    kinds = {x.dtype for x in (q, k, v)}
    same = len(kinds) == 1 and jnp.issubdtype(q.dtype, jnp.floating)
    check(same, "q, k, v", f"{q.dtype}, {k.dtype}, {v.dtype}", "one float type")
    batch, heads, width, length = q.shape
    fits = k.shape[:3] == q.shape[:3] and k.shape[3] >= length and v.shape == k.shape
    accepted_values = f"[B, H, d, S] = {(batch, heads, width)} and S >= {length}, as q has"
    check(fits, "k, v", f"{k.shape}, {v.shape}", accepted_values)
    check_at_least(1, window=window, tokens_per_step=tokens_per_step)
    if starts is not None:
        fits = first is None and k.shape == q.shape
        check(fits, "starts", "starts beside `first`, or with more keys", "`first` instead")
        expected = (length // tokens_per_step, batch)
        fits = starts.shape == expected and length % tokens_per_step == 0
        accepted_values = f"[T / tokens_per_step, B] = {expected}"
        check(fits, "starts", starts.shape, accepted_values)
    if first is not None:
        check(first.shape == (batch, length), "first", first.shape, f"[B, T] = {(batch, length)}")


def _fused_attention(q: jax.Array, k: jax.Array, v: jax.Array, span: int | None) -> jax.Array:
    window = None if span is None else (span - 1, 0)
    q, k, v = (x.transpose(0, 3, 1, 2) for x in (q, k, v))
    out = jax.nn.dot_product_attention(
        q, k, v, is_causal=True, local_window_size=window, implementation="cudnn"
    )
    return out.transpose(0, 2, 3, 1)


def _runs_fused(fused: Any, q: jax.Array, k: jax.Array, v: jax.Array, implementation: str) -> bool:
    """Returns whether cuDNN takes these shapes on this machine, by tracing without compiling."""
    if implementation == "auto" and jax.default_backend() != "gpu":
        return False
    if q.dtype not in (jnp.float16, jnp.bfloat16) or q.shape[2] % 8 or q.shape[2] > 128:
        return False
    try:
        jax.eval_shape(jax.grad(lambda *x: fused(*x).astype(jnp.float32).sum()), q, k, v)
    except (NotImplementedError, RuntimeError, ValueError):
        return False
    return True


def _plain(q: jax.Array, k: jax.Array, v: jax.Array, first: jax.Array | None) -> jax.Array:
    """Attends with all scores in memory at once."""
    dtype = jnp.promote_types(q.dtype, jnp.float32)
    keys = jnp.arange(k.shape[3])
    mask = keys <= jnp.arange(k.shape[3] - q.shape[3], k.shape[3])[:, None]
    mask = mask[None] if first is None else mask & (keys >= first[:, :, None])
    wide_q, wide_k, wide_v = (x.astype(dtype) for x in (q, k, v))
    score = jnp.einsum("bhdt,bhds->bhts", wide_q, wide_k) / math.sqrt(q.shape[2])
    weight = jax.nn.softmax(jnp.where(mask[:, None], score, -jnp.inf), axis=-1)
    return jnp.einsum("bhts,bhds->bhdt", weight, wide_v).astype(q.dtype)
