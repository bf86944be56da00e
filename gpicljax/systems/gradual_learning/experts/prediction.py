"""A null model that repeats the feedback on the same question.

An agent of the contract of `gpicljax.interface`, without parameters, which reads bytes and rewards.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.batching import select
from gpicljax.checks import check_at_least
from gpicljax.interface import Agent
from gpicljax.systems.gradual_learning.env.conversation import PERIOD, SPACE
from gpicljax.systems.gradual_learning.experts.memory import stream_agent

SEMICOLON = ord(";")
LONGEST = 20
"""Bytes of feedback that it repeats."""


@struct.dataclass
class ReplyTable:
    """A table of replies, `[]` each unless stated.

    Attributes:
      key: `int32`, the byte before the last reply.
      reply: `int32`, the last reply.
      last_seen: `int32[128]`, the step at which each byte was seen last.
      rewarded: `int32[256]`, the last reply to each byte that was rewarded.
      is_sure: `bool[256]`, whether that reply was not punished since.
      punished: `int32[256]`, number of guesses for each byte that were punished since.
      next_own: `int32`, the last guess that was made for one byte alone.
      common: `int32`, the last reply to any byte that was rewarded, or the next to try.
      is_common_sure: `bool`, whether `common` was rewarded and not punished since.
      punishments: `int32`, punishments so far.
      steps: `int32`, steps so far.
    """

    key: jax.Array
    reply: jax.Array
    last_seen: jax.Array
    rewarded: jax.Array
    is_sure: jax.Array
    punished: jax.Array
    next_own: jax.Array
    common: jax.Array
    is_common_sure: jax.Array
    punishments: jax.Array
    steps: jax.Array


FIRST_PRINTABLE, PRINTABLE = 32, 95
RECENT_STEPS = 48
"""Steps for which a byte counts as recent."""


def _empty_reply_table() -> ReplyTable:
    zero, space = jnp.zeros((), jnp.int32), jnp.full((), SPACE, jnp.int32)
    return ReplyTable(
        key=zero,
        reply=space,
        last_seen=jnp.full(128, -RECENT_STEPS, jnp.int32),
        rewarded=jnp.zeros(256, jnp.int32),
        is_sure=jnp.zeros(256, bool),
        punished=jnp.zeros(256, jnp.int32),
        next_own=space,
        common=space,
        is_common_sure=jnp.zeros((), bool),
        punishments=zero,
        steps=zero,
    )


def _look_up(table: ReplyTable, byte: jax.Array, reward: jax.Array) -> tuple[jax.Array, ReplyTable]:
    """Returns one stream's reply from a table, and the table after it."""
    # The outcome of the last reply.
    key, is_rewarded, is_punished = table.key, reward > 0, reward < 0
    rewarded = table.rewarded.at[key].set(jnp.where(is_rewarded, table.reply, table.rewarded[key]))
    is_sure = table.is_sure.at[key].set((table.is_sure[key] | is_rewarded) & ~is_punished)
    own_failed = is_punished & (table.reply == table.next_own)
    punished = table.punished.at[key].set(
        jnp.where(is_rewarded, 0, table.punished[key] + own_failed)
    )
    common_failed = is_punished & (table.reply == table.common)
    next_common = FIRST_PRINTABLE + (table.common + 1 - FIRST_PRINTABLE) % PRINTABLE
    common = jnp.where(common_failed, next_common, table.common)
    # The reward of a reply that was sure is no evidence for other bytes.
    is_news = is_rewarded & ~table.is_sure[key]
    common = jnp.where(is_news, table.reply, common)
    is_common_sure = (table.is_common_sure | is_news) & ~common_failed
    punishments = table.punishments + is_punished

    # Three of four guesses are the same for all bytes, and move on after each punishment. One is
    # for this byte alone: the byte itself, and then other recent bytes of its class.
    last_seen = table.last_seen.at[byte].set(table.steps, mode="drop")
    candidates = (byte + jnp.arange(128)) % 128
    is_recent = (table.steps - last_seen[candidates] < RECENT_STEPS) & (
        _class(candidates) == _class(byte)
    )
    rank = jnp.cumsum(is_recent) - 1
    next_own = candidates[jnp.argmax(rank == punished[byte] % jnp.maximum(rank[-1] + 1, 1))]
    guess = jnp.where(is_common_sure | (punishments % 4 != 0), common, next_own)
    reply = jnp.where(is_sure[byte], rewarded[byte], guess).astype(jnp.int32)
    return reply, ReplyTable(
        key=byte.astype(jnp.int32),
        reply=reply,
        last_seen=last_seen,
        rewarded=rewarded,
        is_sure=is_sure,
        punished=punished,
        next_own=next_own.astype(jnp.int32),
        common=common,
        is_common_sure=is_common_sure,
        punishments=punishments,
        steps=table.steps + 1,
    )


# Classes of bytes: marks have numbers of their own, up to that of nothing.
_FEEDBACK_CLASS, _DIGIT_CLASS, _LETTER_CLASS, _FIRST_MARK_CLASS = range(4)
_NO_BYTE_CLASS = _FIRST_MARK_CLASS + 32


def _between(byte: jax.Array, first: str, last: str) -> jax.Array:
    return (byte >= ord(first)) & (byte <= ord(last))


def _class(byte: jax.Array) -> jax.Array:
    """Returns the class of bytes: digit, letter, or one of the marks."""
    letter = _between(byte | 32, "a", "z")
    mark = _FIRST_MARK_CLASS + byte % 32
    return jnp.where(_between(byte, "0", "9"), _DIGIT_CLASS, jnp.where(letter, _LETTER_CLASS, mark))


@struct.dataclass
class PredictorMemory:
    """The memory of a suffix predictor, `[]` each unless stated. Positions move with the text.

    Attributes:
      text: `uint8[size]`, the last bytes without silence, the latest one last.
      match: `uint8[size]`, number of bytes up to a position that equal the end of the text.
      word_lengths: `uint8[size]`, bytes of the word that ends at a position.
      feedback_lengths: `uint8[size]`, bytes of the feedback after a position, 0 if unread.
      classes: `int32[3]`, classes of the last bytes, equal ones in a row counted once.
      is_turn: `bool[CONTEXTS]`, whether a reply is due after these classes.
      failures: `int32[CONTEXTS]`, punishments since that was confirmed.
      was_heard: `bool`, whether the last byte was no space.
      has_spoken: `bool`, whether the last reply was more than silence.
      is_answering: `bool`, whether its answer is not complete yet.
      last_turn: `int32`, position of its last turn.
      recalled: `int32`, the position that it recalled then; negative if none.
      source: `int32`, position of the next byte to say.
      remaining: `int32`, number of bytes left to say.
      whole_votes: `int32`, evidence that the answer is all of the feedback; if negative, its end.
      is_mute: `bool`, whether no feedback followed the last turn.
      has_guessed: `bool`, whether the last reply came from `replies`.
      replies: a table of replies.
    """

    text: jax.Array
    match: jax.Array
    word_lengths: jax.Array
    feedback_lengths: jax.Array
    classes: jax.Array
    is_turn: jax.Array
    failures: jax.Array
    was_heard: jax.Array
    has_spoken: jax.Array
    is_answering: jax.Array
    last_turn: jax.Array
    recalled: jax.Array
    source: jax.Array
    remaining: jax.Array
    whole_votes: jax.Array
    is_mute: jax.Array
    has_guessed: jax.Array
    replies: ReplyTable


CONTEXTS = 512
"""Contexts of three classes that a suffix predictor tells apart."""


def _empty_predictor_memory(size: int) -> PredictorMemory:
    zero, false = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    bytes_ = jnp.zeros(size, jnp.uint8)
    return PredictorMemory(
        text=bytes_,
        match=bytes_,
        word_lengths=bytes_,
        feedback_lengths=bytes_,
        classes=jnp.full(3, _NO_BYTE_CLASS, jnp.int32),
        is_turn=jnp.zeros(CONTEXTS, bool),
        failures=jnp.zeros(CONTEXTS, jnp.int32),
        was_heard=false,
        has_spoken=false,
        is_answering=false,
        last_turn=zero - 1,
        recalled=zero - 1,
        source=zero,
        remaining=zero,
        whole_votes=zero,
        is_mute=false,
        has_guessed=false,
        replies=_empty_reply_table(),
    )


def _context(classes: jax.Array) -> jax.Array:
    return ((classes[0] * 37 + classes[1]) * 37 + classes[2]) % CONTEXTS


def _update_memory(memory: PredictorMemory, byte: jax.Array, reward: jax.Array) -> PredictorMemory:
    """Updates the memory with the outcome of the last reply and the new byte."""
    heard, decided = byte != SPACE, reward != 0
    context = _context(memory.classes)
    # Silence that is punished, or met with silence, was a turn. A byte that is punished at once may
    # have been a wrong answer, or have come while it was to listen.
    waits = decided | ~heard
    is_doubtful = memory.has_spoken & heard & (reward < 0)
    turn = jnp.where(memory.was_heard & ~is_doubtful, waits, memory.is_turn[context])
    count = jnp.where(waits & ((reward < 0) | ~memory.has_spoken), memory.failures[context] + 1, 0)
    failed = jnp.where(memory.was_heard, count, memory.failures[context])
    # A turn that was let pass is a question, too.
    size = len(memory.text)
    is_missed = decided & ~memory.is_answering & memory.was_heard
    last = jnp.where(is_missed, size - 1, memory.last_turn)
    recalled = jnp.where(is_missed, -1, memory.recalled)
    # A reward confirms the part of the feedback that was said.
    is_long = (
        memory.is_answering
        & (recalled >= 0)
        & (memory.feedback_lengths[jnp.maximum(recalled, 0)] > 1)
    )
    votes = jnp.where(memory.whole_votes < 0, -3, 3)
    whole = jnp.where(is_long & (reward > 0), votes, memory.whole_votes)

    kind = jnp.where(decided & (byte != SEMICOLON), _FEEDBACK_CLASS, _class(byte))
    last_class = memory.classes[2]
    repeats = (kind == last_class) & (kind < _FIRST_MARK_CLASS)
    classes = jnp.where(repeats, memory.classes, jnp.append(memory.classes[1:], kind))
    # The last word, and the marks after it.
    word = memory.word_lengths[-1]
    extends_word = repeats & (kind != _FEEDBACK_CLASS) | (kind >= _FIRST_MARK_CLASS) & (
        last_class < _FIRST_MARK_CLASS
    )
    word = jnp.where(extends_word, jnp.minimum(word, 254) + 1, 1)
    newest = {"text": byte, "match": 0, "word_lengths": word, "feedback_lengths": 0}
    moved = {
        name: jnp.append(getattr(memory, name)[1:], jnp.asarray(value).astype(jnp.uint8))
        for name, value in newest.items()
    }
    same = (moved["text"] == byte.astype(jnp.uint8)).at[-1].set(False)
    moved["match"] = jnp.where(same, jnp.minimum(memory.match, 254) + 1, 0)
    extended = dataclasses.replace(
        memory,
        classes=classes,
        last_turn=last - 1,
        recalled=recalled - 1,
        source=memory.source - 1,
        **moved,
    )
    unchanged = dataclasses.replace(memory, last_turn=last, recalled=recalled)
    return dataclasses.replace(
        select(heard, extended, unchanged),
        is_turn=memory.is_turn.at[context].set(turn),
        failures=memory.failures.at[context].set(failed),
        was_heard=heard,
        whole_votes=whole,
        is_answering=memory.is_answering & ~heard & ~decided,
    )


def _recall(memory: PredictorMemory) -> PredictorMemory:
    """Reads the last feedback at the beginning of a turn, and looks for the question."""
    size, word_length = len(memory.text), memory.word_lengths[-1].astype(jnp.int32)
    last, recalled = memory.last_turn, memory.recalled
    places = jnp.arange(LONGEST)

    def after(place: jax.Array) -> jax.Array:
        return memory.text[jnp.clip(place + 1 + places, 0, size - 1)]

    # Feedback goes up to a mark, or to where the question begins.
    new, old = after(last), after(recalled)
    alphanumeric = _class(new.astype(jnp.int32)) < _FIRST_MARK_CLASS
    length = jnp.where(alphanumeric.all(), LONGEST, jnp.argmin(alphanumeric))
    length = jnp.clip(jnp.minimum(length, size - 1 - last - word_length), 0, LONGEST)
    old_length = memory.feedback_lengths[jnp.clip(recalled, 0, size - 1)].astype(jnp.int32)
    # If feedback is the same twice, the answer is all of it; if only its end is, the end.
    are_comparable = (
        (recalled >= 0)
        & (last >= 0)
        & (old_length > 0)
        & (length > 0)
        & (jnp.maximum(old_length, length) > 1)
    )
    are_equal = (old_length == length) & ((new == old) | (places >= length)).all()
    end_equally = new[jnp.maximum(length - 1, 0)] == old[jnp.maximum(old_length - 1, 0)]
    votes = jnp.where(are_equal, 1, jnp.where(end_equally, -1, 0))
    whole_votes = jnp.clip(memory.whole_votes + jnp.where(are_comparable, votes, 0), -3, 3)
    feedback_lengths = memory.feedback_lengths.at[jnp.where(last >= 0, last, size)].set(
        length.astype(jnp.uint8), mode="drop"
    )

    equal = (
        (memory.match >= word_length)
        & (memory.word_lengths == word_length)
        & (feedback_lengths > 0)
    )
    recalled = jnp.max(jnp.where(equal, jnp.arange(size), -1))
    length = feedback_lengths[jnp.maximum(recalled, 0)].astype(jnp.int32)
    remaining = jnp.where(whole_votes < 0, 1, length)
    return dataclasses.replace(
        memory,
        feedback_lengths=feedback_lengths,
        whole_votes=whole_votes,
        is_mute=(last >= 0) & (feedback_lengths[jnp.maximum(last, 0)] == 0),
        last_turn=jnp.full_like(last, size - 1),
        recalled=recalled,
        source=recalled + 1 + length - remaining,
        remaining=jnp.where(recalled >= 0, remaining, 0),
    )


def _predict(
    memory: PredictorMemory, byte: jax.Array, reward: jax.Array
) -> tuple[jax.Array, PredictorMemory]:
    """Returns one stream's reply, and the memory after it."""
    memory = _update_memory(memory, byte, reward)
    context = _context(memory.classes)
    failures = memory.failures[context]
    # After several failures, silence tells whether this is a turn at all. It is tried twice in a
    # row, for where every other byte is a turn both kinds of them come under test.
    powers = ((failures & (failures - 1)) == 0) | (((failures - 1) & (failures - 2)) == 0)
    turn_begins = ~memory.is_answering & memory.is_turn[context] & ~((failures > 3) & powers)
    memory = select(turn_begins, _recall(memory), memory)
    is_speaking = turn_begins | memory.is_answering

    table_reward = jnp.where(memory.has_guessed, reward, 0)
    guess, replies = _look_up(memory.replies, byte, table_reward)
    recalled = memory.text[jnp.clip(memory.source, 0, len(memory.text) - 1)].astype(jnp.int32)
    reply = jnp.where(memory.remaining > 0, recalled, PERIOD)
    makes_guess = turn_begins & (memory.recalled < 0) & memory.is_mute
    reply = jnp.where(is_speaking, jnp.where(makes_guess, guess, reply), SPACE).astype(jnp.int32)
    return reply, dataclasses.replace(
        memory,
        is_answering=is_speaking,
        has_spoken=reply != SPACE,
        source=memory.source + 1,
        remaining=jnp.maximum(memory.remaining - 1, 0),
        has_guessed=makes_guess,
        replies=replies,
    )


def suffix_predictor(size: int = 1024) -> Agent:
    """Returns the null to beat by training: it repeats the feedback on the same question.

    It is not trained, and is not told the task. It finds out where to speak from what silence
    costs. There it looks for the last place where the text so far ended in the same word and
    feedback followed. It repeats that feedback, or only its last byte, whichever has been rewarded
    or told twice. To a word that it has not heard it says ".", which ends an answer. Where no
    feedback follows, it repeats what was rewarded after this byte, or tries what is printable.

    Four things are built in: silence is a space, answers end with a period, feedback does not begin
    with a semicolon, and a word is a run of digits or letters with the marks after it. Its memory
    is bounded: the last `size` bytes that it heard, and tables of fixed sizes.

    Args:
      size: number of the last bytes that it remembers, silence left out.

    Raises:
      ValueError: for `size` below 64.

    Example:
      >>> suffix_predictor().initial_carry(8).text.shape
      (8, 1024)
    """
    check_at_least(64, size=size)
    return stream_agent(lambda: _empty_predictor_memory(size), _predict)
