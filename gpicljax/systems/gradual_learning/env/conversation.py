"""Types of a conversation: the rules of a task, a question, and the progress of an instance.

Questions and rules are packed, as streams are to carry, and to gather from, few arrays: small
numbers share an integer. All other modules speak of `Question` and `TaskRules`.

Source: section A.1.2 of the challenge's document.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax.systems.gradual_learning.env.hashing import Seed
from gpicljax.systems.gradual_learning.env.pool import Row, row_ends, row_of, shared_pool

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
      patience: the thousands of steps after which the instance ends.
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


class Question(NamedTuple):
    """A text to be said and the answers that are accepted.

    Attributes:
      text: `int32[TEXT]`, its tokens, see `pool`, of at most 255 bytes; fewer tokens from a
        generator of questions.
      answer: `int32[ANSWER]`, tokens of an accepted answer.
      pattern: `uint8[PATTERN]`, the patterns of acceptors other than `EXACT`.
      acceptor: `int32[]`, the kind of answer that is accepted, see above.
      style: `int32[]`, the style of the feedback.
      key: `int32[]`, the key of the mapping that is asked about, and
      keys: the bits of the keys that it has.
      cursor: `int32[]`, the number of bytes of the text that were said.
    """

    text: jax.Array
    answer: jax.Array
    pattern: jax.Array
    acceptor: jax.Array
    style: jax.Array
    key: jax.Array
    keys: jax.Array
    cursor: jax.Array


@struct.dataclass
class PackedQuestion:
    """A question as it is carried from step to step, in as few arrays as possible.

    Attributes:
      tokens: `int32[TEXT + ANSWER]`, the tokens of the text and of the answer.
      bytes: `uint8[TEXT + ANSWER + PATTERN]`, the tokens' ends, see `pool.Row`, and the pattern.
      marks: `int32[]`, the other fields of a question.
    """

    tokens: jax.Array
    bytes: jax.Array
    marks: jax.Array

    @property
    def text(self) -> Row:
        """Returns the text."""
        return Row(self.tokens[:TEXT], self.bytes[:TEXT])

    @property
    def answer(self) -> Row:
        """Returns the answer."""
        return Row(self.tokens[TEXT:], self.bytes[TEXT : TEXT + ANSWER])

    def unpack(self) -> Question:
        """Returns the fields one by one."""
        cursor, acceptor, style, key, keys = unpack(self.marks, _QUESTION_WIDTHS)
        return Question(
            text=self.tokens[:TEXT],
            answer=self.tokens[TEXT:],
            pattern=self.bytes[TEXT + ANSWER :],
            acceptor=acceptor,
            style=style,
            key=key,
            keys=keys,
            cursor=cursor,
        )

    def move_cursor(self, steps: jax.Array) -> PackedQuestion:
        """Returns the question of which further bytes were said, which `marks` have lowest."""
        return dataclasses.replace(self, marks=self.marks + steps)


_QUESTION_WIDTHS = (8, 2, 4, 4, 12)
"""Bits of the cursor, the acceptor, the style, the key and the keys of a question."""


def pack_question(question: Question) -> PackedQuestion:
    """Packs a question, whose text has `TEXT` tokens."""
    text, answer, pattern, *marks, cursor = question
    tokens = row_of(text, answer)
    ends = row_ends(tokens, TEXT, ANSWER)
    marks = pack([cursor, *marks], _QUESTION_WIDTHS)
    return PackedQuestion(tokens, jnp.concatenate([ends, pattern]), marks)


def exact_question(text: jax.Array, answer: jax.Array, style: Any) -> Question:
    """Returns a question without keys, to which only one answer is right.

    Args:
      text: `int32[K]`, its tokens.
      answer: `int32[A]`, tokens without the period that ends it, at most `ANSWER - 1`.
      style: `int32[]`, style of the feedback.
    """
    zero = jnp.zeros((), jnp.int32)
    return Question(
        text=text,
        answer=row_of(answer, np.zeros(ANSWER - 1 - len(answer)), shared_pool().token(".")),
        pattern=jnp.zeros(PATTERN, jnp.uint8),
        acceptor=jnp.full((), EXACT, jnp.int32),
        style=jnp.asarray(style, jnp.int32),
        key=zero,
        keys=zero,
        cursor=zero,
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


RELIABLE_AFTER, PERIODS_CAP = 5, 7
"""Answers in a row with a period after which micro5.6.later no longer demands it, and the cap on
those that are counted."""


# The bits of each rule.
_RULE_WIDTHS = (1, 7, 3, 2, 4, 1, 4, 1, 1, 1, 1, 1, 1, 1)


def pack_rules(rules: TaskRules) -> np.ndarray:
    """Returns rules as one number, `int32[...]`: rows are slow to look up."""
    for value, width in zip(rules, _RULE_WIDTHS, strict=True):
        assert (np.asarray(value) < 2**width).all(), (value, width)
    return np.asarray(pack(rules, _RULE_WIDTHS))


def unpack_rules(number: jax.Array) -> TaskRules:
    """Returns the rules of a number that `pack_rules` returned."""
    return TaskRules(*unpack(number, _RULE_WIDTHS))


def pack(values: Iterable[Any], widths: Sequence[int]) -> Any:
    """Returns arrays `[...]` of numbers that are not negative as one, the first ones lowest.

    Each is below `2**width`, which is not checked; all widths together are at most 31.
    """
    number, shift = np.int32(0), 0
    for value, width in zip(values, widths, strict=True):
        number, shift = number | (value.astype(np.int32) << shift), shift + width
    return number


def unpack(number: jax.Array, widths: Sequence[int]) -> list[jax.Array]:
    """Returns the numbers that `pack` has put side by side, `int32[...]` each."""
    shifts = np.cumsum([0, *widths]).tolist()
    return [number >> shift & 2**width - 1 for shift, width in zip(shifts, widths, strict=False)]


class Due(NamedTuple):
    """The texts that are due after a byte of the learner, `bool[]` each.

    Attributes:
      feedback: whether feedback on the last question is due.
      is_correct: whether the last question was answered correctly.
      is_reliable: whether recent answers have ended with their periods.
      is_late: whether a right answer came as time ran out; feedback on a wrong one is then said
        first.
      question: whether a question is due.
      rest: whether the rest of the text is said first; with `question`, the question is a
        stream's first one, of which a byte was said already.
    """

    feedback: jax.Array
    is_correct: jax.Array
    is_reliable: jax.Array
    is_late: jax.Array
    question: jax.Array
    rest: jax.Array


class ReplyOutcome(NamedTuple):
    """The outcome of one byte of the learner.

    Attributes:
      progress: the progress after the byte.
      reward: `int32[]`.
      due: what is to be said.
      starts_next: `bool[]`, whether the next instance begins with this step.
    """

    progress: Progress
    reward: jax.Array
    due: Due
    starts_next: jax.Array


class QuestionSource(NamedTuple):
    """The numbers from which all of a question is drawn.

    Attributes:
      seed: the seed of the instance.
      series: the seed of the description that mini0 shows ten times.
      mini0_count: `int32[]`, the number of instances of mini0 before.
      task: `int32[]`, index of the task set.
      number: `int32[]`, the number of the question in the instance.
    """

    seed: Seed
    series: Seed
    mini0_count: jax.Array
    task: jax.Array
    number: jax.Array


def first_progress(know: jax.Array) -> Progress:
    """Returns the progress of an instance that has only begun.

    Args:
      know: `int32[]`, see `TaskRules`.
    """
    zero = jnp.zeros((), jnp.int32)
    options = np.uint32(0x1A1A1A1A)
    memory = jnp.where(know == OPTIONS, options, np.uint32(0))
    progress = Progress(*[zero] * 13)
    return dataclasses.replace(progress, memory=memory, result=jnp.full((), -1, jnp.int32))
