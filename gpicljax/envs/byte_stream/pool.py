"""All text that questions are made of, as one row of bytes, and tokens that point into it.

A token is an `int32`: where its text begins in the pool, times 64, plus its length. 0 is no text.
"""

from __future__ import annotations

import functools
import itertools
import string
from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np

LONGEST_WORD = 15
JOINTS = "-#,"
"""What a word's letters are joined with in micro9.3."""
FREQUENT = 200
"""How many of the first words micro6 draws from; the next as many are micro20's new names."""
SYNONYMS = {
    "say": ("say", "print", "write"),
    "and": ("and", "together with", "&", "also"),
    "or": ("or", "alternative", "/"),
    "after": ("after", "behind", "next"),
    "union": ("union", "consolidate", "joint"),
    "exclude": ("exclude", "prohibit", "ignore", "remove"),
}
"""The names that micro19 knows for a command."""
_LENGTH_BITS = 6


@functools.cache
def words() -> tuple[str, ...]:
    """The vocabulary: common English words of a-z, of at most 15 letters, frequent ones first.

    Example:
      >>> len(words()) > 2000, words()[:3]
      (True, ('the', 'be', 'to'))
    """
    text = resources.files("gpicljax.envs.byte_stream").joinpath("words.txt").read_text()
    return tuple(text.split())


@functools.cache
def plain_words() -> tuple[str, ...]:
    """The vocabulary without words in which a command or one of its synonyms is hidden.

    Example:
      >>> "hand" in words(), "hand" in plain_words()
      (True, False)
    """
    names = [name for group in SYNONYMS.values() for name in group]
    return tuple(word for word in words() if not any(name in word for name in names))


class _Builder:
    """Lays texts in a row, each once."""

    def __init__(self) -> None:
        self.text = " " * 8 + string.ascii_lowercase + string.digits
        self.text += "".join(f"{letter} " for letter in string.ascii_lowercase)

    def token(self, text: str) -> int:
        if not text:
            return 0
        place = self.text.find(text)
        if place < 0:
            place = len(self.text)
            self.text += text
        return (place << _LENGTH_BITS) + len(text)

    def row(self, texts: list[str]) -> np.ndarray:
        """Tokens of texts laid down one after another, without looking for them."""
        starts = len(self.text) + np.cumsum([0] + [len(text) for text in texts[:-1]])
        self.text += "".join(texts)
        return ((starts << _LENGTH_BITS) + [len(text) for text in texts]).astype(np.int32)


class Pool:
    """The row of bytes and where things are in it; made once, of NumPy arrays.

    Attributes:
      letters: `int32[26]`, tokens of a .. z.
      spaced: `int32[26]`, the same followed by a space.
      gaps: `int32[7]`, 0 to 6 spaces.
      vocabulary: `int32[N]`, the words.
      spelled: `int32[N]`, the words with a space after each letter.
      joined: `int32[3, N]`, the words with each of `JOINTS` between the letters.
      plain: `int32[P]`, indices of `plain_words` in the vocabulary.
      triples: `int32[15600]`, all three different letters in order.
    """

    def __init__(self) -> None:
        self._builder = builder = _Builder()
        self.letters = np.array([builder.token(x) for x in string.ascii_lowercase], np.int32)
        start = builder.text.find("a b c ")
        self.spaced = ((start + 2 * np.arange(26) << _LENGTH_BITS) + 2).astype(np.int32)
        self.gaps = np.array([builder.token(" " * n) for n in range(7)], np.int32)
        self.vocabulary = builder.row(list(words()))
        self.spelled = builder.row(["".join(f"{x} " for x in word) for word in words()])
        self.joined = np.stack([builder.row([j.join(word) for word in words()]) for j in JOINTS])
        index = {word: place for place, word in enumerate(words())}
        self.plain = np.array([index[word] for word in plain_words()], np.int32)
        triples = ["".join(x) for x in itertools.permutations(string.ascii_lowercase, 3)]
        self.triples = builder.row(triples)

    def token(self, text: str) -> int:
        """The token of a text, which is laid down if it is new."""
        return self._builder.token(text)

    def bytes(self) -> np.ndarray:
        """The whole row, `uint8[...]`."""
        return np.frombuffer(self._builder.text.encode("latin-1"), np.uint8)


@functools.cache
def shared() -> Pool:
    """The pool that all generators share.

    Example:
      >>> shared().token("") == 0, int(shared().letters[0]) % 64
      (True, 1)
    """
    return Pool()


def length(token: jax.Array) -> jax.Array:
    """How many bytes tokens have, `int32[...]`.

    Example:
      >>> int(length(jnp.int32(shared().token("say"))))
      3
    """
    return token & (2**_LENGTH_BITS - 1)


def cut(token: jax.Array, size: jax.Array) -> jax.Array:
    """The first `size` bytes of tokens that have as many.

    Example:
      >>> rendered(cut(jnp.array([shared().token("say")]), 2), 2)[0].tobytes()
      b'sa'
    """
    return (token >> _LENGTH_BITS << _LENGTH_BITS) + size


def rendered(tokens: jax.Array, size: int) -> tuple[np.ndarray | jax.Array, jax.Array]:
    """The bytes of tokens in a row.

    Args:
      tokens: `int32[K]`.
      size: width of the result, at least the sum of their lengths.

    Returns:
      `uint8[size]`, 0 beyond the end, and the length, `int32[]`.

    Example:
      >>> text, size = rendered(jnp.array([shared().token(x) for x in ("say", ": ")]), 8)
      >>> bytes(text[:int(size)].tolist()), int(size)
      (b'say: ', 5)
    """
    lengths = length(tokens)
    ends = jnp.cumsum(lengths, dtype=jnp.int32)
    begins = ends - lengths
    bases = (tokens >> _LENGTH_BITS) - begins
    places = jnp.arange(size, dtype=jnp.int32)

    # A loop over tokens, of which each overwrites what lies behind its beginning: XLA computes
    # its rows in vectors, and would otherwise inline all of it into the gather, byte by byte.
    def body(index: jax.Array, source: jax.Array) -> jax.Array:
        return jnp.where(places >= begins[index], bases[index] + places, source)

    zero, count = jnp.int32(0), jnp.int32(tokens.shape[0])
    source = jax.lax.fori_loop(zero, count, body, jnp.zeros(size, jnp.int32))
    text = jnp.asarray(shared().bytes())[source]
    return jnp.where(places < ends[-1], text, np.uint8(0)), ends[-1]
