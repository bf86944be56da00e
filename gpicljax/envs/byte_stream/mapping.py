"""Questions of micro1 to micro5.18: symbols and digits that stand for others.

Nothing of a mapping is stored. What stands for a key is a draw of the instance's seed, the order of
keys a permutation of it.
"""

from __future__ import annotations

import string
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.envs.byte_stream import tasks
from gpicljax.envs.byte_stream.hashing import Seed, below, permuted, word
from gpicljax.envs.byte_stream.interpreter import PATTERN, Asked
from gpicljax.envs.byte_stream.pool import shared
from gpicljax.envs.byte_stream.tasks import COPY, DIGITS, GROUPS, LETTERS, STRINGS, SYMBOL

SYMBOLS = string.ascii_letters + string.digits + " ,.!;?-"
"""The allowed characters of micro1."""
PUNCTUATION = ' !":?.,;'
"""What stands for itself in micro2 and micro3."""
PROMPT = "one character is right. find it, and go on saying it. "
"""What micro1.prompt says."""
KEYS = 10
# Numbers of an instance's draws; a question's come after them.
_ALPHABET, _TARGET, _PERMUTATION, _ORDER, _LENGTHS, _DIGITS = 0, 1, 2, 0x4000, 16, 64
_QUESTIONS = 0x8000
_PER_QUESTION = 8


def _draws(question: jax.Array, number: int) -> jax.Array:
    return _QUESTIONS + question * _PER_QUESTION + number


def _power(exponent: jax.Array) -> jax.Array:
    return jnp.asarray(10 ** np.arange(10), jnp.int32)[jnp.clip(exponent, 0, 9)]


def _strings(
    seed: Seed, keys: jax.Array, which: int, least: jax.Array, most: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Independent strings of digits for keys: their lengths and digits, as two numbers of five."""
    base = _DIGITS + 4 * (2 * keys + which)
    size = least + below(word(seed, base), most - least + 1)
    low = below(word(seed, base + 1), _power(jnp.minimum(size, 5)))
    high = below(word(seed, base + 2), _power(jnp.maximum(size - 5, 0)))
    return size, low, high


def _tokens(size: jax.Array, low: jax.Array, high: jax.Array) -> list[jax.Array]:
    """Tokens of a string of up to ten digits: from two numbers of five."""
    digits = shared().three_digits
    # With zeros behind, so that the first digits of five are the string's.
    low = low * _power(5 - jnp.clip(size, 0, 5))
    high = high * _power(5 - jnp.clip(size - 5, 0, 5))
    return [
        digits(low // 100, jnp.clip(size, 0, 3)),
        _two(low % 100, jnp.clip(size - 3, 0, 2)),
        digits(high // 100, jnp.clip(size - 5, 0, 3)),
        _two(high % 100, jnp.clip(size - 8, 0, 2)),
    ]


def _two(number: jax.Array, size: jax.Array) -> jax.Array:
    """Tokens of the first `size` of two digits; in the pool they are the first of three."""
    return shared().three_digits(10 * number, size)


def ask(seed: Seed, task: jax.Array, question: jax.Array, mended: bool) -> Asked:
    """A question of the mapping tasks.

    Args:
      seed: the instance's.
      task: `int32[]`, index of the task set.
      question: `int32[]`, its number in the instance.
      mended: whether the keys of a mapping are all different.

    Returns:
      The question, of five tokens.
    """
    table = {name: jnp.asarray(column) for name, column in tasks.table(mended).items()}
    code, marks, style = table["code"][task], table["marks"][task], table["style"][task]
    shortest, longest = table["question"][task, 0], table["question"][task, 1]
    strings = (code == STRINGS) & (longest > 1)
    count = jnp.asarray(np.array([10, 12, 12, 4, 10, 10]), jnp.int32)[code]

    # Which keys there are: of equal strings the last one is one.
    everything = (1 << count) - 1
    keys, rank = everything, count
    all_keys, hidden = jnp.arange(KEYS, dtype=jnp.int32), jnp.zeros(KEYS, bool)
    if not mended:
        drawn = jnp.stack(_strings(seed, all_keys, 0, shortest, longest))
        equal = (drawn[:, :, None] == drawn[:, None, :]).all(0)
        hidden = (equal & (all_keys[:, None] < all_keys[None, :])).any(-1)
        distinct = jnp.where(hidden, 0, 1 << all_keys).sum(dtype=jnp.int32)
        keys = jnp.where(strings, distinct, everything)
        rank = jnp.where(strings, (~hidden).sum(dtype=jnp.int32), count)

    # A multiset of each key as often as there are keys, shuffled, and again when it is used up.
    total = rank * rank
    order = word(seed, _ORDER + question // total)
    place = permuted(order, question % total, total) % rank
    if not mended:
        nth = jnp.where(strings, jnp.cumsum(~hidden, dtype=jnp.int32) - 1, all_keys)
        found = (nth == place) & jnp.where(strings, ~hidden, True)
        place = jnp.where(strings, jnp.argmax(found).astype(jnp.int32), place)
    free = below(word(seed, _draws(question, 0)), 10)
    key = jnp.where(code == SYMBOL, free, place)
    if mended:
        # Two of three questions are letters, as only these count.
        other = 4 + (place + below(word(seed, _draws(question, 0)), 2) * 4) % 8
        letters = (code == GROUPS) | (code == LETTERS)
        key = jnp.where(letters, jnp.where(place < 8, place % 4, other), key)

    # Symbols.
    target = below(word(seed, _TARGET), jnp.where(code == SYMBOL, 10, 4))
    # A permutation of the four without a fixed point, as the letters are in random order.
    turned = (key + 1 + below(word(seed, _PERMUTATION), 3)) % 4
    shuffled = permuted(word(seed, _PERMUTATION), key, jnp.where(code == LETTERS, 4, 10))
    partner = turned if mended else shuffled
    answering = jnp.select([code == LETTERS, code == COPY], [partner, key], target)
    alphabet = jnp.asarray(np.array([len(SYMBOLS), 26, 26, 34, 10, 10]), jnp.int32)[code]
    length = shortest + below(word(seed, _LENGTHS + key), longest - shortest + 1)
    sizes = _power(jnp.minimum(length, 5))
    wanted = jnp.stack([key, answering, key])
    ranges = jnp.stack([alphabet, alphabet, sizes])
    which = jnp.stack([jnp.int32(_ALPHABET), jnp.int32(_ALPHABET), 3 + jnp.minimum(length, 5)])
    picked = permuted(word(seed, which), wanted, ranges)
    texts = [SYMBOLS, string.ascii_lowercase, string.ascii_lowercase]
    texts += [string.ascii_lowercase + PUNCTUATION, string.digits, string.digits]
    rows = [[ord(x) for x in text.ljust(len(SYMBOLS))] for text in texts]
    pair = jnp.asarray(np.array(rows), jnp.int32)[code, picked[:2]]
    mark = jnp.asarray(np.array([ord(x) for x in PUNCTUATION]), jnp.int32)
    symbol = (code != COPY) & (key >= 4) & ((code == GROUPS) | (code == LETTERS))
    itself = mark[jnp.clip(key - 4, 0, 7)]
    asked = jnp.where(symbol, itself, pair[0])
    prompt = jnp.asarray(np.frombuffer(PROMPT.encode(), np.uint8), jnp.int32)
    asked = jnp.where(marks & 4 != 0, prompt[question % len(PROMPT)], asked)
    answered = jnp.where(symbol, itself, pair[1])

    # Digits.
    if mended:
        high = below(word(seed, _DIGITS + 8 * key + 2), _power(jnp.maximum(length - 5, 0)))
        low = picked[2]
    else:
        length, low, high = _strings(seed, key, 0, shortest, longest)
    length, low = jnp.where(strings, length, 1), jnp.where(strings, low, key)
    size, first, second = _strings(seed, key, 1, table["answer"][task, 0], table["answer"][task, 1])
    permutation = code == DIGITS
    size, first = jnp.where(permutation, 1, size), jnp.where(permutation, shuffled, first)

    numeric = code >= DIGITS
    pool = shared()
    period = pool.token(".")

    def tokens(byte: jax.Array, size: Any, low: Any, high: Any, mark: int) -> list[jax.Array]:
        digits = [jnp.where(numeric, token, 0) for token in _tokens(size, low, high)]
        digits[0] = jnp.where(numeric, digits[0], jnp.asarray(pool.characters)[byte])
        return [*digits, jnp.where(marks & mark != 0, period, 0)]

    *answer, end = tokens(answered, size, first, second, 2)
    answer = [*answer, 0, 0, 0, end]
    zero = jnp.zeros((), jnp.int32)
    return Asked(
        text=tokens(asked, length, low, high, 1),
        answer=answer,
        pattern=jnp.zeros(PATTERN, jnp.uint8),
        acceptor=zero,
        style=style,
        key=key,
        keys=keys,
    )


def before_feedback(seed: Seed, number: jax.Array, style: jax.Array) -> list[jax.Array]:
    """What is said in front of an answer that is told.

    Args:
      seed: the instance's.
      number: `int32[]`, the question's number in the instance.
      style: `int32[]`, which feedback.

    Returns:
      Two tokens of up to four digits.
    """
    draws = word(seed, _draws(number, 1) + np.arange(3))
    before = jnp.select(
        [style == tasks.ONE_BEFORE, style == tasks.PERHAPS_BEFORE, style == tasks.SOME_BEFORE],
        [jnp.int32(1), below(draws[0], 2), 2 + below(draws[0], 3)],
        0,
    )
    noise = below(draws[1], _power(before))
    return _tokens(before, noise, jnp.zeros((), jnp.int32))[:2]
