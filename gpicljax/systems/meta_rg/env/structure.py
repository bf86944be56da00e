"""Semantic structures and their stimuli (section 3.2 of the Meta-Referential Games paper).

A structure has `N_dim` latent dimensions with d(i) values each. In the Symbolic Continuous
Stimulus (SCS) representation the range [-1, 1] of dimension i is cut into d(i) equal sections, and
each value has a Gaussian that lies within its section by three standard deviations.

For players that read words rather than numbers there are two representations besides, in which a
value has names: categories, or pseudowords. What names a value is drawn anew for every structure.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax import random

_CONSONANTS, _VOWELS = "bcdfghjklmnpqrstvwxz", "aeiou"
_SYLLABLES = [consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS]
WORD_LETTERS = 4
"""Letters of a pseudoword: two syllables of a consonant and a vowel."""
NUM_LETTERS = 26


def combinations(num_dims: int, max_values: int) -> np.ndarray:
    """Returns all latent tuples below a cap, in lexicographic order (last dimension fastest).

    Returns:
      `int32[max_values ** num_dims, num_dims]`; row m is the tuple with index m.
    """
    rows = list(itertools.product(range(max_values), repeat=num_dims))
    return np.asarray(rows, np.int32)


def phase_masks(
    num_values: jax.Array, max_values: int, withheld: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Marks the latent tuples of the support and of the query phase.

    A value with an odd 0-based index is a *test value*; a tuple with two or more of them belongs
    to the query phase, every other one to the support phase. Where values are withheld, the tuples
    of the query phase are those with a withheld value.

    Args:
      num_values: `int32[N_dim]`, d(i).
      max_values: cap of d(i).
      withheld: `int32[N_dim]`, the value of each dimension that the support phase lacks.

    Returns:
      Two `bool[max_values ** N_dim]` over the tuples' indices: support, query.

    Source: the split of the reference environment (`combinatorial2`).
    """
    table = combinations(num_values.shape[0], max_values)
    exists = (jnp.asarray(table) < num_values).all(-1)
    if withheld is None:
        query = jnp.asarray((table % 2 == 1).sum(-1) >= 2)
    else:
        query = (jnp.asarray(table) == withheld).any(-1)
    return exists & ~query, exists & query


def sample_num_values(key: jax.Array, num_dims: int, low: jax.Array, high: jax.Array) -> jax.Array:
    """d(i) ~ Uniform{V_min .. V_max}, independently, as `int32[N_dim]`."""
    return random.integers(key, (num_dims,), low, high + 1)


def sample_scs(
    key: jax.Array,
    num_values: jax.Array,
    max_values: int,
    max_samples: int,
    uniform: bool = False,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draws the Gaussians of every latent value and the episode's stimulus table from them.

    The width of a section is w = 2 / d(i). The standard deviation is uniform in [w/12, w/6]; the
    mean is uniform where mean ± 3 standard deviations stays inside the section. The samples are
    not truncated (about 0.05 % fall outside their section). Entries beyond d(i) hold numbers
    without meaning.

    Args:
      key: a typed key.
      num_values: `int32[N_dim]`, d(i).
      max_values: cap V of d(i).
      max_samples: cap O of the object-centric samples.
      uniform: whether samples lie anywhere in their section, with equal probability, instead.

    Returns:
      table `float[N_dim, V, O]`, means `float[N_dim, V]`, standard deviations `float[N_dim, V]`.

    Source: section 3.2; the mean's range from the reference environment.
    """
    dtype = jnp.result_type(float)
    num_dims = num_values.shape[0]
    width = (2 / num_values.astype(dtype))[:, None]
    start = -1 + jnp.arange(max_values, dtype=dtype) * width
    # One draw for everything: each call of the generator costs a second to compile. It lies within
    # (-1, 1), as `jax.random.normal` has it: at -1 a sample would be infinite.
    shape = (2 + max_samples, num_dims, max_values)
    low = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
    draws = random.uniform(key, shape, dtype, low, 1)
    if uniform:
        table = start[..., None] + width[..., None] * (1 + jnp.moveaxis(draws[2:], 0, -1)) / 2
        return table, start + width / 2, jnp.broadcast_to(width / np.sqrt(12), start.shape)
    share = (1 + draws[:2]) / 2
    sigma = width * (1 + share[0]) / 12
    mean = start + 3 * sigma + (width - 6 * sigma) * share[1]
    noise = np.sqrt(2).astype(dtype) * jax.lax.erf_inv(draws[2:])
    return jnp.moveaxis(mean + sigma * noise, 0, -1), mean, sigma


def sample_categories(
    key: jax.Array, num_dims: int, max_values: int, max_samples: int
) -> jax.Array:
    """Names the values of every dimension by categories, O of them for each value.

    Returns:
      `int32[N_dim, V, O]`: in each dimension, 1 .. V * O in an order drawn uniformly.
    """
    draws = random.bits(key, (num_dims, max_values * max_samples))
    order = jnp.argsort(draws, axis=-1).astype(jnp.int32)
    return 1 + order.reshape(num_dims, max_values, max_samples)


def sample_words(key: jax.Array, num_dims: int, max_values: int, max_samples: int) -> jax.Array:
    """Names the values of every dimension by pseudowords, O of them for each value.

    The words of a structure are distinct. They lie apart in the list of all 10,000 words, in an
    order drawn uniformly.

    Returns:
      `int32[N_dim, V, O]`, places of words in that list; `spell` has their letters.
    """
    shape = num_dims, max_values, max_samples
    count, words = int(np.prod(shape)), len(_SYLLABLES) ** 2
    draws = random.bits(key, (2, count))
    apart = words // count
    places = jnp.argsort(draws[0]).astype(jnp.int32) * apart
    return (places + (draws[1] % apart).astype(jnp.int32)).reshape(shape)


def spell(words: jax.Array) -> jax.Array:
    """The letters of pseudowords: `int32[...]`, their places -> `int32[..., 4]` in 1 .. 26."""
    letters = [[ord(letter) - ord("a") + 1 for letter in syllable] for syllable in _SYLLABLES]
    table = jnp.asarray(letters, jnp.int32)
    first, second = words // len(_SYLLABLES), words % len(_SYLLABLES)
    return jnp.concatenate([table[first], table[second]], axis=-1)


def word_text(letters: Any) -> str:
    """Returns a word from its letters, `int[4]` in 1 .. 26."""
    return "".join(chr(ord("a") + int(letter) - 1) for letter in np.asarray(letters))
