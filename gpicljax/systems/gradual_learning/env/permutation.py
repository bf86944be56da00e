"""Permutations of the bytes: a stream's own alphabet, in which the learner reads and speaks.

Source: the challenge's document asks for learning "irrespective of the format of the input data".
"""

from __future__ import annotations

import string

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.systems.gradual_learning.env.hashing import Seed, word

PERMUTATIONS = ("none", "within classes", "alphanumeric", "printable")
"""Permuted bytes: none; digits among themselves and letters among themselves; digits and
letters together; all 95 printable bytes, the space and the period included."""

# Numbers of the draws in a stream, beyond all others.
_BYTES = np.uint32(2**31) + np.arange(256, dtype=np.uint32)
_KIND = np.uint32(2**31 + 256)


def _groups() -> np.ndarray:
    """`uint32[4, 256]`, for each kind and byte the first byte of those it changes places with."""
    letters, digits = string.ascii_letters, string.digits
    printable = "".join(map(chr, range(32, 127)))
    rows = []
    for groups in ((), (digits, letters), (digits + letters,), (printable,)):
        row = np.arange(256, dtype=np.uint32)
        for group in groups:
            row[[ord(character) for character in group]] = min(map(ord, group))
        rows.append(row)
    return np.stack(rows)


_GROUPS = _groups()
# The bytes group by group; a permutation lists each group's in another order.
_LISTED = np.argsort(_GROUPS, axis=1, kind="stable").astype(np.uint8)


def sample_permutation(seed: Seed, chances: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Draws a stream's permutation.

    Args:
      seed: the stream's.
      chances: float `[4]`, relative frequencies of `PERMUTATIONS`.

    Returns:
      `uint8[256]` each: what the learner sees for each byte, and what each byte of the learner
      means.
    """
    ends = jnp.cumsum(chances) / jnp.sum(chances)
    draw = (word(seed, _KIND) >> 8).astype(chances.dtype) / 2**24
    kind = jnp.minimum((ends <= draw).sum(dtype=jnp.int32), len(PERMUTATIONS) - 1)
    # Groups stay in order, and within a group the draws decide.
    places = (jnp.asarray(_GROUPS)[kind] << 24) | (word(seed, _BYTES) >> 8)
    order, sorted_bytes = jnp.argsort(places).astype(jnp.uint8), jnp.asarray(_LISTED)[kind]
    blank = jnp.zeros(256, jnp.uint8)
    return blank.at[sorted_bytes].set(order), blank.at[order].set(sorted_bytes)
