"""Experts of byte streams: an oracle, a solver that knows the tasks, and null models.

Agents of the contract of `gpicljax.interface`, without parameters. `oracle` and `solver` read
`timestep.privileged`, which a batch with `privileged=True` fills; the others read bytes and
rewards.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax.batching import select
from gpicljax.checks import check_at_least
from gpicljax.interface import Agent, TimeStep
from gpicljax.systems.gradual_learning.env import tasks, templates
from gpicljax.systems.gradual_learning.env.conversation import PERIOD, SPACE
from gpicljax.systems.gradual_learning.env.hashing import mix_bits
from gpicljax.systems.gradual_learning.env.mapping import SYMBOLS
from gpicljax.typing import ArrayTree

SEMICOLON, BLANK = ord(";"), ord(" ")
LONGEST = 20
"""Bytes of an answer that a solver holds."""
_READS_QUESTION, _ANSWERS, _READS_FEEDBACK = range(3)
# Formats of a task set's questions and feedback.
_NO_FEEDBACK, _ONE_BYTE_QUESTION, _ONE_BYTE_BOTH, _PERIOD_AFTER_QUESTION = range(4)
_PERIOD_AFTER_BOTH, _DIGITS_BEFORE_ANSWER, _WORDS_BEFORE_ANSWER, _ANSWER_KNOWN = range(4, 8)


def oracle() -> Agent:
    """Returns the agent that gives accepted answers, and is silent otherwise.

    Example:
      >>> import gpicljax
      >>> from gpicljax.rollout import rollout, start_rollout
      >>> vec = gpicljax.VectorEnv("ByteStream-v0", 8, resets="fresh", privileged=True)
      >>> start = jax.eval_shape(lambda key: start_rollout(key, vec, oracle()), jax.random.key(0))
      >>> start.timestep.privileged["answer"].shape
      (8,)
    """

    def act(keys: jax.Array, params: ArrayTree, carry: ArrayTree, timestep: TimeStep) -> Any:
        del keys, params
        return timestep.privileged["answer"], {}, carry

    return Agent(lambda batch: (), act)


def echo() -> Agent:
    """Returns the agent that repeats the byte that it sees."""

    def act(keys: jax.Array, params: ArrayTree, carry: ArrayTree, timestep: TimeStep) -> Any:
        del keys, params
        return timestep.observation, {}, carry

    return Agent(lambda batch: (), act)


def silent_agent() -> Agent:
    """Returns the agent that says nothing but spaces."""

    def act(keys: jax.Array, params: ArrayTree, carry: ArrayTree, timestep: TimeStep) -> Any:
        del keys, params
        return jnp.full_like(timestep.observation, SPACE), {}, carry

    return Agent(lambda batch: (), act)


@struct.dataclass
class SolverMemory:
    """The memory of a solver, `[B]` each unless stated.

    Attributes:
      phase: `int32`, `_READS_QUESTION`, `_ANSWERS` or `_READS_FEEDBACK`.
      question: `uint32`, hash of the question so far.
      length: `int32`, bytes of the question or of the answer so far.
      feedback: `int32[B, LONGEST]`, the last bytes of the feedback, the latest one last.
      questions: `uint32[B, N]`, hashes of questions with known answers, 0 where none.
      answers: `int32[B, N, LONGEST]`, their answers, spaces beyond their ends.
      entry_count: `int32`, number of entries that were made.
      guess: `int32[B, 27]`, number of the guess for each letter, and for everything.
      last_guess: `int32`, index of the last guess in `guess`.
    """

    phase: jax.Array
    question: jax.Array
    length: jax.Array
    feedback: jax.Array
    questions: jax.Array
    answers: jax.Array
    entry_count: jax.Array
    guess: jax.Array
    last_guess: jax.Array


def _empty_solver_memory(batch: int, size: int) -> SolverMemory:
    zero = jnp.zeros(batch, jnp.int32)
    return SolverMemory(
        phase=zero,
        question=jnp.zeros(batch, jnp.uint32),
        length=zero,
        feedback=jnp.full((batch, LONGEST), SPACE, jnp.int32),
        questions=jnp.zeros((batch, size), jnp.uint32),
        answers=jnp.full((batch, size, LONGEST), SPACE, jnp.int32),
        entry_count=zero,
        guess=jnp.zeros((batch, 27), jnp.int32),
        last_guess=zero,
    )


def _answer_from_memory(
    memory: SolverMemory, byte: jax.Array, format: jax.Array
) -> tuple[jax.Array, SolverMemory]:
    """Returns one stream's reply, and the memory after it."""
    has_byte_questions = (format == _ONE_BYTE_BOTH) | (format == _ONE_BYTE_QUESTION)
    # Silence while answering goes on; a byte is the beginning of feedback.
    phase = jnp.where((memory.phase == _ANSWERS) & (byte != BLANK), _READS_FEEDBACK, memory.phase)
    feedback_begins = (phase == _READS_FEEDBACK) & (memory.phase == _ANSWERS)
    feedback = jnp.where(feedback_begins, jnp.full_like(memory.feedback, SPACE), memory.feedback)

    # Feedback.
    listening = phase == _READS_FEEDBACK
    is_feedback_over = listening & ((format == _ONE_BYTE_BOTH) | (byte == SEMICOLON))
    belongs_to_feedback = listening & ((format == _ONE_BYTE_BOTH) | (byte != SEMICOLON))
    feedback = jnp.where(belongs_to_feedback, jnp.concatenate([feedback[1:], byte[None]]), feedback)
    # The answer is the part of it after the last space, its last digit, or all of it.
    places = jnp.arange(LONGEST)
    begin = jnp.max(jnp.where(feedback == BLANK, places + 1, 0))
    begin = jnp.where(format == _DIGITS_BEFORE_ANSWER, LONGEST - 2, begin)
    size = LONGEST - begin
    stated = jnp.where(places < size, feedback[jnp.minimum(places + begin, LONGEST - 1)], SPACE)
    dotted = (
        (format != _ONE_BYTE_BOTH)
        & (stated[jnp.maximum(size - 1, 0)] != PERIOD)
        & (format >= _PERIOD_AFTER_BOTH)
    )
    ended = jnp.where(dotted & (places == size), PERIOD, stated)
    stores = is_feedback_over & (size > 0)
    is_stored = memory.questions == memory.question
    index = jnp.where(
        is_stored.any(), jnp.argmax(is_stored), memory.entry_count % memory.questions.shape[0]
    )
    index = jnp.where(stores, index, memory.questions.shape[0])
    questions = memory.questions.at[index].set(memory.question, mode="drop")
    answers = memory.answers.at[index].set(ended, mode="drop")
    written = memory.entry_count + (stores & ~is_stored.any())

    # The question: its end is the time to answer.
    reads_question = phase == _READS_QUESTION
    is_first = memory.length == 0
    is_started = ~(reads_question & is_first & (byte == BLANK))
    number = jnp.where(is_first, jnp.uint32(1), memory.question)
    number = mix_bits(number * np.uint32(257) + byte.astype(jnp.uint32))
    question = jnp.where(reads_question & is_started, number, memory.question)
    is_question_over = reads_question & is_started & (has_byte_questions | (byte == PERIOD))
    answering = is_question_over | (phase == _ANSWERS)
    place = jnp.where(is_question_over, 0, memory.length)
    match = questions == question
    answer = answers[jnp.argmax(match), jnp.minimum(place, LONGEST - 1)]
    default = jnp.where(place == 0, PERIOD, SPACE)
    answer = jnp.where(match.any() & (place < LONGEST), answer, default)
    reply = jnp.where(answering, answer, SPACE)
    length = jnp.where(
        answering, place + 1, jnp.where(reads_question & is_started, memory.length + 1, 0)
    )
    return reply, dataclasses.replace(
        memory,
        phase=jnp.where(
            is_feedback_over, _READS_QUESTION, jnp.where(answering, _ANSWERS, phase)
        ).astype(jnp.int32),
        question=question,
        length=jnp.where(is_feedback_over, 0, length).astype(jnp.int32),
        feedback=feedback,
        questions=questions,
        answers=answers,
        entry_count=written.astype(jnp.int32),
    )


def _react(
    memory: SolverMemory, byte: jax.Array, reward: jax.Array, task: jax.Array
) -> tuple[jax.Array, SolverMemory]:
    """Returns one stream's reply in micro1 to micro4: the next guess after each punishment."""
    guess = memory.guess.at[memory.last_guess].add(jnp.where(reward < 0, 1, 0))
    letter = (byte >= ord("a")) & (byte <= ord("z"))
    first, second, third = (task == tasks.NAMES.index(f"micro{i}") for i in (1, 2, 3))
    # There is one guess for everything, or one for each letter.
    guess_index = jnp.where(third & letter, byte - ord("a"), 26)
    symbols = jnp.asarray(np.array([ord(x) for x in SYMBOLS]), jnp.int32)
    guess_byte = jnp.where(
        first, symbols[guess[26] % len(SYMBOLS)], ord("a") + guess[guess_index] % 26
    )
    reply = jnp.where(first | ((second | third) & letter), guess_byte, byte)
    # Answers to punctuation say nothing about letters.
    last = jnp.where(first | letter, guess_index, 27)
    return reply, dataclasses.replace(memory, guess=guess, last_guess=last.astype(jnp.int32))


@struct.dataclass
class ReplyTable:
    """A table of replies, `[B]` each unless stated.

    Attributes:
      key: `int32`, the byte before the last reply.
      reply: `int32`, the last reply.
      last_seen: `int32[B, 128]`, the step at which each byte was seen last.
      rewarded: `int32[B, 256]`, the last reply to each byte that was rewarded.
      is_sure: `bool[B, 256]`, whether that reply was not punished since.
      punished: `int32[B, 256]`, number of guesses for each byte that were punished since.
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


def _empty_reply_table(batch: int) -> ReplyTable:
    zero, space = jnp.zeros(batch, jnp.int32), jnp.full(batch, SPACE, jnp.int32)
    return ReplyTable(
        key=zero,
        reply=space,
        last_seen=jnp.full((batch, 128), -RECENT_STEPS, jnp.int32),
        rewarded=jnp.zeros((batch, 256), jnp.int32),
        is_sure=jnp.zeros((batch, 256), bool),
        punished=jnp.zeros((batch, 256), jnp.int32),
        next_own=space,
        common=space,
        is_common_sure=jnp.zeros(batch, bool),
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
    """The memory of a suffix predictor, `[B]` each unless stated. Positions move with the text.

    Attributes:
      text: `uint8[B, size]`, the last bytes without silence, the latest one last.
      match: `uint8[B, size]`, number of bytes up to a position that equal the end of the text.
      word_lengths: `uint8[B, size]`, bytes of the word that ends at a position.
      feedback_lengths: `uint8[B, size]`, bytes of the feedback after a position, 0 if unread.
      classes: `int32[B, 3]`, classes of the last bytes, equal ones in a row counted once.
      is_turn: `bool[B, CONTEXTS]`, whether a reply is due after these classes.
      failures: `int32[B, CONTEXTS]`, punishments since that was confirmed.
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


def _empty_predictor_memory(batch: int, size: int) -> PredictorMemory:
    zero, false = jnp.zeros(batch, jnp.int32), jnp.zeros(batch, bool)
    bytes_ = jnp.zeros((batch, size), jnp.uint8)
    return PredictorMemory(
        text=bytes_,
        match=bytes_,
        word_lengths=bytes_,
        feedback_lengths=bytes_,
        classes=jnp.full((batch, 3), _NO_BYTE_CLASS, jnp.int32),
        is_turn=jnp.zeros((batch, CONTEXTS), bool),
        failures=jnp.zeros((batch, CONTEXTS), jnp.int32),
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
        replies=_empty_reply_table(batch),
    )


def _context(classes: jax.Array) -> jax.Array:
    return ((classes[0] * 37 + classes[1]) * 37 + classes[2]) % CONTEXTS


def _update_memory(memory: PredictorMemory, byte: jax.Array, reward: jax.Array) -> PredictorMemory:
    """Updates the memory with the outcome of the last reply and the new byte."""
    heard, decided = byte != BLANK, reward != 0
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

    def act(keys: jax.Array, params: ArrayTree, carry: PredictorMemory, timestep: TimeStep) -> Any:
        del keys, params
        batch = timestep.observation.shape[0]
        carry = select(timestep.trial_start, _empty_predictor_memory(batch, size), carry)
        reply, after = jax.vmap(_predict)(carry, timestep.observation, timestep.reward)
        return reply, {}, jax.tree.map(lambda x, like: x.astype(like.dtype), after, carry)

    return Agent(lambda batch: _empty_predictor_memory(batch, size), act)


def _question_formats() -> np.ndarray:
    """Returns the format of each task set's questions and feedback."""
    formats = []
    for task in tasks.TASK_SETS:
        noisy = task.style in templates.WITH_DIGITS
        if task.family != tasks.MAPPING:
            hidden = task.hidden and all(question.endswith(".") for question, _ in task.lines or ())
            is_learnt = hidden or task.name in ("micro6", "micro15")
            formats.append(_WORDS_BEFORE_ANSWER if is_learnt else _ANSWER_KNOWN)
        elif task.style == templates.NONE:
            formats.append(_NO_FEEDBACK)
        elif not task.marks & 1:
            formats.append(_ONE_BYTE_BOTH if task.style == templates.BARE else _ONE_BYTE_QUESTION)
        elif not task.marks & 2:
            formats.append(_PERIOD_AFTER_QUESTION)
        else:
            formats.append(_DIGITS_BEFORE_ANSWER if noisy else _PERIOD_AFTER_BOTH)
    return np.array(formats, np.int32)


def solver() -> Agent:
    """Returns the agent that knows every task, but no instance: it learns mappings from the stream.

    It is told the number of the task set, and where an answer is a function of the question alone
    (micro7.1 to micro14, micro16 to micro20, and the mini tasks) also that, which is what knowing
    the task means there. Symbols without feedback it tries one after another; in the rest of
    micro5, in micro6 and micro15 it answers "." until it has heard what is right; so it does in
    hidden task sets of one's own whose questions end with a period and whose answers are words.

    Example:
      >>> solver().initial_carry(8).questions.shape
      (8, 16)
    """
    size = 16

    def act(keys: jax.Array, params: ArrayTree, carry: SolverMemory, timestep: TimeStep) -> Any:
        del keys, params
        views = timestep.privileged
        byte = views.get("byte", timestep.observation)
        batch = byte.shape[0]
        carry = select(timestep.trial_start, _empty_solver_memory(batch, size), carry)
        answer = _translate_bytes(views, "meant", views["answer"])
        format = jnp.asarray(_question_formats())[views["task"]]
        memory_reply, read_memory = jax.vmap(_answer_from_memory)(carry, byte, format)
        guess_reply, guess_memory = jax.vmap(_react)(carry, byte, timestep.reward, views["task"])
        is_guessing = format == _NO_FEEDBACK
        reply = jnp.where(
            is_guessing, guess_reply, jnp.where(format == _ANSWER_KNOWN, answer, memory_reply)
        )
        carry = select(
            is_guessing, guess_memory, select(format == _ANSWER_KNOWN, carry, read_memory)
        )
        return _translate_bytes(views, "shown", reply).astype(jnp.int32), {}, carry

    return Agent(lambda batch: _empty_solver_memory(batch, size), act)


def _translate_bytes(views: dict[str, jax.Array], table: str, byte: jax.Array) -> jax.Array:
    """Translates bytes, `int32[B]`, by a table of streams that permute them."""
    if table not in views:
        return byte
    return views[table][jnp.arange(len(byte)), byte].astype(byte.dtype)


def teacher_agent() -> Agent:
    """Returns the agent to imitate: it replies what a learner could know by then.

    Where feedback tells what would have been right it is a `solver`, which answers "." until it has
    heard it. In micro1 it says what was paid for, or else the next symbol after the one that was
    not; what was said is `timestep.privileged["played"]`, if that is there, or its own guess. In
    micro2 to micro4 it is the `oracle`: over many instances, its replies on letters that
    cannot be known yet are spread over those that are still possible.

    Example:
      >>> teacher_agent().initial_carry(8).questions.shape
      (8, 16)
    """
    solver_agent = solver()
    places = np.full(256, -1, np.int32)
    places[[ord(x) for x in SYMBOLS]] = np.arange(len(SYMBOLS))
    uses_oracle = np.array([name in ("micro2", "micro3", "micro4") for name in tasks.ALL_NAMES])

    def act(keys: jax.Array, params: ArrayTree, carry: SolverMemory, timestep: TimeStep) -> Any:
        views, row = timestep.privileged, jnp.arange(len(carry.last_guess))
        if "played" in views:
            played = _translate_bytes(views, "meant", jnp.maximum(views["played"], 0))
            place = jnp.asarray(places)[played]
            is_symbol = (views["played"] >= 0) & (place >= 0)
            guess = jnp.where(is_symbol, place, carry.guess[row, carry.last_guess])
            guess = carry.guess.at[row, carry.last_guess].set(guess, mode="drop")
            carry = dataclasses.replace(carry, guess=guess)
        reply, aux, carry = solver_agent.act(keys, params, carry, timestep)
        reply = jnp.where(jnp.asarray(uses_oracle)[views["task"]], views["answer"], reply)
        return reply.astype(jnp.int32), aux, carry

    return Agent(solver_agent.initial_carry, act)
