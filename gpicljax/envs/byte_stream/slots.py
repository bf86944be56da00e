"""What is in the slots of a sentence, drawn from its number.

All slots of a question are drawn, whichever of them its template has: each part below draws those
that belong together, as tokens by the slots' names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.envs.byte_stream import tasks
from gpicljax.envs.byte_stream.hashing import Seed, below, permuted, word
from gpicljax.envs.byte_stream.interpreter import PATTERN
from gpicljax.envs.byte_stream.pool import FREQUENT, JOINTS, SYNONYMS, cut, length, shared, words
from gpicljax.envs.byte_stream.templates import (
    BASES,
    COMMANDS,
    KINDS,
    PAIRS,
    SEQUENCES,
    TEMPLATES,
    TRIPLES,
)

Tokens = dict[str, Any]

# Numbers of an instance's draws; a question's come after them.
_BASE, _REVERSED, _SEQUENCE, _KEYS, _VALUES, _NAMES = range(6)
_QUESTIONS, _PER_QUESTION = 0x8000, 32


class Sentence(NamedTuple):
    """A question, and what its slots are drawn from.

    Attributes:
      seed: the instance's.
      kind: `int32[]`, which of `tasks.SENTENCE_KINDS`.
      template: `int32[]`, which of `TEMPLATES`.
      question: `int32[]`, its number in the instance.
      u: `uint32[24]`, the question's draws.
      mended: see `sentences.ask`.
    """

    seed: Seed
    kind: jax.Array
    template: jax.Array
    question: jax.Array
    u: jax.Array
    mended: bool

    def is_kind(self, name: str) -> jax.Array:
        """Whether it is of this kind, `bool[]`."""
        return self.kind == tasks.SENTENCE_KINDS.index(name)

    def has_template(self, name: str) -> jax.Array:
        """Whether it has this template, `bool[]`."""
        return self.template == list(TEMPLATES).index(name)


def sentence(seed: Seed, task: jax.Array, question: jax.Array, mended: bool) -> Sentence:
    """The sentence of this number; arguments as of `sentences.ask`."""
    kind = jnp.asarray(tasks.table(mended)["code"])[task]
    u = word(seed, _QUESTIONS + question * _PER_QUESTION + np.arange(24))
    return Sentence(seed, kind, _template(seed, kind, u[0]), question, u, mended)


def _template(seed: Seed, kind: jax.Array, draw: jax.Array) -> jax.Array:
    """The template of a question, `int32[]`: drawn among its kind's, or its base's."""
    kinds, names = list(tasks.SENTENCE_KINDS), list(TEMPLATES)
    bases = np.array(
        [[kinds.index(base) for base in BASES.get(k, [k] * 4)] for k in kinds], np.int32
    )
    mixed = kind == kinds.index("micro16.mixed")
    base = jnp.asarray(bases)[kind, below(jnp.where(mixed, draw >> 8, word(seed, _BASE)), 4)]
    # Rows of twelve, which two, three and four divide.
    choices = [KINDS.get(k, ("map",)) for k in kinds]
    rows = np.array([[names.index(c[i % len(c)]) for i in range(12)] for c in choices], np.int32)
    return jnp.asarray(rows)[base, below(draw, 12)]


def filled(of: Sentence) -> tuple[Tokens, dict[str, jax.Array]]:
    """The tokens of all slots by name, and what else is to be known of a question.

    The latter are `pattern: int32[PATTERN]`, `key` and `keys: int32[]`; see `interpreter.Asked`.

    Example:
      >>> seed, one = Seed(jnp.uint32(1), jnp.uint32(2)), jnp.int32(40)
      >>> slots, _ = jax.eval_shape(lambda: filled(sentence(seed, one, one, True)))
      >>> slots["w0"].dtype.name, "key" in slots
      ('int32', True)
    """
    logic = _logic(of)
    sequences, known = _sequences(of)
    parts: tuple[Callable[[Sentence], Tokens], ...] = (
        _words,
        _letters_and_gaps,
        _short_words,
        _strings,
        _sets,
        _commands,
    )
    slots = sequences | _logical(of, logic)
    for part in parts:
        slots |= part(of)
    return slots, {"pattern": _pattern(of, logic)} | known


def _tokens(*texts: str) -> jax.Array:
    return jnp.asarray(np.array([shared().token(text) for text in texts], np.int32))


def _letters() -> jax.Array:
    return jnp.asarray(shared().letters)


# Words --------------------------------------------------------------------------------------------


def _words(of: Sentence) -> Tokens:
    """Three words, the one that is taken away, the shortest and longest; one in pieces."""
    pool, u = shared(), of.u
    drawn = _three_words(of)
    three = jnp.asarray(pool.vocabulary)[drawn]
    slots: Tokens = {f"w{i}": three[i] for i in range(3)}
    out = below(u[4], 3)
    slots["w_out"] = three[out]
    slots["w_in0"] = three[jnp.where(out == 0, 1, 0)]
    slots["w_in1"] = three[jnp.where(out == 2, 1, 2)]
    # Of words of equal length the first.
    short, long = three[0], three[0]
    for i, names_of in ((1, ("shorter", "longer")), (2, ("shortest", "longest"))):
        short = jnp.where(length(three[i]) < length(short), three[i], short)
        long = jnp.where(length(three[i]) > length(long), three[i], long)
        slots |= dict(zip(names_of, (short, long), strict=True))
    slots["w0_"] = jnp.asarray(pool.spelled)[drawn[0]]
    joint = below(u[4], 3)
    slots["joint"] = _tokens(*JOINTS)[joint]
    slots["joined"] = jnp.asarray(pool.joined)[joint, drawn[0]]
    return slots


def _three_words(of: Sentence) -> jax.Array:
    """Numbers of words in the vocabulary, `int32[3]`."""
    pool, u = shared(), of.u
    simple = of.is_kind("micro19") | of.is_kind("micro20")
    drawn = below(u[1:4], jnp.where(simple, len(pool.plain), len(pool.vocabulary)))
    plain = jnp.asarray(pool.plain)
    drawn = jnp.where(simple, plain[jnp.minimum(drawn, len(pool.plain) - 1)], drawn)
    # The shortest first: as many letters as questions were asked, and one.
    lengths = np.array([len(text) for text in words()])
    by_length = jnp.asarray(np.argsort(lengths, kind="stable").astype(np.int32))
    shorter = jnp.asarray((lengths[:, None] <= np.arange(1, 16)).sum(0).astype(np.int32))
    easy = by_length[below(u[1], shorter[jnp.minimum(of.question, 14)])]
    drawn = jnp.where(of.is_kind("micro9.2.growing"), easy, drawn)
    # Three different ones where one of them is taken away.
    lone = of.has_template("except")
    count = len(pool.vocabulary)
    second = jnp.where(lone & (drawn[1] == drawn[0]), (drawn[1] + 1) % count, drawn[1])
    third = jnp.where(lone, _beside(drawn[0], second, drawn[2] % (count - 2)), drawn[2])
    return jnp.stack([drawn[0], second, third])


def _beside(one: jax.Array, other: jax.Array, draw: jax.Array) -> jax.Array:
    """A number that is neither of these two, from its place among all such."""
    low, high = jnp.minimum(one, other), jnp.maximum(one, other)
    draw = draw + (draw >= low)
    return draw + (draw >= high)


# Letters and strings of them ----------------------------------------------------------------------


def _letters_and_gaps(of: Sentence) -> Tokens:
    """Letters, one and the next in the alphabet, and spaces between them."""
    u, letters, kinds = of.u, _letters(), tasks.SENTENCE_KINDS
    a, b, d = below(u[5], 26), below(u[6], 26), below(u[5], 25)
    most = np.full(len(kinds), 6)
    most[[kinds.index(f"micro8.{i}") for i in (1, 2, 3)]] = 1, 2, 3
    gaps = below(u[7:10], jnp.asarray(most + 1)[of.kind])
    runs = jnp.asarray(shared().gaps)
    return {
        "a": letters[a],
        "b": letters[b],
        "a_": jnp.asarray(shared().spaced)[a],
        "d": letters[d],
        "e": letters[d + 1],
        **{f"g{i}": runs[gaps[i]] for i in range(3)},
        **{f"h{i}": runs[jnp.minimum(gaps[i], 1)] for i in (1, 2)},
    }


def _pairs(of: Sentence) -> tuple[jax.Array, jax.Array]:
    """Numbers of two short words in `PAIRS`."""
    return below(of.u[10], 6), below(of.u[11], 6)


def _short_words(of: Sentence) -> Tokens:
    """Two short words, and their letters."""
    letters = _letters()
    of_pairs = jnp.asarray(np.array([[ord(x) - ord("a") for x in pair] for pair in PAIRS]))
    slots: Tokens = {}
    for name, number in zip("pq", _pairs(of), strict=True):
        slots[name] = _tokens(*PAIRS)[number]
        slots |= {f"{name}{i}": letters[of_pairs[number, i]] for i in range(2)}
    return slots


def _others(of: Sentence) -> jax.Array:
    """Numbers of four letters that are in no short word, `int32[4]`."""
    return 4 + below(of.u[19:23], 22)


def _strings(of: Sentence) -> Tokens:
    """Other letters, the short words among them, and whether and how often one occurs."""
    u, (p, _), others, letters = of.u, _pairs(of), _others(of), _letters()
    here, there = below(u[12], 2) == 1, below(u[13], 2) == 1
    unlike = (p + 1 + below(u[11], 5)) % 6
    return {
        **{f"k{i}": letters[others[i]] for i in range(4)},
        "q_or_p": _tokens(*PAIRS)[jnp.where(here, p, unlike)],
        "p_or_q": _tokens(*PAIRS)[jnp.where(there, p, unlike)],
        "found": _tokens("false", "true")[here.astype(jnp.int32)],
        "times": _tokens("0", "1", "2")[here.astype(jnp.int32) + there],
    }


def _sets(of: Sentence) -> Tokens:
    """Three letters and one; that one if it is new to them, and those that it leaves."""
    t, c, letters = below(of.u[10], 6), below(of.u[11], 4), _letters()
    triple = jnp.asarray(np.array([[ord(x) - ord("a") for x in text] for text in TRIPLES]))[t]
    return {
        "t": _tokens(*TRIPLES)[t],
        "c": letters[c],
        "c_new": jnp.where((triple == c).any(), 0, letters[c]),
        **{f"t{i}": jnp.where(triple[i] == c, 0, letters[triple[i]]) for i in range(3)},
    }


# Logic --------------------------------------------------------------------------------------------


class _Logic(NamedTuple):
    """What logical questions are made of.

    Attributes:
      x: `int32[]`, one of the first five letters,
      y: another draw of them,
      other: one that is not x,
      z: one of them, which is forbidden.
      operands: `int32[]`, how many there are where there are several.
      triples: `int32[4]`, the numbers of theirs in the pool, of which
      sizes: `int32[4]`, so many letters are said; 0 for those that there are not.
    """

    x: jax.Array
    y: jax.Array
    other: jax.Array
    z: jax.Array
    operands: jax.Array
    triples: jax.Array
    sizes: jax.Array


def _logic(of: Sentence) -> _Logic:
    u = of.u
    x, y = below(u[12], 5), below(u[13], 5)
    other = (x + 1 + below(u[14], 4)) % 5
    which = below(u[16], 3)
    z = jnp.select([which == 0, which == 1], [x, other], _beside(x, other, below(u[15], 3)))
    operands = 2 + below(u[18], 3)
    triples = below(u[19:23], len(shared().triples))
    sizes = jnp.where(jnp.arange(4) < operands, 1 + below(u[19:23] >> 16, 3), 0)
    return _Logic(x, y, other, z, operands, triples, sizes)


def _logical(of: Sentence, logic: _Logic) -> Tokens:
    """Letters and groups of letters, what joins them, and one of the answers."""
    pool, u, letters = shared(), of.u, _letters()
    x, y, other, z, operands, triples, sizes = logic
    coin = below(u[17], 2) == 1
    either = jnp.select([z == x, z == other], [other, x], jnp.where(coin, x, other))
    first = pool.triples[0] + (3 << 8) * triples
    shown = jnp.where(sizes > 0, cut(first, sizes), 0)
    slots: Tokens = {
        "lead": jnp.int32(0 if of.mended else pool.token(" ")),
        "x": letters[x],
        "y": letters[y],
        "y2": letters[other],
        "z": letters[z],
        "x_or_y": letters[jnp.where(coin, x, y)],
        "x_or_y2": letters[either],
        "other": letters[other],
        "o": shown[below(u[23], operands)],
        **{f"o{i}": shown[i] for i in range(4)},
    }
    for text in ("and", "or"):
        token = pool.token(f" {text} ")
        slots |= {f"{text}{i}": jnp.where(i + 1 < operands, token, 0) for i in range(3)}
    return slots


def _pattern(of: Sentence, logic: _Logic) -> jax.Array:
    """What is accepted where there is no one answer, `int32[PATTERN]`."""
    x, y, other, z, _, triples, sizes = logic

    def one(*indices: Any) -> jax.Array:
        text = [i + ord("a") for i in indices] + [ord("."), 0]
        return jnp.stack([jnp.asarray(x, jnp.int32) for x in text[:3]])

    def four(first: jax.Array, second: jax.Array, without: Any) -> jax.Array:
        made = jnp.stack([one(first), one(second), one(first, second), one(second, first)])
        has = (made == without + ord("a")).any(-1, keepdims=True)
        return jnp.where(has, 0, made)

    contained = jnp.where(jnp.arange(3) < sizes[:, None], _letters_of(triples), 0)
    # The reference takes whatever is part of the answer.
    ending = jnp.stack([one(x, y), one(y), jnp.array([ord("."), 0, 0]), jnp.zeros(3, jnp.int32)])
    k = _others(of) + ord("a")
    none = jnp.zeros((), k.dtype)
    either = {
        "and, or": [k[0], k[1], none, k[2], none, none],
        "or, and": [k[0], none, none, k[1], k[2], none],
        "and, or, and": [k[0], k[1], none, k[2], k[3], none],
    }
    patterns = {
        "and": ending,
        "or": four(x, y, -1),
        "but not": four(x, other, z),
        "not": jnp.zeros((4, 3), jnp.int32) + x + ord("a"),
        **{
            name: jnp.pad(jnp.stack(row).reshape(2, 3), ((0, 2), (0, 0)))
            for name, row in either.items()
        },
    }
    has = [of.has_template(name) for name in patterns]
    return jnp.select(has, list(patterns.values()), contained).reshape(PATTERN)


def _letters_of(number: jax.Array) -> jax.Array:
    """The bytes of three different letters, `int32[..., 3]`, by their number in order."""
    first, second, third = number // 600, number // 24 % 25, number % 24
    second = second + (second >= first)
    return jnp.stack([first, second, _beside(first, second, third)], -1) + ord("a")


# Maps, sequences, commands ------------------------------------------------------------------------


def _sequences(of: Sentence) -> tuple[Tokens, dict[str, jax.Array]]:
    """A pair of the instance's map, two neighbours in its sequence; its number, and all there are.

    The latter are `key` and `keys`; see `interpreter.Asked`.
    """
    pool, seed, u = shared(), of.seed, of.u
    vocabulary = jnp.asarray(pool.vocabulary)
    key = below(u[5], 8)
    pair = permuted(word(seed, np.array([_KEYS, _VALUES])), key, jnp.int32(FREQUENT))
    sequence = below(word(seed, _SEQUENCE), 4)
    backwards = below(word(seed, _REVERSED), 3) > 0
    sizes = np.array([len(s) for s in SEQUENCES], np.int32)
    last = jnp.asarray(sizes)[sequence] - 1
    place = below(u[5], last)
    rows = [[pool.token(s[min(i, len(s) - 1)]) for i in range(10)] for s in SEQUENCES]
    row = jnp.asarray(np.array(rows, np.int32))[sequence]
    slots = {
        "key": vocabulary[pair[0]],
        "value": vocabulary[pair[1]],
        "n": row[jnp.where(backwards, last - place, place)],
        "n_next": row[jnp.where(backwards, last - place - 1, place + 1)],
    }
    mapping = of.has_template("map")
    keys = (1 << jnp.where(mapping, 8, last)) - 1
    return slots, {"key": jnp.where(mapping, key, place), "keys": keys}


def _commands(of: Sentence) -> Tokens:
    """Commands by their names, by synonyms, or by new names that are announced."""
    pool, u = shared(), of.u
    synonyms, hints = of.is_kind("micro19"), of.is_kind("micro20")
    plain = jnp.asarray(pool.plain)[FREQUENT : 2 * FREQUENT]
    places = permuted(word(of.seed, _NAMES), jnp.arange(4), jnp.int32(FREQUENT))
    new, old = jnp.asarray(pool.vocabulary)[plain][places], _tokens(*COMMANDS)
    groups = [SYNONYMS[name] for name in COMMANDS]
    table = [[pool.token(g[i % len(g)]) for i in range(12)] for g in groups]
    drawn = below(u[4] >> np.array([0, 4, 8, 12], np.uint32), 12)
    synonym = jnp.asarray(np.array(table, np.int32))[jnp.arange(4), drawn]
    # Which commands a template has: the first, and for union and exclude a second one.
    seconds = {"union": 2, "exclude": 3, "next letter": 1}
    second = jnp.asarray(np.array([seconds.get(name, 0) for name in TEMPLATES], np.int32))
    second = second[of.template]
    only = (second == 1) | (second == 0)
    chosen = jnp.where(only | (below(u[17] >> 1, 2) == 0), jnp.where(second == 1, 1, 0), second)
    replaced = hints & (jnp.arange(4) == chosen)
    said = jnp.where(synonyms, synonym, jnp.where(replaced, new, old))
    return {
        **{name: said[i] for i, name in enumerate(COMMANDS)},
        "new": jnp.where(hints, new[chosen], 0),
        "old": jnp.where(hints, old[chosen], 0),
        "is_as": jnp.where(hints, pool.token(" is as "), 0),
        "dash": jnp.where(hints, pool.token(" - "), 0),
    }
