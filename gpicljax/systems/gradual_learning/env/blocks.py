"""Questions of blocks1 to blocks10: conversations about objects and where they are.

What a task set asks is said in `ladders.BLOCKS`.

Source: the challenge's document, section A.1.6.2.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.systems.gradual_learning.env import ladders, tasks
from gpicljax.systems.gradual_learning.env.conversation import Asked, asked_exactly
from gpicljax.systems.gradual_learning.env.hashing import Seed, below, word
from gpicljax.systems.gradual_learning.env.ladders import COUNT, OBJECT, TURNS, WHETHER
from gpicljax.systems.gradual_learning.env.pool import row_of, shared

SIZES = ("SMALL", "LARGE")
COLOURS = ("RED", "GREEN", "BLUE", "YELLOW")
SHAPES = ("CUBE", "BALL", "CONE", "RING")
PLACES = ("table", "shelf", "floor")
KINDS = ("size", "colour", "shape")
YES, NO = "yes", "no, "
"""What is said to answers: the right one follows the latter."""
_OBJECTS, _NAMES = 3, (SIZES, COLOURS, SHAPES)
_LONGEST = max(len(names) for names in _NAMES)
_MEMORY = 16
"""How many questions back an object is looked for, where the world lasts."""


# Numbers of an instance's draws; those of what happens come after those of what is asked.
_QUESTIONS, _EVENTS, _PER_QUESTION = 0x1000, 0x100000, 16


def _pairs() -> list[tuple[int, int]]:
    return list(itertools.combinations(range(len(PLACES)), 2))


def texts() -> list[str]:
    """All texts that questions and feedback are made of."""
    names = [name for kind in _NAMES for name in kind]
    return [
        *(text for name in names for text in (name, name + " ", " " + name)),
        *(f" on {place}{end}" for place in PLACES for end in (", ", ". ", "?")),
        *(f"see: {place}. " for place in PLACES),
        *(f"swap: {PLACES[a]} {PLACES[b]}. " for a, b in _pairs()),
        *(f"{kind}?" for kind in (*KINDS, "object")),
        *("see: ", "put: ", ". ", "is: ", "count: ", "?", "describe: object?", "and?"),
        *("yes", "no", "0", "1", "2", "3", ".", YES, NO),
    ]


@functools.cache
def _columns() -> dict[str, np.ndarray]:
    names = [name for name in ladders.Conversations._fields if name != "title"]
    return {
        n: np.array([int(getattr(rung, n)) for rung in ladders.BLOCKS], np.int32) for n in names
    }


def _row(form: str, items: Any) -> jax.Array:
    """Tokens of a text with each of some words in it."""
    return jnp.asarray(np.array([shared().token(form.format(x)) for x in items], np.int32))


def _table(form: str) -> jax.Array:
    """Tokens of the attributes' names in a text, `int32[3, 4]`; short rows go round."""
    rows = [[shared().token(form.format(n[i % len(n)])) for i in range(_LONGEST)] for n in _NAMES]
    return jnp.asarray(np.array(rows, np.int32))


def _things(u: jax.Array) -> jax.Array:
    """Attributes of an object by a draw each, `int32[..., 3]`."""
    sizes = jnp.asarray(np.array([len(names) for names in _NAMES], np.int32))
    return below(u[..., None] >> np.array([4, 12, 20], np.uint32), sizes)


def _events(seed: Seed, numbers: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What is put, `int32[N, 3]`, and where, `int32[N]`, in a world that lasts, by its number."""
    where = below(word(seed, _EVENTS + 2 * numbers), len(PLACES))
    where = jnp.where(numbers < len(PLACES), numbers, where)
    return _things(word(seed, _EVENTS + 2 * numbers + 1)), where


def _begin() -> jax.Array:
    """What questions of each rung begin with, tokens."""
    texts = [("see: ", "put: ")[rung.placed] for rung in ladders.BLOCKS]
    return _row("{}", texts)


def first_token(task: jax.Array, corrected: bool) -> jax.Array:
    """The token that an instance's first question begins with."""
    return _begin()[jnp.asarray(tasks.table(corrected)["code"])[task] % len(ladders.BLOCKS)]


def ask(seed: Seed, task: jax.Array, question: jax.Array, corrected: bool) -> Asked:
    """A question: what is the case, and what is asked about it.

    Args:
      seed: the instance's.
      task: `int32[]`, index of the task set.
      question: `int32[]`, its number in the instance.
      corrected: it makes no difference here.
    """
    pool = shared()
    code = jnp.asarray(tasks.table(corrected)["code"])[task]
    rung = {name: jnp.asarray(column)[code] for name, column in _columns().items()}
    asks, lasts, placed = rung["asks"], rung["lasts"] == 1, rung["placed"] == 1
    turns = asks == TURNS
    turn = jnp.where(turns, question % 3, 0)
    event = jnp.where(turns, question // 3, question)
    u = word(seed, _QUESTIONS + event * _PER_QUESTION + np.arange(_PER_QUESTION))

    # What is the case: objects at different places, or what the last event was.
    latest, recent = _events(seed, jnp.maximum(event - np.arange(_MEMORY), 0))
    first = below(u[0], len(PLACES))
    places = (first + jnp.arange(_OBJECTS) * (1 + below(u[1], 2))) % len(PLACES)
    places = jnp.where(lasts, recent[0], places)
    things = jnp.where(lasts, latest[0], _things(u[2:5]))
    count = rung["objects"]
    swapped = rung["swapped"] == 1
    exchange = below(u[5], len(_pairs()))
    pair = jnp.asarray(np.array(_pairs(), np.int32))[exchange]
    moved = jnp.where(places == pair[0], pair[1], jnp.where(places == pair[1], pair[0], places))

    # Where is looked, and what is there.
    seen = jnp.where(lasts, below(u[6], jnp.minimum(event + 1, len(PLACES))), 0)
    known = (recent == seen) & (event >= np.arange(_MEMORY))
    seen, known = jnp.where(known.any(), seen, recent[0]), known | ~known.any()
    which = below(u[6], count)
    place = jnp.where(lasts, seen, jnp.where(swapped, moved, places)[which])
    thing = jnp.where(lasts, latest[jnp.argmax(known)], things[which])

    # Whether something is so: of an attribute's value, or of another one; and how many are.
    kinds = jnp.minimum(rung["named"], len(KINDS))
    kind = len(KINDS) - 1 - below(u[7], kinds)
    options = jnp.asarray(np.array([len(names) for names in _NAMES], np.int32))[kind]
    other = (thing[kind] + 1 + below(u[8], options - 1)) % options
    so = (asks != WHETHER) | (below(u[9], 2) == 0)
    value = jnp.where(so, thing[kind], other)
    number = ((things[:, kind] == value) & (jnp.arange(_OBJECTS) < count)).sum(dtype=jnp.int32)

    say, behind, before = _table("{}"), _table("{} "), _table(" {}")
    looks = placed & ((asks == OBJECT) | turns)
    text: list[Any] = [_begin()[code]]
    for i in range(_OBJECTS):
        there, last = i < count, i == count - 1
        # The shape comes last, and where less is named, alone.
        for k in range(len(KINDS) - 1):
            named = there & (k >= len(KINDS) - rung["named"])
            text.append(jnp.where(named, behind[k][things[i, k]], 0))
        text.append(jnp.where(there, say[-1][things[i, -1]], 0))
        ends = jnp.stack([_row(" on {}, ", PLACES), _row(" on {}. ", PLACES)])
        end = jnp.where(placed, jnp.where(last, ends[1], ends[0])[places[i]], pool.token(". "))
        text.append(jnp.where(there, end, 0))
    swaps = [f"{PLACES[a]} {PLACES[b]}" for a, b in _pairs()]
    text.append(jnp.where(swapped, _row("swap: {}. ", swaps)[exchange], 0))
    text.append(jnp.where(looks, _row("see: {}. ", PLACES)[place], 0))
    asked = jnp.stack(
        [
            _row("{}?", KINDS)[kind],
            jnp.asarray(pool.token("object?"), jnp.int32),
            jnp.asarray(pool.token("is: "), jnp.int32),
            jnp.asarray(pool.token("count: "), jnp.int32),
            jnp.asarray(pool.token("describe: object?"), jnp.int32),
        ]
    )[asks]
    about = (asks == WHETHER) | (asks == COUNT)
    tail = jnp.where(asks == WHETHER, _row(" on {}?", PLACES)[place], pool.token("?"))
    text += [asked, jnp.where(about, say[kind, value], 0), jnp.where(about, tail, 0)]
    goes_on = turn > 0
    goes_on_with = row_of(pool.token("and?"), np.zeros(len(text) - 1))
    row = jnp.where(goes_on, goes_on_with, row_of(*text))

    # The answer: shape, size and colour, or one of them.
    order = jnp.asarray(np.array([2, 0, 1], np.int32))
    spoken = jnp.where(turns, order[turn], kind)
    verdict = jnp.where(so, pool.token("yes"), pool.token("no"))
    numbers = _row("{}", range(_OBJECTS + 1))
    whole = asks == OBJECT
    begin = jnp.select(
        [whole, asks == WHETHER, asks == COUNT],
        [say[2][thing[2]], verdict, numbers[number]],
        say[spoken, thing[spoken]],
    )
    answer = [begin, *(jnp.where(whole, before[k][thing[k]], 0) for k in (0, 1))]
    return asked_exactly(row, row_of(*answer), tasks.YES_OR_NO)
