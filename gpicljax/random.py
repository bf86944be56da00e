"""Random draws that compile quickly: the numbers of `jax.random`, in loops of even lengths.

XLA:CPU unrolls short loops of odd lengths completely, the twenty rounds of the generator with them:
under a `vmap`, 45 numbers drawn as `(3, 3, 5)` take five times as long to compile as 48 in a row.
What is drawn in a row and cut has the same values, for entry i of a draw depends on i alone.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from gpicljax.checks import JAX_PROCESS, check

_ROW = 8


def _first_words(row: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return row[: math.prod(shape)].reshape(shape)


def _length(shape: tuple[int, ...]) -> tuple[int, ...]:
    size = math.prod(shape)
    return (size if size < 2 else -(-size // _ROW) * _ROW,)


def bits(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """`jax.random.bits(key, shape)`, `uint32`."""
    return _first_words(jax.random.bits(key, _length(shape)), shape)


def uniform(
    key: jax.Array,
    shape: tuple[int, ...],
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> jax.Array:
    """`jax.random.uniform(key, shape, dtype, minval, maxval)`, by default in JAX's float type."""
    dtype = jnp.result_type(float) if dtype is None else dtype
    return _first_words(jax.random.uniform(key, _length(shape), dtype, minval, maxval), shape)


def integers(key: jax.Array, shape: tuple[int, ...], low: ArrayLike, high: ArrayLike) -> jax.Array:
    """`int32`, uniform over `low .. high - 1`; the bias is below `(high - low) / 2**32`.

    One draw where `jax.random.randint` takes two.
    """
    span = (jnp.asarray(high, jnp.int32) - jnp.asarray(low, jnp.int32)).astype(jnp.uint32)
    return (bits(key, shape) % span).astype(jnp.int32) + jnp.asarray(low, jnp.int32)


def check_key(argument: str, key: object) -> None:
    """Refuses a value that is not one key, typed or (as of old) of `uint32[N]`; it may be traced.

    Raises:
      ValueError: `argument: got ...; accepted: ...`.
      RuntimeError: in a process forked from one that computes with JAX.
    """
    JAX_PROCESS.enter()
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    is_single = shape == () if typed else dtype == jnp.uint32 and len(shape or ()) == 1
    check(is_single, argument, key, "one key, such as jax.random.key(0); jax.vmap takes many")
