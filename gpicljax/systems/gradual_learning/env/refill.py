"""The text that the environment says next: feedback, a question, or both in a row."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.batching import make_switch_compacted, select
from gpicljax.systems.gradual_learning.env import (
    arithmetic,
    blocks,
    lines,
    mapping,
    mini,
    sentences,
    tasks,
    templates,
)
from gpicljax.systems.gradual_learning.env.conversation import (
    ANSWER,
    PATTERN,
    TEXT,
    Due,
    PackedQuestion,
    Question,
    QuestionSource,
    pack,
    pack_question,
    unpack,
)
from gpicljax.systems.gradual_learning.env.hashing import Seed
from gpicljax.systems.gradual_learning.env.pool import row_of, shared_pool, token_prefix


class Family(NamedTuple):
    """The generator of a family's questions.

    Attributes:
      ask: returns a question from its source, and whether rules are corrected.
      feedback: returns feedback on the last question from the next one's source, the last one's
        style and what is due: tokens before the answer, and how much of the answer follows, 0 for
        none, 1 for an answer without its period, 2 for all of it, -1 for no feedback at all; None
        for the mini tasks, which have feedback of their own.
      period: N where about one stream in N needs a question per step.
    """

    ask: Callable[..., Question]
    feedback: Callable[..., tuple[jax.Array, Any]] | None
    period: int


_GENERATORS = {
    tasks.MAPPING: Family(mapping.ask, mapping.feedback, 16),
    tasks.SENTENCES: Family(sentences.ask, sentences.feedback, 128),
    tasks.MINI: Family(mini.ask, None, 512),
    tasks.ARITHMETIC: Family(arithmetic.ask, arithmetic.feedback, 128),
    tasks.BLOCKS: Family(blocks.ask, blocks.feedback, 128),
    tasks.LINES: Family(lines.ask, sentences.feedback, 16),
}


def empty_question() -> PackedQuestion:
    """Returns a question without text."""
    return PackedQuestion(
        tokens=jnp.zeros(TEXT + ANSWER, jnp.int32),
        bytes=jnp.zeros(TEXT + ANSWER + PATTERN, jnp.uint8),
        marks=jnp.zeros((), jnp.int32),
    )


def first_question(
    corrected: bool, families: tuple[int, ...], source: QuestionSource
) -> PackedQuestion:
    """Returns a stream's first question, of which the first byte is said, for mappings whole.

    No reply to the first byte of a longer question is an answer. So `refill_question` makes the
    rest at the first step, together with the questions of other streams, and programs contain its
    generators once. Mappings have questions of one byte.
    """
    family = jnp.asarray(tasks.table(corrected)["family"])[source.task]
    token = jnp.full((), shared_pool().token(mini.TEXTS[0]), jnp.int32)
    first_tokens: dict[int, Callable[[], Any]] = {
        tasks.SENTENCES: lambda: sentences.first_token(source, corrected),
        tasks.ARITHMETIC: lambda: shared_pool().token(arithmetic.LEAD),
        tasks.BLOCKS: lambda: blocks.first_token(source.task, corrected),
        tasks.LINES: lambda: lines.ask(source, corrected).text[0],
    }
    for number, first_token in first_tokens.items():
        if number in families:
            token = jnp.where(family == number, first_token(), token)
    text = _text(token_prefix(token, 1), shared_pool().token(" "))
    question = empty_question().unpack()._replace(text=text)
    if tasks.MAPPING in families:
        whole = mapping.ask(source, corrected)
        whole = whole._replace(text=_text(whole.text))
        question = select(family == tasks.MAPPING, whole, question)
    return pack_question(question._replace(cursor=jnp.ones((), jnp.int32)))


def _text(*tokens: Any) -> jax.Array:
    """Returns tokens and rows of them as one row, `int32[TEXT]`."""
    row = row_of(*tokens)
    return row_of(row, np.zeros(TEXT - len(row)))


def _join_feedback(
    due: Due, last: Question, before: jax.Array, answer_part: Any, question: Question
) -> jax.Array:
    """Returns tokens of feedback, see `Family.feedback`, and of the question, as far as due."""
    has_feedback = due.feedback & (answer_part >= 0)
    has_part = [
        has_feedback,
        has_feedback & (answer_part > 0),
        has_feedback & (answer_part == 2),
        has_feedback & (last.style != templates.BARE),
        due.question,
    ]
    part_bits = sum(bit.astype(jnp.int32) << number for number, bit in enumerate(has_part))
    text = _text(before, last.answer, shared_pool().token(";"), question.text)
    # The part, one of five, to which each token belongs.
    part_of_token = np.full(TEXT, 4, np.int32)
    part_of_token[: len(before) + ANSWER + 1] = [0] * len(before) + [1] * (ANSWER - 1) + [2, 3]
    return jnp.where(part_bits >> part_of_token & 1 == 1, text, 0)


def _join_mini_feedback(seed: Seed, due: Due, last: Question, question: Question) -> jax.Array:
    """Returns tokens of the rest of the text and feedback, or of the question, as far as due."""
    verdict = jnp.where(due.question, question.answer[0], last.answer[0])
    # The rest of the text is said first; three messages have their places at the end.
    new_text = jnp.where(due.question, _text(question.text), 0)
    left = jnp.where(due.rest, jnp.where(due.question, new_text, last.text), 0)
    wrong = mini.feedback(seed, verdict, jnp.zeros((), bool))
    left = jnp.where((np.arange(TEXT) == TEXT - 3) & due.is_late, wrong, left)
    free = jnp.where(left[-2] == 0, TEXT - 2, TEXT - 1)
    message = mini.feedback(seed, verdict, due.is_correct)
    return jnp.where(due.feedback, jnp.where(np.arange(TEXT) == free, message, left), new_text)


def _make_question(
    family: int, corrected: bool, composition: str, row: jax.Array, last: PackedQuestion
) -> PackedQuestion:
    """Returns the last question, or a new one if it is due, with the due text to be said."""
    (source, due), old = _unpack_due(row), last.unpack()
    ask, feedback, _ = _GENERATORS[family]
    options = {"composition": composition} if family == tasks.SENTENCES else {}
    question = ask(source, corrected, **options)
    if feedback is None:
        text = _join_mini_feedback(source.seed, due, old, question)
    else:
        text = _join_feedback(due, old, *feedback(source, old.style, due), question)
    fields = select(due.question, question._replace(text=text), old)
    cursor = jnp.where(due.rest, old.cursor, 0)
    return pack_question(fields._replace(text=text, cursor=cursor))


def _pack_due(source: QuestionSource, due: Due) -> jax.Array:
    """Returns what is due as one row, `int32[8]`, so that one array is gathered from."""
    seeds = [
        jax.lax.bitcast_convert_type(part, jnp.int32) for part in (*source.seed, *source.series)
    ]
    return jnp.stack([*seeds, *source[2:], pack(due, (1,) * len(due))])


def _unpack_due(row: jax.Array) -> tuple[QuestionSource, Due]:
    """Returns what is due of a row."""
    seeds = jax.lax.bitcast_convert_type(row[:4], jnp.uint32)
    due = Due(*(flag == 1 for flag in unpack(row[-1], (1,) * len(Due._fields))))
    return QuestionSource(Seed(*seeds[:2]), Seed(*seeds[2:]), *row[4:-1]), due


def refill_question(
    corrected: bool,
    families: tuple[int, ...],
    composition: str,
    source: QuestionSource,
    due: Due,
    last: PackedQuestion,
) -> PackedQuestion:
    """Returns the question with the due text in it; streams without due text cost nothing."""
    kinds = np.zeros(len(_GENERATORS), np.int32)
    kinds[list(families)] = 1 + np.arange(len(families))
    family = jnp.asarray(tasks.table(corrected)["family"])[source.task]
    kind = jnp.where(due.feedback | due.question, jnp.asarray(kinds)[family], 0)
    return _make_refiller(corrected, families, composition)(
        kind, last, _pack_due(source, due), last
    )


@functools.cache
def _make_refiller(
    corrected: bool, families: tuple[int, ...], composition: str
) -> Callable[..., PackedQuestion]:
    def groups(size: int) -> tuple[int, ...]:
        return tuple(max(8, size // _GENERATORS[family].period) for family in families)

    makers = [functools.partial(_make_question, x, corrected, composition) for x in families]
    return make_switch_compacted(makers, groups)


@functools.cache
def prepare() -> None:
    """Lays down in the pool all texts that questions may need."""
    texts = (*sentences.texts(), *mini.TEXTS, *arithmetic.texts(), *blocks.texts())
    for text in (*texts, *lines.texts(), ";", "."):
        shared_pool().token(text)
    shared_pool().close()
