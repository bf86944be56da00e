"""Questions of micro1 to micro5.18: symbols and digits that stand for others.

Nothing of a mapping is stored. What stands for a key is a draw of the instance's seed, the order of
keys a permutation of it.
"""

from __future__ import annotations

import functools
import string
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.systems.gradual_learning.env import tasks
from gpicljax.systems.gradual_learning.env.conversation import ANSWER, PATTERN, Asked
from gpicljax.systems.gradual_learning.env.hashing import Seed, below, permuted, word
from gpicljax.systems.gradual_learning.env.pool import shared
from gpicljax.systems.gradual_learning.env.tasks import (
    COPY,
    DIGITS,
    GROUPS,
    LETTERS,
    STRINGS,
    SYMBOL,
)

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
    seed: Seed, keys: jax.Array, least: jax.Array, most: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Independent strings of digits for keys: their lengths and digits, as two numbers of five."""
    draws = word(seed, _DIGITS + 8 * keys[..., None] + np.arange(3))
    return _string(draws, least, most)


def _string(
    draws: jax.Array, least: jax.Array, most: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A string of digits from three draws in the last axis."""
    size = least + below(draws[..., 0], most - least + 1)
    sizes = jnp.stack([jnp.minimum(size, 5), jnp.maximum(size - 5, 0)], -1)
    halves = below(draws[..., 1:], _power(sizes))
    return size, halves[..., 0], halves[..., 1]


def _tokens(size: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """Tokens of a string of up to ten digits, `int32[..., 4]`: from two numbers of five."""
    # With zeros behind, so that the first digits of five are the string's.
    lacking = 5 - jnp.clip(size[..., None] - np.array([0, 5]), 0, 5)
    five = jnp.stack([low, high], -1) * _power(lacking)
    # Two digits are in the pool the first of three.
    numbers = jnp.stack([five // 100, five % 100 * 10], -1)
    numbers = numbers.reshape(*numbers.shape[:-2], 4)
    sizes = jnp.clip(size[..., None] - np.array([0, 3, 5, 8]), 0, np.array([3, 2, 3, 2]))
    return shared().three_digits(numbers, sizes)


class _Row(NamedTuple):
    """What a task set is, `int32[]` each: its kind of symbols and the lengths of its questions.

    Attributes:
      code: the kind of its symbols.
      least: the shortest question.
      most: the longest.
      strings: `bool[]`, whether questions are strings of several digits.
    """

    code: jax.Array
    least: jax.Array
    most: jax.Array
    strings: jax.Array


def _asked_key(
    seed: Seed, row: _Row, question: jax.Array, corrected: bool
) -> tuple[jax.Array, jax.Array]:
    """Which keys there are, as bits, and the one that a question asks about, `int32[]` both."""
    count = jnp.asarray(np.array([10, 12, 12, 4, 10, 10]), jnp.int32)[row.code]
    # The last of equal strings is the one that counts.
    everything = (1 << count) - 1
    keys, rank = everything, count
    all_keys, hidden = jnp.arange(KEYS, dtype=jnp.int32), jnp.zeros(KEYS, bool)
    if not corrected:
        drawn = jnp.stack(_strings(seed, all_keys, row.least, row.most))
        equal = (drawn[:, :, None] == drawn[:, None, :]).all(0)
        hidden = (equal & (all_keys[:, None] < all_keys[None, :])).any(-1)
        distinct = jnp.where(hidden, 0, 1 << all_keys).sum(dtype=jnp.int32)
        keys = jnp.where(row.strings, distinct, everything)
        rank = jnp.where(row.strings, (~hidden).sum(dtype=jnp.int32), count)

    # A multiset of each key as often as there are keys, shuffled, and again when it is used up.
    total = rank * rank
    order = word(seed, _ORDER + question // total)
    place = permuted(order, question % total, total) % rank
    if not corrected:
        nth = jnp.where(row.strings, jnp.cumsum(~hidden, dtype=jnp.int32) - 1, all_keys)
        found = (nth == place) & jnp.where(row.strings, ~hidden, True)
        place = jnp.where(row.strings, jnp.argmax(found).astype(jnp.int32), place)
    free = below(word(seed, _draws(question, 0)), 10)
    key = jnp.where(row.code == SYMBOL, free, place)
    if corrected:
        # Two of three questions are letters, as only these count.
        other = 4 + (place + below(word(seed, _draws(question, 0)), 2) * 4) % 8
        letters = (row.code == GROUPS) | (row.code == LETTERS)
        key = jnp.where(letters, jnp.where(place < 8, place % 4, other), key)
    return keys, key


def _stand_ins(
    seed: Seed, row: _Row, key: jax.Array, corrected: bool
) -> tuple[jax.Array, jax.Array]:
    """What stands for a key: three numbers, of question, answer and digits; and its partner."""
    target = below(word(seed, _TARGET), jnp.where(row.code == SYMBOL, 10, 4))
    alphabet = jnp.asarray(np.array([len(SYMBOLS), 26, 26, 34, 10, 10]), jnp.int32)[row.code]
    length = row.least + below(word(seed, _LENGTHS + key), row.most - row.least + 1)
    digits = jnp.minimum(length, 5)
    turn = word(seed, _PERMUTATION), key, jnp.where(row.code == LETTERS, 4, 10)

    def permutations(answering: jax.Array) -> list[jax.Array]:
        """Numbers of the seed's permutations, what is permuted, and among how many."""
        numbers = jnp.stack([jnp.int32(_ALPHABET), jnp.int32(_ALPHABET), 3 + digits])
        wanted = jnp.stack([key, answering, key])
        return [word(seed, numbers), wanted, jnp.stack([alphabet, alphabet, _power(digits)])]

    if not corrected:
        shuffled = permuted(*turn)
        answering = jnp.select([row.code == LETTERS, row.code == COPY], [shuffled, key], target)
        return permuted(*permutations(answering)), shuffled
    # A permutation of the four without a fixed point, as the letters are in random order.
    partner = (key + 1 + below(turn[0], 3)) % 4
    answering = jnp.select([row.code == LETTERS, row.code == COPY], [partner, key], target)
    joined = [jnp.append(a, b) for a, b in zip(permutations(answering), turn, strict=True)]
    picked = permuted(*joined)
    return picked[:3], picked[3]


def _symbols(
    row: _Row, marks: jax.Array, question: jax.Array, key: jax.Array, picked: jax.Array
) -> jax.Array:
    """The characters of question and answer, `int32[2]`, where these are no digits."""
    texts = [SYMBOLS, string.ascii_lowercase, string.ascii_lowercase]
    texts += [string.ascii_lowercase + PUNCTUATION, string.digits, string.digits]
    rows = [[ord(x) for x in text.ljust(len(SYMBOLS))] for text in texts]
    pair = jnp.asarray(np.array(rows), jnp.int32)[row.code, picked[:2]]
    mark = jnp.asarray(np.array([ord(x) for x in PUNCTUATION]), jnp.int32)
    symbol = (key >= 4) & ((row.code == GROUPS) | (row.code == LETTERS))
    pair = jnp.where(symbol, mark[jnp.clip(key - 4, 0, 7)], pair)
    prompt = jnp.asarray(np.frombuffer(PROMPT.encode(), np.uint8), jnp.int32)
    prompted = (marks & np.array([4, 0])) != 0
    return jnp.where(prompted, prompt[question % len(PROMPT)], pair)


def _numbers(
    seed: Seed,
    row: _Row,
    lengths: jax.Array,
    key: jax.Array,
    picked: jax.Array,
    shuffled: jax.Array,
    corrected: bool,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The digits of question and answer, `int32[2]` each: how many, and two numbers of five."""
    least, most = lengths.reshape(2, 2).T
    first = _DIGITS + np.array([[0, 1, 2], [4, 5, 6]])
    step = np.full((2, 3), 8)
    if corrected:
        first[0, 0], step[0, 0] = _LENGTHS, 1
    size, low, high = _string(word(seed, first + step * key), least, most)
    if corrected:
        low = jnp.where(np.array([True, False]), picked[2], low)
    other = jnp.stack([~row.strings, row.code == DIGITS])
    size = jnp.where(other, 1, size)
    return size, jnp.where(other, jnp.stack([key, shuffled]), low), high


@functools.partial(jax.jit, static_argnames="corrected")
def ask(seed: Seed, task: jax.Array, question: jax.Array, corrected: bool) -> Asked:
    """A question of the mapping tasks.

    Args:
      seed: the instance's.
      task: `int32[]`, index of the task set.
      question: `int32[]`, its number in the instance.
      corrected: whether the keys of a mapping are all different.

    Returns:
      The question.
    """
    columns = tasks.table(corrected)
    table = [columns[name] for name in ("code", "marks", "style", "question", "answer")]
    numbers = jnp.asarray(np.concatenate([x.reshape(len(x), -1) for x in table], 1))[task]
    code, marks, style, least, most = numbers[:5]
    row = _Row(code, least, most, (code == STRINGS) & (most > 1))
    keys, key = _asked_key(seed, row, question, corrected)
    picked, shuffled = _stand_ins(seed, row, key, corrected)
    pair = _symbols(row, marks, question, key, picked)
    size, low, high = _numbers(seed, row, numbers[3:], key, picked, shuffled, corrected)

    numeric = code >= DIGITS
    pool = shared()
    tokens = jnp.where(numeric, _tokens(size, low, high), 0)
    begin = jnp.where(numeric, tokens[:, :1], jnp.asarray(pool.characters)[pair][:, None])
    end = jnp.where(marks & np.array([1, 2]) != 0, pool.token("."), 0)[:, None]
    room = jnp.zeros((2, ANSWER - 5), jnp.int32)
    rows = jnp.concatenate([begin, tokens[:, 1:], room, end], -1)
    return Asked(
        text=rows[0],
        answer=rows[1],
        pattern=jnp.zeros(PATTERN, jnp.uint8),
        acceptor=jnp.zeros((), jnp.int32),
        style=style,
        key=key,
        keys=keys,
    )


def before_feedback(seed: Seed, number: jax.Array, style: jax.Array) -> jax.Array:
    """What is said in front of an answer that is told.

    Args:
      seed: the instance's.
      number: `int32[]`, the question's number in the instance.
      style: `int32[]`, which feedback.

    Returns:
      `int32[2]`, tokens of up to four digits.
    """
    draws = word(seed, _draws(number, 1) + np.arange(3))
    before = jnp.select(
        [style == tasks.ONE_BEFORE, style == tasks.PERHAPS_BEFORE, style == tasks.SOME_BEFORE],
        [jnp.int32(1), below(draws[0], 2), 2 + below(draws[0], 3)],
        0,
    )
    noise = below(draws[1], _power(before))
    return _tokens(before, noise, jnp.zeros((), jnp.int32))[:2]
