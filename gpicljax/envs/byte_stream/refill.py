"""What the environment says next: feedback, a question, or both in a row."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.batching import remade, select
from gpicljax.envs.byte_stream import mapping, mini, sentences, tasks
from gpicljax.envs.byte_stream.hashing import Seed
from gpicljax.envs.byte_stream.interpreter import ANSWER, PATTERN, TEXT, Question


class Due(NamedTuple):
    """What is due in a stream.

    Attributes:
      seed: the instance's.
      series: the seed of the description that mini0 shows ten times, and
      shown: `int32[]`, how many instances of mini0 there were before.
      task: `int32[]`, index of the task set.
      number: `int32[]`, of the question that is due.
      feedback: `bool[]`, on the question before it,
      correct: `bool[]`, which was answered well.
      ask: `bool[]`, whether a question is due.
      keep: `bool[]`, whether what is left of the text is said first.
    """

    seed: Seed
    series: Seed
    shown: jax.Array
    task: jax.Array
    number: jax.Array
    feedback: jax.Array
    correct: jax.Array
    ask: jax.Array
    keep: jax.Array


def blank() -> Question:
    """Nothing: no text, no question.

    Example:
      >>> int(blank().end)
      0
    """
    zero = jnp.zeros((), jnp.int32)
    return Question(
        text=jnp.zeros(TEXT, jnp.uint8),
        cursor=zero,
        end=zero,
        target=jnp.zeros(ANSWER, jnp.uint8),
        size=zero,
        shown=zero,
        pattern=jnp.zeros(PATTERN, jnp.uint8),
        acceptor=zero,
        style=zero,
        key=zero,
        keys=zero,
    )


def joined(due: Due, old: Question, said: Any, asked: Any) -> Question:
    """The question with its text: what is left of the old one, feedback, question.

    Args:
      due: what is due.
      old: the question before.
      said: the feedback, `uint8[F]` and its length.
      asked: the question, `uint8[Q]`, its length and the rest of it.
    """
    begin = jnp.where(due.keep, old.end, 0)
    middle = begin + jnp.where(due.feedback, said[1], 0)
    end = middle + jnp.where(due.ask, asked[1], 0)
    places = jnp.arange(TEXT, dtype=jnp.int32)
    first = said[0][jnp.clip(places - begin, 0, said[0].shape[0] - 1)]
    second = asked[0][jnp.clip(places - middle, 0, asked[0].shape[0] - 1)]
    text = jnp.where(places < begin, old.text, jnp.where(places < middle, first, second))
    question = select(due.ask, asked[2], old)
    return question.replace(
        text=jnp.where(places < end, text, np.uint8(0)),
        cursor=jnp.where(due.keep, old.cursor, 0),
        end=end,
    )


def _mapping(mended: bool, due: Due, old: Question) -> Question:
    said = mapping.feedback(due.seed, due.number - 1, old, due.correct)
    return joined(due, old, said, mapping.ask(due.seed, due.task, due.number, mended))


def _sentences(mended: bool, due: Due, old: Question) -> Question:
    said = sentences.feedback(old, due.correct)
    return joined(due, old, said, sentences.ask(due.seed, due.task, due.number, mended))


def _mini(mended: bool, due: Due, old: Question) -> Question:
    said = mini.feedback(due.seed, old, due.correct)
    asked = mini.ask(due.seed, due.series, due.shown, due.task, mended)
    return joined(due, old, said, asked)


def refilled(mended: bool, due: Due, old: Question) -> Question:
    """The question after what is due was put into it; only streams where anything is due pay."""
    family = jnp.asarray(tasks.table(mended)["family"])[due.task]
    kind = jnp.where(due.feedback | due.ask, family + 1, 0)
    makes = [functools.partial(make, mended) for make in (_mapping, _sentences, _mini)]
    return remade(makes, kind, old, due, old)
