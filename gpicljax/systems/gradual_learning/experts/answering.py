"""Experts of byte streams: an oracle, a solver that knows the tasks, and the simplest nulls.

Agents of the contract of `gpicljax.interface`, without parameters. `oracle` and `solver` read
`timestep.privileged`, which a batch with `privileged=True` fills; the others read bytes.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax.batching import select
from gpicljax.interface import Agent, TimeStep
from gpicljax.systems.gradual_learning.env import tasks, templates
from gpicljax.systems.gradual_learning.env.conversation import PERIOD, SPACE
from gpicljax.systems.gradual_learning.env.hashing import mix_bits
from gpicljax.systems.gradual_learning.env.mapping import SYMBOLS
from gpicljax.systems.gradual_learning.experts.memory import (
    AnswerTable,
    empty_table,
    repeat_memory,
    stream_agent,
)
from gpicljax.typing import ArrayTree

SEMICOLON = ord(";")
LONGEST = 20
"""Bytes of an answer that a solver holds."""
KNOWN_ANSWERS = 16
"""Questions whose answers a solver holds."""
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
    return stream_agent(tuple, lambda memory, byte, reward: (byte, memory))


def silent_agent() -> Agent:
    """Returns the agent that says nothing but spaces."""
    return stream_agent(tuple, lambda memory, byte, reward: (jnp.full_like(byte, SPACE), memory))


@struct.dataclass
class SolverMemory:
    """The memory of a solver, `[]` each unless stated.

    Attributes:
      phase: `int32`, `_READS_QUESTION`, `_ANSWERS` or `_READS_FEEDBACK`.
      question: `uint32`, hash of the question so far.
      length: `int32`, bytes of the question or of the answer so far.
      feedback: `int32[LONGEST]`, the last bytes of the feedback, the latest one last.
      table: known answers, spaces beyond their ends.
      guess: `int32[27]`, number of the guess for each letter, and for everything.
      last_guess: `int32`, index of the last guess in `guess`.
    """

    phase: jax.Array
    question: jax.Array
    length: jax.Array
    feedback: jax.Array
    table: AnswerTable
    guess: jax.Array
    last_guess: jax.Array


class TeacherMemory(NamedTuple):
    """The memory of a teacher: its solver's, and the last byte said, `int32[B]`; -1 for none."""

    solver: SolverMemory
    played: jax.Array


def _empty_solver_memory() -> SolverMemory:
    zero = jnp.zeros((), jnp.int32)
    return SolverMemory(
        phase=zero,
        question=jnp.zeros((), jnp.uint32),
        length=zero,
        feedback=jnp.full(LONGEST, SPACE, jnp.int32),
        table=empty_table(KNOWN_ANSWERS, LONGEST, SPACE),
        guess=jnp.zeros(27, jnp.int32),
        last_guess=zero,
    )


def _answer_from_memory(
    memory: SolverMemory, byte: jax.Array, format: jax.Array
) -> tuple[jax.Array, SolverMemory]:
    """Returns one stream's reply, and the memory after it."""
    has_byte_questions = (format == _ONE_BYTE_BOTH) | (format == _ONE_BYTE_QUESTION)
    # Silence while answering goes on; a byte is the beginning of feedback.
    phase = jnp.where((memory.phase == _ANSWERS) & (byte != SPACE), _READS_FEEDBACK, memory.phase)
    feedback_begins = (phase == _READS_FEEDBACK) & (memory.phase == _ANSWERS)
    feedback = jnp.where(feedback_begins, jnp.full_like(memory.feedback, SPACE), memory.feedback)

    # Feedback.
    listening = phase == _READS_FEEDBACK
    is_feedback_over = listening & ((format == _ONE_BYTE_BOTH) | (byte == SEMICOLON))
    belongs_to_feedback = listening & ((format == _ONE_BYTE_BOTH) | (byte != SEMICOLON))
    feedback = jnp.where(belongs_to_feedback, jnp.concatenate([feedback[1:], byte[None]]), feedback)
    # The answer is the part of it after the last space, its last digit, or all of it.
    places = jnp.arange(LONGEST)
    begin = jnp.max(jnp.where(feedback == SPACE, places + 1, 0))
    begin = jnp.where(format == _DIGITS_BEFORE_ANSWER, LONGEST - 2, begin)
    size = LONGEST - begin
    stated = jnp.where(places < size, feedback[jnp.minimum(places + begin, LONGEST - 1)], SPACE)
    dotted = (
        (format != _ONE_BYTE_BOTH)
        & (stated[jnp.maximum(size - 1, 0)] != PERIOD)
        & (format >= _PERIOD_AFTER_BOTH)
    )
    ended = jnp.where(dotted & (places == size), PERIOD, stated)
    table = memory.table.store(memory.question, ended, is_feedback_over & (size > 0))

    # The question: its end is the time to answer.
    reads_question = phase == _READS_QUESTION
    is_first = memory.length == 0
    is_started = ~(reads_question & is_first & (byte == SPACE))
    number = jnp.where(is_first, jnp.uint32(1), memory.question)
    number = mix_bits(number * np.uint32(257) + byte.astype(jnp.uint32))
    question = jnp.where(reads_question & is_started, number, memory.question)
    is_question_over = reads_question & is_started & (has_byte_questions | (byte == PERIOD))
    answering = is_question_over | (phase == _ANSWERS)
    place = jnp.where(is_question_over, 0, memory.length)
    is_known, answer = table.find(question)
    default = jnp.where(place == 0, PERIOD, SPACE)
    is_known = is_known & (place < LONGEST)
    answer = jnp.where(is_known, answer[jnp.minimum(place, LONGEST - 1)], default)
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
        table=table,
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


def _question_formats() -> np.ndarray:
    """Returns the format of each task set's questions and feedback."""
    formats = []
    for task in tasks.TASK_SETS:
        noisy = task.style in templates.WITH_DIGITS
        if task.family != tasks.MAPPING:
            ended = all(question.endswith(".") for question, _ in task.lines or ())
            is_learnt = (task.hidden == "pairs" and ended) or task.name in ("micro6", "micro15")
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
    task sets of one's own with hidden pairs whose questions end with a period and whose answers are
    words, and up to the first feedback of an instance where a shift is hidden.

    Example:
      >>> solver().initial_carry(8).table.questions.shape
      (8, 16)
    """

    def act(keys: jax.Array, params: ArrayTree, carry: SolverMemory, timestep: TimeStep) -> Any:
        del keys, params
        views = timestep.privileged
        byte = views.get("byte", timestep.observation)
        blank = repeat_memory(_empty_solver_memory(), byte.shape[0])
        carry = select(timestep.trial_start, blank, carry)
        answer = _translate_bytes(views, "meant", views["answer"])
        has_shift = np.array([task.hidden == "shift" for task in tasks.TASK_SETS])
        is_open = jnp.asarray(has_shift)[views["task"]] & ~views["knowable"] & (answer != SPACE)
        answer = jnp.where(is_open, PERIOD, answer)
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

    return Agent(lambda batch: repeat_memory(_empty_solver_memory(), batch), act)


def _translate_bytes(views: dict[str, jax.Array], table: str, byte: jax.Array) -> jax.Array:
    """Translates bytes, `int32[B]`, by a table of streams that permute them."""
    if table not in views:
        return byte
    return views[table][jnp.arange(len(byte)), byte].astype(byte.dtype)


def teacher_agent() -> Agent:
    """Returns the agent to imitate: it replies what a learner could know by then.

    Where feedback tells what would have been right it is a `solver`, which answers "." until it has
    heard it. In micro1 it says what was paid for, or else the next symbol after the one that was
    not; what was said is its own guess, or what `record_action` was told. In
    micro2 to micro4 it is the `oracle`: over many instances, its replies on letters that
    cannot be known yet are spread over those that are still possible.

    Example:
      >>> teacher_agent().initial_carry(8).solver.table.questions.shape
      (8, 16)
    """
    solver_agent = solver()
    places = np.full(256, -1, np.int32)
    places[[ord(x) for x in SYMBOLS]] = np.arange(len(SYMBOLS))
    uses_oracle = np.array([name in ("micro2", "micro3", "micro4") for name in tasks.ALL_NAMES])

    def act(keys: jax.Array, params: ArrayTree, carry: TeacherMemory, timestep: TimeStep) -> Any:
        views, memory = timestep.privileged, carry.solver
        row = jnp.arange(len(memory.last_guess))
        place = jnp.asarray(places)[_translate_bytes(views, "meant", jnp.maximum(carry.played, 0))]
        is_symbol = (carry.played >= 0) & (place >= 0) & ~timestep.trial_start
        guess = jnp.where(is_symbol, place, memory.guess[row, memory.last_guess])
        guess = memory.guess.at[row, memory.last_guess].set(guess, mode="drop")
        memory = dataclasses.replace(memory, guess=guess)
        reply, aux, memory = solver_agent.act(keys, params, memory, timestep)
        reply = jnp.where(jnp.asarray(uses_oracle)[views["task"]], views["answer"], reply)
        reply = reply.astype(jnp.int32)
        return reply, aux, TeacherMemory(memory, reply)

    def initial_carry(batch: int) -> TeacherMemory:
        return TeacherMemory(solver_agent.initial_carry(batch), jnp.full(batch, -1, jnp.int32))

    return Agent(initial_carry, act, lambda carry, action: carry._replace(played=action))
