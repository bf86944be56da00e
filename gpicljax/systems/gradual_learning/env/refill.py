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
    bits,
    blocks,
    lines,
    mapping,
    mini,
    sentences,
    tasks,
)
from gpicljax.systems.gradual_learning.env.conversation import (
    ANSWER,
    PATTERN,
    TEXT,
    Question,
    QuestionParts,
    make_question,
)
from gpicljax.systems.gradual_learning.env.hashing import Seed
from gpicljax.systems.gradual_learning.env.pool import row_of, row_tokens, shared_pool, token_prefix

_FLAG_COUNT = 6


class DueText(NamedTuple):
    """The text that is due in a stream.

    Attributes:
      seed: the seed of the instance.
      series: the seed of the description that mini0 shows ten times.
      mini0_count: `int32[]`, the number of instances of mini0 before.
      task: `int32[]`, index of the task set.
      number: `int32[]`, the number of the question that is due.
      is_feedback_due: `bool[]`, whether feedback on the last question is due.
      is_correct: `bool[]`, whether the last question was answered correctly.
      is_reliable: `bool[]`, whether recent answers have ended with their periods.
      is_late: `bool[]`, whether time ran out with a right answer.
      is_question_due: `bool[]`, whether a question is due.
      keeps_text: `bool[]`, whether the rest of the text is said first; with `is_question_due`, the
        question is a stream's first one, of which `first_question` has said a byte.
    """

    seed: Seed
    series: Seed
    mini0_count: jax.Array
    task: jax.Array
    number: jax.Array
    is_feedback_due: jax.Array
    is_correct: jax.Array
    is_reliable: jax.Array
    is_late: jax.Array
    is_question_due: jax.Array
    keeps_text: jax.Array


def _pack_due(due: DueText) -> jax.Array:
    """Returns the due text as one row, `int32[8]`, so that one array is gathered from."""
    flags = bits.pack(due[-_FLAG_COUNT:], (1,) * _FLAG_COUNT)
    words = [jax.lax.bitcast_convert_type(part, jnp.int32) for part in (*due.seed, *due.series)]
    return jnp.stack([*words, *due[2:-_FLAG_COUNT], flags])


def _unpack_due(row: jax.Array) -> DueText:
    """Returns the due text of a row."""
    words = jax.lax.bitcast_convert_type(row[:4], jnp.uint32)
    flags = [flag == 1 for flag in bits.unpack(row[-1], (1,) * _FLAG_COUNT)]
    return DueText(Seed(*words[:2]), Seed(*words[2:]), *row[4:-1], *flags)


def empty_question() -> Question:
    """Returns a question without text."""
    return Question(
        tokens=jnp.zeros(TEXT + ANSWER, jnp.int32),
        bytes=jnp.zeros(TEXT + ANSWER + PATTERN, jnp.uint8),
        marks=jnp.zeros((), jnp.int32),
    )


def _with_text(parts: QuestionParts, text: jax.Array, cursor: Any) -> Question:
    """Returns the question with this text to be said."""
    marks = parts.acceptor, parts.style, parts.key, parts.keys
    return make_question(text, parts.answer, parts.pattern, cursor, *marks)


def first_question(corrected: bool, families: tuple[int, ...], due: DueText) -> Question:
    """Returns a stream's first question, of which the first byte is said, for mappings whole.

    No reply to the first byte of a longer question is an answer. So `refill_question` makes the
    rest at the first step, together with the questions of other streams, and programs contain its
    generators once. Mappings have questions of one byte.
    """
    family = jnp.asarray(tasks.table(corrected)["family"])[due.task]
    arguments = due.seed, due.task, due.number, corrected
    token = jnp.full((), shared_pool().token(mini.TEXTS[0]), jnp.int32)
    if tasks.SENTENCES in families:
        token = jnp.where(family == tasks.SENTENCES, sentences.first_token(*arguments), token)
    if tasks.ARITHMETIC in families:
        token = jnp.where(family == tasks.ARITHMETIC, shared_pool().token(arithmetic.LEAD), token)
    if tasks.BLOCKS in families:
        token = jnp.where(family == tasks.BLOCKS, blocks.first_token(due.task, corrected), token)
    if tasks.LINES in families:
        first_token = lines.ask(*arguments).text[0]
        token = jnp.where(family == tasks.LINES, first_token, token)
    text = _text(token_prefix(token, 1), shared_pool().token(" "))
    answer, pattern, zero = (
        jnp.zeros(ANSWER, jnp.int32),
        jnp.zeros(PATTERN, jnp.uint8),
        jnp.zeros((), jnp.int32),
    )
    parts = QuestionParts(text, answer, pattern, zero, zero, zero, zero)
    if tasks.MAPPING in families:
        mapping_parts = mapping.ask(*arguments)
        is_mapping = family == tasks.MAPPING
        text = jnp.where(is_mapping, _text(mapping_parts.text), text)
        parts = select(is_mapping, mapping_parts, parts._replace(text=mapping_parts.text))
    return _with_text(parts, text, 1)


def _text(*tokens: Any) -> jax.Array:
    """Returns tokens and rows of them as one row, `int32[TEXT]`."""
    row = row_of(*tokens)
    return row_of(row, np.zeros(TEXT - len(row)))


def _replace_question(
    due: DueText, old: Question, text: jax.Array, answer: jax.Array, parts: QuestionParts
) -> Question:
    """Returns the question, or the old one if none is due, with this text to be said.

    `answer` is `int32[ANSWER]`, the tokens of the old question's answer.
    """
    old_parts = QuestionParts(text, answer, old.pattern, old.acceptor, old.style, old.key, old.keys)
    parts = select(due.is_question_due, parts._replace(text=text), old_parts)
    return _with_text(parts, text, jnp.where(due.keeps_text, old.cursor, 0))


def _join_feedback(
    due: DueText, old: Question, before: jax.Array, answer_part: Any, parts: QuestionParts
) -> Question:
    """Returns the question after feedback: `before`, the answer or a part of it, and the question.

    `before` is `int32[N]`, tokens. `answer_part` is 0 for no answer, 1 for an answer without its
    period, 2 for all of it, -1 for no feedback.
    """
    has_feedback = due.is_feedback_due & (answer_part >= 0)
    has_part = [
        has_feedback,
        has_feedback & (answer_part > 0),
        has_feedback & (answer_part == 2),
        has_feedback & (old.style != tasks.BARE),
        due.is_question_due,
    ]
    part_bits = sum(bit.astype(jnp.int32) << number for number, bit in enumerate(has_part))
    answer = row_tokens(*old.answer)
    text = _text(before, answer, shared_pool().token(";"), parts.text)
    # The part, one of five, to which each token belongs.
    part_of_token = np.full(TEXT, 4, np.int32)
    part_of_token[: len(before) + ANSWER + 1] = [0] * len(before) + [1] * (ANSWER - 1) + [2, 3]
    return _replace_question(
        due, old, jnp.where(part_bits >> part_of_token & 1 == 1, text, 0), answer, parts
    )


def _mapping(corrected: bool, due: DueText, old: Question) -> Question:
    style = old.style
    may_shorten = style == tasks.SHORTENED_LATER
    shortened = ((style == tasks.SHORTENED) | may_shorten) & due.is_correct
    shortened = shortened | (may_shorten & due.is_reliable)
    answer_part = jnp.where(style == tasks.NONE, -1, jnp.where(shortened, 1, 2))
    before = mapping.before_feedback(due.seed, due.number - 1, style)
    return _join_feedback(
        due, old, before, answer_part, mapping.ask(due.seed, due.task, due.number, corrected)
    )


def _sentences(composition: str, corrected: bool, due: DueText, old: Question) -> Question:
    before, repeats_answer = sentences.before_feedback(old.style, due.is_correct)
    unfinished = old.style == tasks.GOOD_JOB_UNFINISHED
    answer_part = jnp.where(repeats_answer, jnp.where(unfinished, 1, 2), 0)
    parts = sentences.ask(due.seed, due.task, due.number, corrected, composition)
    return _join_feedback(due, old, row_of(before), answer_part, parts)


def _lines(corrected: bool, due: DueText, old: Question) -> Question:
    before, repeats_answer = sentences.before_feedback(old.style, due.is_correct)
    parts = lines.ask(due.seed, due.task, due.number, corrected)
    return _join_feedback(due, old, row_of(before), jnp.where(repeats_answer, 2, 0), parts)


def _mini(corrected: bool, due: DueText, old: Question) -> Question:
    parts = mini.ask(due.seed, due.series, due.mini0_count, due.task, corrected)
    answer = row_tokens(*old.answer)
    verdict = jnp.where(due.is_question_due, parts.answer[0], answer[0])
    message = mini.feedback(due.seed, verdict, due.is_correct)
    question = jnp.where(due.is_question_due, _text(parts.text), 0)
    # The rest of the text is said first; three messages have their places at the end.
    left = jnp.where(due.is_question_due, question, row_tokens(*old.text))
    left = jnp.where(due.keeps_text, left, 0)
    wrong = mini.feedback(due.seed, verdict, jnp.zeros((), bool))
    left = jnp.where((np.arange(TEXT) == TEXT - 3) & due.is_late, wrong, left)
    free = jnp.where(left[-2] == 0, TEXT - 2, TEXT - 1)
    text = jnp.where(np.arange(TEXT) == free, message, left)
    return _replace_question(
        due, old, jnp.where(due.is_feedback_due, text, question), answer, parts
    )


def _arithmetic(corrected: bool, due: DueText, old: Question) -> Question:
    is_statement = old.style == tasks.STATEMENT
    statement = arithmetic.statement(due.seed, due.number - 1, due.is_correct)
    before, _ = sentences.before_feedback(old.style, due.is_correct)
    answer_part = jnp.where(is_statement | due.is_correct, 0, 2)
    parts = arithmetic.ask(due.seed, due.task, due.number, corrected)
    return _join_feedback(
        due, old, row_of(jnp.where(is_statement, statement, before)), answer_part, parts
    )


def _blocks(corrected: bool, due: DueText, old: Question) -> Question:
    before = jnp.where(
        due.is_correct, shared_pool().token(blocks.YES), shared_pool().token(blocks.NO)
    )
    answer_part = jnp.where(due.is_correct, 0, 2)
    parts = blocks.ask(due.seed, due.task, due.number, corrected)
    return _join_feedback(due, old, row_of(before), answer_part, parts)


_GENERATORS: dict[int, tuple[Callable[..., Question], int]] = {
    tasks.MAPPING: (_mapping, 16),
    tasks.SENTENCES: (_sentences, 128),
    tasks.MINI: (_mini, 512),
    tasks.ARITHMETIC: (_arithmetic, 128),
    tasks.BLOCKS: (_blocks, 128),
    tasks.LINES: (_lines, 16),
}
"""Each family's generator, and N where about one stream in N needs a question per step."""


def refill_question(
    corrected: bool, families: tuple[int, ...], composition: str, due: DueText, old: Question
) -> Question:
    """Returns the question with the due text in it; streams without due text cost nothing."""
    kinds = np.zeros(len(_GENERATORS), np.int32)
    kinds[list(families)] = 1 + np.arange(len(families))
    family = jnp.asarray(tasks.table(corrected)["family"])[due.task]
    kind = jnp.where(due.is_feedback_due | due.is_question_due, jnp.asarray(kinds)[family], 0)
    return _make_refiller(corrected, families, composition)(kind, old, _pack_due(due), old)


@functools.cache
def _make_refiller(
    corrected: bool, families: tuple[int, ...], composition: str
) -> Callable[..., Question]:
    sentences_, period = _GENERATORS[tasks.SENTENCES]
    partial_makers = {tasks.SENTENCES: (functools.partial(sentences_, composition), period)}
    makers: list[Any] = [partial_makers.get(family, _GENERATORS[family]) for family in families]

    def groups(size: int) -> tuple[int, ...]:
        return tuple(max(8, size // part) for _, part in makers)

    def refill_row(make: Callable[..., Question], row: jax.Array, old: Question) -> Question:
        return make(corrected, _unpack_due(row), old)

    return make_switch_compacted(
        [functools.partial(refill_row, make) for make, _ in makers], groups
    )


@functools.cache
def prepare() -> None:
    """Lays down in the pool all texts that questions may need."""
    texts = (*sentences.texts(), *mini.TEXTS, *arithmetic.texts(), *blocks.texts())
    for text in (*texts, *lines.texts(), ";", "."):
        shared_pool().token(text)
    shared_pool().close()
