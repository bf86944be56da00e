"""The slots of a sentence, drawn from its number.

All slots of a question are drawn, whether its template has them or not: each function below draws
those that belong together, as tokens by the slots' names.
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
from gpicljax.systems.gradual_learning.env.conversation import PATTERN, QuestionSource
from gpicljax.systems.gradual_learning.env.hashing import Seed, below, permute, word
from gpicljax.systems.gradual_learning.env.pool import (
    FREQUENT,
    JOINTS,
    SYNONYMS,
    length,
    row_of,
    shared_pool,
    token_prefix,
    words,
)
from gpicljax.systems.gradual_learning.env.templates import (
    COMMANDS,
    PAIRS,
    SENTENCE_KINDS,
    SENTENCES,
    SEQUENCES,
    TEMPLATES,
    TRIPLES,
)

Slots = list[tuple[tuple[str, ...], Any]]
"""Names of slots, and `int32[N]` tokens of as many."""

# Numbers of an instance's draws; a question's come after them.
_BASE_DRAW, _REVERSED_DRAW, _SEQUENCE_DRAW, _KEY_DRAW, _VALUE_DRAW, _NAME_DRAW = range(6)
_QUESTION_DRAWS, _PER_QUESTION = 0x8000, 32


@functools.cache
def _draw_plan() -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """Names of the draws; index, right shift and number of outcomes of each.

    `sizes: int32[kinds, N]` are the numbers of outcomes. `fixed` marks draws of an instance.
    """
    pool, kinds = shared_pool(), SENTENCE_KINDS
    instance = {
        "base": (_BASE_DRAW, 0, 4),
        "backwards": (_REVERSED_DRAW, 0, 3),
        "sequence": (_SEQUENCE_DRAW, 0, 4),
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
    for place, kind in enumerate(SENTENCES.values()):
        if 12 % len(kind.templates):
            sizes[place, names.index("template")] = len(kind.templates)
    for kind in ("micro19", "micro20"):
        sizes[kinds.index(kind), [names.index(f"word{i}") for i in range(3)]] = len(pool.plain)
    for most in (1, 2, 3):
        row = kinds.index(f"micro8.{most}")
        sizes[row, [names.index(f"gap{i}") for i in range(3)]] = most + 1
    fixed = np.arange(len(names)) < len(instance)
    return names, {"number": number, "shift": shift, "sizes": sizes, "fixed": fixed}


class Sentence(NamedTuple):
    """A question and the draws that fill its slots.

    Attributes:
      seed: the seed of the instance.
      kind: `int32[]`, index in `templates.SENTENCE_KINDS`.
      template: `int32[]`, index in `TEMPLATES`.
      question: `int32[]`, its number in the instance.
      draws: `int32[N]`, see `_draw_plan`.
      corrected: see `sentences.ask`.
    """

    seed: Seed
    kind: jax.Array
    template: jax.Array
    question: jax.Array
    draws: jax.Array
    corrected: bool

    def is_kind(self, name: str) -> jax.Array:
        """Returns whether it is of this kind, `bool[]`."""
        return self.kind == SENTENCE_KINDS.index(name)

    def has_template(self, name: str) -> jax.Array:
        """Returns whether it has this template, `bool[]`."""
        return self.template == list(TEMPLATES).index(name)

    def outcomes(self, *names: str) -> jax.Array:
        """Returns the outcomes of these draws, `int32[N]`; of a single one `int32[]`."""
        indices = [_draw_plan()[0].index(name) for name in names]
        if len(indices) == 1:
            return self.draws[indices[0]]
        if indices == list(range(indices[0], indices[0] + len(indices))):
            return self.draws[indices[0] : indices[-1] + 1]
        return self.draws[np.array(indices)]


def draw_sentence(source: QuestionSource, corrected: bool, composition: str = "all") -> Sentence:
    """Draws the sentence of this number; arguments as of `sentences.ask`."""
    seed, question = source.seed, source.number
    kind = jnp.asarray(tasks.table(corrected)["code"])[source.task]
    names, plan = _draw_plan()
    base = _QUESTION_DRAWS + question * _PER_QUESTION
    bits = word(seed, jnp.where(plan["fixed"], 0, base) + plan["number"])
    sizes = jnp.asarray(plan["sizes"])[kind]
    # The shortest first: as many letters as questions were asked, and one.
    growing = kind == SENTENCE_KINDS.index("micro9.2.growing")
    first = growing & (np.arange(len(names)) == names.index("word0"))
    sizes = jnp.where(first, jnp.asarray(_words_by_length()[1])[jnp.minimum(question, 14)], sizes)
    draws = below(bits >> plan["shift"].astype(np.uint32), sizes)
    sentence = Sentence(seed, kind, kind, question, draws, corrected)
    sentence = sentence._replace(template=_draw_template(sentence))
    if composition == "all":
        return sentence
    return sentence._replace(draws=_compose_operands(sentence, bits[names.index("q")], composition))


def _compose_operands(sentence: Sentence, bits: jax.Array, composition: str) -> jax.Array:
    """Returns the draws with second operands that go with the operation and the first operand."""
    rows, counts = second_operands(composition)
    templates = list(TEMPLATES)
    numbers = np.full(len(templates), -1)
    numbers[[templates.index(name) for name in OPERATIONS]] = np.arange(len(OPERATIONS))
    operation, first = jnp.asarray(numbers)[sentence.template], sentence.outcomes("p")
    index = below(bits, jnp.asarray(counts)[operation, first])
    second = jnp.asarray(rows)[operation, first, index]
    names = _draw_plan()[0]
    is_second = np.isin(np.arange(len(names)), [names.index("q"), names.index("c")])
    return jnp.where(is_second & (operation >= 0), second, sentence.draws)


@functools.cache
def _words_by_length() -> tuple[np.ndarray, np.ndarray]:
    """Returns words' numbers, the shortest first, and how many have at most 1 .. 15 letters."""
    lengths = np.array([len(text) for text in words()])
    shorter = (lengths[:, None] <= np.arange(1, 16)).sum(0)
    return np.argsort(lengths, kind="stable").astype(np.int32), shorter.astype(np.int32)


def _draw_template(sentence: Sentence) -> jax.Array:
    """Returns the template of a question, `int32[]`, drawn among those of its kind or its base."""
    kinds, names = list(SENTENCES), list(TEMPLATES)
    bases = [[kinds.index(x) for x in row.bases or [kind] * 4] for kind, row in SENTENCES.items()]
    is_mixed = sentence.is_kind("micro16.mixed")
    choice = jnp.where(is_mixed, sentence.outcomes("base of question"), sentence.outcomes("base"))
    base = jnp.asarray(np.array(bases, np.int32))[sentence.kind, choice]
    # Rows of which the first entries are drawn: twelve, or as many as there are templates.
    cycles = [(36 * row.templates)[:36] for row in SENTENCES.values()]
    rows = np.array([[names.index(name) for name in cycle] for cycle in cycles], np.int32)
    return jnp.asarray(rows)[base, sentence.outcomes("template")]


def fill_slots(sentence: Sentence) -> tuple[tuple[str, ...], jax.Array, dict[str, jax.Array]]:
    """Returns the names of all slots, their tokens, and the other fields of a question.

    These are `pattern: int32[PATTERN]`, `key` and `keys: int32[]`; see `Question`.
    """
    logic = _draw_logic(sentence)
    places = _word_places(sentence)
    sequences, fields = _sequence_slots(sentence, places[:2])
    parts: tuple[Callable[[Sentence], Slots], ...] = (
        _word_slots,
        _letter_slots,
        _short_word_slots,
        _string_slots,
        _set_slots,
    )
    slots = [*sequences, *_logic_slots(sentence, logic), *command_slots(sentence, places[2:])]
    for part in parts:
        slots += part(sentence)
    names = tuple(name for group, _ in slots for name in group)
    return (
        names,
        row_of(*(row for _, row in slots)),
        {"pattern": _accepted_patterns(sentence, logic)} | fields,
    )


def _word_places(sentence: Sentence) -> jax.Array:
    """Returns places among the frequent words of a map's pair and of new names, `int32[6]`."""
    seeds = word(sentence.seed, np.array([_KEY_DRAW, _VALUE_DRAW, *[_NAME_DRAW] * 4]))
    key = jnp.where(np.arange(6) < 2, sentence.outcomes("key"), np.array([0, 0, 0, 1, 2, 3]))
    return permute(seeds, key, jnp.int32(FREQUENT))


def _tokens(*texts: str) -> jax.Array:
    return jnp.asarray(np.array([shared_pool().token(text) for text in texts], np.int32))


# Words --------------------------------------------------------------------------------------------


def _word_slots(sentence: Sentence) -> Slots:
    """Returns three words, the one left out, the shortest, the longest, and one in pieces."""
    pool = shared_pool()
    numbers, out = _three_words(sentence), sentence.outcomes("out")
    table = np.stack([pool.vocabulary, pool.spelled, *pool.joined])
    rows = jnp.where(np.arange(5) < 4, np.array([0, 0, 0, 1, 0]), 2 + out)
    tokens = jnp.asarray(table)[rows, numbers[np.array([0, 1, 2, 0, 0])]]
    three = tokens[:3]
    remaining = jnp.stack([out, jnp.where(out == 0, 1, 0), jnp.where(out == 2, 1, 2)])
    # The first among words of equal length.
    signed = length(three) * np.array([[1], [-1]])
    longer = jnp.where(signed[:, 1] < signed[:, 0], 1, 0)
    best = jnp.where(longer == 1, signed[:, 1], signed[:, 0])
    best = jnp.stack([longer, jnp.where(signed[:, 2] < best, 2, longer)]).reshape(-1)
    return [
        (("w0", "w1", "w2", "w0_", "joined"), tokens),
        (("w_out", "w_in0", "w_in1"), three[remaining]),
        (("shorter", "longer", "shortest", "longest"), three[best]),
        (("joint",), _tokens(*JOINTS)[out]),
    ]


def _three_words(sentence: Sentence) -> jax.Array:
    """Returns the numbers of words in the vocabulary, `int32[3]`."""
    pool = shared_pool()
    is_simple = sentence.is_kind("micro19") | sentence.is_kind("micro20")
    numbers = sentence.outcomes("word0", "word1", "word2")
    plain = jnp.asarray(pool.plain)
    table = jnp.where(is_simple, plain[jnp.minimum(numbers, len(pool.plain) - 1)], numbers)
    numbers = jnp.where(
        sentence.is_kind("micro9.2.growing"), jnp.asarray(_words_by_length()[0])[numbers], table
    )
    # Three different ones where one of them is taken away.
    distinct = sentence.has_template("except")
    count = len(pool.vocabulary)
    second = jnp.where(distinct & (numbers[1] == numbers[0]), (numbers[1] + 1) % count, numbers[1])
    third = jnp.where(
        distinct, _number_except(numbers[0], second, numbers[2] % (count - 2)), numbers[2]
    )
    return jnp.stack([numbers[0], second, third])


def _number_except(first: jax.Array, second: jax.Array, draw: jax.Array) -> jax.Array:
    """Returns a number that is neither of these two, from its place among all such."""
    low, high = jnp.minimum(first, second), jnp.maximum(first, second)
    draw = draw + (draw >= low)
    return draw + (draw >= high)


# Letters and strings of them ----------------------------------------------------------------------


def _letter_slots(sentence: Sentence) -> Slots:
    """Returns letters, one and the next in the alphabet, and spaces between them."""
    pool = shared_pool()
    gaps = sentence.outcomes("gap0", "gap1", "gap2")
    numbers = sentence.outcomes("a", "b", "d", "d", "k0", "k1", "k2", "k3")
    return [
        (
            ("a", "b", "d", "e", "k0", "k1", "k2", "k3"),
            pool.letter(numbers + np.array([0, 0, 0, 1, *[_FIRST_OTHER_LETTER] * 4])),
        ),
        (("a_",), pool.letter_and_space(sentence.outcomes("a"))),
        (("g0", "g1", "g2"), pool.gap(gaps)),
        (("h1", "h2"), pool.gap(jnp.minimum(gaps[1:], 1))),
    ]


_FIRST_OTHER_LETTER = 4
"""The first letter that is in no short word."""


def _short_word_slots(sentence: Sentence) -> Slots:
    """Returns two short words and their letters."""
    number = sentence.outcomes("p", "q")
    letters_of_pairs = jnp.asarray(np.array([[ord(x) - ord("a") for x in pair] for pair in PAIRS]))
    letters = shared_pool().letter(letters_of_pairs[number]).reshape(-1)
    return [(("p", "q"), _tokens(*PAIRS)[number]), (("p0", "p1", "q0", "q1"), letters)]


def _string_slots(sentence: Sentence) -> Slots:
    """Returns short words among other letters, and whether and how often one occurs."""
    p, occurrences = sentence.outcomes("p"), sentence.outcomes("here", "there")
    absent = (p + 1 + sentence.outcomes("unlike")) % 6
    return [
        (("q_or_p", "p_or_q"), _tokens(*PAIRS)[jnp.where(occurrences == 1, p, absent)]),
        (("found",), _tokens("false", "true")[occurrences[0]]),
        (("times",), _tokens("0", "1", "2")[occurrences[0] + occurrences[1]]),
    ]


def _set_slots(sentence: Sentence) -> Slots:
    """Returns three letters, a further one if it is new to them, and the others without it."""
    pool, t, c = shared_pool(), sentence.outcomes("p"), sentence.outcomes("c")
    triples = np.array([[ord(x) - ord("a") for x in text] for text in TRIPLES])
    # Any three letters but those; half of the times and more the fourth is one of them.
    drawn = _triple_letters(sentence.outcomes("triple0")) - ord("a")
    drawn = jnp.where((drawn == triples).all(-1).any(), np.array([25, 24, 23]), drawn)
    is_one_of_them = sentence.outcomes("coin") == 1
    other = jnp.where(is_one_of_them, drawn[sentence.outcomes("which")], sentence.outcomes("a"))
    has_all = sentence.is_kind("micro12.letters")
    triple, c = jnp.where(has_all, drawn, jnp.asarray(triples)[t]), jnp.where(has_all, other, c)
    return [
        (("tA", "tB", "tC", "c"), pool.letter(jnp.append(triple, c))),
        (("c_new",), jnp.where((triple == c).any(), 0, pool.letter(c))),
        (("t0", "t1", "t2"), jnp.where(triple == c, 0, pool.letter(triple))),
    ]


# Logic --------------------------------------------------------------------------------------------


class _Logic(NamedTuple):
    """The letters of a logical question.

    Attributes:
      x: `int32[]`, one of the first five letters.
      y: `int32[]`, another draw of them.
      not_x: `int32[]`, one of them that is not x.
      z: `int32[]`, one of them, which is forbidden.
      operands: `int32[]`, the number of operands.
      triples: `int32[4]`, the numbers of their letters' triples in the pool.
      sizes: `int32[4]`, the number of letters of each triple; 0 beyond the operands.
    """

    x: jax.Array
    y: jax.Array
    not_x: jax.Array
    z: jax.Array
    operands: jax.Array
    triples: jax.Array
    sizes: jax.Array


def _draw_logic(sentence: Sentence) -> _Logic:
    x, y, choice = sentence.outcomes("x"), sentence.outcomes("y"), sentence.outcomes("which")
    not_x = (x + 1 + sentence.outcomes("other")) % 5
    z = jnp.select(
        [choice == 0, choice == 1], [x, not_x], _number_except(x, not_x, sentence.outcomes("third"))
    )
    operands = 2 + sentence.outcomes("operands")
    triples = sentence.outcomes(*(f"triple{i}" for i in range(4)))
    letters = 1 + sentence.outcomes(*(f"size{i}" for i in range(4)))
    sizes = jnp.where(np.arange(4) < operands, letters, 0)
    return _Logic(x, y, not_x, z, operands, triples, sizes)


def _logic_slots(sentence: Sentence, logic: _Logic) -> Slots:
    """Returns letters, groups of letters, their links, and one of the answers."""
    pool = shared_pool()
    x, y, not_x, z, operands, triples, sizes = logic
    coin = sentence.outcomes("coin") == 1
    either = jnp.select([z == x, z == not_x], [not_x, x], jnp.where(coin, x, not_x))
    groups = jnp.where(sizes > 0, token_prefix(pool.triples[0] + (3 << 8) * triples, sizes), 0)
    draw = word(sentence.seed, _QUESTION_DRAWS + sentence.question * _PER_QUESTION + 23)
    letters = jnp.stack([x, y, not_x, z, jnp.where(coin, x, y), either, not_x])
    # One link fewer than there are operands.
    has_link = jnp.where(np.arange(1, 4) < operands, 1, 0)
    return [
        (("lead",), 0 if sentence.corrected else pool.token(" ")),
        (("x", "y", "y2", "z", "x_or_y", "x_or_y2", "other"), pool.letter(letters)),
        (("o",), groups[below(draw, operands)]),
        (("o0", "o1", "o2", "o3"), groups),
        (("and0", "and1", "and2"), has_link * pool.token(" and ")),
        (("or0", "or1", "or2"), has_link * pool.token(" or ")),
    ]


def _accepted_patterns(sentence: Sentence, logic: _Logic) -> jax.Array:
    """Returns the accepted patterns of questions with several answers, `int32[PATTERN]`."""
    x, y, not_x, z, _, triples, sizes = logic

    def pattern(*indices: Any) -> jax.Array:
        text = [i + ord("a") for i in indices] + [ord("."), 0]
        return jnp.stack([jnp.asarray(x, jnp.int32) for x in text[:3]])

    def patterns_of_two(first: jax.Array, second: jax.Array, forbidden: Any) -> jax.Array:
        patterns = jnp.stack(
            [pattern(first), pattern(second), pattern(first, second), pattern(second, first)]
        )
        has_forbidden = (patterns == forbidden + ord("a")).any(-1, keepdims=True)
        return jnp.where(has_forbidden, 0, patterns)

    contained = jnp.where(jnp.arange(3) < sizes[:, None], _triple_letters(triples), 0)
    # The reference takes whatever is part of the answer.
    ending = jnp.stack(
        [pattern(x, y), pattern(y), jnp.array([ord("."), 0, 0]), jnp.zeros(3, jnp.int32)]
    )
    k = sentence.outcomes("k0", "k1", "k2", "k3") + _FIRST_OTHER_LETTER + ord("a")
    none = jnp.zeros((), k.dtype)
    either = {
        "and, or": [k[0], k[1], none, k[2], none, none],
        "or, and": [k[0], none, none, k[1], k[2], none],
        "and, or, and": [k[0], k[1], none, k[2], k[3], none],
    }
    patterns = {
        "and": ending,
        "or": patterns_of_two(x, y, -1),
        "but not": patterns_of_two(x, not_x, z),
        "not": jnp.zeros((4, 3), jnp.int32) + x + ord("a"),
        **{
            name: jnp.pad(jnp.stack(row).reshape(2, 3), ((0, 2), (0, 0)))
            for name, row in either.items()
        },
    }
    has = [sentence.has_template(name) for name in patterns]
    return jnp.select(has, list(patterns.values()), contained).reshape(PATTERN)


def _triple_letters(number: jax.Array) -> jax.Array:
    """Returns the bytes of three different letters, `int32[..., 3]`, by their number in order."""
    first, second, third = number // 600, number // 24 % 25, number % 24
    second = second + (second >= first)
    return jnp.stack([first, second, _number_except(first, second, third)], -1) + ord("a")


# Maps, sequences, commands ------------------------------------------------------------------------


def _sequence_slots(sentence: Sentence, pair: jax.Array) -> tuple[Slots, dict[str, jax.Array]]:
    """Returns a pair of the map and two neighbours of the sequence; their key and all keys.

    See `conversation.Question` for `key` and `keys`.
    """
    pool = shared_pool()
    sequence, backwards = sentence.outcomes("sequence"), sentence.outcomes("backwards") > 0
    sizes = np.array([len(s) for s in SEQUENCES], np.int32)
    last = jnp.asarray(sizes)[sequence] - 1
    place = below(
        word(sentence.seed, _QUESTION_DRAWS + sentence.question * _PER_QUESTION + 5), last
    )
    rows = [[pool.token(s[min(i, len(s) - 1)]) for i in range(10)] for s in SEQUENCES]
    neighbours = place + np.array([0, 1])
    neighbours = jnp.asarray(np.array(rows, np.int32))[
        sequence, jnp.where(backwards, last - neighbours, neighbours)
    ]
    is_map = sentence.has_template("map")
    keys = (1 << jnp.where(is_map, 8, last)) - 1
    slots: Slots = [
        (("key", "value"), jnp.asarray(pool.vocabulary[:FREQUENT])[pair]),
        (("n", "n_next"), neighbours),
    ]
    return slots, {"key": jnp.where(is_map, sentence.outcomes("key"), place), "keys": keys}


def command_slots(sentence: Sentence, places: jax.Array | None = None) -> Slots:
    """Returns commands by name, by synonym, or by a new name that is announced.

    Args:
      sentence: the question.
      places: `int32[4]`, of the new names among frequent words, if they are known.
    """
    pool = shared_pool()
    places = _word_places(sentence)[2:] if places is None else places
    has_synonyms, has_hint = sentence.is_kind("micro19"), sentence.is_kind("micro20")
    plain = pool.vocabulary[pool.plain[FREQUENT : 2 * FREQUENT]]
    new, old = jnp.asarray(plain)[places], _tokens(*COMMANDS)
    groups = [SYNONYMS[name] for name in COMMANDS]
    table = [[pool.token(g[i % len(g)]) for i in range(12)] for g in groups]
    outcomes = sentence.outcomes(*(f"synonym{i}" for i in range(4)))
    synonym = jnp.asarray(np.array(table, np.int32))[np.arange(4), outcomes]
    # A template has the first command, and for union and exclude a second one.
    seconds = {"union": 2, "exclude": 3, "next letter": 1}
    second = jnp.asarray(np.array([seconds.get(name, 0) for name in TEMPLATES], np.int32))
    second = second[sentence.template]
    has_one = (second == 1) | (second == 0)
    is_first = has_one | (sentence.outcomes("command") == 0)
    chosen = jnp.where(is_first, jnp.where(second == 1, 1, 0), second)
    replaced = has_hint & (np.arange(4) == chosen)
    announced = [new[chosen], pool.token(" is as "), old[chosen], pool.token(" - ")]
    return [
        (COMMANDS, jnp.where(has_synonyms, synonym, jnp.where(replaced, new, old))),
        (("new", "is_as", "old", "dash"), jnp.where(has_hint, row_of(*announced), 0)),
    ]
