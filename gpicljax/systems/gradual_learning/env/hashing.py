"""Draws that are functions of numbers: of an instance's key, a question's number and a purpose.

Nothing of a question depends on when, or in which batch, it is drawn. A draw is a dozen integer
operations, of which a step needs many; `jax.random` gives the seeds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.batching import short_loop

ROUNDS = 20
_STRIDE = np.uint32(0x9E3779B9)


class Seed(NamedTuple):
    """Two words, `uint32[]` each, from which everything about an instance is drawn."""

    first: jax.Array
    second: jax.Array


@jax.jit
def mix_bits(x: jax.Array) -> jax.Array:
    """Returns a bijection of `uint32` that leaves no bit where it was.

    Source: multiply-xorshift with constants found by search (Wellons, "lowbias32").
    """
    x = x ^ (x >> 16)
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> 15)
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> 16)


@jax.jit
def word(seed: Seed, number: Any) -> jax.Array:
    """Returns the draw of this number, `uint32`; `number` is an integer, or an array of them."""
    number = jnp.asarray(number).astype(jnp.uint32)
    return mix_bits(seed.first ^ mix_bits(seed.second + (number + np.uint32(1)) * _STRIDE))


@jax.jit
def below(bits: jax.Array, size: Any) -> jax.Array:
    """Returns `int32` within 0 .. size - 1; the bias is below `size / 2**32`."""
    return (bits % jnp.asarray(size).astype(jnp.uint32)).astype(jnp.int32)


def inverse(size: jax.Array) -> jax.Array:
    """Returns the factor of `below_by_inverse`, `uint32[...]`; `size` is `int32[...]`, positive."""
    return np.uint32(2**32 - 1) // size.astype(jnp.uint32)


def below_by_inverse(bits: jax.Array, size: jax.Array, inverse: jax.Array) -> jax.Array:
    """Returns `below(bits, size)` by multiplication, for sizes that are used many times.

    A processor divides integers one at a time, but multiplies whole vectors.

    Args:
      bits: `uint32[...]`.
      size: `int32[...]`, 1 to 2**30.
      inverse: `inverse(size)`.

    Returns:
      `int32[...]`, what `below` returns.
    """
    # The upper 32 bits of `bits * inverse`, from products of halves.
    half = np.uint32(2**16 - 1)
    high, low, top, bottom = bits >> 16, bits & half, inverse >> 16, inverse & half
    first, second = high * bottom, low * top
    carry = ((low * bottom >> 16) + (first & half) + (second & half)) >> 16
    quotient = high * top + (first >> 16) + (second >> 16) + carry
    # It is the quotient or one less: what it lacks is below 1 + bits / 2**32.
    rest = (bits - quotient * size.astype(jnp.uint32)).astype(jnp.int32)
    return jnp.where(rest >= size, rest - size, rest)


def derived_seed(seed: Seed, number: Any) -> Seed:
    """Returns the seed of this number, for instance of an instance in its stream."""
    number = jnp.asarray(number).astype(jnp.uint32)
    return Seed(word(seed, 2 * number), word(seed, 2 * number + np.uint32(1)))


@jax.jit
def permute(seed: jax.Array, place: jax.Array, size: jax.Array) -> jax.Array:
    """Returns where a random permutation of 0 .. size - 1 puts `place`; nothing of it is stored.

    Each round pairs the places up and swaps the pairs, or not, by the toss of a coin.

    Args:
      seed: `uint32[...]`, seed of the permutation.
      place: `int32[...]`.
      size: `int32[...]`, at most 2**30.

    Returns:
      `int32[...]`.

    Source: swap-or-not (Hoang, Morris and Rogaway, 2012).
    """
    shape = jnp.broadcast_shapes(jnp.shape(seed), jnp.shape(place), jnp.shape(size))
    seed = jnp.broadcast_to(jnp.asarray(seed, jnp.uint32), shape)
    size = jnp.broadcast_to(jnp.asarray(size, jnp.int32), shape)
    place = jnp.broadcast_to(jnp.asarray(place, jnp.int32), shape)

    multiplier = inverse(size)

    def swap(index: jax.Array, place: jax.Array) -> jax.Array:
        key = mix_bits(seed + index.astype(jnp.uint32) * _STRIDE)
        partner = below_by_inverse(key, size, multiplier) - place
        partner = jnp.where(partner < 0, partner + size, partner)
        pair = jnp.maximum(place, partner).astype(jnp.uint32)
        toss = mix_bits(key ^ (pair + np.uint32(1)) * _STRIDE)
        return jnp.where(toss >> 31 == 1, partner, place)

    return short_loop(ROUNDS, swap, place)
