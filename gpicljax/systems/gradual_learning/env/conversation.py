"""What a conversation consists of: a task's rules, a question, and where an instance stands.

Streams carry few rows: what there are many of lies side by side in numbers, in bits (`posed`,
`kept`, `packed`).

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
from gpicljax.systems.gradual_learning.env.pool import laid_in_two, row_of, shared

SPACE, PERIOD = 32, 46
TEXT = 36
"""Tokens of a feedback and a question."""
ANSWER = 8
"""Tokens of an answer, of which the last is its period, if it has one."""
PATTERN = 12

EXACT, ONE_OF, LACKING, CONTAINING = range(4)
"""What is accepted: the target; one of four patterns of three bytes; a non-empty answer without
the first pattern's byte; an answer in which one of the patterns occurs."""

AT_ONCE, ONE_RIGHT, LETTER_RIGHT, OPTIONS, ALL_ASKED = range(5)
"""When a learner should know: at once; after a right answer or 69 wrong ones; after a right answer
to one of the first four keys or 26 wrong ones; when no key has more than one option left of 26;
when every key was asked."""


class Rules(NamedTuple):
    """A task's row of numbers, `int32[]` each.

    Attributes:
      spoken: 1 if answers end with a period, 0 if with as many bytes as the target has.
      limit: of answers that end with a period, the most bytes, silent ones included; 0: none.
      know: when the learner should know, see above.
      tolerance: how many times as many questions a failing instance is continued for.
      needed: how many right answers in a row solve an instance.
      fatal: 1 if a wrong answer ends it.
      patience: after how many steps it ends.
      mini: 1 if the talk is that of the mini tasks.
      lenient: 1 if an answer begins with its first byte that is no space.
      letters: 1 if only the first four keys count towards the answers needed.
      mute: 1 if there is no feedback.
      strict: 1 if an answer is wrong with its first wrong byte.
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
    """What is said, and what is to be answered, in as few arrays as possible: see `posed`.

    Attributes:
      tokens: `int32[TEXT + ANSWER]`, where the tokens of the text and of an accepted answer are.
      bytes: `uint8[TEXT + ANSWER + PATTERN]`, where they end, see `pool.laid`; and the pattern of
        acceptors other than `EXACT`.
      marks: `int32[]`, all that follows.
    """

    tokens: jax.Array
    bytes: jax.Array
    marks: jax.Array

    @property
    def text(self) -> tuple[jax.Array, jax.Array]:
        """What is being said, `int32[TEXT]` and `uint8[TEXT]`, see `pool.laid`."""
        return self.tokens[:TEXT], self.bytes[:TEXT]

    @property
    def answer(self) -> tuple[jax.Array, jax.Array]:
        """An answer that is accepted, `int32[ANSWER]` and `uint8[ANSWER]`, see `pool.laid`."""
        return self.tokens[TEXT:], self.bytes[TEXT : TEXT + ANSWER]

    @property
    def pattern(self) -> jax.Array:
        """For acceptors other than `EXACT`, `uint8[PATTERN]`."""
        return self.bytes[TEXT + ANSWER :]

    @property
    def end(self) -> jax.Array:
        """How many bytes are said, `int32[]`."""
        return self.bytes[TEXT - 1].astype(jnp.int32)

    @property
    def size(self) -> jax.Array:
        """How many bytes the answer has, `int32[]`."""
        return self.bytes[TEXT + ANSWER - 1].astype(jnp.int32)

    @property
    def cursor(self) -> jax.Array:
        """How much of the text was said, `int32[]`."""
        return bits.part(self.marks, _MARKS, 0)

    @property
    def acceptor(self) -> jax.Array:
        """What is accepted, `int32[]`, see above."""
        return bits.part(self.marks, _MARKS, 1)

    @property
    def style(self) -> jax.Array:
        """Which feedback, `int32[]`."""
        return bits.part(self.marks, _MARKS, 2)

    @property
    def key(self) -> jax.Array:
        """Which key of a mapping, `int32[]`."""
        return bits.part(self.marks, _MARKS, 3)

    @property
    def keys(self) -> jax.Array:
        """Bits of the keys that the mapping has, `int32[]`."""
        return bits.part(self.marks, _MARKS, 4)


_MARKS = (8, 2, 4, 4, 12)
"""How many bits the cursor, the acceptor, the style, the key and the keys of a question take."""


def posed(
    text: jax.Array,
    answer: jax.Array,
    pattern: jax.Array,
    cursor: Any,
    acceptor: Any,
    style: Any,
    key: Any,
    keys: Any,
) -> Question:
    """A question of which `cursor` bytes were said.

    Args:
      text: `int32[TEXT]` tokens, of at most 255 bytes.
      answer: `int32[ANSWER]` tokens, likewise.
      pattern: see `Question`; so are the others, `int32[]`.
      cursor: below 256.
      acceptor: below 4.
      style: below 16.
      key: below 16.
      keys: below 2**12.

    Example:
      >>> row = jnp.zeros(TEXT + ANSWER, jnp.int32).at[0].set(shared().token("say"))
      >>> none = jnp.zeros(PATTERN, jnp.uint8)
      >>> question = posed(row[:TEXT], row[TEXT:], none, 1, EXACT, 7, 3, 15)
      >>> [int(x) for x in (question.end, question.cursor, question.style, question.key)]
      [3, 1, 7, 3]
    """
    row = jnp.concatenate([text, answer]).astype(jnp.int32)
    tokens, ends = laid_in_two(row, TEXT)
    marks = bits.pack([cursor, acceptor, style, key, keys], _MARKS)
    return Question(tokens, jnp.concatenate([ends, pattern]), marks)


class Asked(NamedTuple):
    """A question as it is drawn; see `Question`.

    Attributes:
      text: `int32[K]`, its tokens; feedback and they are at most `TEXT`.
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


def asked_exactly(text: jax.Array, answer: jax.Array, style: Any) -> Asked:
    """A question without keys, to which only one answer is right.

    Args:
      text: `int32[K]`, its tokens.
      answer: `int32[A]`, tokens without the period that ends it, at most `ANSWER - 1`.
      style: `int32[]`, which feedback.
    """
    zero = jnp.zeros((), jnp.int32)
    return Asked(
        text=text,
        answer=row_of(answer, np.zeros(ANSWER - 1 - len(answer)), shared().token(".")),
        pattern=jnp.zeros(PATTERN, jnp.uint8),
        acceptor=jnp.full((), EXACT, jnp.int32),
        style=jnp.asarray(style, jnp.int32),
        key=zero,
        keys=zero,
    )


@struct.dataclass
class Talk:
    """An instance in progress, `int32[]` each but for `uint32[]` memory.

    Attributes:
      time: steps taken.
      said: bytes of the answer so far, and
      waited: the spaces before it.
      matched: what the acceptor remembers of it.
      streak: right answers in a row.
      periods: answers in a row that ended with their period, 7 for more.
      asked: answers decided.
      limit: after how many a solution comes too late; 0 while unknown, negative if any does.
      final: after how many the instance fails; 0 while unknown.
      known: whether the learner should know.
      memory: what `know` remembers.
      ended: 1 if the instance has, 2 if the space after it was said.
      result: -1 while open, 0 failed, 1 solved.
    """

    time: jax.Array
    said: jax.Array
    waited: jax.Array
    matched: jax.Array
    streak: jax.Array
    periods: jax.Array
    asked: jax.Array
    limit: jax.Array
    final: jax.Array
    known: jax.Array
    memory: jax.Array
    ended: jax.Array
    result: jax.Array


@struct.dataclass
class Kept:
    """An instance in progress as it is carried from step to step: its numbers side by side.

    Attributes:
      clock: `int32[]`, `time` and `asked`.
      answer: `int32[]`, `said` and `waited`.
      ends: `int32[]`, `final` and `limit`.
      marks: `int32[]`, what is left.
      memory: `uint32[]`.
    """

    clock: jax.Array
    answer: jax.Array
    ends: jax.Array
    marks: jax.Array
    memory: jax.Array

    @property
    def talk(self) -> Talk:
        """The numbers, one by one."""
        time, asked = bits.unpack(self.clock, _HALVES)
        said, waited = bits.unpack(self.answer, _HALVES)
        final, limit = bits.unpack(self.ends, _HALVES)
        matched, streak, periods, known, ended, result = bits.unpack(self.marks, _TALK)
        return Talk(
            time=time,
            said=said,
            waited=waited,
            matched=matched,
            streak=streak,
            periods=periods,
            asked=asked,
            limit=limit,
            final=final,
            known=known,
            memory=self.memory,
            ended=ended,
            result=result - 1,
        )


_HALVES = (16, 15)
"""How many bits two counts take that are carried in one number."""
_TALK = (PATTERN + 1, 4, 3, 1, 2, 2)
"""How many bits these take: matched, streak, periods, known, ended and result."""
MOST_PERIODS = 7
"""That are counted; the field has three bits."""


def kept(talk: Talk) -> Kept:
    """A talk as it is carried: counts stay below 2**15, for no instance lasts that long."""
    marks = talk.matched, talk.streak, talk.periods, talk.known, talk.ended, talk.result + 1
    return Kept(
        clock=bits.pack([talk.time, talk.asked], _HALVES),
        answer=bits.pack([talk.said, talk.waited], _HALVES),
        ends=bits.pack([talk.final, talk.limit], _HALVES),
        marks=bits.pack(marks, _TALK),
        memory=talk.memory,
    )


def packed(rules: Rules) -> np.ndarray:
    """Rules as one number, `int32[...]`."""
    units = [np.asarray(value) // scale for value, scale in zip(rules, _SCALES, strict=True)]
    for value, unit, width, scale in zip(rules, units, _WIDTHS, _SCALES, strict=True):
        assert (unit < 2**width).all() and (unit * scale == value).all(), (value, width)
    with jax.ensure_compile_time_eval():
        return np.asarray(bits.pack(units, _WIDTHS))


def unpacked(number: jax.Array) -> Rules:
    """Rules from their number, see `packed`."""
    units = bits.unpack(number, _WIDTHS)
    return Rules(*(unit * scale for unit, scale in zip(units, _SCALES, strict=True)))


# For each of the rules, how many bits it takes, and in what unit.
_WIDTHS = (1, 7, 3, 2, 4, 1, 4, 1, 1, 1, 1, 1, 1, 1)
_SCALES = (1, 1, 1, 1, 1, 1, 1_000, 1, 1, 1, 1, 1, 1, 1)


class Heard(NamedTuple):
    """What became of a byte.

    Attributes:
      talk: the instance after it.
      reward: `int32[]`.
      feedback: `bool[]`, feedback is due, on
      correct: `bool[]`, a right answer or a wrong one;
      late: `bool[]`, a right one as time ran out: what is said to a wrong one comes before.
      ask: `bool[]`, a question is due.
      keep: `bool[]`, the rest of the text is said before the feedback.
      switch: `bool[]`, the instance is over: the next one begins with this very step.
    """

    talk: Talk
    reward: jax.Array
    feedback: jax.Array
    correct: jax.Array
    late: jax.Array
    ask: jax.Array
    keep: jax.Array
    switch: jax.Array


def first_talk(know: jax.Array) -> Talk:
    """An instance of which nothing was said yet.

    Args:
      know: `int32[]`, see `Rules`.

    Example:
      >>> int(first_talk(jnp.int32(AT_ONCE)).result)
      -1
    """
    zero = jnp.zeros((), jnp.int32)
    options = np.uint32(0x1A1A1A1A)
    memory = jnp.where(know == OPTIONS, options, np.uint32(0))
    talk = Talk(*[zero] * 13)
    return dataclasses.replace(talk, memory=memory, result=jnp.full((), -1, jnp.int32))
