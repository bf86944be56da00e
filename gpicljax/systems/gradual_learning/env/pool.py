"""All text that questions are made of, as one row of bytes, and tokens that point into it.

A token is an `int32`: where its text begins in the pool, times 256, plus its length. 0 is no text.
"""

from __future__ import annotations

import functools
import itertools
import string
from importlib import resources
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import refusal

JOINTS = "-#,"
"""Separators of a word's letters in micro9.3."""
FREQUENT = 200
"""Number of words that micro6 draws from; the next as many are the new names of micro20."""
SYNONYMS = {
    "say": ("say", "print", "write"),
    "and": ("and", "together with", "&", "also"),
    "or": ("or", "alternative", "/"),
    "after": ("after", "behind", "next"),
    "union": ("union", "consolidate", "joint"),
    "exclude": ("exclude", "prohibit", "ignore", "remove"),
}
"""The names that micro19 knows for a command."""
_LENGTH_BITS = 8


@functools.cache
def words() -> tuple[str, ...]:
    """Returns the vocabulary: common English words of at most 15 letters, frequent ones first."""
    text = (
        resources.files("gpicljax.systems.gradual_learning.env").joinpath("words.txt").read_text()
    )
    return tuple(text.split())


@functools.cache
def plain_words() -> tuple[str, ...]:
    """Returns the vocabulary without words in which a command or one of its synonyms is hidden."""
    names = [name for group in SYNONYMS.values() for name in group]
    return tuple(word for word in words() if not any(name in word for name in names))


class _Builder:
    """Lays each text down once in a row."""

    def __init__(self) -> None:
        self.closed = False
        self.text = " " * 8 + string.ascii_lowercase + string.digits
        self.text += "".join(f"{letter} " for letter in string.ascii_lowercase)

    def token(self, text: str) -> int:
        if not text:
            return 0
        place = self.text.find(text)
        if place < 0:
            if self.closed:
                raise ValueError(refusal("text", text, "a text that the pool has"))
            place = len(self.text)
            self.text += text
        return (place << _LENGTH_BITS) + len(text)

    def row(self, texts: list[str]) -> np.ndarray:
        """Lays texts down one after another and returns their tokens."""
        starts = len(self.text) + np.cumsum([0] + [len(text) for text in texts[:-1]])
        self.text += "".join(texts)
        return ((starts << _LENGTH_BITS) + [len(text) for text in texts]).astype(np.int32)


class Pool:
    """The row of bytes and the places of texts in it, as NumPy arrays.

    Attributes:
      letters: `int32[26]`, tokens of a .. z.
      spaced: `int32[26]`, tokens of a .. z with a space behind each.
      vocabulary: `int32[N]`, the words.
      spelled: `int32[N]`, the words with a space after each letter.
      joined: `int32[3, N]`, the words with each of `JOINTS` between the letters.
      plain: `int32[P]`, indices of `plain_words` in the vocabulary.
      triples: `int32[15600]`, all three different letters in order.
      capitals: where "AAA" begins; the other trigrams of capitals follow in order.
      digits: where "000" begins; the other numbers of three digits follow in order.
      hexadecimal: where "000" begins; the others of three hexadecimal digits follow in order.
      characters: `int32[128]`, tokens of single characters.
    """

    def __init__(self) -> None:
        self._builder = builder = _Builder()
        self.letters = np.array([builder.token(x) for x in string.ascii_lowercase], np.int32)
        start = builder.text.find("a b c ")
        self.spaced = ((start + 2 * np.arange(26) << _LENGTH_BITS) + 2).astype(np.int32)
        self.vocabulary = builder.row(list(words()))
        self.spelled = builder.row(["".join(f"{x} " for x in word) for word in words()])
        self.joined = np.stack([builder.row([j.join(word) for word in words()]) for j in JOINTS])
        index = {word: place for place, word in enumerate(words())}
        self.plain = np.array([index[word] for word in plain_words()], np.int32)
        triples = ["".join(x) for x in itertools.permutations(string.ascii_lowercase, 3)]
        self.triples = builder.row(triples)
        capitals = itertools.product(string.ascii_uppercase, repeat=3)
        self.capitals = int(builder.row(["".join(x) for x in capitals])[0]) >> _LENGTH_BITS
        self.digits = int(builder.row([f"{n:03}" for n in range(1000)])[0]) >> _LENGTH_BITS
        self.hexadecimal = int(builder.row([f"{n:03x}" for n in range(4096)])[0]) >> _LENGTH_BITS
        self.characters = np.array([builder.token(chr(n)) for n in range(128)], np.int32)

    def letter(self, number: jax.Array) -> jax.Array:
        """Returns tokens of a .. z by their numbers from 0."""
        return (number << _LENGTH_BITS) + int(self.letters[0])

    def letter_and_space(self, number: jax.Array) -> jax.Array:
        """Returns tokens of a letter and a space."""
        return (2 * number << _LENGTH_BITS) + int(self.spaced[0])

    def gap(self, number: jax.Array) -> jax.Array:
        """Returns tokens of 0 to 6 spaces, with which the pool begins."""
        return number

    def trigram(self, number: jax.Array, size: jax.Array) -> jax.Array:
        """Returns tokens of the first `size` of three capitals; `number = 676 a + 26 b + c`."""
        return jnp.where(size > 0, (self.capitals + 3 * number << _LENGTH_BITS) + size, 0)

    def three_digits(self, number: jax.Array, size: jax.Array) -> jax.Array:
        """Returns tokens of the first `size` digits of numbers of three."""
        return jnp.where(size > 0, (self.digits + 3 * number << _LENGTH_BITS) + size, 0)

    def last_digits(self, number: jax.Array, size: jax.Array, base: jax.Array) -> jax.Array:
        """Returns tokens of the last `size` of three digits to base 10 or 16."""
        start = jnp.where(base == 16, self.hexadecimal, self.digits) + 3 * number + 3 - size
        return jnp.where(size > 0, (start << _LENGTH_BITS) + size, 0)

    def token(self, text: str) -> int:
        """Returns the token of a text, which is laid down if it is new."""
        return self._builder.token(text)

    def close(self) -> None:
        """Refuses new texts from now on."""
        self._builder.closed = True

    def bytes(self) -> np.ndarray:
        """Returns the whole row, `uint8[...]`."""
        return np.frombuffer(self._builder.text.encode("latin-1"), np.uint8)


@functools.cache
def shared_pool() -> Pool:
    """Returns the pool that all generators share."""
    return Pool()


def length(token: jax.Array) -> jax.Array:
    """Returns the lengths of tokens in bytes, `int32[...]`."""
    return token & (2**_LENGTH_BITS - 1)


def token_prefix(token: jax.Array, size: jax.Array | int) -> jax.Array:
    """Returns tokens of the first `size` bytes of tokens that have as many."""
    return (token >> _LENGTH_BITS << _LENGTH_BITS) + size


def row_of(*tokens: Any) -> jax.Array:
    """Returns single tokens and rows of them as one row, `int32[K]`."""
    return jnp.concatenate([jnp.atleast_1d(jnp.asarray(token, jnp.int32)) for token in tokens])


def running_sum(values: jax.Array, mask: Any = True) -> jax.Array:
    """Returns sums up to and including each entry, along the last axis, `int32[..., K]`.

    As a product of matrices, which XLA has compiled already; exact up to 2**24.

    Args:
      values: `int32[..., K]`.
      mask: `bool[K, K]`, whether an entry (row) counts for a sum (column).
    """
    size = values.shape[-1]
    upper = (np.triu(np.ones((size, size), bool)) & mask).astype(np.float32)
    exact = jax.lax.Precision.HIGHEST
    return jnp.matmul(values.astype(jnp.float32), upper, precision=exact).astype(jnp.int32)


def count_reached(ends: jax.Array, place: jax.Array) -> jax.Array:
    """Returns how many of the ascending `ends` a place has reached, `int32[]`.

    A sum over many of them takes XLA several times as long.
    """
    size = ends.shape[-1]
    if size <= 8:
        return (ends.astype(jnp.int32) <= place).sum(dtype=jnp.int32)
    count, step = jnp.zeros((), jnp.int32), 1 << (size.bit_length() - 1)
    while step:
        candidate = count + step
        end = ends[jnp.minimum(candidate, size) - 1].astype(jnp.int32)
        count = jnp.where((candidate <= size) & (end <= place), candidate, count)
        step //= 2
    return count


class Row(NamedTuple):
    """Tokens one behind the other.

    Attributes:
      tokens: `int32[K]`.
      ends: `uint8[K]`, the byte at which each ends in the row, at most 255.
    """

    tokens: jax.Array
    ends: jax.Array

    @property
    def size(self) -> jax.Array:
        """Returns the number of bytes, `int32[]`."""
        return self.ends[-1].astype(jnp.int32)

    def byte_at(self, pool: jax.Array, place: jax.Array) -> jax.Array:
        """Returns one byte, `int32[]`, of no meaning beyond the end.

        Args:
          pool: `uint8[...]`.
          place: `int32[]`, from 0.
        """
        index = jnp.minimum(count_reached(self.ends, place), self.ends.shape[-1] - 1)
        token, behind = self.tokens[index], self.ends[index].astype(jnp.int32) - place
        pool = jnp.asarray(pool)
        base = (token >> _LENGTH_BITS) + length(token) - behind
        return pool[jnp.clip(base, 0, pool.shape[0] - 1)].astype(jnp.int32)

    def render(self, pool: jax.Array, size: int) -> jax.Array:
        """Returns the first `size` bytes, `uint8[size]`, 0 beyond the end."""
        places = jnp.arange(size, dtype=jnp.int32)
        row = jax.tree.map(jnp.asarray, self)
        text = jax.vmap(lambda place: row.byte_at(pool, place))(places)
        return jnp.where(places < self.size, text, 0).astype(jnp.uint8)


def row_ends(tokens: jax.Array, *sizes: int) -> jax.Array:
    """Returns the ends, see `Row`, of rows of these sizes that stand side by side, `uint8[K]`."""
    rows = np.repeat(np.arange(len(sizes)), sizes)
    return running_sum(length(tokens), rows[:, None] == rows).astype(jnp.uint8)
