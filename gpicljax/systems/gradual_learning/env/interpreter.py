"""The rules of the conversation: the outcome of one byte of the learner, whatever the task.

While the environment says a text, the learner is to reply with spaces. Then every byte of the
learner belongs to its answer, until the answer is complete; feedback and the next question follow.
`ConversationRules` are the rules of a task. `process_reply` returns whether a new text is due, and
`say_byte` returns the next byte of the text.

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
    ONE_OF,
    ONE_RIGHT,
    OPTIONS,
    PATTERN,
    PERIOD,
    PERIODS_CAP,
    SPACE,
    Progress,
    Question,
    ReplyOutcome,
    TaskRules,
)
from gpicljax.systems.gradual_learning.env.pool import byte_at


def expected_byte(
    pool: jax.Array, question: Question, progress: Progress, mini: jax.Array
) -> jax.Array:
    """Returns the next byte of an accepted answer, `int32[]`."""
    place = jnp.where(mini, progress.matched, progress.answer_bytes)
    return byte_at(pool, *question.answer, place)


def _match_byte(
    question: Question, progress: Progress, byte: jax.Array, next_byte: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns the acceptor's bits after one more byte, and whether an answer is then right.

    Bits 0-11 belong to the patterns' bytes, bit 12 says that something was found.
    """
    same = question.pattern == byte.astype(jnp.uint8)
    bits = jnp.asarray(1 << np.arange(PATTERN), jnp.int32)
    hits = jnp.where(same, bits, 0).sum(dtype=jnp.int32)
    pattern_found = 1 << PATTERN
    matched, position = progress.matched, progress.answer_bytes
    # Exactly: a bit that falls at the first difference.
    exact = jnp.where(position == 0, 1, matched) & (next_byte == byte)
    exact_right = (exact == 1) & (position + 1 == question.size)
    # One of four: a bit for each that agrees so far, of which all end with a period.
    firsts, starts = 0b1001001001, jnp.minimum(position, 2)
    agree = (hits >> starts) & firsts
    one_of = jnp.where(position > 2, 0, jnp.where(position == 0, firsts, matched) & agree)
    # Lacking: the bit that something was found.
    lacking = jnp.where(position == 0, 0, matched) | jnp.where(same[0], pattern_found, 0)
    # Containing: bits move on along the patterns.
    is_used = question.pattern != 0
    beyond = jnp.concatenate([is_used[1:], jnp.zeros(1, bool)])
    third = jnp.asarray(np.arange(PATTERN) % 3 == 2)
    last = jnp.where(is_used & (third | ~beyond), bits, 0).sum(dtype=jnp.int32)
    before = jnp.where(position == 0, 0, matched)
    moved = (((before & (pattern_found - 1)) << 1) | firsts) & hits
    containing = moved | (before & pattern_found) | jnp.where((moved & last) != 0, pattern_found, 0)
    kind = question.acceptor
    matched = jnp.select(
        [kind == EXACT, kind == ONE_OF, kind == LACKING], [exact, one_of, lacking], containing
    ).astype(jnp.int32)
    right = jnp.select(
        [kind == EXACT, kind == ONE_OF, kind == LACKING],
        [exact_right, one_of != 0, (lacking == 0) & (position > 0)],
        containing >= pattern_found,
    )
    return matched, right


def _update_knowledge(
    rules: TaskRules, progress: Progress, question: Question, correct: jax.Array
) -> Progress:
    """Returns the progress after an answer, with whether a learner can know the mapping."""
    memory, key = progress.memory, question.key
    wrong = memory + jnp.where(correct, 0, 1).astype(jnp.uint32)
    shift = (8 * jnp.clip(key, 0, 3)).astype(jnp.uint32)
    left = (memory >> shift) & np.uint32(255)
    left = jnp.where(correct, np.uint32(1), jnp.maximum(left - np.uint32(1), np.uint32(1)))
    options = (memory & ~(np.uint32(255) << shift)) | (left << shift)
    options = jnp.where(key < 4, options, memory)
    asked_keys = memory | (np.uint32(1) << key.astype(jnp.uint32))
    kind = rules.know
    kinds = [kind == ONE_RIGHT, kind == LETTER_RIGHT, kind == OPTIONS, kind == ALL_ASKED]
    is_knowable = jnp.select(
        kinds,
        [
            correct | (memory >= 69),
            (correct & (key < 4)) | (memory >= 26),
            options == np.uint32(0x01010101),
            asked_keys == question.keys.astype(jnp.uint32),
        ],
        True,
    )
    memory = jnp.select(kinds, [wrong, wrong, options, asked_keys], memory)
    return dataclasses.replace(
        progress, memory=memory, is_knowable=progress.is_knowable | is_knowable.astype(jnp.int32)
    )


class _ByteContext(NamedTuple):
    """The situation in which a byte arrives, `bool[]` each.

    Attributes:
      is_mini: whether the task is a mini task.
      is_talking: whether the environment has text left to say.
      has_ended: whether the instance had ended before.
      is_space: whether the byte is a space.
      is_period: whether the byte is a period.
      is_timeout: whether time is up.
      counts: whether the byte counts.
    """

    is_mini: jax.Array
    is_talking: jax.Array
    has_ended: jax.Array
    is_space: jax.Array
    is_period: jax.Array
    is_timeout: jax.Array
    counts: jax.Array


class _Answer(NamedTuple):
    """An answer with its newest byte.

    Attributes:
      is_open: `bool[]`, whether the byte belongs to it.
      is_leading_space: `bool[]`, whether the byte is a space in front of it.
      answer_bytes: `int32[]`, the number of its bytes.
      leading_spaces: `int32[]`, the number of spaces in front of it.
      matched: `int32[]`, bits of what the acceptor has matched.
      is_complete: `bool[]`, whether it is complete.
      is_correct: `bool[]`, whether it is complete and right.
    """

    is_open: jax.Array
    is_leading_space: jax.Array
    answer_bytes: jax.Array
    leading_spaces: jax.Array
    matched: jax.Array
    is_complete: jax.Array
    is_correct: jax.Array


class _MiniAnswer(NamedTuple):
    """The answer in a mini task with its newest byte.

    Attributes:
      matched: `int32[]`, number of first bytes of the right word with which it ends.
      is_late: `bool[]`, whether time is up.
      is_correct: `bool[]`, whether it ends with the word and a period.
      changes_result: `bool[]`, whether that changes the result.
    """

    matched: jax.Array
    is_late: jax.Array
    is_correct: jax.Array
    changes_result: jax.Array


class _Verdict(NamedTuple):
    """The consequences of an answer for its instance.

    Attributes:
      goes_on: `bool[]`, whether it did not solve the instance.
      is_solved: `bool[]`, whether enough answers in a row are right.
      has_failed: `bool[]`, whether the instance can no longer be solved.
      is_in_time: `bool[]`, whether no more was asked than a learner needs.
    """

    goes_on: jax.Array
    is_solved: jax.Array
    has_failed: jax.Array
    is_in_time: jax.Array


def _extend_answer(
    rules: TaskRules,
    question: Question,
    progress: Progress,
    byte: jax.Array,
    next_byte: jax.Array,
    context: _ByteContext,
) -> _Answer:
    """Returns the answer with one more byte; of no effect in mini tasks."""
    is_open = ~context.has_ended & ~context.is_talking
    is_leading = is_open & (rules.lenient == 1) & context.is_space & (progress.answer_bytes == 0)
    matched, is_right = _match_byte(question, progress, byte, next_byte)
    answer_bytes = jnp.where(is_leading, 0, progress.answer_bytes + 1)
    leading_spaces = progress.leading_spaces + is_leading
    is_at_limit = (rules.limit > 0) & (answer_bytes + leading_spaces >= rules.limit)
    ends = jnp.where(
        rules.spoken == 1,
        context.is_period | is_at_limit,
        progress.answer_bytes + 1 == question.size,
    )
    ends = ends | ((rules.strict == 1) & (byte != next_byte))
    is_complete = is_open & ~context.is_mini & jnp.where(is_leading, is_at_limit, ends)
    return _Answer(
        is_open,
        is_leading,
        answer_bytes,
        leading_spaces,
        matched,
        is_complete,
        is_complete & is_right & ~is_leading,
    )


def _extend_mini_answer(
    question: Question,
    before: Progress,
    byte: jax.Array,
    next_byte: jax.Array,
    context: _ByteContext,
) -> _MiniAnswer:
    """Returns the answer in a mini task, of which the last bytes before a period count."""
    word_size = jnp.where(context.is_mini, question.size - 1, 0)
    first = byte == jnp.where(question.size == len("true."), ord("t"), ord("f"))
    is_next = (before.matched < word_size) & (next_byte == byte)
    matched = jnp.where(is_next, before.matched + 1, first.astype(jnp.int32))
    # The message about the end of time overwrites letters, too.
    is_late = context.is_mini & context.is_timeout
    matched = jnp.where((context.is_talking | is_late) & ~context.is_space, 0, matched)
    has_period = context.is_mini & context.counts & context.is_period
    is_correct = has_period & (before.matched == word_size)
    last_result = jnp.where(is_late, 0, before.result)
    changes_result = has_period & (last_result != is_correct.astype(jnp.int32))
    return _MiniAnswer(matched, is_late, is_correct, changes_result)


def _reward_and_streak(
    rules: TaskRules,
    question: Question,
    progress: Progress,
    answer: _Answer,
    context: _ByteContext,
    corrected: bool,
) -> tuple[jax.Array, jax.Array]:
    """Returns the reward and the number of right answers in a row, `int32[]` both."""
    chatter = context.counts & context.is_talking & ~context.is_space & ~context.is_mini
    if corrected:
        chatter = chatter | (
            context.has_ended & ~context.is_talking & ~context.is_space & ~context.is_mini
        )
    is_complete, is_correct = answer.is_complete, answer.is_correct
    is_part = (rules.graded == 1) & answer.is_open & ~answer.is_leading_space
    reward = jnp.where(is_complete, jnp.where(is_correct, 1, -1), is_part.astype(jnp.int32))
    key_counts = jnp.where(rules.letters == 1, question.key < 4, True)
    streak = jnp.where(is_correct & key_counts, progress.streak + 1, progress.streak)
    streak = jnp.where(chatter | (is_complete & ~is_correct), 0, streak)
    return jnp.where(chatter, -1, reward), streak


def _judge_answer(
    rules: TaskRules, question: Question, progress: Progress, answer: _Answer, streak: jax.Array
) -> tuple[Progress, _Verdict]:
    """Returns the progress with up-to-date streak and counts of answers, and the verdict."""
    is_complete, is_correct = answer.is_complete, answer.is_correct
    answers = progress.answers + is_complete
    after = _update_knowledge(rules, progress, question, is_correct)
    is_knowable = jnp.where(is_complete, after.is_knowable, progress.is_knowable)
    memory = jnp.where(is_complete, after.memory, progress.memory)
    is_solved = is_complete & (streak >= rules.needed)
    is_in_time = (progress.late_after == 0) | (answers <= progress.late_after)
    goes_on = is_complete & ~is_solved
    late_after = jnp.where(
        goes_on & (progress.late_after == 0) & (is_knowable == 1), answers + 50, progress.late_after
    )
    was_asked = (progress.memory >> question.key.astype(jnp.uint32)) & np.uint32(1) == 1
    is_spoilt = (rules.repeats == 1) & is_complete & ~is_correct & was_asked
    late_after = jnp.where(
        is_spoilt, -jnp.abs(jnp.where(late_after == 0, answers + 50, late_after)), late_after
    )
    starts_to_fail = (
        goes_on & (progress.fails_after == 0) & (late_after != 0) & (answers > jnp.abs(late_after))
    )
    fails_after = jnp.where(starts_to_fail, answers * (1 + rules.tolerance), progress.fails_after)
    has_failed = goes_on & (
        ((fails_after > 0) & (answers > fails_after)) | ((rules.fatal == 1) & ~is_correct)
    )
    counts = {
        "answers": answers,
        "late_after": late_after,
        "fails_after": fails_after,
        "is_knowable": is_knowable,
        "memory": memory,
    }
    return dataclasses.replace(progress, streak=streak, **counts), _Verdict(
        goes_on, is_solved, has_failed, is_in_time
    )


def process_reply(
    pool: jax.Array,
    rules: TaskRules,
    question: Question,
    progress: Progress,
    byte: jax.Array,
    corrected: bool,
) -> ReplyOutcome:
    """Returns the outcome of the learner's byte.

    Args:
      pool: `uint8[...]`, where texts are.
      rules: the task's.
      question: the question in progress.
      progress: the progress of the instance.
      byte: `int32[]`, the learner's byte.
      corrected: whether a last byte after the last feedback counts as talking, and an instance that
        ran out of time asks nothing any more.

    Returns:
      See `ReplyOutcome`.
    """
    old, mini = progress, rules.mini == 1
    talking, had_ended = question.cursor < question.end, progress.end_stage > 0
    context = _ByteContext(
        is_mini=mini,
        is_talking=talking,
        has_ended=had_ended,
        is_space=byte == SPACE,
        is_period=byte == PERIOD,
        is_timeout=~had_ended & (progress.time >= rules.patience) & ~talking,
        counts=~(had_ended & ~talking),
    )
    next_byte = expected_byte(pool, question, progress, mini)
    answer = _extend_answer(rules, question, old, byte, next_byte, context)
    mini_answer = _extend_mini_answer(question, old, byte, next_byte, context)
    reward, streak = _reward_and_streak(rules, question, old, answer, context, corrected)
    progress, (goes_on, is_solved, has_failed, is_in_time) = _judge_answer(
        rules, question, old, answer, streak
    )

    result = jnp.where(context.is_timeout, 0, old.result)
    result = jnp.where(is_solved, is_in_time.astype(jnp.int32), jnp.where(has_failed, 0, result))
    result = jnp.where(mini_answer.changes_result, mini_answer.is_correct.astype(jnp.int32), result)
    ended = had_ended | context.is_timeout | is_solved | has_failed | mini_answer.changes_result
    ask = goes_on & ~has_failed
    if corrected:
        ask = ask & ~context.is_timeout
    feedback = (
        (answer.is_complete & (rules.mute == 0)) | mini_answer.changes_result | mini_answer.is_late
    )

    # After the end come the rest of the text, in mini tasks a space, and the next instance.
    is_separator = had_ended & ~talking & (old.end_stage == 1) & (rules.mini + rules.fatal > 0)
    switch = had_ended & ~talking & ~is_separator
    reward = jnp.where(switch & mini, jnp.maximum(old.result, 0), reward)
    more = jnp.minimum(old.periods + 1, PERIODS_CAP)
    is_complete, is_open = answer.is_complete, answer.is_open
    matched = jnp.where(answer.is_leading_space, 0, answer.matched)
    progress = dataclasses.replace(
        progress,
        answer_bytes=jnp.where(
            is_complete, 0, jnp.where(is_open, answer.answer_bytes, old.answer_bytes)
        ),
        leading_spaces=jnp.where(
            is_complete, 0, jnp.where(is_open, answer.leading_spaces, old.leading_spaces)
        ),
        matched=jnp.where(
            mini, jnp.where(context.counts, mini_answer.matched, old.matched), matched
        ),
        periods=jnp.where(is_complete, jnp.where(context.is_period, more, 0), old.periods),
        end_stage=jnp.where(is_separator, 2, jnp.maximum(old.end_stage, ended.astype(jnp.int32))),
        result=result,
    )
    return ReplyOutcome(
        progress=jax.tree.map(lambda x, like: x.astype(like.dtype), progress, old),
        reward=reward.astype(jnp.int32),
        is_feedback_due=feedback,
        is_correct=jnp.where(mini, mini_answer.is_correct, answer.is_correct),
        is_late=mini_answer.is_late & mini_answer.is_correct,
        is_question_due=ask,
        keeps_text=talking,
        starts_next=switch | (~had_ended & ended & ~talking & ~feedback & ~ask),
    )


def say_byte(
    pool: jax.Array, question: Question, progress: Progress
) -> tuple[jax.Array, Question, Progress]:
    """Returns the next byte of the text, `int32[]`, or a space if there is none, and the rest."""
    has_text = question.cursor < question.end
    byte = byte_at(pool, *question.text, question.cursor)
    question = dataclasses.replace(question, marks=question.marks + has_text)
    return (
        jnp.where(has_text, byte, SPACE),
        question,
        dataclasses.replace(progress, time=progress.time + 1),
    )
