"""Types of a conversation: the rules of a task, a question, and the progress of an instance.

Streams carry few arrays: small numbers share an integer (`make_question`, `pack_progress`,
`pack_rules`).

Source: section A.1.2 of the challenge's document.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax.systems.gradual_learning.env import bits
from gpicljax.systems.gradual_learning.env.pool import lay_out_in_two, row_of, shared_pool

SPACE, PERIOD = 32, 46
TEXT = 36
"""Most tokens of feedback and a question."""
ANSWER = 8
"""Tokens of an answer; the last is its period, if it has one."""
PATTERN = 12

EXACT, ONE_OF, LACKING, CONTAINING = range(4)
"""Kinds of accepted answers: the target; one of four patterns of three bytes; any answer without
the first pattern's byte; any answer that contains one of the patterns."""

AT_ONCE, ONE_RIGHT, LETTER_RIGHT, OPTIONS, ALL_ASKED = range(5)
"""Times from which a learner can know the mapping: at once; after a right answer or 69 wrong ones;
after a right answer to one of the first four keys or 26 wrong ones; when every key has one option
left of 26; when every key was asked."""


class TaskRules(NamedTuple):
    """The rules of a task, `int32[]` each.

    Attributes:
      spoken: 1 if answers end with a period, 0 if they end at the length of the target.
      limit: most bytes of an answer that ends with a period, silent ones included; 0 for any.
      know: the time from which a learner can know the mapping, see above.
      tolerance: a failing instance goes on for so many times as many questions.
      needed: the right answers in a row that solve an instance.
      fatal: 1 if a wrong answer ends the instance.
      patience: the steps after which the instance ends.
      mini: 1 in the conversation of the mini tasks.
      lenient: 1 if spaces in front of an answer do not belong to it.
      letters: 1 if only answers to the first four keys count.
      mute: 1 if there is no feedback.
      strict: 1 if the first wrong byte decides an answer.
      graded: 1 if each right byte is rewarded.
      repeats: 1 if a wrong answer to a key that was asked before fails the instance.
    """

    spoken: Any
    limit: Any
    know: Any
    tolerance: Any
    needed: Any
    fatal: Any
    patience: Any
    mini: Any
    lenient: Any
    letters: Any
    mute: Any
    strict: Any
    graded: Any
    repeats: Any


@struct.dataclass
class Question:
    """A text to be said and the answers that are accepted, in as few arrays as possible.

    Attributes:
      tokens: `int32[TEXT + ANSWER]`, the bases of the tokens of the text and of an answer.
      bytes: `uint8[TEXT + ANSWER + PATTERN]`, the tokens' ends, see `pool.lay_out`, and the
        pattern of acceptors other than `EXACT`.
      marks: `int32[]`, the cursor, the acceptor, the style, the key and the keys.
    """

    tokens: jax.Array
    bytes: jax.Array
    marks: jax.Array

    @property
    def text(self) -> tuple[jax.Array, jax.Array]:
        """Returns the text, `int32[TEXT]` and `uint8[TEXT]`; see `pool.lay_out`."""
        return self.tokens[:TEXT], self.bytes[:TEXT]

    @property
    def answer(self) -> tuple[jax.Array, jax.Array]:
        """Returns an accepted answer, `int32[ANSWER]` and `uint8[ANSWER]`; see `pool.lay_out`."""
        return self.tokens[TEXT:], self.bytes[TEXT : TEXT + ANSWER]

    @property
    def pattern(self) -> jax.Array:
        """Returns the patterns of acceptors other than `EXACT`, `uint8[PATTERN]`."""
        return self.bytes[TEXT + ANSWER :]

    @property
    def end(self) -> jax.Array:
        """Returns the length of the text in bytes, `int32[]`."""
        return self.bytes[TEXT - 1].astype(jnp.int32)

    @property
    def size(self) -> jax.Array:
        """Returns the length of the answer in bytes, `int32[]`."""
        return self.bytes[TEXT + ANSWER - 1].astype(jnp.int32)

    @property
    def cursor(self) -> jax.Array:
        """Returns the number of bytes of the text that were said, `int32[]`."""
        return bits.part(self.marks, _QUESTION_WIDTHS, 0)

    @property
    def acceptor(self) -> jax.Array:
        """Returns the kind of answer that is accepted, `int32[]`, see above."""
        return bits.part(self.marks, _QUESTION_WIDTHS, 1)

    @property
    def style(self) -> jax.Array:
        """Returns the style of the feedback, `int32[]`."""
        return bits.part(self.marks, _QUESTION_WIDTHS, 2)

    @property
    def key(self) -> jax.Array:
        """Returns the key of the mapping that is asked about, `int32[]`."""
        return bits.part(self.marks, _QUESTION_WIDTHS, 3)

    @property
    def keys(self) -> jax.Array:
        """Returns the bits of the keys that the mapping has, `int32[]`."""
        return bits.part(self.marks, _QUESTION_WIDTHS, 4)


_QUESTION_WIDTHS = (8, 2, 4, 4, 12)
"""Bits of the cursor, the acceptor, the style, the key and the keys of a question."""


def make_question(
    text: jax.Array,
    answer: jax.Array,
    pattern: jax.Array,
    cursor: Any,
    acceptor: Any,
    style: Any,
    key: Any,
    keys: Any,
) -> Question:
    """Returns a question of which `cursor` bytes were said.

    Args:
      text: `int32[TEXT]` tokens, of at most 255 bytes.
      answer: `int32[ANSWER]` tokens, likewise.
      pattern: see `Question`; so are the others, `int32[]`.
      cursor: below 256.
      acceptor: below 4.
      style: below 16.
      key: below 16.
      keys: below 2**12.
    """
    row = jnp.concatenate([text, answer]).astype(jnp.int32)
    tokens, ends = lay_out_in_two(row, TEXT)
    marks = bits.pack([cursor, acceptor, style, key, keys], _QUESTION_WIDTHS)
    return Question(tokens, jnp.concatenate([ends, pattern]), marks)


class QuestionParts(NamedTuple):
    """The parts of a question before they are packed; see `Question`.

    Attributes:
      text: `int32[K]`, its tokens; with those of feedback at most `TEXT`.
      answer: `int32[ANSWER]`, tokens.
      pattern: `uint8[PATTERN]`.
      acceptor: `int32[]`.
      style: `int32[]`.
      key: `int32[]`.
      keys: `int32[]`.
    """

    text: jax.Array
    answer: jax.Array
    pattern: jax.Array
    acceptor: jax.Array
    style: jax.Array
    key: jax.Array
    keys: jax.Array


def exact_question(text: jax.Array, answer: jax.Array, style: Any) -> QuestionParts:
    """Returns a question without keys, to which only one answer is right.

    Args:
      text: `int32[K]`, its tokens.
      answer: `int32[A]`, tokens without the period that ends it, at most `ANSWER - 1`.
      style: `int32[]`, style of the feedback.
    """
    zero = jnp.zeros((), jnp.int32)
    return QuestionParts(
        text=text,
        answer=row_of(answer, np.zeros(ANSWER - 1 - len(answer)), shared_pool().token(".")),
        pattern=jnp.zeros(PATTERN, jnp.uint8),
        acceptor=jnp.full((), EXACT, jnp.int32),
        style=jnp.asarray(style, jnp.int32),
        key=zero,
        keys=zero,
    )


@struct.dataclass
class Progress:
    """The progress of an instance, `int32[]` each but for `uint32[]` memory.

    Attributes:
      time: steps taken.
      answer_bytes: bytes of the answer so far.
      leading_spaces: spaces before the answer.
      matched: bits of what the acceptor has matched.
      streak: right answers in a row.
      periods: answers in a row that ended with their period, 7 for more.
      answers: number of answers that are complete.
      late_after: answers after which a solution is late; 0 while open, negative if it always is.
      fails_after: answers after which the instance fails; 0 while open.
      is_knowable: whether a learner can know the mapping.
      memory: the state from which `is_knowable` follows.
      end_stage: 1 once the instance has ended, 2 once the space after it was said.
      result: -1 while open, 0 failed, 1 solved.
    """

    time: jax.Array
    answer_bytes: jax.Array
    leading_spaces: jax.Array
    matched: jax.Array
    streak: jax.Array
    periods: jax.Array
    answers: jax.Array
    late_after: jax.Array
    fails_after: jax.Array
    is_knowable: jax.Array
    memory: jax.Array
    end_stage: jax.Array
    result: jax.Array


@struct.dataclass
class PackedProgress:
    """The progress of an instance as it is carried from step to step, several numbers in one.

    Attributes:
      clock: `int32[]`, `time` and `answers`.
      answer: `int32[]`, `answer_bytes` and `leading_spaces`.
      ends: `int32[]`, `fails_after` and `late_after`.
      marks: `int32[]`, the other numbers.
      memory: `uint32[]`.
    """

    clock: jax.Array
    answer: jax.Array
    ends: jax.Array
    marks: jax.Array
    memory: jax.Array

    @property
    def progress(self) -> Progress:
        """Returns the numbers one by one."""
        time, answers = bits.unpack(self.clock, _HALF_WIDTHS)
        answer_bytes, leading_spaces = bits.unpack(self.answer, _HALF_WIDTHS)
        fails_after, late_after = bits.unpack(self.ends, _HALF_WIDTHS)
        matched, streak, periods, is_knowable, end_stage, result = bits.unpack(
            self.marks, _MARK_WIDTHS
        )
        return Progress(
            time=time,
            answer_bytes=answer_bytes,
            leading_spaces=leading_spaces,
            matched=matched,
            streak=streak,
            periods=periods,
            answers=answers,
            late_after=late_after,
            fails_after=fails_after,
            is_knowable=is_knowable,
            memory=self.memory,
            end_stage=end_stage,
            result=result - 1,
        )


_HALF_WIDTHS = (16, 15)
"""Bits of two counts that share a number."""
_MARK_WIDTHS = (PATTERN + 1, 4, 3, 1, 2, 2)
"""Bits of `matched`, `streak`, `periods`, `is_knowable`, `end_stage` and `result`."""
PERIODS_CAP = 7
"""Cap on the counted answers that end with a period; stored in three bits."""


def pack_progress(progress: Progress) -> PackedProgress:
    """Packs the progress; counts stay below 2**15, for no instance lasts that long."""
    marks = (
        progress.matched,
        progress.streak,
        progress.periods,
        progress.is_knowable,
        progress.end_stage,
        progress.result + 1,
    )
    return PackedProgress(
        clock=bits.pack([progress.time, progress.answers], _HALF_WIDTHS),
        answer=bits.pack([progress.answer_bytes, progress.leading_spaces], _HALF_WIDTHS),
        ends=bits.pack([progress.fails_after, progress.late_after], _HALF_WIDTHS),
        marks=bits.pack(marks, _MARK_WIDTHS),
        memory=progress.memory,
    )


def pack_rules(rules: TaskRules) -> np.ndarray:
    """Returns rules as one number, `int32[...]`."""
    units = [np.asarray(value) // scale for value, scale in zip(rules, _RULE_UNITS, strict=True)]
    for value, unit, width, scale in zip(rules, units, _RULE_WIDTHS, _RULE_UNITS, strict=True):
        assert (unit < 2**width).all() and (unit * scale == value).all(), (value, width)
    with jax.ensure_compile_time_eval():
        return np.asarray(bits.pack(units, _RULE_WIDTHS))


def unpack_rules(number: jax.Array) -> TaskRules:
    """Returns the rules of a number that `pack_rules` returned."""
    units = bits.unpack(number, _RULE_WIDTHS)
    return TaskRules(*(unit * scale for unit, scale in zip(units, _RULE_UNITS, strict=True)))


# The bits of each rule, and its unit.
_RULE_WIDTHS = (1, 7, 3, 2, 4, 1, 4, 1, 1, 1, 1, 1, 1, 1)
_RULE_UNITS = (1, 1, 1, 1, 1, 1, 1_000, 1, 1, 1, 1, 1, 1, 1)


class ReplyOutcome(NamedTuple):
    """The outcome of one byte of the learner.

    Attributes:
      progress: the progress after the byte.
      reward: `int32[]`.
      is_feedback_due: `bool[]`, whether feedback is due.
      is_correct: `bool[]`, whether the answer was right.
      is_late: `bool[]`, whether a right answer came as time ran out; feedback on a wrong one is
        then said first.
      is_question_due: `bool[]`, whether a question is due.
      keeps_text: `bool[]`, whether the rest of the text is said before the feedback.
      starts_next: `bool[]`, whether the next instance begins with this step.
    """

    progress: Progress
    reward: jax.Array
    is_feedback_due: jax.Array
    is_correct: jax.Array
    is_late: jax.Array
    is_question_due: jax.Array
    keeps_text: jax.Array
    starts_next: jax.Array


def first_progress(know: jax.Array) -> Progress:
    """Returns the progress of an instance that has only begun.

    Args:
      know: `int32[]`, see `Rules`.
    """
    zero = jnp.zeros((), jnp.int32)
    options = np.uint32(0x1A1A1A1A)
    memory = jnp.where(know == OPTIONS, options, np.uint32(0))
    progress = Progress(*[zero] * 13)
    return dataclasses.replace(progress, memory=memory, result=jnp.full((), -1, jnp.int32))
