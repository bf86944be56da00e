"""Questions of blocks1 to blocks10: conversations about objects and where they are.

What a task set asks is said in `templates.BLOCKS`.

Source: the challenge's document, section A.1.6.2.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.systems.gradual_learning.env import tasks, templates
from gpicljax.systems.gradual_learning.env.conversation import (
    Due,
    Question,
    QuestionSource,
    exact_question,
)
from gpicljax.systems.gradual_learning.env.hashing import Seed, below, word
from gpicljax.systems.gradual_learning.env.pool import row_of, shared_pool
from gpicljax.systems.gradual_learning.env.templates import COUNT, OBJECT, TURNS, WHETHER

SIZES = ("SMALL", "LARGE")
COLOURS = ("RED", "GREEN", "BLUE", "YELLOW")
SHAPES = ("CUBE", "BALL", "CONE", "RING")
PLACES = ("table", "shelf", "floor")
KINDS = ("size", "colour", "shape")
YES, NO = "yes", "no, "
"""Feedback on a right answer and on a wrong one, which the right one follows."""
_MOST_OBJECTS, _ATTRIBUTE_NAMES = 3, (SIZES, COLOURS, SHAPES)
_LONGEST = max(len(names) for names in _ATTRIBUTE_NAMES)
_EVENT_WINDOW = 16
"""Number of latest events among which an object is searched in a lasting world."""


# Numbers of an instance's draws; those of what happens come after those of what is asked.
_FIRST_QUESTION_DRAW, _EVENT_DRAWS, _DRAWS_PER_QUESTION = 0x1000, 0x100000, 16


def _pairs() -> list[tuple[int, int]]:
    return list(itertools.combinations(range(len(PLACES)), 2))


def texts() -> list[str]:
    """Returns all texts that questions and feedback are made of."""
    names = [name for kind in _ATTRIBUTE_NAMES for name in kind]
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
    names = [name for name in templates.Conversations._fields if name != "title"]
    return {
        n: np.array([int(getattr(rung, n)) for rung in templates.BLOCKS], np.int32) for n in names
    }


def _format_tokens(form: str, items: Any) -> jax.Array:
    """Returns tokens of a text with each of some words in it."""
    return jnp.asarray(np.array([shared_pool().token(form.format(x)) for x in items], np.int32))


def _attribute_tokens(form: str) -> jax.Array:
    """Returns tokens of the attributes' names in a text, `int32[3, 4]`; short rows repeat."""
    rows = [
        [shared_pool().token(form.format(n[i % len(n)])) for i in range(_LONGEST)]
        for n in _ATTRIBUTE_NAMES
    ]
    return jnp.asarray(np.array(rows, np.int32))


def _draw_objects(u: jax.Array) -> jax.Array:
    """Returns the attributes of an object by a draw each, `int32[..., 3]`."""
    sizes = jnp.asarray(np.array([len(names) for names in _ATTRIBUTE_NAMES], np.int32))
    return below(u[..., None] >> np.array([4, 12, 20], np.uint32), sizes)


def _events(seed: Seed, numbers: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns objects, `int32[N, 3]`, and places, `int32[N]`, of a lasting world's events."""
    places = below(word(seed, _EVENT_DRAWS + 2 * numbers), len(PLACES))
    places = jnp.where(numbers < len(PLACES), numbers, places)
    return _draw_objects(word(seed, _EVENT_DRAWS + 2 * numbers + 1)), places


def _first_tokens() -> jax.Array:
    """Returns the first token of each rung's questions."""
    texts = [("see: ", "put: ")[rung.placed] for rung in templates.BLOCKS]
    return _format_tokens("{}", texts)


def first_token(task: jax.Array, corrected: bool) -> jax.Array:
    """Returns the token that an instance's first question begins with."""
    code = jnp.asarray(tasks.table(corrected)["code"])[task]
    return _first_tokens()[code % len(templates.BLOCKS)]


class Scene(NamedTuple):
    """A scene and what is asked about it, `int32[]` where nothing else is said.

    Attributes:
      code: the rung, an index of `templates.BLOCKS`.
      query: what is asked.
      turn: number of the question about this scene.
      named: attributes that are named.
      placed: `bool[]`, whether places are named.
      objects: `int32[3, 3]`, by object the value of each attribute.
      places: `int32[3]`, where they are at first.
      num_objects: objects that there are.
      swapped: `bool[]`, whether the objects of two places change places.
      exchange: the pair of places.
      place: the place that is asked about.
      target: `int32[3]`, the object there.
      kind: the attribute that is asked about.
      value: the value of it that is asked about.
      is_true: `bool[]`, whether the target has it.
    """

    code: jax.Array
    query: jax.Array
    turn: jax.Array
    named: jax.Array
    placed: jax.Array
    objects: jax.Array
    places: jax.Array
    num_objects: jax.Array
    swapped: jax.Array
    exchange: jax.Array
    place: jax.Array
    target: jax.Array
    kind: jax.Array
    value: jax.Array
    is_true: jax.Array


def ask(source: QuestionSource, corrected: bool) -> Question:
    """Returns a question: a scene, and a query about it."""
    scene = _draw_scene(source, corrected)
    return exact_question(_word_question(scene), _word_answer(scene), templates.YES_OR_NO)


def _draw_scene(source: QuestionSource, corrected: bool) -> Scene:
    """Returns objects at different places, or those of the last events, and a query."""
    seed, question = source.seed, source.number
    code = jnp.asarray(tasks.table(corrected)["code"])[source.task]
    rung = {name: jnp.asarray(column)[code] for name, column in _columns().items()}
    query, world_lasts, count = rung["asks"], rung["lasts"] == 1, rung["objects"]
    turns = query == TURNS
    event = jnp.where(turns, question // 3, question)
    u = word(
        seed, _FIRST_QUESTION_DRAW + event * _DRAWS_PER_QUESTION + np.arange(_DRAWS_PER_QUESTION)
    )
    latest, recent = _events(seed, jnp.maximum(event - np.arange(_EVENT_WINDOW), 0))
    first = below(u[0], len(PLACES))
    places = (first + jnp.arange(_MOST_OBJECTS) * (1 + below(u[1], 2))) % len(PLACES)
    places = jnp.where(world_lasts, recent[0], places)
    objects = jnp.where(world_lasts, latest[0], _draw_objects(u[2:5]))
    swapped, exchange = rung["swapped"] == 1, below(u[5], len(_pairs()))
    pair = jnp.asarray(np.array(_pairs(), np.int32))[exchange]
    places_after = jnp.where(
        places == pair[0], pair[1], jnp.where(places == pair[1], pair[0], places)
    )

    # The place that is looked at, and the object there.
    looked_at = jnp.where(world_lasts, below(u[6], jnp.minimum(event + 1, len(PLACES))), 0)
    is_at_place = (recent == looked_at) & (event >= np.arange(_EVENT_WINDOW))
    looked_at = jnp.where(is_at_place.any(), looked_at, recent[0])
    is_at_place |= ~is_at_place.any()
    index = below(u[6], count)
    place = jnp.where(swapped, places_after, places)[index]

    # Whether something is so: of an attribute's value, or of another one.
    target = jnp.where(world_lasts, latest[jnp.argmax(is_at_place)], objects[index])
    kind = len(KINDS) - 1 - below(u[7], jnp.minimum(rung["named"], len(KINDS)))
    options = jnp.asarray(np.array([len(names) for names in _ATTRIBUTE_NAMES], np.int32))[kind]
    other_value = (target[kind] + 1 + below(u[8], options - 1)) % options
    is_true = (query != WHETHER) | (below(u[9], 2) == 0)
    return Scene(
        code=code,
        query=query,
        turn=jnp.where(turns, question % 3, 0),
        named=rung["named"],
        placed=rung["placed"] == 1,
        objects=objects,
        places=places,
        num_objects=count,
        swapped=swapped,
        exchange=exchange,
        place=jnp.where(world_lasts, looked_at, place),
        target=target,
        kind=kind,
        value=jnp.where(is_true, target[kind], other_value),
        is_true=is_true,
    )


def _word_question(scene: Scene) -> jax.Array:
    """Returns the tokens of a scene and of the query about it."""
    pool, query, count = shared_pool(), scene.query, scene.num_objects
    names, names_and_space = _attribute_tokens("{}"), _attribute_tokens("{} ")
    names_place = scene.placed & ((query == OBJECT) | (query == TURNS))
    text: list[Any] = [_first_tokens()[scene.code]]
    for i in range(_MOST_OBJECTS):
        is_used, last = i < count, i == count - 1
        # The shape comes last, and where less is named, alone.
        for k in range(len(KINDS) - 1):
            is_named = is_used & (k >= len(KINDS) - scene.named)
            text.append(jnp.where(is_named, names_and_space[k][scene.objects[i, k]], 0))
        text.append(jnp.where(is_used, names[-1][scene.objects[i, -1]], 0))
        ends = jnp.stack([_format_tokens(" on {}, ", PLACES), _format_tokens(" on {}. ", PLACES)])
        end = jnp.where(last, ends[1], ends[0])[scene.places[i]]
        text.append(jnp.where(is_used, jnp.where(scene.placed, end, pool.token(". ")), 0))
    swaps = [f"{PLACES[a]} {PLACES[b]}" for a, b in _pairs()]
    text.append(jnp.where(scene.swapped, _format_tokens("swap: {}. ", swaps)[scene.exchange], 0))
    text.append(jnp.where(names_place, _format_tokens("see: {}. ", PLACES)[scene.place], 0))
    others = ("object?", "is: ", "count: ", "describe: object?")
    others = (jnp.asarray(pool.token(words), jnp.int32) for words in others)
    about = (query == WHETHER) | (query == COUNT)
    tail = _format_tokens(" on {}?", PLACES)[scene.place]
    text += [
        jnp.stack([_format_tokens("{}?", KINDS)[scene.kind], *others])[query],
        jnp.where(about, names[scene.kind, scene.value], 0),
        jnp.where(about, jnp.where(query == WHETHER, tail, pool.token("?")), 0),
    ]
    follow_up = row_of(pool.token("and?"), np.zeros(len(text) - 1))
    return jnp.where(scene.turn > 0, follow_up, row_of(*text))


def _word_answer(scene: Scene) -> jax.Array:
    """Returns the tokens of the answer: shape, size and colour, one of them, or a fact."""
    pool, query, target = shared_pool(), scene.query, scene.target
    names, space_and_names = _attribute_tokens("{}"), _attribute_tokens(" {}")
    order = jnp.asarray(np.array([2, 0, 1], np.int32))
    attribute = jnp.where(query == TURNS, order[scene.turn], scene.kind)
    verdict = jnp.where(scene.is_true, pool.token("yes"), pool.token("no"))
    has_value = scene.objects[:, scene.kind] == scene.value
    number = (has_value & (jnp.arange(_MOST_OBJECTS) < scene.num_objects)).sum(dtype=jnp.int32)
    whole_object = query == OBJECT
    begin = jnp.select(
        [whole_object, query == WHETHER, query == COUNT],
        [names[2][target[2]], verdict, _format_tokens("{}", range(_MOST_OBJECTS + 1))[number]],
        names[attribute, target[attribute]],
    )
    answer = [begin, *(jnp.where(whole_object, space_and_names[k][target[k]], 0) for k in (0, 1))]
    return row_of(*answer)


def feedback(source: QuestionSource, style: jax.Array, due: Due) -> tuple[jax.Array, jax.Array]:
    """Returns feedback, see `refill.Family`."""
    del source, style
    yes, no = (shared_pool().token(text) for text in (YES, NO))
    return row_of(jnp.where(due.is_correct, yes, no)), jnp.where(due.is_correct, 0, 2)
