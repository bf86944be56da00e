"""What the environment says next: feedback, a question, or both in a row."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.batching import remaker, select
from gpicljax.envs.byte_stream import mapping, mini, sentences, tasks
from gpicljax.envs.byte_stream.hashing import Seed
from gpicljax.envs.byte_stream.interpreter import ANSWER, PATTERN, TEXT, Asked, Question
from gpicljax.envs.byte_stream.pool import cut, laid, shared, taken


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
      keep: `bool[]`, whether what is left of the text is said first; with `ask`, the question is a
        stream's first one, of which `first` has said a byte.
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
        bases=jnp.zeros(TEXT, jnp.int32),
        ends=jnp.zeros(TEXT, jnp.uint8),
        cursor=zero,
        answer_bases=jnp.zeros(ANSWER, jnp.int32),
        answer_ends=jnp.zeros(ANSWER, jnp.uint8),
        pattern=jnp.zeros(PATTERN, jnp.uint8),
        acceptor=zero,
        style=zero,
        key=zero,
        keys=zero,
    )


def question_of(text: jax.Array, asked: Asked, cursor: jax.Array) -> Question:
    """A question whose text is `int32[TEXT]` tokens, of which `cursor` bytes were said."""
    bases, ends = laid(text)
    answer = jnp.stack([jnp.asarray(token, jnp.int32) for token in asked.answer])
    answer_bases, answer_ends = laid(answer)
    return Question(
        bases=bases,
        ends=ends,
        cursor=cursor,
        answer_bases=answer_bases,
        answer_ends=answer_ends,
        pattern=asked.pattern,
        acceptor=asked.acceptor,
        style=asked.style,
        key=asked.key,
        keys=asked.keys,
    )


def first(mended: bool, due: Due) -> Question:
    """A stream's first question, of which the first byte is said; but for mappings only that byte.

    No reply to the first byte of a longer question is an answer, so that the rest can be made at
    the first step, by `refilled`, together with what other streams need: programs need its
    generators once. Mappings have questions of one byte.
    """
    asked = mapping.ask(due.seed, due.task, due.number, mended)
    sentence = sentences.first_token(due.seed, due.task, due.number, mended)
    family = jnp.asarray(tasks.table(mended)["family"])[due.task]
    token = jnp.where(family == tasks.SENTENCES, sentence, shared().token(mini.TEXTS[0]))
    text = jnp.stack(
        [cut(token, jnp.ones((), jnp.int32)), *[jnp.zeros((), jnp.int32)] * (len(asked.text) - 1)]
    )
    text = text.at[1].set(shared().token(" "))
    text = jnp.where(family == tasks.MAPPING, jnp.stack(asked.text), text)
    made = question_of(jnp.pad(text, (0, TEXT - len(text))), asked, jnp.ones((), jnp.int32))
    begun = dataclasses.replace(blank(), bases=made.bases, ends=made.ends, cursor=made.cursor)
    return select(family == tasks.MAPPING, made, begun)


def _text(due: Due, asked: Asked) -> list[jax.Array]:
    """The tokens of what is asked, `int32[1]` each, if anything is."""
    return [jnp.where(due.ask, token, 0)[None] for token in asked.text]


def _padded(tokens: list[jax.Array]) -> jax.Array:
    """Rows of tokens, one after the other, `int32[TEXT]`."""
    row = jnp.concatenate(tokens).astype(jnp.int32)
    return jnp.concatenate([row, jnp.zeros(TEXT - len(row), jnp.int32)])


def _said(due: Due, old: Question, text: jax.Array, asked: Asked) -> Question:
    """The question with this text: what is asked, if anything is, else the old one."""
    made = question_of(text, asked, jnp.where(due.keep, old.cursor, 0))
    rest = dataclasses.replace(old, bases=made.bases, ends=made.ends, cursor=made.cursor)
    return select(due.ask, made, rest)


def _joined(due: Due, old: Question, before: list[Any], told: Any, asked: Asked) -> Question:
    """The question after feedback: `before`, the answer if it is told, and the question.

    `told` is 0 for no answer, 1 for one without its period, 2 for all of it, -1 for no feedback.
    """
    answer = taken(old.answer_bases, old.answer_ends)
    says = due.feedback & (told >= 0)
    stop = jnp.where(told == -2, 0, shared().token(";"))
    period = jnp.where(says & (told == 2), answer[-1:], 0)
    head = [
        *(jnp.where(says, token, 0)[None] for token in before),
        jnp.where(says & (told > 0), answer[:-1], 0),
        period,
        jnp.where(says & (old.style != tasks.BARE), stop, 0)[None],
    ]
    return _said(due, old, _padded([*head, *_text(due, asked)]), asked)


def _mapping(mended: bool, due: Due, old: Question) -> Question:
    style = old.style
    shortened = (style == tasks.SHORTENED) & due.correct
    told = jnp.where(style == tasks.NONE, -1, jnp.where(shortened, 1, 2))
    before = mapping.before_feedback(due.seed, due.number - 1, style)
    return _joined(due, old, before, told, mapping.ask(due.seed, due.task, due.number, mended))


def _sentences(mended: bool, due: Due, old: Question) -> Question:
    before, tells = sentences.before_feedback(old.style, due.correct)
    unfinished = old.style == tasks.GOOD_JOB_UNFINISHED
    told = jnp.where(tells, jnp.where(unfinished, 1, 2), 0)
    asked = sentences.ask(due.seed, due.task, due.number, mended)
    return _joined(due, old, [before], told, asked)


def _mini(mended: bool, due: Due, old: Question) -> Question:
    asked = mini.ask(due.seed, due.series, due.shown, due.task, mended)
    answer = jnp.where(due.ask, asked.answer[0], taken(old.answer_bases, old.answer_ends)[0])
    said = mini.feedback(due.seed, answer, due.correct)
    question = _padded(_text(due, asked))
    # What is left is said first; two messages have their places in the end.
    left = jnp.where(due.ask, question, taken(old.bases, old.ends))
    left = jnp.where(due.keep, left, 0)
    free = jnp.where(left[-2] == 0, TEXT - 2, TEXT - 1)
    told = jnp.where(np.arange(TEXT) == free, said, left)
    return _said(due, old, jnp.where(due.feedback, told, question), asked)


def _groups(size: int) -> tuple[int, ...]:
    """Streams of each family that are worked on together: about as many as need it at a step."""
    return tuple(max(8, size // part) for part in (16, 128, 512))


def refilled(mended: bool, due: Due, old: Question) -> Question:
    """The question after what is due was put into it; only streams where anything is due pay."""
    family = jnp.asarray(tasks.table(mended)["family"])[due.task]
    kind = jnp.where(due.feedback | due.ask, family + 1, 0)
    return _refiller(mended)(kind, old, due, old)


@functools.cache
def _refiller(mended: bool) -> Callable[..., Question]:
    makes = [functools.partial(make, mended) for make in (_mapping, _sentences, _mini)]
    return remaker(makes, _groups)


@functools.cache
def prepare() -> None:
    """Lays down in the pool whatever any question may need."""
    for text in (*sentences.texts(), *mini.TEXTS, ";", "."):
        shared().token(text)
    shared().close()
