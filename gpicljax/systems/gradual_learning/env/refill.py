"""What the environment says next: feedback, a question, or both in a row."""

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
    Asked,
    Question,
    posed,
)
from gpicljax.systems.gradual_learning.env.hashing import Seed
from gpicljax.systems.gradual_learning.env.pool import cut, row_of, shared, taken

_FLAGS = 6


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
      late: `bool[]`, whether time ran out with a right answer.
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
    late: jax.Array
    ask: jax.Array
    keep: jax.Array


def _packed(due: Due) -> jax.Array:
    """What is due as one row, `int32[8]`: one array to gather from, and seeds drawn once."""
    flags = bits.pack(due[-_FLAGS:], (1,) * _FLAGS)
    words = [jax.lax.bitcast_convert_type(part, jnp.int32) for part in (*due.seed, *due.series)]
    return jnp.stack([*words, *due[2:-_FLAGS], flags])


def _unpacked(row: jax.Array) -> Due:
    """What is due, from its row."""
    words = jax.lax.bitcast_convert_type(row[:4], jnp.uint32)
    flags = [flag == 1 for flag in bits.unpack(row[-1], (1,) * _FLAGS)]
    return Due(Seed(*words[:2]), Seed(*words[2:]), *row[4:-1], *flags)


def blank() -> Question:
    """Nothing: no text, no question."""
    return Question(
        tokens=jnp.zeros(TEXT + ANSWER, jnp.int32),
        bytes=jnp.zeros(TEXT + ANSWER + PATTERN, jnp.uint8),
        marks=jnp.zeros((), jnp.int32),
    )


def _posed(asked: Asked, text: jax.Array, cursor: Any) -> Question:
    """The question, with this text to be said."""
    more = asked.acceptor, asked.style, asked.key, asked.keys
    return posed(text, asked.answer, asked.pattern, cursor, *more)


def first(corrected: bool, families: tuple[int, ...], due: Due) -> Question:
    """A stream's first question, of which the first byte is said; but for mappings only that byte.

    No reply to the first byte of a longer question is an answer, so that the rest can be made at
    the first step, by `refilled`, together with what other streams need: programs need its
    generators once. Mappings have questions of one byte.
    """
    family = jnp.asarray(tasks.table(corrected)["family"])[due.task]
    arguments = due.seed, due.task, due.number, corrected
    token = jnp.full((), shared().token(mini.TEXTS[0]), jnp.int32)
    if tasks.SENTENCES in families:
        token = jnp.where(family == tasks.SENTENCES, sentences.first_token(*arguments), token)
    if tasks.ARITHMETIC in families:
        token = jnp.where(family == tasks.ARITHMETIC, shared().token(arithmetic.LEAD), token)
    if tasks.BLOCKS in families:
        token = jnp.where(family == tasks.BLOCKS, blocks.first_token(due.task, corrected), token)
    if tasks.LINES in families:
        said = lines.ask(*arguments).text[0]
        token = jnp.where(family == tasks.LINES, said, token)
    text = _text(cut(token, 1), shared().token(" "))
    answer, pattern, zero = (
        jnp.zeros(ANSWER, jnp.int32),
        jnp.zeros(PATTERN, jnp.uint8),
        jnp.zeros((), jnp.int32),
    )
    asked = Asked(text, answer, pattern, zero, zero, zero, zero)
    if tasks.MAPPING in families:
        drawn = mapping.ask(*arguments)
        mapped = family == tasks.MAPPING
        text = jnp.where(mapped, _text(drawn.text), text)
        asked = select(mapped, drawn, asked._replace(text=drawn.text))
    return _posed(asked, text, 1)


def _text(*tokens: Any) -> jax.Array:
    """Single tokens and rows of them, `int32[TEXT]`, with none behind them."""
    row = row_of(*tokens)
    return row_of(row, np.zeros(TEXT - len(row)))


def _put(due: Due, old: Question, text: jax.Array, answer: jax.Array, asked: Asked) -> Question:
    """The question, or the old one if none is due, with this text to be said.

    `answer` is `int32[ANSWER]`, the tokens of the old question's.
    """
    before = Asked(text, answer, old.pattern, old.acceptor, old.style, old.key, old.keys)
    asked = select(due.ask, asked._replace(text=text), before)
    return _posed(asked, text, jnp.where(due.keep, old.cursor, 0))


def _joined(due: Due, old: Question, before: jax.Array, told: Any, asked: Asked) -> Question:
    """The question after feedback: `before`, the answer if it is told, and the question.

    `before` is `int32[N]`, tokens. `told` is 0 for no answer, 1 for one without its period, 2 for
    all of it, -1 for no feedback.
    """
    says = due.feedback & (told >= 0)
    has = [says, says & (told > 0), says & (told == 2), says & (old.style != tasks.BARE), due.ask]
    whole = sum(part.astype(jnp.int32) << number for number, part in enumerate(has))
    answer = taken(*old.answer)
    text = _text(before, answer, shared().token(";"), asked.text)
    # To which of the five parts each token belongs.
    part = np.full(TEXT, 4, np.int32)
    part[: len(before) + ANSWER + 1] = [0] * len(before) + [1] * (ANSWER - 1) + [2, 3]
    return _put(due, old, jnp.where(whole >> part & 1 == 1, text, 0), answer, asked)


def _mapping(corrected: bool, due: Due, old: Question) -> Question:
    style = old.style
    later = style == tasks.SHORTENED_LATER
    shortened = ((style == tasks.SHORTENED) | later) & due.correct
    shortened = shortened | (later & due.reliable)
    told = jnp.where(style == tasks.NONE, -1, jnp.where(shortened, 1, 2))
    before = mapping.before_feedback(due.seed, due.number - 1, style)
    return _joined(due, old, before, told, mapping.ask(due.seed, due.task, due.number, corrected))


def _sentences(composition: str, corrected: bool, due: Due, old: Question) -> Question:
    before, tells = sentences.before_feedback(old.style, due.correct)
    unfinished = old.style == tasks.GOOD_JOB_UNFINISHED
    told = jnp.where(tells, jnp.where(unfinished, 1, 2), 0)
    asked = sentences.ask(due.seed, due.task, due.number, corrected, composition)
    return _joined(due, old, row_of(before), told, asked)


def _lines(corrected: bool, due: Due, old: Question) -> Question:
    before, tells = sentences.before_feedback(old.style, due.correct)
    asked = lines.ask(due.seed, due.task, due.number, corrected)
    return _joined(due, old, row_of(before), jnp.where(tells, 2, 0), asked)


def _mini(corrected: bool, due: Due, old: Question) -> Question:
    asked = mini.ask(due.seed, due.series, due.shown, due.task, corrected)
    answer = taken(*old.answer)
    verdict = jnp.where(due.ask, asked.answer[0], answer[0])
    said = mini.feedback(due.seed, verdict, due.correct)
    question = jnp.where(due.ask, _text(asked.text), 0)
    # What is left is said first; three messages have their places in the end.
    left = jnp.where(due.ask, question, taken(*old.text))
    left = jnp.where(due.keep, left, 0)
    wrong = mini.feedback(due.seed, verdict, jnp.zeros((), bool))
    left = jnp.where((np.arange(TEXT) == TEXT - 3) & due.late, wrong, left)
    free = jnp.where(left[-2] == 0, TEXT - 2, TEXT - 1)
    told = jnp.where(np.arange(TEXT) == free, said, left)
    return _put(due, old, jnp.where(due.feedback, told, question), answer, asked)


def _arithmetic(corrected: bool, due: Due, old: Question) -> Question:
    worked_out = old.style == tasks.STATEMENT
    statement = arithmetic.statement(due.seed, due.number - 1, due.correct)
    before, _ = sentences.before_feedback(old.style, due.correct)
    told = jnp.where(worked_out | due.correct, 0, 2)
    asked = arithmetic.ask(due.seed, due.task, due.number, corrected)
    return _joined(due, old, row_of(jnp.where(worked_out, statement, before)), told, asked)


def _blocks(corrected: bool, due: Due, old: Question) -> Question:
    before = jnp.where(due.correct, shared().token(blocks.YES), shared().token(blocks.NO))
    told = jnp.where(due.correct, 0, 2)
    asked = blocks.ask(due.seed, due.task, due.number, corrected)
    return _joined(due, old, row_of(before), told, asked)


_MAKERS: dict[int, tuple[Callable[..., Question], int]] = {
    tasks.MAPPING: (_mapping, 16),
    tasks.SENTENCES: (_sentences, 128),
    tasks.MINI: (_mini, 512),
    tasks.ARITHMETIC: (_arithmetic, 128),
    tasks.BLOCKS: (_blocks, 128),
    tasks.LINES: (_lines, 16),
}
"""Each family's generator, and N where about one stream in N needs a question per step."""


def refilled(
    corrected: bool, families: tuple[int, ...], composition: str, due: Due, old: Question
) -> Question:
    """The question after what is due was put into it; only streams where anything is due pay."""
    kinds = np.zeros(len(_MAKERS), np.int32)
    kinds[list(families)] = 1 + np.arange(len(families))
    family = jnp.asarray(tasks.table(corrected)["family"])[due.task]
    kind = jnp.where(due.feedback | due.ask, jnp.asarray(kinds)[family], 0)
    return _refiller(corrected, families, composition)(kind, old, _packed(due), old)


@functools.cache
def _refiller(
    corrected: bool, families: tuple[int, ...], composition: str
) -> Callable[..., Question]:
    sentences_, each = _MAKERS[tasks.SENTENCES]
    known = {tasks.SENTENCES: (functools.partial(sentences_, composition), each)}
    makers: list[Any] = [known.get(family, _MAKERS[family]) for family in families]

    def groups(size: int) -> tuple[int, ...]:
        return tuple(max(8, size // part) for _, part in makers)

    def one(make: Callable[..., Question], row: jax.Array, old: Question) -> Question:
        return make(corrected, _unpacked(row), old)

    return make_switch_compacted([functools.partial(one, make) for make, _ in makers], groups)


@functools.cache
def prepare() -> None:
    """Lays down in the pool whatever any question may need."""
    texts = (*sentences.texts(), *mini.TEXTS, *arithmetic.texts(), *blocks.texts())
    for text in (*texts, *lines.texts(), ";", "."):
        shared().token(text)
    shared().close()
