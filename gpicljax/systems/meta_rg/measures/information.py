"""Entropies and mutual informations of tables of discrete variables, as they are counted."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

from gpicljax.checks import check, check_array, check_at_least

NOTHING = 1e-6
"""Information in nats below which a variable tells nothing: rounding alone leaves some 1e-7."""


def as_table(argument: str, values: ArrayLike, columns: int = 1) -> jax.Array:
    """`values` as `int32[N, D]`, N >= 2 and D >= `columns`, or a ValueError that names them."""
    x = values if isinstance(values, Tracer) else np.asarray(values)
    whole = x.ndim == 2 and x.shape[0] >= 2 and x.shape[1] >= columns and x.dtype.kind in "iub"
    check_array(whole, argument, x, f"int[N, D], N of at least 2 and D of at least {columns}")
    return jnp.asarray(x, jnp.int32)


def as_counts(counts: ArrayLike | None, rows: int) -> jax.Array:
    """`counts` as `int32[rows]`, none of them negative; None is once each."""
    if counts is None:
        return jnp.ones(rows, jnp.int32)
    x = counts if isinstance(counts, Tracer) else np.asarray(counts)
    whole = x.shape == (rows,) and x.dtype.kind in "iub"
    check_array(whole, "counts", x, f"int[{rows}], how often each row occurs")
    if not isinstance(x, Tracer):
        check(np.all(x >= 0), "counts", int(x.min()), "integers >= 0")
    return jnp.asarray(x, jnp.int32)


def num_levels(argument: str, size: int | None, array_name: str, values: ArrayLike) -> int:
    """Returns the number of values of a table: `size`, or one more than the greatest value."""
    check_at_least(1, **{argument: size})
    if isinstance(values, Tracer):
        check(size is not None, argument, size, f"a number: {array_name} are traced")
        return int(size or 0)
    least, most = int(np.min(values)), int(np.max(values))
    size = most + 1 if size is None else int(size)
    check(least >= 0 and most < size, array_name, f"{least} to {most}", f"0 to {size - 1}")
    return size


def joint(a: jax.Array, a_levels: int, b: jax.Array, b_levels: int, counts: jax.Array) -> jax.Array:
    """Counts how often each value of each variable of `a` occurs with each value of each of `b`.

    Args:
      a: `int32[N, A]`, values below `a_levels`; others occur never.
      a_levels: how many values there are.
      b: `int32[N, B]`, values below `b_levels`.
      b_levels: how many values there are.
      counts: `int32[N]`, how often each row occurs.

    Returns:
      Float `[A, B, a_levels, b_levels]`, integers that are exact up to 2**24 (in float32).
    """
    dtype = jnp.result_type(float)
    weighted = jax.nn.one_hot(a, a_levels, dtype=dtype) * counts.astype(dtype)[:, None, None]
    one_hot = jax.nn.one_hot(b, b_levels, dtype=dtype)
    return jnp.einsum("nax,nby->abxy", weighted, one_hot, precision="highest")


def entropy(counts: jax.Array) -> jax.Array:
    """Returns nats of counts along the last axis; 0 where one value is certain, NaN without any."""
    shares = counts / counts.sum(-1, keepdims=True)
    nats = -jax.scipy.special.xlogy(shares, shares).sum(-1)
    # On a GPU, x / x may be a little less than 1.
    return jnp.where((counts > 0).sum(-1) == 1, 0, nats)


def mutual_information(counts: jax.Array) -> jax.Array:
    """Nats that two variables tell of each other, float `[...]` of counts `[..., X, Y]`."""
    shares = counts / counts.sum((-2, -1), keepdims=True)
    apart = shares.sum(-1, keepdims=True) * shares.sum(-2, keepdims=True)
    # Through a logarithm of the ratio, which independence makes 0, and not of the shares.
    ratio = jnp.where(shares > 0, shares / jnp.where(apart > 0, apart, 1), 1)
    return jnp.maximum((shares * jnp.log(ratio)).sum((-2, -1)), 0)


def two_greatest(values: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
    """Returns the greatest and the second greatest along an axis of at least two."""
    ordered = jnp.moveaxis(jnp.sort(values, axis), axis, 0)
    return ordered[-1], ordered[-2]


def mean_where(values: jax.Array, valid: jax.Array) -> jax.Array:
    """Returns the mean of the valid ones; NaN without any."""
    return jnp.where(valid, values, 0).sum() / valid.sum().astype(values.dtype)
