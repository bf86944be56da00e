"""Sequences of many languages at once, on the device.

One step of all sequences is, for each of them: a row of every slot's table, their sum, its
normalisation, and a look at where one uniform number falls among the running sums of the
probabilities. Tokens of the vocabulary lie along the leading axis and are added one after the
other: what is computed for a sequence is the same, bit for bit, whatever its neighbours are.
"""

from __future__ import annotations

import functools
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax

Normalisation = Literal["row", "joint"]

# What stays in the second-level cache of a CPU core: tables of a tile, and its sequences.
TILE_BYTES = 2 << 20
TILE_SEQUENCES = 256
# Above this, sums over the vocabulary are left to the compiler instead of being written out.
MOST_WRITTEN_OUT = 256


def _total(values: jax.Array) -> jax.Array:
    """Returns the sum over the leading axis, in order."""
    if len(values) > MOST_WRITTEN_OUT:
        return values.sum(0)
    return functools.reduce(jnp.add, list(values))


def _draw(weights: jax.Array, uniform: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Draws `int32[B]` in proportion to `weights: float[V, B]`; returns also sums, float `[B]`.

    Args:
      weights: not negative.
      uniform: float `[B]` in [0, 1).
    """
    if len(weights) > MOST_WRITTEN_OUT:
        sums = jnp.cumsum(weights, 0)
        return (sums[:-1] <= uniform * sums[-1]).sum(0, dtype=jnp.int32), sums[-1]
    sums = [weights[0]]
    for weight in weights[1:]:
        sums.append(sums[-1] + weight)
    threshold = uniform * sums[-1]
    passed = [(edge <= threshold).astype(jnp.int32) for edge in sums[:-1]]
    return functools.reduce(jnp.add, passed), sums[-1]


def _variance(logits: jax.Array, normalisation: Normalisation) -> jax.Array:
    """Returns the variance of each column of `float[V, B]`, of mean 0, or of all together."""
    if normalisation == "joint":
        return jnp.var(logits)
    return _total(jnp.square(logits)) / len(logits)


def _tile_of_sequences(
    keys: jax.Array,
    tables: jax.Array,
    scale: jax.Array,
    length: int,
    normalisation: Normalisation,
    with_log_probs: bool,
) -> tuple[jax.Array, jax.Array | None]:
    """`sequences` of the languages of one tile."""
    num, slots, vocab_size, _ = tables.shape
    per_language = keys.shape[1]
    batch, dtype = num * per_language, tables.dtype
    if normalisation == "row":
        tables = tables - tables.mean(-1, keepdims=True)
    rows = tables.reshape(num * slots * vocab_size, vocab_size)
    first = jnp.arange(num * slots, dtype=jnp.int32).reshape(num, slots) * vocab_size
    first = jnp.repeat(first, per_language, axis=0).T  # [slots, batch]
    scale = jnp.repeat(scale, per_language)
    small = jnp.uint8 if vocab_size <= 256 else jnp.int32

    def step(context: jax.Array, uniform: jax.Array) -> tuple[jax.Array, tuple]:
        logits = jnp.zeros((), dtype)
        for start, tokens in zip(first, context, strict=True):
            logits = logits + rows.at[start + tokens].get(mode="promise_in_bounds")
        logits = logits.T  # [V, batch]
        variance = jnp.maximum(_variance(logits, normalisation), jnp.finfo(dtype).tiny)
        factor = scale * lax.rsqrt(variance)
        highest = logits.max(0)
        token, total = _draw(jnp.exp((logits - highest) * factor), uniform)
        log_prob = None
        if with_log_probs:
            chosen = jnp.take_along_axis(logits, token[None], axis=0, mode="promise_in_bounds")[0]
            log_prob = (chosen - highest) * factor - jnp.log(total)
        context = jnp.concatenate([token[None], context[:-1]])
        return context, (token.astype(small), log_prob)

    uniforms = jax.vmap(lambda key: jax.random.uniform(key, (length,), dtype))(keys.reshape(batch))
    start = jnp.zeros((slots, batch), jnp.int32)
    _, (tokens, log_probs) = lax.scan(step, start, uniforms.T)
    tokens = jnp.pad(tokens, ((1, 0), (0, 0))).T.astype(jnp.int32)
    tokens = tokens.reshape(num, per_language, length + 1)
    if log_probs is not None:
        log_probs = log_probs.T.reshape(num, per_language, length)
    return tokens, log_probs


def tile_for(num: int, per_language: int, table_bytes: int) -> int:
    """Returns how many of `num` languages are generated at a time.

    On a CPU as many as the cache holds, elsewhere all of them.
    """
    if jax.default_backend() != "cpu":
        return num
    return max(1, min(num, TILE_SEQUENCES // per_language, TILE_BYTES // table_bytes))


def sequences(
    key: jax.Array,
    tables: jax.Array,
    scale: jax.Array,
    length: int,
    per_language: int,
    normalisation: Normalisation = "row",
    with_log_probs: bool = False,
    tile: int | None = None,
) -> tuple[jax.Array, jax.Array | None]:
    """Draws `per_language` sequences of each of N languages.

    Args:
      key: a typed key, or one for each language, `[N]`. Sequence j of language i depends on nothing
        else than the key, i (with one key), j, the language and `length` (and, where logits are
        normalised jointly, on all the others).
      tables: float `[N, slots, V, V]`, see `language.tables_of`.
      scale: float `[N]`.
      length: tokens to draw after the first, which is 0.
      per_language: sequences of each language.
      normalisation: variance by which logits are divided: of each sequence, or of all
        sequences at this position together.
      with_log_probs: whether to return the tokens' log-probabilities.
      tile: languages at a time.

    Returns:
      `int32[N, each, length + 1]`, and float `[N, each, length]` or None.
    """
    num = tables.shape[0]

    def keys_of(language: jax.Array) -> jax.Array:
        language_key = jax.random.fold_in(key, language) if key.ndim == 0 else key[language % num]
        fold = functools.partial(jax.random.fold_in, language_key)
        return jax.vmap(fold)(jnp.arange(per_language))

    def draw_tile(numbers: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        some_keys = jax.vmap(keys_of)(numbers)
        # Where the languages do not fill the last tile, it holds the last language repeatedly.
        indices = jnp.minimum(numbers, num - 1)
        arguments = some_keys, tables[indices], scale[indices]
        return _tile_of_sequences(*arguments, length, normalisation, with_log_probs)

    if tile is None:
        tile = num
        if normalisation == "row":
            tile = tile_for(num, per_language, tables.size * tables.dtype.itemsize // num)
    count = -(-num // tile)
    if count == 1:
        return draw_tile(jnp.arange(num))
    tile = -(-num // count)
    drawn = lax.map(draw_tile, jnp.arange(count * tile).reshape(count, tile))
    return jax.tree.map(lambda x: x.reshape(count * tile, *x.shape[2:])[:num], drawn)
