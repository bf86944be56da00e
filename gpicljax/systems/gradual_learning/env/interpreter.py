"""The rules of the conversation: the outcome of one byte of the learner, whatever the task.

While the environment says a text, the learner is to reply with spaces. Then every byte of the
learner belongs to its answer, until the answer is complete; feedback and the next question follow.
`TaskRules` are the rules of a task. `process_reply` returns whether a new text is due, and
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
    RELIABLE_AFTER,
    SPACE,
    Due,
    PackedQuestion,
    Progress,
    Question,
    ReplyOutcome,
    TaskRules,
)


def expected_byte(
    pool: jax.Array, question: PackedQuestion, progress: Progress, mini: jax.Array
) -> jax.Array:
    """Returns the next byte of an accepted answer, `int32[]`."""
    place = jnp.where(mini, progress.matched, progress.answer_bytes)
    return question.answer.byte_at(pool, place)


def _match_byte(
    question: Question, progress: Progress, reply: _Reply
) -> tuple[jax.Array, jax.Array]:
    """Returns the acceptor's bits after one more byte, and whether an answer is then right.

    Bits 0-11 belong to the patterns' bytes, bit 12 says that something was found.
    """
    same = question.pattern == reply.byte.astype(jnp.uint8)
    bits = jnp.asarray(1 << np.arange(PATTERN), jnp.int32)
    hits = jnp.where(same, bits, 0).sum(dtype=jnp.int32)
    pattern_found = 1 << PATTERN
    matched, position = progress.matched, progress.answer_bytes
    # Exactly: a bit that falls at the first difference.
    exact = jnp.where(position == 0, 1, matched) & (reply.expected == reply.byte)
    exact_right = (exact == 1) & (position + 1 == reply.size)
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


class _Reply(NamedTuple):
    """A byte of the learner and the situation in which it arrives.

    Attributes:
      byte: `int32[]`.
      expected: `int32[]`, the next byte of an accepted answer.
      size: `int32[]`, the length of that answer.
      is_mini: `bool[]`, whether the task is a mini task with the reference's conversation.
      is_talking: `bool[]`, whether the environment has text left to say.
      has_ended: `bool[]`, whether the instance had ended before.
      is_timeout: `bool[]`, whether time is up.
    """

    byte: jax.Array
    expected: jax.Array
    size: jax.Array
    is_mini: jax.Array
    is_talking: jax.Array
    has_ended: jax.Array
    is_timeout: jax.Array


class _Answer(NamedTuple):
    """An answer with its newest byte; see `Progress` for the first three.

    Attributes:
      answer_bytes: `int32[]`.
      leading_spaces: `int32[]`.
      matched: `int32[]`.
      is_open: `bool[]`, whether the byte belongs to it.
      is_leading_space: `bool[]`, whether the byte is a space in front of it.
      is_complete: `bool[]`, whether it is complete.
      is_correct: `bool[]`, whether it is complete and right.
    """

    answer_bytes: jax.Array
    leading_spaces: jax.Array
    matched: jax.Array
    is_open: jax.Array
    is_leading_space: jax.Array
    is_complete: jax.Array
    is_correct: jax.Array


def _extend_answer(
    rules: TaskRules, question: Question, progress: Progress, reply: _Reply
) -> _Answer:
    """Returns the answer with one more byte; of no effect in mini tasks."""
    is_open = ~reply.has_ended & ~reply.is_talking
    is_space = reply.byte == SPACE
    is_leading = is_open & (rules.lenient == 1) & is_space & (progress.answer_bytes == 0)
    matched, is_right = _match_byte(question, progress, reply)
    answer_bytes = jnp.where(is_leading, 0, progress.answer_bytes + 1)
    leading_spaces = progress.leading_spaces + is_leading
    is_at_limit = (rules.limit > 0) & (answer_bytes + leading_spaces >= rules.limit)
    ends = jnp.where(
        rules.spoken == 1,
        (reply.byte == PERIOD) | is_at_limit,
        progress.answer_bytes + 1 == reply.size,
    )
    ends = ends | ((rules.strict == 1) & (reply.byte != reply.expected))
    is_complete = is_open & ~reply.is_mini & jnp.where(is_leading, is_at_limit, ends)
    return _Answer(
        answer_bytes,
        leading_spaces,
        jnp.where(is_leading, 0, matched),
        is_open,
        is_leading,
        is_complete,
        is_complete & is_right & ~is_leading,
    )


def _extend_mini_answer(
    progress: Progress, reply: _Reply
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the answer in a mini task, of which the last bytes before a period count.

    Returns:
      The number of first bytes of the right word with which it ends, `int32[]`; whether it ends
      with the word and a period; and whether that changes the result, `bool[]` both.
    """
    word_size = jnp.where(reply.is_mini, reply.size - 1, 0)
    first = reply.byte == jnp.where(reply.size == len("true."), ord("t"), ord("f"))
    is_next = (progress.matched < word_size) & (reply.expected == reply.byte)
    matched = jnp.where(is_next, progress.matched + 1, first.astype(jnp.int32))
    # The message about the end of time overwrites letters, too.
    is_late = reply.is_mini & reply.is_timeout
    matched = jnp.where((reply.is_talking | is_late) & (reply.byte != SPACE), 0, matched)
    counts = ~reply.has_ended | reply.is_talking
    matched = jnp.where(counts, matched, progress.matched)
    has_period = reply.is_mini & counts & (reply.byte == PERIOD)
    is_correct = has_period & (progress.matched == word_size)
    last_result = jnp.where(is_late, 0, progress.result)
    return matched, is_correct, has_period & (last_result != is_correct.astype(jnp.int32))


def _reward_and_streak(
    rules: TaskRules,
    question: Question,
    progress: Progress,
    reply: _Reply,
    answer: _Answer,
    corrected: bool,
) -> tuple[jax.Array, jax.Array]:
    """Returns the reward and the number of right answers in a row, `int32[]` both."""
    is_out_of_turn = reply.is_talking | reply.has_ended if corrected else reply.is_talking
    chatter = is_out_of_turn & (reply.byte != SPACE) & ~reply.is_mini
    is_complete, is_correct = answer.is_complete, answer.is_correct
    is_part = (rules.graded == 1) & answer.is_open & ~answer.is_leading_space
    reward = jnp.where(is_complete, jnp.where(is_correct, 1, -1), is_part.astype(jnp.int32))
    key_counts = jnp.where(rules.letters == 1, question.key < 4, True)
    streak = jnp.where(is_correct & key_counts, progress.streak + 1, progress.streak)
    streak = jnp.where(chatter | (is_complete & ~is_correct), 0, streak)
    return jnp.where(chatter, -1, reward), streak


def _judge_answer(
    rules: TaskRules, question: Question, progress: Progress, answer: _Answer, streak: jax.Array
) -> tuple[Progress, jax.Array]:
    """Returns the progress with up-to-date streak and counts of answers, and the verdict.

    The verdict is the `result` of an instance that ends with this answer, or else -1.
    """
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
    progress = dataclasses.replace(
        progress,
        streak=streak,
        answers=answers,
        late_after=late_after,
        fails_after=fails_after,
        is_knowable=is_knowable,
        memory=memory,
    )
    failed_or_open = jnp.where(has_failed, 0, -1)
    return progress, jnp.where(is_solved, is_in_time.astype(jnp.int32), failed_or_open)


def process_reply(
    pool: jax.Array,
    rules: TaskRules,
    packed_question: PackedQuestion,
    progress: Progress,
    byte: jax.Array,
    corrected: bool,
) -> ReplyOutcome:
    """Returns the outcome of the learner's byte.

    Args:
      pool: `uint8[...]`, where texts are.
      rules: the task's.
      packed_question: the question in progress.
      progress: the progress of the instance.
      byte: `int32[]`, the learner's byte.
      corrected: whether a last byte after the last feedback counts as talking, and an instance that
        ran out of time asks nothing any more.
    """
    old, question, mini = progress, packed_question.unpack(), rules.mini == 1
    talking, had_ended = question.cursor < packed_question.text.size, old.end_stage > 0
    reply = _Reply(
        byte=byte,
        expected=expected_byte(pool, packed_question, old, mini),
        size=packed_question.answer.size,
        is_mini=mini,
        is_talking=talking,
        has_ended=had_ended,
        is_timeout=~had_ended & (old.time >= 1_000 * rules.patience) & ~talking,
    )
    answer = _extend_answer(rules, question, old, reply)
    is_complete = answer.is_complete
    mini_matched, is_mini_correct, is_mini_decided = _extend_mini_answer(old, reply)
    reward, streak = _reward_and_streak(rules, question, old, reply, answer, corrected)
    progress, verdict = _judge_answer(rules, question, old, answer, streak)

    is_decided = verdict >= 0
    result = jnp.where(is_decided, verdict, jnp.where(reply.is_timeout, 0, old.result))
    result = jnp.where(is_mini_decided, is_mini_correct.astype(jnp.int32), result)
    ended = had_ended | reply.is_timeout | is_decided | is_mini_decided
    asks = is_complete & ~is_decided
    if corrected:
        asks = asks & ~reply.is_timeout
    is_late = mini & reply.is_timeout
    has_feedback = (is_complete & (rules.mute == 0)) | is_mini_decided | is_late

    # After the end come the rest of the text, in mini tasks a space, and the next instance.
    is_over = had_ended & ~talking
    is_separator = is_over & (old.end_stage == 1) & (rules.mini + rules.fatal > 0)
    switch = is_over & ~is_separator
    reward = jnp.where(switch & mini, jnp.maximum(old.result, 0), reward)
    periods = jnp.where(byte == PERIOD, jnp.minimum(old.periods + 1, PERIODS_CAP), 0)

    def count(value: jax.Array, before: jax.Array) -> jax.Array:
        return jnp.where(is_complete, 0, jnp.where(answer.is_open, value, before))

    progress = dataclasses.replace(
        progress,
        answer_bytes=count(answer.answer_bytes, old.answer_bytes),
        leading_spaces=count(answer.leading_spaces, old.leading_spaces),
        matched=jnp.where(mini, mini_matched, answer.matched),
        periods=jnp.where(is_complete, periods, old.periods),
        end_stage=jnp.where(is_separator, 2, jnp.maximum(old.end_stage, ended.astype(jnp.int32))),
        result=result,
    )
    return ReplyOutcome(
        progress=jax.tree.map(lambda x, like: x.astype(like.dtype), progress, old),
        reward=reward.astype(jnp.int32),
        due=Due(
            feedback=has_feedback,
            is_correct=jnp.where(mini, is_mini_correct, answer.is_correct),
            is_reliable=progress.periods >= RELIABLE_AFTER,
            is_late=is_late & is_mini_correct,
            question=asks,
            rest=talking,
        ),
        starts_next=switch | (~had_ended & ended & ~talking & ~has_feedback & ~asks),
    )


def say_byte(
    pool: jax.Array, question: PackedQuestion, progress: Progress
) -> tuple[jax.Array, PackedQuestion, Progress]:
    """Returns the next byte of the text, `int32[]`, or a space if there is none, and the rest."""
    cursor = question.unpack().cursor
    has_text = cursor < question.text.size
    byte = jnp.where(has_text, question.text.byte_at(pool, cursor), SPACE)
    progress = dataclasses.replace(progress, time=progress.time + 1)
    return byte, question.move_cursor(has_text), progress
