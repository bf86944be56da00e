"""Questions of micro6 to micro20: sentences from templates over one pool of bytes.

A template is a row of tokens, some of which are slots. All slots of a question are drawn from its
number, whichever of them its template has.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.envs.byte_stream import interpreter, tasks
from gpicljax.envs.byte_stream.hashing import Seed, below, permuted, word
from gpicljax.envs.byte_stream.interpreter import PATTERN, Asked
from gpicljax.envs.byte_stream.pool import FREQUENT, JOINTS, SYNONYMS, cut, length, shared, words

PAIRS = ("ab", "ac", "ad", "bc", "bd", "cd")
TRIPLES = ("abc", "acd", "adc", "bcd", "bda", "cdb")
_ONES = "zero one two three four five six seven eight nine"
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth"
_TENS = "ten twenty thirty forty fifty sixty seventy eighty ninety"
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
SEQUENCES = tuple(tuple(text.split()) for text in (_ONES, _ORDINALS, _TENS, _TEENS))
COMMANDS = ("say", "after", "union", "exclude")
"""The commands that have synonyms and occur in micro10, 11, 12 and 14."""

# What is said to an answer: before a right one, before a wrong one, whether the answer follows the
# former.
_FEEDBACK = {
    tasks.GOOD_JOB: ("good job! ", "wrong! ", False),
    tasks.CORRECT: ("correct! ", "false! ", True),
    tasks.GOOD_JOB_WITH: ("good job! ", "wrong! ", True),
    tasks.GOOD_JOB_UNFINISHED: ("good job! ", "wrong! ", False),
}
_ANNOUNCED = "{new}{is_as}{old}{dash}"
_SAY = "{say}: "

# Name: question, answer, feedback, what is accepted.
_EXACT = interpreter.EXACT
_TEMPLATES: dict[str, tuple[str, str, int, int]] = {
    "map": ("random_map: {key}.", "{value}.", tasks.GOOD_JOB, _EXACT),
    "letter": ("say: {a}.", "{a}.", tasks.CORRECT, _EXACT),
    "word": ("say: {w0}.", "{w0}.", tasks.CORRECT, _EXACT),
    "words": ("say: {w0} {w1}.", "{w0} {w1}.", tasks.CORRECT, _EXACT),
    "gaps": ("say: {g0}{a}{g1}{b}{g2}.", "{a}{h1}{b}{h2}.", tasks.CORRECT, _EXACT),
    "spell letter": ("spell: {a}.", "{a_}.", tasks.GOOD_JOB_WITH, _EXACT),
    "spell": ("spell: {w0}.", "{w0_}.", tasks.GOOD_JOB_WITH, _EXACT),
    "join": ("interleave: {w0} by {joint}.", "{joined}.", tasks.GOOD_JOB_WITH, _EXACT),
    "two": (
        f"{_ANNOUNCED}{_SAY}{{w0}} {_SAY}{{w1}}.",
        "{w0} {w1}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    "three": (
        f"{_ANNOUNCED}{_SAY}{{w0}} {_SAY}{{w1}} {_SAY}{{w2}}.",
        "{w0} {w1} {w2}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    **{
        name: (f"{_ANNOUNCED}{_SAY}{{p}} {_SAY}{{q}} {name}:.", answer, tasks.GOOD_JOB, _EXACT)
        for name, answer in (
            ("reverse", "{q} {p}."),
            ("concatenate", "{p}{q}."),
            ("interleave", "{p0}{q0}{p1}{q1}."),
        )
    },
    **{
        name: (f"{_ANNOUNCED}{_SAY}{{t}} {_SAY}{{c}} {{{name}}}:.", answer, tasks.GOOD_JOB, _EXACT)
        for name, answer in (("union", "{t}{c_new}."), ("exclude", "{t0}{t1}{t2}."))
    },
    "and": ("{lead}say: {x} and {y}.", "{x}{y}.", tasks.GOOD_JOB, interpreter.EXACT),
    "or": ("{lead}say: {x} or {y}.", "{x_or_y}.", tasks.GOOD_JOB, interpreter.ONE_OF),
    "not": (
        "{lead}say: anything and not {x}.",
        "{other}.",
        tasks.GOOD_JOB,
        interpreter.LACKING,
    ),
    "but not": (
        "{lead}say: {x} or {y2} but not {z}.",
        "{x_or_y2}.",
        tasks.GOOD_JOB,
        interpreter.ONE_OF,
    ),
    "ands": ("say: {o0}{and0}{o1}{and1}{o2}{and2}{o3}.", "{o0}{o1}{o2}{o3}.", tasks.GOOD_JOB, 0),
    "ors": (
        "say: {o0}{or0}{o1}{or1}{o2}{or2}{o3}.",
        "{o}.",
        tasks.GOOD_JOB,
        interpreter.CONTAINING,
    ),
    "next letter": (
        f"{_ANNOUNCED}{{after}} {{d}} comes what:.",
        "{e}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    "plain letter": ("say {a}.", "{a}.", tasks.CORRECT, _EXACT),
    "shorter": ("shorter: {w0} {w1}.", "{shorter}.", tasks.GOOD_JOB, _EXACT),
    "longer": ("longer: {w0} {w1}.", "{longer}.", tasks.GOOD_JOB, _EXACT),
    "shortest": ("shortest: {w0} {w1} {w2}.", "{shortest}.", tasks.GOOD_JOB, _EXACT),
    "longest": ("longest: {w0} {w1} {w2}.", "{longest}.", tasks.GOOD_JOB, _EXACT),
    "except": (
        "say: {w0} {w1} {w2} except {w_out}.",
        "{w_in0} {w_in1}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    "remove": ("remove: {p} from {k0}{k1}{p}{k2}.", "{k0}{k1}{k2}.", tasks.GOOD_JOB, _EXACT),
    "find": ("find: {p} in {k0}{k1}{q_or_p}{k2}.", "{found}.", tasks.GOOD_JOB, _EXACT),
    "remove all": (
        "remove all: {p} from {k0}{p}{k1}{p}{k2}.",
        "{k0}{k1}{k2}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    "count": (
        "count: {p} in {k0}{q_or_p}{k1}{p_or_q}{k2}.",
        "{times}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    "reverse, concatenate": (
        f"{_SAY}{{p}} {_SAY}{{q}} reverse: concatenate:.",
        "{q}{p}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    "reverse, interleave": (
        f"{_SAY}{{p}} {_SAY}{{q}} reverse: interleave:.",
        "{q0}{p0}{q1}{p1}.",
        tasks.GOOD_JOB,
        _EXACT,
    ),
    **{
        name: (f"say: {question}.", answer, tasks.GOOD_JOB, interpreter.CONTAINING)
        for name, question, answer in (
            ("and, or", "{k0} and {k1} or {k2}", "{k0}{k1}."),
            ("or, and", "{k0} or {k1} and {k2}", "{k1}{k2}."),
            ("and, or, and", "{k0} and {k1} or {k2} and {k3}", "{k2}{k3}."),
        )
    },
    "next word": ("say next after: {n}.", "{n_next}.", tasks.GOOD_JOB, _EXACT),
}
_IN_REFERENCE_UNFINISHED = ("not", "but not", "ors")
"""Templates whose answers the reference's feedback shows without their period."""

# For each kind of sentence, the templates it draws from: all equally likely.
_KINDS = {
    "micro6": ("map",),
    "micro7.1": ("letter",),
    "micro7.2": ("word",),
    "micro7.3": ("words",),
    "micro8": ("gaps",),
    "micro9.1": ("spell letter",),
    "micro9.2": ("spell",),
    "micro9.3": ("join",),
    "micro10": ("two", "three"),
    "micro11": ("reverse", "concatenate", "interleave"),
    "micro12": ("union", "exclude"),
    "micro13.1": ("and", "or", "not", "but not"),
    "micro13.2": ("ands", "ors"),
    "micro14": ("next letter",),
    "micro15": ("next word",),
    "micro7.1.plain": ("plain letter",),
    "micro8.1": ("gaps",),
    "micro8.2": ("gaps",),
    "micro8.3": ("gaps",),
    "micro9.2.growing": ("spell",),
    "micro9.4.1": ("shorter", "longer"),
    "micro9.4.2": ("shortest", "longest"),
    "micro9.4.3": ("except",),
    "micro9.4.4": ("remove",),
    "micro9.4.5": ("find",),
    "micro9.4.6": ("remove all",),
    "micro9.4.7": ("count",),
    "micro11.chained": ("reverse, concatenate", "reverse, interleave"),
    "micro13.2.mixed": ("and, or", "or, and", "and, or, and"),
}
# What is drawn for a whole instance of micro16, micro19 and micro20, and for each question of
# micro16.mixed.
_BASES = {
    "micro16": ("micro9.2", "micro10", "micro11", "micro12"),
    "micro16.mixed": ("micro9.2", "micro10", "micro11", "micro12"),
    "micro19": ("micro10", "micro11", "micro12", "micro14"),
    "micro20": ("micro10", "micro11", "micro12", "micro14"),
}

# Numbers of an instance's draws; a question's come after them.
_BASE, _REVERSED, _SEQUENCE, _KEYS, _VALUES, _NAMES = range(6)
_QUESTIONS, _PER_QUESTION = 0x8000, 32


@functools.cache
def _parsed() -> tuple[list[str], np.ndarray, np.ndarray]:
    """The names of slots, and templates of questions and answers as rows.

    A literal is its token, slot i is -1 - i.
    """
    slots: list[str] = []

    def row(template: str) -> list[int]:
        tokens = []
        for literal, slot in re.findall(r"([^{}]+)|\{(\w+)\}", template):
            if slot and slot not in slots:
                slots.append(slot)
            tokens.append(-1 - slots.index(slot) if slot else shared().token(literal))
        return tokens

    def rows(texts: list[str]) -> np.ndarray:
        made = [row(text) for text in texts]
        longest = max(map(len, made))
        return np.array([tokens + [0] * (longest - len(tokens)) for tokens in made], np.int32)

    questions = rows([template[0] for template in _TEMPLATES.values()])
    # An answer's period is its last token.
    answers = rows([template[1].removesuffix(".") for template in _TEMPLATES.values()])
    room = np.zeros((len(answers), interpreter.ANSWER - 1 - answers.shape[1]), np.int32)
    periods = np.full((len(answers), 1), shared().token("."), np.int32)
    answers = np.concatenate([answers, room, periods], -1)
    _before()
    return slots, questions, answers


def texts() -> list[str]:
    """All texts that sentences are made of, beside words, letters and gaps.

    Example:
      >>> "say: " in texts()
      True
    """
    _parsed()
    synonyms = [name for command in COMMANDS for name in SYNONYMS[command]]
    links = [" and ", " or ", " is as ", " - ", " "]
    sequences = [word for sequence in SEQUENCES for word in sequence]
    literals = [
        literal
        for template in _TEMPLATES.values()
        for text in template[:2]
        for literal in re.findall(r"[^{}]+(?![^{}]*\})", text)
    ]
    return [*synonyms, *links, *sequences, *JOINTS, *PAIRS, *TRIPLES, *literals, "true", "false"]


def _tokens(*texts: str) -> jax.Array:
    return jnp.asarray(np.array([shared().token(text) for text in texts], np.int32))


def _template(seed: Seed, kind: jax.Array, draw: jax.Array) -> jax.Array:
    """The template of a question, `int32[]`: drawn among its kind's, or its base's."""
    kinds, names = list(tasks.SENTENCE_KINDS), list(_TEMPLATES)
    bases = np.array(
        [[kinds.index(base) for base in _BASES.get(k, [k] * 4)] for k in kinds], np.int32
    )
    mixed = kind == kinds.index("micro16.mixed")
    base = jnp.asarray(bases)[kind, below(jnp.where(mixed, draw >> 8, word(seed, _BASE)), 4)]
    # Rows of twelve, which two, three and four divide.
    choices = [_KINDS.get(k, ("map",)) for k in kinds]
    rows = np.array([[names.index(c[i % len(c)]) for i in range(12)] for c in choices], np.int32)
    return jnp.asarray(rows)[base, below(draw, 12)]


def _slots(
    seed: Seed,
    kind: jax.Array,
    template: jax.Array,
    question: jax.Array,
    u: jax.Array,
    mended: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tokens of all slots, and what else is to be known of a question.

    Args:
      seed: the instance's.
      kind: `int32[]`, which of `tasks.SENTENCE_KINDS`.
      template: `int32[]`.
      question: `int32[]`, its number in the instance.
      u: `uint32[24]`, the question's draws.
      mended: see `ask`.
    """
    pool, names = shared(), list(_TEMPLATES)
    kinds = tasks.SENTENCE_KINDS
    letters = jnp.asarray(pool.letters)
    vocabulary = jnp.asarray(pool.vocabulary)
    synonyms, hints = kind == kinds.index("micro19"), kind == kinds.index("micro20")
    slots: dict[str, Any] = {}

    # Words.
    plain = jnp.asarray(pool.plain)
    drawn = below(u[1:4], jnp.where(synonyms | hints, len(pool.plain), len(pool.vocabulary)))
    drawn = jnp.where(synonyms | hints, plain[jnp.minimum(drawn, len(pool.plain) - 1)], drawn)
    # The shortest first: as many letters as questions were asked, and one.
    lengths = np.array([len(text) for text in words()])
    by_length = jnp.asarray(np.argsort(lengths, kind="stable").astype(np.int32))
    shorter = jnp.asarray((lengths[:, None] <= np.arange(1, 16)).sum(0).astype(np.int32))
    growing = kind == kinds.index("micro9.2.growing")
    easy = by_length[below(u[1], shorter[jnp.minimum(question, 14)])]
    drawn = jnp.where(growing, easy, drawn)
    # Three different ones where one of them is taken away.
    lone = template == names.index("except")
    count = len(pool.vocabulary)
    second = jnp.where(lone & (drawn[1] == drawn[0]), (drawn[1] + 1) % count, drawn[1])
    low, high = jnp.minimum(drawn[0], second), jnp.maximum(drawn[0], second)
    third = drawn[2] % (count - 2)
    third = third + (third >= low)
    third = jnp.where(lone, third + (third >= high), drawn[2])
    drawn = jnp.stack([drawn[0], second, third])
    three = vocabulary[drawn]
    slots |= {f"w{i}": three[i] for i in range(3)}
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
    joined = jnp.asarray(pool.joined)[joint, drawn[0]]
    slots |= {"joint": _tokens(*JOINTS)[joint], "joined": joined}

    # Letters and gaps.
    a, b = below(u[5], 26), below(u[6], 26)
    most = np.full(len(kinds), 6)
    most[[kinds.index(f"micro8.{i}") for i in (1, 2, 3)]] = 1, 2, 3
    gaps = below(u[7:10], jnp.asarray(most + 1)[kind])
    runs = jnp.asarray(pool.gaps)
    slots |= {"a": letters[a], "b": letters[b], "a_": jnp.asarray(pool.spaced)[a]}
    slots |= {f"g{i}": runs[gaps[i]] for i in range(3)}
    slots |= {f"h{i}": runs[jnp.minimum(gaps[i], 1)] for i in (1, 2)}
    d = below(u[5], 25)
    slots |= {"d": letters[d], "e": letters[d + 1]}

    # Short words and letters.
    p, q = below(u[10], 6), below(u[11], 6)
    of_pairs = jnp.asarray(np.array([[ord(x) - ord("a") for x in pair] for pair in PAIRS]))
    slots |= {"p": _tokens(*PAIRS)[p], "q": _tokens(*PAIRS)[q]}
    slots |= {f"p{i}": letters[of_pairs[p, i]] for i in range(2)}
    slots |= {f"q{i}": letters[of_pairs[q, i]] for i in range(2)}
    # Strings between letters that are in none of them.
    strange = 4 + below(u[19:23], 22)
    slots |= {f"k{i}": letters[strange[i]] for i in range(4)}
    here, there = below(u[12], 2) == 1, below(u[13], 2) == 1
    unlike = (p + 1 + below(u[11], 5)) % 6
    slots["q_or_p"] = _tokens(*PAIRS)[jnp.where(here, p, unlike)]
    slots["p_or_q"] = _tokens(*PAIRS)[jnp.where(there, p, unlike)]
    slots["found"] = _tokens("false", "true")[here.astype(jnp.int32)]
    slots["times"] = _tokens("0", "1", "2")[here.astype(jnp.int32) + there]
    c = below(u[11], 4)
    of_triples = jnp.asarray(np.array([[ord(x) - ord("a") for x in t] for t in TRIPLES]))[p]
    slots |= {"t": _tokens(*TRIPLES)[p], "c": letters[c]}
    slots["c_new"] = jnp.where((of_triples == c).any(), 0, letters[c])
    slots |= {f"t{i}": jnp.where(of_triples[i] == c, 0, letters[of_triples[i]]) for i in range(3)}

    # Logic.
    x, y = below(u[12], 5), below(u[13], 5)
    other = (x + 1 + below(u[14], 4)) % 5
    third = _third(x, other, below(u[15], 3))
    which = below(u[16], 3)
    z = jnp.select([which == 0, which == 1], [x, other], third)
    coin = below(u[17], 2) == 1
    either = jnp.select([z == x, z == other], [other, x], jnp.where(coin, x, other))
    slots["lead"] = jnp.int32(0 if mended else pool.token(" "))
    slots |= {"x": letters[x], "y": letters[y], "y2": letters[other], "z": letters[z]}
    slots |= {"x_or_y": letters[jnp.where(coin, x, y)], "other": letters[other]}
    slots["x_or_y2"] = letters[either]
    operands = 2 + below(u[18], 3)
    index = jnp.arange(4)
    which_triple = below(u[19:23], len(pool.triples))
    first = pool.triples[0] + (3 << 8) * which_triple
    sizes = jnp.where(index < operands, 1 + below(u[19:23] >> 16, 3), 0)
    shown = jnp.where(sizes > 0, cut(first, sizes), 0)
    slots |= {f"o{i}": shown[i] for i in range(4)}
    slots["o"] = shown[below(u[23], operands)]
    for text in ("and", "or"):
        token = pool.token(f" {text} ")
        slots |= {f"{text}{i}": jnp.where(i + 1 < operands, token, 0) for i in range(3)}

    # Maps and sequences.
    key = below(u[5], 8)
    pair = permuted(word(seed, np.array([_KEYS, _VALUES])), key, jnp.int32(FREQUENT))
    slots |= {"key": vocabulary[pair[0]], "value": vocabulary[pair[1]]}
    sequence = below(word(seed, _SEQUENCE), 4)
    backwards = below(word(seed, _REVERSED), 3) > 0
    sizes_of = np.array([len(s) for s in SEQUENCES], np.int32)
    last = jnp.asarray(sizes_of)[sequence] - 1
    place = below(u[5], last)
    rows = [[pool.token(s[min(i, len(s) - 1)]) for i in range(10)] for s in SEQUENCES]
    row = jnp.asarray(np.array(rows, np.int32))[sequence]
    slots["n"] = row[jnp.where(backwards, last - place, place)]
    slots["n_next"] = row[jnp.where(backwards, last - place - 1, place + 1)]
    mapping = template == names.index("map")
    key = jnp.where(mapping, key, place)
    keys = (1 << jnp.where(mapping, 8, last)) - 1

    # Commands, their synonyms, and new names for them.
    plain_tokens = vocabulary[plain[FREQUENT : 2 * FREQUENT]]
    new = plain_tokens[permuted(word(seed, _NAMES), jnp.arange(4), jnp.int32(FREQUENT))]
    old = _tokens(*COMMANDS)
    groups = [SYNONYMS[name] for name in COMMANDS]
    table = [[pool.token(g[i % len(g)]) for i in range(12)] for g in groups]
    drawn = below(u[4] >> np.array([0, 4, 8, 12], np.uint32), 12)
    synonym = jnp.asarray(np.array(table, np.int32))[jnp.arange(4), drawn]
    # Which commands a template has: the first, and for union and exclude a second one.
    seconds = {"union": 2, "exclude": 3, "next letter": 1}
    second = jnp.asarray(np.array([seconds.get(name, 0) for name in names], np.int32))[template]
    only = (second == 1) | (second == 0)
    chosen = jnp.where(only | (below(u[17] >> 1, 2) == 0), jnp.where(second == 1, 1, 0), second)
    replaced = hints & (jnp.arange(4) == chosen)
    said = jnp.where(synonyms, synonym, jnp.where(replaced, new, old))
    slots |= {name: said[i] for i, name in enumerate(COMMANDS)}
    slots["new"], slots["old"] = jnp.where(hints, new[chosen], 0), jnp.where(hints, old[chosen], 0)
    slots["is_as"] = jnp.where(hints, pool.token(" is as "), 0)
    slots["dash"] = jnp.where(hints, pool.token(" - "), 0)

    # Acceptors.
    def one(*indices: Any) -> jax.Array:
        text = [i + ord("a") for i in indices] + [ord("."), 0]
        return jnp.stack([jnp.asarray(x, jnp.int32) for x in text[:3]])

    def four(first: jax.Array, second: jax.Array, without: Any) -> jax.Array:
        made = jnp.stack([one(first), one(second), one(first, second), one(second, first)])
        has = (made == without + ord("a")).any(-1, keepdims=True)
        return jnp.where(has, 0, made)

    contained = jnp.where(jnp.arange(3) < sizes[:, None], _letters_of(which_triple), 0)
    # The reference takes whatever is part of the answer.
    ending = jnp.stack([one(x, y), one(y), jnp.array([ord("."), 0, 0]), jnp.zeros(3, jnp.int32)])
    k = strange + ord("a")
    none = jnp.zeros((), k.dtype)
    rows = [[k[0], k[1], none, k[2], none, none], [k[0], none, none, k[1], k[2], none]]
    rows.append([k[0], k[1], none, k[2], k[3], none])
    either = [jnp.pad(jnp.stack(row).reshape(2, 3), ((0, 2), (0, 0))) for row in rows]
    pattern = jnp.select(
        [
            template == names.index(name)
            for name in ("and", "or", "but not", "not", "and, or", "or, and", "and, or, and")
        ],
        [
            *(ending, four(x, y, -1), four(x, other, z)),
            jnp.zeros((4, 3), jnp.int32) + x + ord("a"),
            *either,
        ],
        contained,
    )
    more = {"pattern": pattern.reshape(PATTERN), "key": key, "keys": keys}
    return slots, more


def _letters_of(number: jax.Array) -> jax.Array:
    """The bytes of three different letters, `int32[..., 3]`, by their number in order."""
    first, second, third = number // 600, number // 24 % 25, number % 24
    second = second + (second >= first)
    low, high = jnp.minimum(first, second), jnp.maximum(first, second)
    third = third + (third >= low)
    third = third + (third >= high)
    return jnp.stack([first, second, third], -1) + ord("a")


def _third(x: jax.Array, other: jax.Array, draw: jax.Array) -> jax.Array:
    """One of the three letters of five that are neither of these two."""
    low, high = jnp.minimum(x, other), jnp.maximum(x, other)
    draw = jnp.where(draw >= low, draw + 1, draw)
    return jnp.where(draw >= high, draw + 1, draw)


def ask(seed: Seed, task: jax.Array, question: jax.Array, mended: bool) -> Asked:
    """A question of the tasks with sentences.

    Args:
      seed: the instance's.
      task: `int32[]`, index of the task set.
      question: `int32[]`, its number in the instance.
      mended: without the reference's slips: spaces in front of micro13.1's questions, feedback
        without periods, and parts of answers that pass for the whole.
    """
    table = tasks.table(mended)
    kind = jnp.asarray(table["code"])[task]
    u = word(seed, _QUESTIONS + question * _PER_QUESTION + np.arange(24))
    template = _template(seed, kind, u[0])
    names, questions, answers = _parsed()
    slots, more = _slots(seed, kind, template, question, u, mended)
    values = jnp.stack([jnp.asarray(slots[name], jnp.int32) for name in names])
    row = jnp.asarray(np.concatenate([questions, answers], -1))[template]
    tokens = jnp.where(row < 0, values[jnp.maximum(-1 - row, 0)], row)
    acceptors = [row[3] for row in _TEMPLATES.values()]
    if not mended:
        acceptors[list(_TEMPLATES).index("and")] = interpreter.ONE_OF
    styles = [row[2] for row in _TEMPLATES.values()]
    if not mended:
        for name in _IN_REFERENCE_UNFINISHED:
            styles[list(_TEMPLATES).index(name)] = tasks.GOOD_JOB_UNFINISHED
    row = jnp.asarray(np.array([acceptors, styles], np.int32))[:, template]
    width = questions.shape[1]
    return Asked(
        text=[tokens[i] for i in range(width)],
        answer=[tokens[width + i] for i in range(interpreter.ANSWER)],
        pattern=more["pattern"].astype(jnp.uint8),
        acceptor=row[0],
        style=row[1],
        key=more["key"],
        keys=more["keys"],
    )


def first_token(seed: Seed, task: jax.Array, question: jax.Array, mended: bool) -> jax.Array:
    """The token that a question begins with.

    It is one of few slots, or none: compilers leave out how the others are drawn.
    """
    kind = jnp.asarray(tasks.table(mended)["code"])[task]
    u = word(seed, _QUESTIONS + question * _PER_QUESTION + np.arange(24))
    template = _template(seed, kind, u[0])
    names, questions, _ = _parsed()
    slots, _ = _slots(seed, kind, template, question, u, mended)
    rows = questions[:, : _ANNOUNCED.count("{") + 1]
    # Only what is announced, and a lead, may be empty.
    empty = [names.index(name) for name in ("lead", "new", "is_as", "old", "dash")]
    certain = ~np.isin(-1 - rows, empty)
    rows = np.where(np.cumsum(certain, -1) - certain == 0, rows, 0)
    token = jnp.zeros((), jnp.int32)
    for place in range(rows.shape[1]):
        row = jnp.asarray(rows[:, place])[template]
        each = row
        for slot in {int(-1 - x) for x in rows[:, place] if x < 0}:
            each = jnp.where(row == -1 - slot, slots[names[slot]], each)
        token = jnp.where(token == 0, each, token)
    return token


@functools.cache
def _before() -> np.ndarray:
    return np.array(
        [[shared().token(t) for t in _FEEDBACK[s][:2]] for s in sorted(_FEEDBACK)], np.int32
    )


def before_feedback(style: jax.Array, correct: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What is said in front of an answer that is told, a token; and whether it is, `bool[]`."""
    which = jnp.clip(style - tasks.GOOD_JOB, 0, len(_FEEDBACK) - 1)
    tells = jnp.asarray(np.array([_FEEDBACK[s][2] for s in sorted(_FEEDBACK)]))[which]
    return jnp.asarray(_before())[which, (~correct).astype(jnp.int32)], tells | ~correct
