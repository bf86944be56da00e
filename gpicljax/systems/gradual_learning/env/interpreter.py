"""What happens at one byte, whatever the task: the rules of the conversation.

The environment speaks what lies in `text`; while it does, the learner is to be silent (a space).
When it is done, every byte of the learner belongs to its answer, until the answer is decided; then
come feedback and the next question. The rules of a task are a row of numbers (`Rules`), its
questions come from other modules: `hear` says whether a new text is due, and `speak` utters what is
there.

Source: section A.1.2 of the challenge's document, and what is known of its reference
implementation.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.systems.gradual_learning.env.conversation import (
    ALL_ASKED,
    EXACT,
    LACKING,
    LETTER_RIGHT,
    MOST_PERIODS,
    ONE_OF,
    ONE_RIGHT,
    OPTIONS,
    PATTERN,
    PERIOD,
    SPACE,
    Heard,
    Question,
    Rules,
    Talk,
)
from gpicljax.systems.gradual_learning.env.pool import byte_at


def expected(pool: jax.Array, question: Question, talk: Talk, mini: jax.Array) -> jax.Array:
    """The next byte of an answer that is accepted, `int32[]`."""
    place = jnp.where(mini, talk.matched, talk.said)
    return byte_at(pool, *question.answer, place)


def _matched(
    question: Question, talk: Talk, byte: jax.Array, next_byte: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """What the acceptor remembers after one more byte, and whether an answer ending there is right.

    Bits 0-11 belong to the patterns' bytes, bit 12 says that something was found.
    """
    same = question.pattern == byte.astype(jnp.uint8)
    bits = jnp.asarray(1 << np.arange(PATTERN), jnp.int32)
    hits = jnp.where(same, bits, 0).sum(dtype=jnp.int32)
    found = 1 << PATTERN
    matched, said = talk.matched, talk.said
    # Exactly: a bit that falls at the first difference.
    exact = jnp.where(said == 0, 1, matched) & (next_byte == byte)
    exact_right = (exact == 1) & (said + 1 == question.size)
    # One of four: a bit for each that agrees so far, of which all end with a period.
    firsts, starts = 0b1001001001, jnp.minimum(said, 2)
    agree = (hits >> starts) & firsts
    one_of = jnp.where(said > 2, 0, jnp.where(said == 0, firsts, matched) & agree)
    # Lacking: the bit that something was found.
    lacking = jnp.where(said == 0, 0, matched) | jnp.where(same[0], found, 0)
    # Containing: bits move on along the patterns.
    there = question.pattern != 0
    beyond = jnp.concatenate([there[1:], jnp.zeros(1, bool)])
    third = jnp.asarray(np.arange(PATTERN) % 3 == 2)
    last = jnp.where(there & (third | ~beyond), bits, 0).sum(dtype=jnp.int32)
    before = jnp.where(said == 0, 0, matched)
    moved = (((before & (found - 1)) << 1) | firsts) & hits
    containing = moved | (before & found) | jnp.where((moved & last) != 0, found, 0)
    kind = question.acceptor
    matched = jnp.select(
        [kind == EXACT, kind == ONE_OF, kind == LACKING], [exact, one_of, lacking], containing
    ).astype(jnp.int32)
    right = jnp.select(
        [kind == EXACT, kind == ONE_OF, kind == LACKING],
        [exact_right, one_of != 0, (lacking == 0) & (said > 0)],
        containing >= found,
    )
    return matched, right


def _known(rules: Rules, talk: Talk, question: Question, correct: jax.Array) -> Talk:
    """Whether the learner should know, after an answer."""
    memory, key = talk.memory, question.key
    wrong = memory + jnp.where(correct, 0, 1).astype(jnp.uint32)
    shift = (8 * jnp.clip(key, 0, 3)).astype(jnp.uint32)
    left = (memory >> shift) & np.uint32(255)
    left = jnp.where(correct, np.uint32(1), jnp.maximum(left - np.uint32(1), np.uint32(1)))
    options = (memory & ~(np.uint32(255) << shift)) | (left << shift)
    options = jnp.where(key < 4, options, memory)
    asked = memory | (np.uint32(1) << key.astype(jnp.uint32))
    know = rules.know
    kinds = [know == ONE_RIGHT, know == LETTER_RIGHT, know == OPTIONS, know == ALL_ASKED]
    known = jnp.select(
        kinds,
        [
            correct | (memory >= 69),
            (correct & (key < 4)) | (memory >= 26),
            options == np.uint32(0x01010101),
            asked == question.keys.astype(jnp.uint32),
        ],
        True,
    )
    memory = jnp.select(kinds, [wrong, wrong, options, asked], memory)
    return dataclasses.replace(talk, memory=memory, known=talk.known | known.astype(jnp.int32))


class _Moment(NamedTuple):
    """When a byte comes: `bool[]` each.

    Attributes:
      mini: whether it is a mini task.
      talking: whether the environment is still speaking.
      before: whether the instance had ended.
      silent: whether the byte is a space.
      period: whether it is a period.
      timeout: whether time is up.
      heard: whether the byte counts.
    """

    mini: jax.Array
    talking: jax.Array
    before: jax.Array
    silent: jax.Array
    period: jax.Array
    timeout: jax.Array
    heard: jax.Array


class _Answer(NamedTuple):
    """An answer with its newest byte.

    Attributes:
      opened: `bool[]`, whether the byte belongs to it.
      leading: `bool[]`, whether it is a space in front of it.
      said: `int32[]`, its bytes.
      waited: `int32[]`, the spaces in front of it.
      matched: `int32[]`, what the acceptor remembers.
      decided: `bool[]`, whether it is whole.
      correct: `bool[]`, whether it is whole and right.
    """

    opened: jax.Array
    leading: jax.Array
    said: jax.Array
    waited: jax.Array
    matched: jax.Array
    decided: jax.Array
    correct: jax.Array


class _MiniAnswer(NamedTuple):
    """What was said in a mini task.

    Attributes:
      progress: `int32[]`, how many bytes of the word that is wanted end it.
      late: `bool[]`, whether time is up.
      completed: `bool[]`, whether it ends with the word and a period.
      changed: `bool[]`, whether that changes the result.
    """

    progress: jax.Array
    late: jax.Array
    completed: jax.Array
    changed: jax.Array


class _Verdict(NamedTuple):
    """What an answer decides.

    Attributes:
      going: `bool[]`, whether the instance was not done with it.
      done: `bool[]`, whether enough answers in a row are right.
      failed: `bool[]`, whether it is too late for that.
      in_time: `bool[]`, whether no more was asked than the learner needed to know.
    """

    going: jax.Array
    done: jax.Array
    failed: jax.Array
    in_time: jax.Array


def _answered(
    rules: Rules,
    question: Question,
    talk: Talk,
    byte: jax.Array,
    next_byte: jax.Array,
    now: _Moment,
) -> _Answer:
    """What the byte makes of the answer; nothing in mini tasks."""
    opened = ~now.before & ~now.talking
    leading = opened & (rules.lenient == 1) & now.silent & (talk.said == 0)
    matched, right = _matched(question, talk, byte, next_byte)
    said = jnp.where(leading, 0, talk.said + 1)
    waited = talk.waited + leading
    limit = (rules.limit > 0) & (said + waited >= rules.limit)
    ends = jnp.where(rules.spoken == 1, now.period | limit, talk.said + 1 == question.size)
    ends = ends | ((rules.strict == 1) & (byte != next_byte))
    decided = opened & ~now.mini & jnp.where(leading, limit, ends)
    return _Answer(opened, leading, said, waited, matched, decided, decided & right & ~leading)


def _mini_answered(
    question: Question, talk: Talk, byte: jax.Array, next_byte: jax.Array, now: _Moment
) -> _MiniAnswer:
    """What counts is how the talk so far ends, and everything but periods is free."""
    word = jnp.where(now.mini, question.size - 1, 0)
    first = byte == jnp.where(question.size == len("true."), ord("t"), ord("f"))
    on = (talk.matched < word) & (next_byte == byte)
    progress = jnp.where(on, talk.matched + 1, first.astype(jnp.int32))
    # The message about the end of time overwrites letters, too.
    late = now.mini & now.timeout
    progress = jnp.where((now.talking | late) & ~now.silent, 0, progress)
    stopped = now.mini & now.heard & now.period
    completed = stopped & (talk.matched == word)
    was = jnp.where(late, 0, talk.result)
    changed = stopped & (was != completed.astype(jnp.int32))
    return _MiniAnswer(progress, late, completed, changed)


def _paid(
    rules: Rules, question: Question, talk: Talk, answer: _Answer, now: _Moment, corrected: bool
) -> tuple[jax.Array, jax.Array]:
    """The reward, and how many answers in a row are right, `int32[]` both."""
    chatter = now.heard & now.talking & ~now.silent & ~now.mini
    if corrected:
        chatter = chatter | (now.before & ~now.talking & ~now.silent & ~now.mini)
    decided, correct = answer.decided, answer.correct
    part = (rules.graded == 1) & answer.opened & ~answer.leading
    reward = jnp.where(decided, jnp.where(correct, 1, -1), part.astype(jnp.int32))
    counts = jnp.where(rules.letters == 1, question.key < 4, True)
    streak = jnp.where(correct & counts, talk.streak + 1, talk.streak)
    streak = jnp.where(chatter | (decided & ~correct), 0, streak)
    return jnp.where(chatter, -1, reward), streak


def _decided(
    rules: Rules, question: Question, talk: Talk, answer: _Answer, streak: jax.Array
) -> tuple[Talk, _Verdict]:
    """The talk with its streak and its counts of questions brought up to date, and the verdict."""
    decided, correct = answer.decided, answer.correct
    asked = talk.asked + decided
    after = _known(rules, talk, question, correct)
    known = jnp.where(decided, after.known, talk.known)
    memory = jnp.where(decided, after.memory, talk.memory)
    done = decided & (streak >= rules.needed)
    in_time = (talk.limit == 0) | (asked <= talk.limit)
    going = decided & ~done
    last = jnp.where(going & (talk.limit == 0) & (known == 1), asked + 50, talk.limit)
    again = (talk.memory >> question.key.astype(jnp.uint32)) & np.uint32(1) == 1
    spoilt = (rules.repeats == 1) & decided & ~correct & again
    last = jnp.where(spoilt, -jnp.abs(jnp.where(last == 0, asked + 50, last)), last)
    over = going & (talk.final == 0) & (last != 0) & (asked > jnp.abs(last))
    final = jnp.where(over, asked * (1 + rules.tolerance), talk.final)
    failed = going & (((final > 0) & (asked > final)) | ((rules.fatal == 1) & ~correct))
    counts = {"asked": asked, "limit": last, "final": final, "known": known, "memory": memory}
    return dataclasses.replace(talk, streak=streak, **counts), _Verdict(
        going, done, failed, in_time
    )


def hear(
    pool: jax.Array, rules: Rules, question: Question, talk: Talk, byte: jax.Array, corrected: bool
) -> Heard:
    """What becomes of the learner's byte, `int32[]`.

    Args:
      pool: `uint8[...]`, where texts are.
      rules: the task's.
      question: what is being asked.
      talk: the instance.
      byte: what the learner said.
      corrected: whether a last byte after the last feedback counts as talking, and an instance that
        ran out of time asks nothing any more.

    Returns:
      See `Heard`.
    """
    old, mini = talk, rules.mini == 1
    talking, before = question.cursor < question.end, talk.ended > 0
    now = _Moment(
        mini=mini,
        talking=talking,
        before=before,
        silent=byte == SPACE,
        period=byte == PERIOD,
        timeout=~before & (talk.time >= rules.patience) & ~talking,
        heard=~(before & ~talking),
    )
    next_byte = expected(pool, question, talk, mini)
    answer = _answered(rules, question, old, byte, next_byte, now)
    word = _mini_answered(question, old, byte, next_byte, now)
    reward, streak = _paid(rules, question, old, answer, now, corrected)
    talk, (going, done, failed, in_time) = _decided(rules, question, old, answer, streak)

    result = jnp.where(now.timeout, 0, old.result)
    result = jnp.where(done, in_time.astype(jnp.int32), jnp.where(failed, 0, result))
    result = jnp.where(word.changed, word.completed.astype(jnp.int32), result)
    ended = before | now.timeout | done | failed | word.changed
    ask = going & ~failed
    if corrected:
        ask = ask & ~now.timeout
    feedback = (answer.decided & (rules.mute == 0)) | word.changed | word.late

    # What follows the end: the rest of the text, in mini tasks a space, and the next instance.
    separated = before & ~talking & (old.ended == 1) & (rules.mini + rules.fatal > 0)
    switch = before & ~talking & ~separated
    reward = jnp.where(switch & mini, jnp.maximum(old.result, 0), reward)
    more = jnp.minimum(old.periods + 1, MOST_PERIODS)
    decided, opened = answer.decided, answer.opened
    matched = jnp.where(answer.leading, 0, answer.matched)
    talk = dataclasses.replace(
        talk,
        said=jnp.where(decided, 0, jnp.where(opened, answer.said, old.said)),
        waited=jnp.where(decided, 0, jnp.where(opened, answer.waited, old.waited)),
        matched=jnp.where(mini, jnp.where(now.heard, word.progress, old.matched), matched),
        periods=jnp.where(decided, jnp.where(now.period, more, 0), old.periods),
        ended=jnp.where(separated, 2, jnp.maximum(old.ended, ended.astype(jnp.int32))),
        result=result,
    )
    return Heard(
        talk=jax.tree.map(lambda x, like: x.astype(like.dtype), talk, old),
        reward=reward.astype(jnp.int32),
        feedback=feedback,
        correct=jnp.where(mini, word.completed, answer.correct),
        late=word.late & word.completed,
        ask=ask,
        keep=talking,
        switch=switch | (~before & ended & ~talking & ~feedback & ~ask),
    )


def speak(pool: jax.Array, question: Question, talk: Talk) -> tuple[jax.Array, Question, Talk]:
    """The next byte of the text, `int32[]`, or a space if there is none, and what remains."""
    there = question.cursor < question.end
    byte = byte_at(pool, *question.text, question.cursor)
    question = dataclasses.replace(question, marks=question.marks + there)
    return jnp.where(there, byte, SPACE), question, dataclasses.replace(talk, time=talk.time + 1)
