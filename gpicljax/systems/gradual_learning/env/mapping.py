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

from gpicljax.systems.gradual_learning.env import tasks, templates
from gpicljax.systems.gradual_learning.env.conversation import (
    ANSWER,
    PATTERN,
    Due,
    Question,
    QuestionSource,
)
from gpicljax.systems.gradual_learning.env.hashing import Seed, below, permute, word
from gpicljax.systems.gradual_learning.env.pool import shared_pool
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
"""Symbols that stand for themselves in micro2 and micro3."""
PROMPT = "one character is right. find it, and go on saying it. "
"""The prompt of micro1.prompt."""
KEYS = 10
# Numbers of an instance's draws; a question's come after them.
_ALPHABET_DRAW, _TARGET_DRAW, _PERMUTATION_DRAW = range(3)
_ORDER_DRAWS, _LENGTH_DRAWS, _DIGIT_DRAWS = 0x4000, 16, 64
_FIRST_QUESTION_DRAW = 0x8000
_DRAWS_PER_QUESTION = 8


def _draw_number(question: jax.Array, number: int) -> jax.Array:
    return _FIRST_QUESTION_DRAW + question * _DRAWS_PER_QUESTION + number


def _power(exponent: jax.Array) -> jax.Array:
    return jnp.asarray(10 ** np.arange(10), jnp.int32)[jnp.clip(exponent, 0, 9)]


def _key_strings(
    seed: Seed, keys: jax.Array, least: jax.Array, most: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the lengths and digits of keys' independent strings, as two numbers of five."""
    draws = word(seed, _DIGIT_DRAWS + 8 * keys[..., None] + np.arange(3))
    return _digit_string(draws, least, most)


def _digit_string(
    draws: jax.Array, least: jax.Array, most: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns a string of digits from three draws in the last axis."""
    size = least + below(draws[..., 0], most - least + 1)
    sizes = jnp.stack([jnp.minimum(size, 5), jnp.maximum(size - 5, 0)], -1)
    halves = below(draws[..., 1:], _power(sizes))
    return size, halves[..., 0], halves[..., 1]


def _digit_tokens(size: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """Returns tokens of a string of up to ten digits, `int32[..., 4]`, from two numbers of five."""
    # With zeros behind, so that the first digits of five are the string's.
    lacking = 5 - jnp.clip(size[..., None] - np.array([0, 5]), 0, 5)
    five = jnp.stack([low, high], -1) * _power(lacking)
    # Two digits are in the pool the first of three.
    numbers = jnp.stack([five // 100, five % 100 * 10], -1)
    numbers = numbers.reshape(*numbers.shape[:-2], 4)
    sizes = jnp.clip(size[..., None] - np.array([0, 3, 5, 8]), 0, np.array([3, 2, 3, 2]))
    return shared_pool().three_digits(numbers, sizes)


class _MappingSpec(NamedTuple):
    """The symbols and the lengths of a task set's questions, `int32[]` each unless stated.

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


def _draw_key(
    seed: Seed, row: _MappingSpec, question: jax.Array, corrected: bool
) -> tuple[jax.Array, jax.Array]:
    """Returns the keys of the mapping, as bits, and the key of the question, `int32[]` both."""
    count = jnp.asarray(np.array([10, 12, 12, 4, 10, 10]), jnp.int32)[row.code]
    # The last of equal strings is the one that counts.
    everything = (1 << count) - 1
    keys, distinct_count = everything, count
    all_keys, hidden = jnp.arange(KEYS, dtype=jnp.int32), jnp.zeros(KEYS, bool)
    if not corrected:
        strings = jnp.stack(_key_strings(seed, all_keys, row.least, row.most))
        equal = (strings[:, :, None] == strings[:, None, :]).all(0)
        hidden = (equal & (all_keys[:, None] < all_keys[None, :])).any(-1)
        distinct = jnp.where(hidden, 0, 1 << all_keys).sum(dtype=jnp.int32)
        keys = jnp.where(row.strings, distinct, everything)
        distinct_count = jnp.where(row.strings, (~hidden).sum(dtype=jnp.int32), count)

    # A multiset of each key as often as there are keys, shuffled, and again when it is used up.
    total = distinct_count * distinct_count
    order = word(seed, _ORDER_DRAWS + question // total)
    place = permute(order, question % total, total) % distinct_count
    if not corrected:
        nth = jnp.where(row.strings, jnp.cumsum(~hidden, dtype=jnp.int32) - 1, all_keys)
        is_place = (nth == place) & jnp.where(row.strings, ~hidden, True)
        place = jnp.where(row.strings, jnp.argmax(is_place).astype(jnp.int32), place)
    free = below(word(seed, _draw_number(question, 0)), 10)
    key = jnp.where(row.code == SYMBOL, free, place)
    if corrected:
        # Two of three questions are letters, as only these count.
        symbol_key = 4 + (place + below(word(seed, _draw_number(question, 0)), 2) * 4) % 8
        letters = (row.code == GROUPS) | (row.code == LETTERS)
        key = jnp.where(letters, jnp.where(place < 8, place % 4, symbol_key), key)
    return keys, key


def _placeholders(
    seed: Seed, row: _MappingSpec, key: jax.Array, corrected: bool
) -> tuple[jax.Array, jax.Array]:
    """Returns the numbers that stand for a key in question, answer and digits; and its partner."""
    target = below(word(seed, _TARGET_DRAW), jnp.where(row.code == SYMBOL, 10, 4))
    alphabet = jnp.asarray(np.array([len(SYMBOLS), 26, 26, 34, 10, 10]), jnp.int32)[row.code]
    length = row.least + below(word(seed, _LENGTH_DRAWS + key), row.most - row.least + 1)
    digits = jnp.minimum(length, 5)
    turn = word(seed, _PERMUTATION_DRAW), key, jnp.where(row.code == LETTERS, 4, 10)

    def permutations(answering: jax.Array) -> list[jax.Array]:
        """Returns the numbers of the seed's permutations, places in them, and their sizes."""
        numbers = jnp.stack([jnp.int32(_ALPHABET_DRAW), jnp.int32(_ALPHABET_DRAW), 3 + digits])
        places = jnp.stack([key, answering, key])
        return [word(seed, numbers), places, jnp.stack([alphabet, alphabet, _power(digits)])]

    if not corrected:
        shuffled = permute(*turn)
        answering = jnp.select([row.code == LETTERS, row.code == COPY], [shuffled, key], target)
        return permute(*permutations(answering)), shuffled
    # A permutation of the four without a fixed point, as the letters are in random order.
    partner = (key + 1 + below(turn[0], 3)) % 4
    answering = jnp.select([row.code == LETTERS, row.code == COPY], [partner, key], target)
    joined = [jnp.append(a, b) for a, b in zip(permutations(answering), turn, strict=True)]
    picked = permute(*joined)
    return picked[:3], picked[3]


def _symbols(
    row: _MappingSpec, marks: jax.Array, question: jax.Array, key: jax.Array, picked: jax.Array
) -> jax.Array:
    """Returns the characters of question and answer, `int32[2]`, where these are no digits."""
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
    row: _MappingSpec,
    lengths: jax.Array,
    key: jax.Array,
    picked: jax.Array,
    shuffled: jax.Array,
    corrected: bool,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the digits of question and answer: their count and two numbers of five."""
    least, most = lengths.reshape(2, 2).T
    first = _DIGIT_DRAWS + np.array([[0, 1, 2], [4, 5, 6]])
    step = np.full((2, 3), 8)
    if corrected:
        first[0, 0], step[0, 0] = _LENGTH_DRAWS, 1
    size, low, high = _digit_string(word(seed, first + step * key), least, most)
    if corrected:
        low = jnp.where(np.array([True, False]), picked[2], low)
    has_one_digit = jnp.stack([~row.strings, row.code == DIGITS])
    size = jnp.where(has_one_digit, 1, size)
    return size, jnp.where(has_one_digit, jnp.stack([key, shuffled]), low), high


@functools.partial(jax.jit, static_argnames="corrected")
def ask(source: QuestionSource, corrected: bool) -> Question:
    """Returns a question of a mapping; if `corrected`, all keys of a mapping are different."""
    seed, question = source.seed, source.number
    columns = tasks.table(corrected)
    table = [columns[name] for name in ("code", "marks", "style", "question", "answer")]
    numbers = jnp.asarray(np.concatenate([x.reshape(len(x), -1) for x in table], 1))[source.task]
    code, marks, style, least, most = numbers[:5]
    row = _MappingSpec(code, least, most, (code == STRINGS) & (most > 1))
    keys, key = _draw_key(seed, row, question, corrected)
    picked, shuffled = _placeholders(seed, row, key, corrected)
    pair = _symbols(row, marks, question, key, picked)
    size, low, high = _numbers(seed, row, numbers[3:], key, picked, shuffled, corrected)

    numeric = code >= DIGITS
    pool = shared_pool()
    tokens = jnp.where(numeric, _digit_tokens(size, low, high), 0)
    begin = jnp.where(numeric, tokens[:, :1], jnp.asarray(pool.characters)[pair][:, None])
    end = jnp.where(marks & np.array([1, 2]) != 0, pool.token("."), 0)[:, None]
    room = jnp.zeros((2, ANSWER - 5), jnp.int32)
    rows = jnp.concatenate([begin, tokens[:, 1:], room, end], -1)
    return Question(
        text=rows[0],
        answer=rows[1],
        pattern=jnp.zeros(PATTERN, jnp.uint8),
        acceptor=jnp.zeros((), jnp.int32),
        style=style,
        key=key,
        keys=keys,
        cursor=jnp.zeros((), jnp.int32),
    )


def feedback(source: QuestionSource, style: jax.Array, due: Due) -> tuple[jax.Array, jax.Array]:
    """Returns feedback, see `refill.Family`: up to four digits of noise before the answer."""
    draws = word(source.seed, _draw_number(source.number - 1, 1) + np.arange(3))
    before = jnp.select(
        [style == x for x in templates.WITH_DIGITS],
        [jnp.int32(1), below(draws[0], 2), 2 + below(draws[0], 3)],
        0,
    )
    noise = below(draws[1], _power(before))
    tokens = _digit_tokens(before, noise, jnp.zeros((), jnp.int32))[:2]
    may_shorten = style == templates.SHORTENED_LATER
    shortened = ((style == templates.SHORTENED) | may_shorten) & due.is_correct
    shortened = shortened | (may_shorten & due.is_reliable)
    return tokens, jnp.where(style == templates.NONE, -1, jnp.where(shortened, 1, 2))
