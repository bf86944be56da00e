"""Random draws that suit compilers and accelerators.

Bits and uniform numbers are those of `jax.random`, in loops of even lengths, and compile quickly.

XLA:CPU unrolls short loops of odd lengths completely, the twenty rounds of the generator with them:
under a `vmap`, 45 numbers drawn as `(3, 3, 5)` take five times as long to compile as 48 in a row.
What is drawn in a row and cut has the same values, for entry i of a draw depends on i alone.

Gamma and beta variates of `jax.random` reject draws in a loop whose rounds depend on data, one loop
for every variate: an accelerator waits for the host in each round. Here all tries are made at once.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from gpicljax.checks import JAX_PROCESS, check

_ROW = 8
_TRIES = 5


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


def log_gamma(key: jax.Array, shape: ArrayLike) -> jax.Array:
    """Draws logarithms of gamma variates of unit scale, without a loop.

    Each of five tries is accepted with a probability of .95 or more. Where none is, the first one
    counts all the same: once in 3e6 draws or less, so that no more than that is from another
    distribution.

    Args:
      key: a typed key.
      shape: float, the parameters of the variates, above 0; the result has as many entries.

    Source: Marsaglia & Tsang (2000), with their step for parameters below 1.

    Example:
      >>> log_gamma(jax.random.key(0), jnp.full(3, 2.0)).shape
      (3,)
    """
    shape = jnp.asarray(shape, jnp.result_type(float))
    try_key, accept_key, small_key = jax.random.split(key, 3)
    least = jnp.where(shape < 1, shape + 1, shape) - 1 / 3
    normal = jax.random.normal(try_key, (_TRIES, *shape.shape), shape.dtype)
    cube = (1 + normal / jnp.sqrt(9 * least)) ** 3
    log_cube = jnp.log(jnp.maximum(cube, jnp.finfo(shape.dtype).tiny))
    limit = jax.random.exponential(accept_key, normal.shape, shape.dtype)
    accepted = (cube > 0) & (normal**2 / 2 + least * (1 - cube + log_cube) > -limit)
    first = accepted.argmax(0)[None]
    log_draw = jnp.log(least) + jnp.take_along_axis(log_cube, first, axis=0)[0]
    lower = jax.random.exponential(small_key, shape.shape, shape.dtype) / shape
    return jnp.where(shape < 1, log_draw - lower, log_draw)


def beta(key: jax.Array, a: ArrayLike, b: ArrayLike) -> jax.Array:
    """Draws beta variates, float, without a loop; see `log_gamma`.

    Args:
      key: a typed key.
      a: float, above 0.
      b: float of the same shape, above 0.
    """
    first_key, second_key = jax.random.split(key)
    return jax.nn.sigmoid(log_gamma(first_key, a) - log_gamma(second_key, b))


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
