"""A null model that makes answers of the question's own bytes.

An agent of the contract of `gpicljax.interface`, without parameters. Beside the suffix predictor of
`prediction`, it is the null for task sets whose answers come from the question.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import ArrayLike

from gpicljax.batching import select
from gpicljax.checks import check_at_least
from gpicljax.interface import Agent
from gpicljax.systems.gradual_learning.env.conversation import PERIOD, SPACE
from gpicljax.systems.gradual_learning.env.hashing import mix_bits
from gpicljax.systems.gradual_learning.experts.memory import (
    AnswerTable,
    empty_table,
    stream_agent,
)

LONGEST = 96
"""Bytes of a question, of an answer and of feedback that are held; places beyond hold 0."""
WAYS = (
    "what was told after the same question",
    "what stands behind the last colon",
    "what stands behind the first colon",
    "that without words that end with a colon, gaps being one space",
    "that without spaces",
    "that with its words in reverse order",
    "that with a space behind each byte",
    "all of the question",
    "its last word",
)
"""Ways to make an answer; of several that were right as often, the first is taken."""
CONTEXTS = 32
_READS_QUESTION, _ANSWERS, _READS_FEEDBACK = range(3)
_COLON, _SEMICOLON = ord(":"), ord(";")
_PLACES = np.arange(LONGEST)


@struct.dataclass
class CopierMemory:
    """The memory of a copier, `[]` each unless stated.

    Attributes:
      phase: `int32`, `_READS_QUESTION`, `_ANSWERS` or `_READS_FEEDBACK`.
      length: `int32`, bytes of the question, answer or feedback so far.
      text: `int32[LONGEST]`, the question, or the feedback.
      candidates: `int32[WAYS, LONGEST]`, answers to the last question, without a period.
      choice: `int32`, index of the last answer in `candidates`.
      is_rewarded: `bool`, whether the last answer was rewarded.
      context: `int32`, number of the last word of the question that ended with a colon.
      scores: `float32[CONTEXTS, WAYS]`, recent successes of each way.
      question: `uint32`, hash of the last question.
      table: known answers.
    """

    phase: jax.Array
    length: jax.Array
    text: jax.Array
    candidates: jax.Array
    choice: jax.Array
    is_rewarded: jax.Array
    context: jax.Array
    scores: jax.Array
    question: jax.Array
    table: AnswerTable


def _empty_copier_memory(size: int) -> CopierMemory:
    def zeros(*shape: int) -> jax.Array:
        return jnp.zeros(shape, jnp.int32)

    return CopierMemory(
        phase=zeros(),
        length=zeros(),
        text=zeros(LONGEST),
        candidates=zeros(len(WAYS), LONGEST),
        choice=zeros(),
        is_rewarded=jnp.zeros((), bool),
        context=zeros(),
        scores=jnp.zeros((CONTEXTS, len(WAYS)), jnp.float32),
        question=zeros().astype(jnp.uint32),
        table=empty_table(size, LONGEST),
    )


def _compact_text(text: jax.Array, is_kept: ArrayLike) -> jax.Array:
    """Returns the bytes that are kept, moved together."""
    place = jnp.where(
        jnp.asarray(is_kept) & (text > 0), jnp.cumsum(jnp.asarray(is_kept)) - 1, LONGEST
    )
    return jnp.zeros_like(text).at[place].set(text, mode="drop")


def _hash_text(text: jax.Array) -> jax.Array:
    """Returns a text as a number, `uint32`."""
    return mix_bits((text + 256 * _PLACES).astype(jnp.uint32)).sum(dtype=jnp.uint32)


def _shift_right(mask: jax.Array) -> jax.Array:
    """Returns the mask moved by one place."""
    return jnp.roll(mask, 1).at[0].set(False)


def _word_ends(word: jax.Array) -> jax.Array:
    """Returns the place at which each word ends; `word` marks words."""
    ends = jnp.where(word, LONGEST, _PLACES)
    return jax.lax.cummin(ends, reverse=True)


def _text_behind(text: jax.Array, place: jax.Array) -> jax.Array:
    """Returns the text behind a place, without a first space."""
    behind = _compact_text(text, place < _PLACES)
    return _compact_text(behind, (_PLACES > 0) | (behind != SPACE))


def _candidate_answers(text: jax.Array, known_answer: jax.Array) -> jax.Array:
    """Returns all candidate answers to a question, `int32[WAYS, LONGEST]`."""
    colon = text == _COLON
    last, first = jnp.max(jnp.where(colon, _PLACES, -1)), jnp.argmax(colon)
    first = jnp.where(colon.any(), first, -1)
    # Words that end with a colon are left out, and of spaces in a row all but the last one.
    ends = _word_ends((text != SPACE) & (text > 0))
    is_command = text[jnp.maximum(ends - 1, 0)] == _COLON
    words = _compact_text(text, ~(is_command & (text != SPACE)))
    is_gap = words == SPACE
    words = _compact_text(words, ~(is_gap & _shift_right(is_gap)))
    words = _compact_text(words, (_PLACES > 0) | (words != SPACE))
    is_gap = words == SPACE
    # The same, without a space at the end, in reverse order.
    size = (words > 0).sum()
    size -= (size > 0) & is_gap[jnp.maximum(size - 1, 0)]
    inside = size > _PLACES
    starts = jax.lax.cummax(jnp.where(_shift_right(is_gap), _PLACES, 0))
    until = jnp.minimum(_word_ends(~is_gap & inside), size)
    place = jnp.where(is_gap, size - 1 - _PLACES, size - until + _PLACES - starts)
    place = jnp.where(inside, place, LONGEST)
    reversed_words = jnp.zeros_like(words).at[place].set(words, mode="drop")
    spaced_words = jnp.where(_PLACES % 2 == 0, words[_PLACES // 2], SPACE)
    spaced_words = jnp.where(words[_PLACES // 2] > 0, spaced_words, 0)
    last_space = jnp.max(jnp.where(text == SPACE, _PLACES, -1))
    return jnp.stack(
        [
            known_answer,
            _text_behind(text, last),
            _text_behind(text, first),
            words,
            _compact_text(words, ~is_gap),
            reversed_words,
            spaced_words,
            text,
            _text_behind(text, last_space),
        ]
    )


def _states_answer(answer: jax.Array, text: jax.Array, length: jax.Array) -> jax.Array:
    """Returns whether feedback consists of an answer and a period, or ends with these."""
    size = (answer > 0).sum()
    with_period = answer.at[size].set(PERIOD, mode="drop")
    begin = length - size - 1
    ending = text[jnp.clip(begin + _PLACES, 0, LONGEST - 1)]
    is_equal = (ending == with_period) | (size < _PLACES)
    begins_word = (begin == 0) | (text[jnp.maximum(begin - 1, 0)] == SPACE)
    return (size > 0) & (begin >= 0) & is_equal.all() & begins_word


def _process_feedback(memory: CopierMemory) -> CopierMemory:
    """Updates the scores of the ways, and the stored answer, at the end of feedback."""
    last_answer = memory.candidates[memory.choice]
    is_stated = jax.vmap(_states_answer, (0, None, None))(
        memory.candidates, memory.text, memory.length
    )
    # If several of them end the feedback, the longest is the answer.
    sizes = jnp.where(is_stated, (memory.candidates > 0).sum(-1), 0)
    is_stated &= sizes == sizes.max()
    is_right = is_stated | (memory.is_rewarded & (memory.candidates == last_answer).all(-1))
    context = memory.context
    scores = memory.scores.at[context].set(0.7 * memory.scores[context] + is_right)
    # The answer is what was rewarded, or what is told behind the first word.
    gap = jnp.argmax(memory.text == SPACE)
    gap = jnp.where((memory.text == SPACE).any(), gap, -1)
    stated = _text_behind(memory.text, gap)
    size = (stated > 0).sum()
    ended = stated[jnp.maximum(size - 1, 0)] == PERIOD
    stated = stated.at[jnp.where(ended, size - 1, LONGEST)].set(0, mode="drop")
    answer = jnp.where(memory.is_rewarded, last_answer, stated)
    table = memory.table.store(memory.question, answer)
    return dataclasses.replace(memory, scores=scores, table=table)


def _choose_answer(memory: CopierMemory) -> CopierMemory:
    """Makes the candidate answers at the end of a question, and chooses one."""
    text = memory.text
    question = _hash_text(text)
    last = jnp.max(jnp.where(text == _COLON, _PLACES, -1))
    ends = _word_ends((text != SPACE) & (text > 0))
    word = jnp.where(ends == last + 1, text, 0)
    context = (_hash_text(_compact_text(word, word > 0)) % CONTEXTS).astype(jnp.int32)
    is_known, answer = memory.table.find(question)
    scores = memory.scores[context] + 0.01 * memory.scores.sum(0)
    return dataclasses.replace(
        memory,
        candidates=_candidate_answers(text, jnp.where(is_known, answer, 0)),
        choice=jnp.argmax(scores).astype(jnp.int32),
        context=context,
        question=question,
        is_rewarded=jnp.zeros_like(memory.is_rewarded),
    )


def _reply(
    memory: CopierMemory, byte: jax.Array, reward: jax.Array
) -> tuple[jax.Array, CopierMemory]:
    """Returns one stream's reply, and the memory after it."""
    last_phase = memory.phase
    memory = dataclasses.replace(
        memory, is_rewarded=memory.is_rewarded | ((last_phase == _ANSWERS) & (reward > 0))
    )
    # Silence while it answers goes on; a byte is the beginning of feedback.
    phase = jnp.where((last_phase == _ANSWERS) & (byte != SPACE), _READS_FEEDBACK, last_phase)
    length = jnp.where(phase != last_phase, 0, memory.length)
    text = jnp.where(phase != last_phase, jnp.zeros_like(memory.text), memory.text)
    is_feedback_over = (phase == _READS_FEEDBACK) & (byte == _SEMICOLON)
    is_question_over = (phase == _READS_QUESTION) & (length > 0) & (byte == PERIOD)
    is_stored = (
        ~is_feedback_over
        & ~is_question_over
        & (phase != _ANSWERS)
        & ((length > 0) | (byte != SPACE))
    )
    text = text.at[jnp.where(is_stored, length, LONGEST)].set(byte, mode="drop")
    length += is_stored
    memory = dataclasses.replace(memory, text=text, length=length)
    memory = select(is_feedback_over, _process_feedback(memory), memory)
    memory = select(is_question_over, _choose_answer(memory), memory)
    answering = is_question_over | (phase == _ANSWERS)
    place = jnp.where(is_question_over, 0, length)
    answer = memory.candidates[memory.choice]
    size = (answer > 0).sum()
    reply = jnp.where(place < size, answer[jnp.minimum(place, LONGEST - 1)], SPACE)
    reply = jnp.where(answering & (place == size), PERIOD, jnp.where(answering, reply, SPACE))
    ends = is_feedback_over | is_question_over
    phase = jnp.where(
        is_feedback_over, _READS_QUESTION, jnp.where(is_question_over, _ANSWERS, phase)
    )
    return reply.astype(jnp.int32), dataclasses.replace(
        memory,
        phase=phase,
        length=jnp.where(answering, place + 1, jnp.where(ends, 0, length)),
        text=jnp.where(ends, jnp.zeros_like(text), text),
    )


def copier(size: int = 32) -> Agent:
    """Returns the null that answers with bytes of the question, or with a known answer.

    It is not trained, and is not told the task. After each feedback it asks which of its `WAYS`
    would have given the answer that was told or rewarded, and takes the one that did most often of
    late, after questions whose last word with a colon was the same. More is built in than in
    `suffix_predictor`: questions and answers end with a period, feedback with a semicolon, and
    commands with a colon.

    Raises:
      ValueError: for `size` below 1.
    """
    check_at_least(1, size=size)
    return stream_agent(lambda: _empty_copier_memory(size), _reply)
