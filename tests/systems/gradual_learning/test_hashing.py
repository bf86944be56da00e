"""Draws that are functions of numbers."""

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.systems.gradual_learning.env.hashing import (
    Seed,
    below_by_inverse,
    inverse,
    permute,
    word,
)


def test_remainders_without_a_division():
    random = np.random.default_rng(0)
    sizes = np.concatenate(
        [
            np.arange(1, 2**16),
            np.exp(random.uniform(0, np.log(2**30), 10**5)),
            [2**30 - 1, 2**30],
        ]
    ).astype(np.int32)
    wide = sizes.astype(np.int64)
    whole = 2**32 // wide * wide
    drawn = random.integers(0, 2**32, len(sizes))
    remainder = jax.jit(lambda bits, size: below_by_inverse(bits, size, inverse(size)))
    for bits in (0 * wide, 0 * wide + 2**32 - 1, whole - 1, whole - wide, drawn):
        remainders = remainder(jnp.asarray(bits.astype(np.uint32)), jnp.asarray(sizes))
        np.testing.assert_array_equal(remainders, bits % wide)


def test_places_are_permuted():
    size = 26
    seeds = word(Seed(jnp.uint32(3), jnp.uint32(5)), jnp.arange(40))
    rows = jax.vmap(lambda seed: permute(seed, jnp.arange(size), jnp.int32(size)))(seeds)
    np.testing.assert_array_equal(np.sort(rows, 1), np.tile(np.arange(size), (40, 1)))
    assert len({tuple(row) for row in rows.tolist()}) == 40
    # Streams of earlier versions stay what they were.
    first = "16 12 10 19 23 18 21 25 2 0 8 15 14 4 22 11 13 9 20 7 24 17 6 5 1 3"
    assert rows[0].tolist() == [*map(int, first.split())]
