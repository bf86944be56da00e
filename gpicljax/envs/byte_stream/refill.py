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
from gpicljax.envs.byte_stream import arithmetic, blocks, mapping, mini, sentences, tasks
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
      reliable: `bool[]`, whether answers have ended with their periods for some time.
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
    reliable: jax.Array
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


def question_of(text: jax.Array, asked: Asked | None, cursor: Any) -> Question:
    """A question of which `cursor` bytes were said; without `asked`, nothing but a text.

    Args:
      text: `int32[TEXT]` tokens.
      asked: what is to be answered, and how.
      cursor: `int32[]`.
    """
    bases, ends = laid(text)
    said = dataclasses.replace(
        blank(), bases=bases, ends=ends, cursor=jnp.asarray(cursor, jnp.int32)
    )
    if asked is None:
        return said
    answer = jnp.stack([jnp.asarray(token, jnp.int32) for token in asked.answer])
    answer_bases, answer_ends = laid(answer)
    return dataclasses.replace(
        said,
        answer_bases=answer_bases,
        answer_ends=answer_ends,
        pattern=asked.pattern,
        acceptor=asked.acceptor,
        style=asked.style,
        key=asked.key,
        keys=asked.keys,
    )


def first(mended: bool, families: tuple[int, ...], due: Due) -> Question:
    """A stream's first question, of which the first byte is said; but for mappings only that byte.

    No reply to the first byte of a longer question is an answer, so that the rest can be made at
    the first step, by `refilled`, together with what other streams need: programs need its
    generators once. Mappings have questions of one byte.
    """
    family = jnp.asarray(tasks.table(mended)["family"])[due.task]
    arguments = due.seed, due.task, due.number, mended
    token = jnp.full((), shared().token(mini.TEXTS[0]), jnp.int32)
    if tasks.SENTENCES in families:
        token = jnp.where(family == tasks.SENTENCES, sentences.first_token(*arguments), token)
    if tasks.ARITHMETIC in families:
        token = jnp.where(family == tasks.ARITHMETIC, shared().token(arithmetic.LEAD), token)
    if tasks.BLOCKS in families:
        token = jnp.where(family == tasks.BLOCKS, blocks.first_token(due.task, mended), token)
    begun = question_of(_text([cut(token, 1), shared().token(" ")]), None, 1)
    if tasks.MAPPING not in families:
        return begun
    asked = mapping.ask(*arguments)
    return select(family == tasks.MAPPING, question_of(_text(asked.text), asked, 1), begun)


def _text(tokens: list[Any]) -> jax.Array:
    """Tokens, `int32[TEXT]`, with none behind them; entries are single ones, or rows."""
    rows = [jnp.atleast_1d(jnp.asarray(token, jnp.int32)) for token in tokens]
    joined = jnp.concatenate(rows)
    return jnp.concatenate([joined, jnp.zeros(TEXT - len(joined), jnp.int32)])


def _put(due: Due, old: Question, text: jax.Array, asked: Asked) -> Question:
    """The question, or the old one if none is due, with this text to be said."""
    cursor = jnp.where(due.keep, old.cursor, 0)
    made = question_of(text, asked, cursor)
    rest = dataclasses.replace(old, bases=made.bases, ends=made.ends, cursor=made.cursor)
    return select(due.ask, made, rest)


def _joined(due: Due, old: Question, before: list[Any], told: Any, asked: Asked) -> Question:
    """The question after feedback: `before`, the answer if it is told, and the question.

    `told` is 0 for no answer, 1 for one without its period, 2 for all of it, -1 for no feedback.
    """
    answer = taken(old.answer_bases, old.answer_ends)
    says = due.feedback & (told >= 0)
    head = [
        *(jnp.where(says, token, 0) for token in before),
        jnp.where(says & (told > 0), answer[:-1], 0),
        jnp.where(says & (told == 2), answer[-1], 0),
        jnp.where(says & (old.style != tasks.BARE), shared().token(";"), 0),
    ]
    text = [jnp.where(due.ask, token, 0) for token in asked.text]
    return _put(due, old, _text([*head, *text]), asked)


def _mapping(mended: bool, due: Due, old: Question) -> Question:
    style = old.style
    later = style == tasks.SHORTENED_LATER
    shortened = ((style == tasks.SHORTENED) | later) & due.correct
    shortened = shortened | (later & due.reliable)
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
    question = _text([jnp.where(due.ask, token, 0) for token in asked.text])
    # What is left is said first; two messages have their places in the end.
    left = jnp.where(due.ask, question, taken(old.bases, old.ends))
    left = jnp.where(due.keep, left, 0)
    free = jnp.where(left[-2] == 0, TEXT - 2, TEXT - 1)
    told = jnp.where(np.arange(TEXT) == free, said, left)
    return _put(due, old, jnp.where(due.feedback, told, question), asked)


def _arithmetic(mended: bool, due: Due, old: Question) -> Question:
    worked_out = old.style == tasks.STATEMENT
    statement = arithmetic.statement(due.seed, due.number - 1, due.correct)
    before, _ = sentences.before_feedback(old.style, due.correct)
    told = jnp.where(worked_out | due.correct, 0, 2)
    asked = arithmetic.ask(due.seed, due.task, due.number, mended)
    return _joined(due, old, [jnp.where(worked_out, statement, before)], told, asked)


def _blocks(mended: bool, due: Due, old: Question) -> Question:
    before = jnp.where(due.correct, shared().token(blocks.YES), shared().token(blocks.NO))
    told = jnp.where(due.correct, 0, 2)
    asked = blocks.ask(due.seed, due.task, due.number, mended)
    return _joined(due, old, [before], told, asked)


_MAKERS = {
    tasks.MAPPING: (_mapping, 16),
    tasks.SENTENCES: (_sentences, 128),
    tasks.MINI: (_mini, 512),
    tasks.ARITHMETIC: (_arithmetic, 128),
    tasks.BLOCKS: (_blocks, 128),
}
"""Who makes each family's questions, and one of how many streams needs one at a step."""


def refilled(mended: bool, families: tuple[int, ...], due: Due, old: Question) -> Question:
    """The question after what is due was put into it; only streams where anything is due pay."""
    kinds = np.zeros(len(_MAKERS), np.int32)
    kinds[list(families)] = 1 + np.arange(len(families))
    family = jnp.asarray(tasks.table(mended)["family"])[due.task]
    kind = jnp.where(due.feedback | due.ask, jnp.asarray(kinds)[family], 0)
    return _refiller(mended, families)(kind, old, due, old)


@functools.cache
def _refiller(mended: bool, families: tuple[int, ...]) -> Callable[..., Question]:
    makers = [_MAKERS[family] for family in families]

    def groups(size: int) -> tuple[int, ...]:
        return tuple(max(8, size // part) for _, part in makers)

    return remaker([functools.partial(make, mended) for make, _ in makers], groups)


@functools.cache
def prepare() -> None:
    """Lays down in the pool whatever any question may need."""
    texts = (*sentences.texts(), *mini.TEXTS, *arithmetic.texts(), *blocks.texts(), ";", ".")
    for text in texts:
        shared().token(text)
    shared().close()
