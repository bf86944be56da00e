"""What is in the slots of a sentence, drawn from its number.

All slots of a question are drawn, whichever of them its template has: each part below draws those
that belong together, as tokens by the slots' names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.systems.gradual_learning.env import tasks
from gpicljax.systems.gradual_learning.env.composition import OPERATIONS, second_operands
from gpicljax.systems.gradual_learning.env.conversation import PATTERN
from gpicljax.systems.gradual_learning.env.hashing import Seed, below, permuted, word
from gpicljax.systems.gradual_learning.env.pool import (
    FREQUENT,
    JOINTS,
    SYNONYMS,
    cut,
    length,
    row_of,
    shared,
    words,
)
from gpicljax.systems.gradual_learning.env.templates import (
    BASES,
    COMMANDS,
    KINDS,
    PAIRS,
    SEQUENCES,
    TEMPLATES,
    TRIPLES,
)

Slots = list[tuple[tuple[str, ...], Any]]
"""Names of slots, and `int32[N]` tokens of as many."""

# Numbers of an instance's draws; a question's come after them.
_BASE, _REVERSED, _SEQUENCE, _KEYS, _VALUES, _NAMES = range(6)
_QUESTIONS, _PER_QUESTION = 0x8000, 32


@functools.cache
def _plan() -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """The names of what is drawn, and of each: its number, bits left out, and how many outcomes.

    The latter are `sizes: int32[kinds, N]`. `fixed` marks what an instance draws once.
    """
    pool, kinds = shared(), tasks.SENTENCE_KINDS
    instance = {
        "base": (_BASE, 0, 4),
        "backwards": (_REVERSED, 0, 3),
        "sequence": (_SEQUENCE, 0, 4),
    }
    question = {
        "template": (0, 0, 12),
        "base of question": (0, 8, 4),
        **{f"word{i}": (1 + i, 0, len(pool.vocabulary)) for i in range(3)},
        "out": (4, 0, 3),
        **{f"synonym{i}": (4, 4 * i, 12) for i in range(4)},
        "a": (5, 0, 26),
        "b": (6, 0, 26),
        "d": (5, 0, 25),
        "key": (5, 0, 8),
        **{f"gap{i}": (7 + i, 0, 7) for i in range(3)},
        "p": (10, 0, 6),
        "q": (11, 0, 6),
        "c": (11, 0, 4),
        "unlike": (11, 0, 5),
        "x": (12, 0, 5),
        "here": (12, 0, 2),
        "y": (13, 0, 5),
        "there": (13, 0, 2),
        "other": (14, 0, 4),
        "third": (15, 0, 3),
        "which": (16, 0, 3),
        "coin": (17, 0, 2),
        "command": (17, 1, 2),
        "operands": (18, 0, 3),
        **{f"k{i}": (19 + i, 0, 22) for i in range(4)},
        **{f"triple{i}": (19 + i, 0, len(pool.triples)) for i in range(4)},
        **{f"size{i}": (19 + i, 16, 3) for i in range(4)},
    }
    names = (*instance, *question)
    number, shift, size = np.array([*instance.values(), *question.values()]).T
    sizes = np.tile(size.astype(np.int32), (len(kinds), 1))
    for kind in ("micro19", "micro20"):
        sizes[kinds.index(kind), [names.index(f"word{i}") for i in range(3)]] = len(pool.plain)
    for most in (1, 2, 3):
        row = kinds.index(f"micro8.{most}")
        sizes[row, [names.index(f"gap{i}") for i in range(3)]] = most + 1
    fixed = np.arange(len(names)) < len(instance)
    return names, {"number": number, "shift": shift, "sizes": sizes, "fixed": fixed}


class Sentence(NamedTuple):
    """A question, and what its slots are drawn from.

    Attributes:
      seed: the instance's.
      kind: `int32[]`, which of `tasks.SENTENCE_KINDS`.
      template: `int32[]`, which of `TEMPLATES`.
      question: `int32[]`, its number in the instance.
      draws: `int32[N]`, see `_plan`.
      corrected: see `sentences.ask`.
    """

    seed: Seed
    kind: jax.Array
    template: jax.Array
    question: jax.Array
    draws: jax.Array
    corrected: bool

    def is_kind(self, name: str) -> jax.Array:
        """Whether it is of this kind, `bool[]`."""
        return self.kind == tasks.SENTENCE_KINDS.index(name)

    def has_template(self, name: str) -> jax.Array:
        """Whether it has this template, `bool[]`."""
        return self.template == list(TEMPLATES).index(name)

    def drawn(self, *names: str) -> jax.Array:
        """What these draws came out as, `int32[N]`; of one name `int32[]`."""
        places = [_plan()[0].index(name) for name in names]
        if len(places) == 1:
            return self.draws[places[0]]
        if places == list(range(places[0], places[0] + len(places))):
            return self.draws[places[0] : places[-1] + 1]
        return self.draws[np.array(places)]


def sentence(
    seed: Seed, task: jax.Array, question: jax.Array, corrected: bool, composition: str = "all"
) -> Sentence:
    """The sentence of this number; arguments as of `sentences.ask`."""
    kind = jnp.asarray(tasks.table(corrected)["code"])[task]
    names, plan = _plan()
    base = _QUESTIONS + question * _PER_QUESTION
    bits = word(seed, jnp.where(plan["fixed"], 0, base) + plan["number"])
    sizes = jnp.asarray(plan["sizes"])[kind]
    # The shortest first: as many letters as questions were asked, and one.
    growing = kind == tasks.SENTENCE_KINDS.index("micro9.2.growing")
    first = growing & (np.arange(len(names)) == names.index("word0"))
    sizes = jnp.where(first, jnp.asarray(_by_length()[1])[jnp.minimum(question, 14)], sizes)
    draws = below(bits >> plan["shift"].astype(np.uint32), sizes)
    asked = Sentence(seed, kind, kind, question, draws, corrected)
    asked = asked._replace(template=_template(asked))
    if composition == "all":
        return asked
    return asked._replace(draws=_composed(asked, bits[names.index("q")], composition))


def _composed(of: Sentence, bits: jax.Array, composition: str) -> jax.Array:
    """The draws, with second operands that go with the operation and the first one."""
    rows, counts = second_operands(composition)
    templates = list(TEMPLATES)
    which = np.full(len(templates), -1)
    which[[templates.index(name) for name in OPERATIONS]] = np.arange(len(OPERATIONS))
    operation, first = jnp.asarray(which)[of.template], of.drawn("p")
    number = below(bits, jnp.asarray(counts)[operation, first])
    second = jnp.asarray(rows)[operation, first, number]
    names = _plan()[0]
    made = np.isin(np.arange(len(names)), [names.index("q"), names.index("c")])
    return jnp.where(made & (operation >= 0), second, of.draws)


@functools.cache
def _by_length() -> tuple[np.ndarray, np.ndarray]:
    """Numbers of words, the shortest first; and how many have 1, 2 .. 15 letters or fewer."""
    lengths = np.array([len(text) for text in words()])
    shorter = (lengths[:, None] <= np.arange(1, 16)).sum(0)
    return np.argsort(lengths, kind="stable").astype(np.int32), shorter.astype(np.int32)


def _template(of: Sentence) -> jax.Array:
    """The template of a question, `int32[]`: drawn among its kind's, or its base's."""
    kinds, names = list(tasks.SENTENCE_KINDS), list(TEMPLATES)
    bases = np.array(
        [[kinds.index(base) for base in BASES.get(k, [k] * 4)] for k in kinds], np.int32
    )
    mixed = of.is_kind("micro16.mixed")
    drawn = jnp.where(mixed, of.drawn("base of question"), of.drawn("base"))
    base = jnp.asarray(bases)[of.kind, drawn]
    # Rows of twelve, which two, three and four divide.
    choices = [KINDS.get(k, ("map",)) for k in kinds]
    rows = np.array([[names.index(c[i % len(c)]) for i in range(12)] for c in choices], np.int32)
    return jnp.asarray(rows)[base, of.drawn("template")]


def filled(of: Sentence) -> tuple[tuple[str, ...], jax.Array, dict[str, jax.Array]]:
    """The names of all slots, their tokens, and what else is to be known of a question.

    The latter are `pattern: int32[PATTERN]`, `key` and `keys: int32[]`; see `conversation.Asked`.
    """
    logic = _logic(of)
    places = _places(of)
    sequences, known = _sequences(of, places[:2])
    parts: tuple[Callable[[Sentence], Slots], ...] = (
        _words,
        _letters_and_gaps,
        _short_words,
        _strings,
        _sets,
    )
    slots = [*sequences, *_logical(of, logic), *commands(of, places[2:])]
    for part in parts:
        slots += part(of)
    names = tuple(name for group, _ in slots for name in group)
    return names, row_of(*(row for _, row in slots)), {"pattern": _pattern(of, logic)} | known


def _places(of: Sentence) -> jax.Array:
    """Among the frequent words: those of a pair of the map, and of new names, `int32[6]`."""
    seeds = word(of.seed, np.array([_KEYS, _VALUES, *[_NAMES] * 4]))
    key = jnp.where(np.arange(6) < 2, of.drawn("key"), np.array([0, 0, 0, 1, 2, 3]))
    return permuted(seeds, key, jnp.int32(FREQUENT))


def _tokens(*texts: str) -> jax.Array:
    return jnp.asarray(np.array([shared().token(text) for text in texts], np.int32))


# Words --------------------------------------------------------------------------------------------


def _words(of: Sentence) -> Slots:
    """Three words, the one that is taken away, the shortest and longest; one in pieces."""
    pool = shared()
    drawn, out = _three_words(of), of.drawn("out")
    table = np.stack([pool.vocabulary, pool.spelled, *pool.joined])
    rows = jnp.where(np.arange(5) < 4, np.array([0, 0, 0, 1, 0]), 2 + out)
    made = jnp.asarray(table)[rows, drawn[np.array([0, 1, 2, 0, 0])]]
    three = made[:3]
    left = jnp.stack([out, jnp.where(out == 0, 1, 0), jnp.where(out == 2, 1, 2)])
    # The first among words of equal length.
    signed = length(three) * np.array([[1], [-1]])
    two = jnp.where(signed[:, 1] < signed[:, 0], 1, 0)
    best = jnp.where(two == 1, signed[:, 1], signed[:, 0])
    best = jnp.stack([two, jnp.where(signed[:, 2] < best, 2, two)]).reshape(-1)
    return [
        (("w0", "w1", "w2", "w0_", "joined"), made),
        (("w_out", "w_in0", "w_in1"), three[left]),
        (("shorter", "longer", "shortest", "longest"), three[best]),
        (("joint",), _tokens(*JOINTS)[out]),
    ]


def _three_words(of: Sentence) -> jax.Array:
    """Numbers of words in the vocabulary, `int32[3]`."""
    pool = shared()
    simple = of.is_kind("micro19") | of.is_kind("micro20")
    drawn = of.drawn("word0", "word1", "word2")
    plain = jnp.asarray(pool.plain)
    table = jnp.where(simple, plain[jnp.minimum(drawn, len(pool.plain) - 1)], drawn)
    drawn = jnp.where(of.is_kind("micro9.2.growing"), jnp.asarray(_by_length()[0])[drawn], table)
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


def _letters_and_gaps(of: Sentence) -> Slots:
    """Letters, one and the next in the alphabet, and spaces between them."""
    pool = shared()
    gaps = of.drawn("gap0", "gap1", "gap2")
    one = of.drawn("a", "b", "d", "d", "c", "k0", "k1", "k2", "k3")
    return [
        (
            ("a", "b", "d", "e", "c", "k0", "k1", "k2", "k3"),
            pool.letter(one + np.array([0, 0, 0, 1, 0, *[_OTHER] * 4])),
        ),
        (("a_",), pool.letter_and_space(of.drawn("a"))),
        (("g0", "g1", "g2"), pool.gap(gaps)),
        (("h1", "h2"), pool.gap(jnp.minimum(gaps[1:], 1))),
    ]


_OTHER = 4
"""The letters from here on are in no short word."""


def _short_words(of: Sentence) -> Slots:
    """Two short words, and their letters."""
    number = of.drawn("p", "q")
    of_pairs = jnp.asarray(np.array([[ord(x) - ord("a") for x in pair] for pair in PAIRS]))
    letters = shared().letter(of_pairs[number]).reshape(-1)
    return [(("p", "q"), _tokens(*PAIRS)[number]), (("p0", "p1", "q0", "q1"), letters)]


def _strings(of: Sentence) -> Slots:
    """Short words among other letters, and whether and how often one occurs."""
    p, here = of.drawn("p"), of.drawn("here", "there")
    unlike = (p + 1 + of.drawn("unlike")) % 6
    return [
        (("q_or_p", "p_or_q"), _tokens(*PAIRS)[jnp.where(here == 1, p, unlike)]),
        (("found",), _tokens("false", "true")[here[0]]),
        (("times",), _tokens("0", "1", "2")[here[0] + here[1]]),
    ]


def _sets(of: Sentence) -> Slots:
    """Three letters; a further one if it is new to them, and those that it leaves."""
    pool, t, c = shared(), of.drawn("p"), of.drawn("c")
    triple = jnp.asarray(np.array([[ord(x) - ord("a") for x in text] for text in TRIPLES]))[t]
    return [
        (("t",), _tokens(*TRIPLES)[t]),
        (("c_new",), jnp.where((triple == c).any(), 0, pool.letter(c))),
        (("t0", "t1", "t2"), jnp.where(triple == c, 0, pool.letter(triple))),
    ]


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
    x, y, which = of.drawn("x"), of.drawn("y"), of.drawn("which")
    other = (x + 1 + of.drawn("other")) % 5
    z = jnp.select([which == 0, which == 1], [x, other], _beside(x, other, of.drawn("third")))
    operands = 2 + of.drawn("operands")
    triples = of.drawn(*(f"triple{i}" for i in range(4)))
    said = 1 + of.drawn(*(f"size{i}" for i in range(4)))
    sizes = jnp.where(np.arange(4) < operands, said, 0)
    return _Logic(x, y, other, z, operands, triples, sizes)


def _logical(of: Sentence, logic: _Logic) -> Slots:
    """Letters and groups of letters, what joins them, and one of the answers."""
    pool = shared()
    x, y, other, z, operands, triples, sizes = logic
    coin = of.drawn("coin") == 1
    either = jnp.select([z == x, z == other], [other, x], jnp.where(coin, x, other))
    shown = jnp.where(sizes > 0, cut(pool.triples[0] + (3 << 8) * triples, sizes), 0)
    one = word(of.seed, _QUESTIONS + of.question * _PER_QUESTION + 23)
    letters = jnp.stack([x, y, other, z, jnp.where(coin, x, y), either, other])
    # One link fewer than there are operands.
    linked = jnp.where(np.arange(1, 4) < operands, 1, 0)
    return [
        (("lead",), 0 if of.corrected else pool.token(" ")),
        (("x", "y", "y2", "z", "x_or_y", "x_or_y2", "other"), pool.letter(letters)),
        (("o",), shown[below(one, operands)]),
        (("o0", "o1", "o2", "o3"), shown),
        (("and0", "and1", "and2"), linked * pool.token(" and ")),
        (("or0", "or1", "or2"), linked * pool.token(" or ")),
    ]


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
    k = of.drawn("k0", "k1", "k2", "k3") + _OTHER + ord("a")
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


def _sequences(of: Sentence, pair: jax.Array) -> tuple[Slots, dict[str, jax.Array]]:
    """A pair of the instance's map, two neighbours in its sequence; its number, and all there are.

    The latter are `key` and `keys`; see `conversation.Asked`.
    """
    pool = shared()
    sequence, backwards = of.drawn("sequence"), of.drawn("backwards") > 0
    sizes = np.array([len(s) for s in SEQUENCES], np.int32)
    last = jnp.asarray(sizes)[sequence] - 1
    place = below(word(of.seed, _QUESTIONS + of.question * _PER_QUESTION + 5), last)
    rows = [[pool.token(s[min(i, len(s) - 1)]) for i in range(10)] for s in SEQUENCES]
    two = place + np.array([0, 1])
    two = jnp.asarray(np.array(rows, np.int32))[sequence, jnp.where(backwards, last - two, two)]
    mapping = of.has_template("map")
    keys = (1 << jnp.where(mapping, 8, last)) - 1
    slots: Slots = [
        (("key", "value"), jnp.asarray(pool.vocabulary[:FREQUENT])[pair]),
        (("n", "n_next"), two),
    ]
    return slots, {"key": jnp.where(mapping, of.drawn("key"), place), "keys": keys}


def commands(of: Sentence, places: jax.Array | None = None) -> Slots:
    """Commands by their names, by synonyms, or by new names that are announced.

    Args:
      of: the question.
      places: `int32[4]`, of the new names among frequent words, if they are known.
    """
    pool = shared()
    places = _places(of)[2:] if places is None else places
    synonyms, hints = of.is_kind("micro19"), of.is_kind("micro20")
    plain = pool.vocabulary[pool.plain[FREQUENT : 2 * FREQUENT]]
    new, old = jnp.asarray(plain)[places], _tokens(*COMMANDS)
    groups = [SYNONYMS[name] for name in COMMANDS]
    table = [[pool.token(g[i % len(g)]) for i in range(12)] for g in groups]
    drawn = of.drawn(*(f"synonym{i}" for i in range(4)))
    synonym = jnp.asarray(np.array(table, np.int32))[np.arange(4), drawn]
    # Which commands a template has: the first, and for union and exclude a second one.
    seconds = {"union": 2, "exclude": 3, "next letter": 1}
    second = jnp.asarray(np.array([seconds.get(name, 0) for name in TEMPLATES], np.int32))
    second = second[of.template]
    only = (second == 1) | (second == 0)
    first = only | (of.drawn("command") == 0)
    chosen = jnp.where(first, jnp.where(second == 1, 1, 0), second)
    replaced = hints & (np.arange(4) == chosen)
    announced = [new[chosen], pool.token(" is as "), old[chosen], pool.token(" - ")]
    return [
        (COMMANDS, jnp.where(synonyms, synonym, jnp.where(replaced, new, old))),
        (("new", "is_as", "old", "dash"), jnp.where(hints, row_of(*announced), 0)),
    ]
