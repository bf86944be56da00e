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
from gpicljax.systems.gradual_learning.env import tasks
from gpicljax.systems.gradual_learning.env.conversation import PERIOD, SPACE
from gpicljax.systems.gradual_learning.env.hashing import mixed
from gpicljax.systems.gradual_learning.env.mapping import SYMBOLS
from gpicljax.typing import ArrayTree

__all__ = ["look_up_table", "oracle", "solver", "teacher_agent"]

SEMICOLON, BLANK = ord(";"), ord(" ")
LONGEST = 20
"""Bytes of an answer that a solver holds."""
_QUESTION, _ANSWER, _FEEDBACK = range(3)
# How a task set's questions and feedback are read: symbols without feedback; one byte of question;
# one byte of both; a period after questions, but not after answers; after both; likewise, with
# noise or words before the answer.
_REACTION, _BYTES, _BYTE, _OPEN, _PLAIN, _NOISY, _WORDS, _KNOWN = range(8)


def oracle() -> Agent:
    """Says what is right, and else nothing.

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
    """Repeats the byte that it sees."""

    def act(keys: jax.Array, params: ArrayTree, carry: ArrayTree, timestep: TimeStep) -> Any:
        del keys, params
        return timestep.observation, {}, carry

    return Agent(lambda batch: (), act)


def silent() -> Agent:
    """Says nothing but spaces."""

    def act(keys: jax.Array, params: ArrayTree, carry: ArrayTree, timestep: TimeStep) -> Any:
        del keys, params
        return jnp.full_like(timestep.observation, SPACE), {}, carry

    return Agent(lambda batch: (), act)


@struct.dataclass
class Notes:
    """What a solver remembers, `[B]` each, or as said.

    Attributes:
      phase: `int32`, whether it reads a question, answers, or reads feedback.
      question: `uint32`, what it has read of the question, as a number.
      length: `int32`, bytes of that, of the answer, or of the feedback.
      heard: `int32[B, LONGEST]`, the last bytes of the feedback, the latest one last.
      questions: `uint32[B, N]`, what it knows answers to, 0 where nothing.
      answers: `int32[B, N, LONGEST]`, spaces beyond their ends.
      written: `int32`, how many entries were made.
      guess: `int32[B, 27]`, number of the guess for each letter, and for everything.
      last: `int32`, which of the guesses was made last.
    """

    phase: jax.Array
    question: jax.Array
    length: jax.Array
    heard: jax.Array
    questions: jax.Array
    answers: jax.Array
    written: jax.Array
    guess: jax.Array
    last: jax.Array


def _blank_notes(batch: int, size: int) -> Notes:
    zero = jnp.zeros(batch, jnp.int32)
    return Notes(
        phase=zero,
        question=jnp.zeros(batch, jnp.uint32),
        length=zero,
        heard=jnp.full((batch, LONGEST), SPACE, jnp.int32),
        questions=jnp.zeros((batch, size), jnp.uint32),
        answers=jnp.full((batch, size, LONGEST), SPACE, jnp.int32),
        written=zero,
        guess=jnp.zeros((batch, 27), jnp.int32),
        last=zero,
    )


def _read(notes: Notes, byte: jax.Array, way: jax.Array) -> tuple[jax.Array, Notes]:
    """One stream's step: what to say, and the notes after it."""
    one = (way == _BYTE) | (way == _BYTES)
    # Silence while answering goes on; a byte is the beginning of feedback.
    phase = jnp.where((notes.phase == _ANSWER) & (byte != BLANK), _FEEDBACK, notes.phase)
    begins = (phase == _FEEDBACK) & (notes.phase == _ANSWER)
    heard = jnp.where(begins, jnp.full_like(notes.heard, SPACE), notes.heard)

    # Feedback.
    listening = phase == _FEEDBACK
    done = listening & ((way == _BYTE) | (byte == SEMICOLON))
    takes = listening & ((way == _BYTE) | (byte != SEMICOLON))
    heard = jnp.where(takes, jnp.concatenate([heard[1:], byte[None]]), heard)
    # What of it is the answer: what comes after the last space, the last digit, or all.
    places = jnp.arange(LONGEST)
    begin = jnp.max(jnp.where(heard == BLANK, places + 1, 0))
    begin = jnp.where(way == _NOISY, LONGEST - 2, begin)
    size = LONGEST - begin
    told = jnp.where(places < size, heard[jnp.minimum(places + begin, LONGEST - 1)], SPACE)
    dotted = (way != _BYTE) & (told[jnp.maximum(size - 1, 0)] != PERIOD) & (way >= _PLAIN)
    ended = jnp.where(dotted & (places == size), PERIOD, told)
    learns = done & (size > 0)
    known = notes.questions == notes.question
    index = jnp.where(known.any(), jnp.argmax(known), notes.written % notes.questions.shape[0])
    index = jnp.where(learns, index, notes.questions.shape[0])
    questions = notes.questions.at[index].set(notes.question, mode="drop")
    answers = notes.answers.at[index].set(ended, mode="drop")
    written = notes.written + (learns & ~known.any())

    # The question: its end is the time to answer.
    asking = phase == _QUESTION
    fresh = notes.length == 0
    started = ~(asking & fresh & (byte == BLANK))
    number = jnp.where(fresh, jnp.uint32(1), notes.question)
    number = mixed(number * np.uint32(257) + byte.astype(jnp.uint32))
    question = jnp.where(asking & started, number, notes.question)
    over = asking & started & (one | (byte == PERIOD))
    answering = over | (phase == _ANSWER)
    place = jnp.where(over, 0, notes.length)
    match = questions == question
    answer = answers[jnp.argmax(match), jnp.minimum(place, LONGEST - 1)]
    blind = jnp.where(place == 0, PERIOD, SPACE)
    answer = jnp.where(match.any() & (place < LONGEST), answer, blind)
    say = jnp.where(answering, answer, SPACE)
    length = jnp.where(answering, place + 1, jnp.where(asking & started, notes.length + 1, 0))
    return say, dataclasses.replace(
        notes,
        phase=jnp.where(done, _QUESTION, jnp.where(answering, _ANSWER, phase)).astype(jnp.int32),
        question=question,
        length=jnp.where(done, 0, length).astype(jnp.int32),
        heard=heard,
        questions=questions,
        answers=answers,
        written=written.astype(jnp.int32),
    )


def _react(
    notes: Notes, byte: jax.Array, reward: jax.Array, task: jax.Array
) -> tuple[jax.Array, Notes]:
    """One stream's step in micro1 to micro4: guesses, of which the next is tried after each -1."""
    guess = notes.guess.at[notes.last].add(jnp.where(reward < 0, 1, 0))
    letter = (byte >= ord("a")) & (byte <= ord("z"))
    first, second, third = (task == tasks.NAMES.index(f"micro{i}") for i in (1, 2, 3))
    # Which guess: one for everything, or one for each letter.
    which = jnp.where(third & letter, byte - ord("a"), 26)
    symbols = jnp.asarray(np.array([ord(x) for x in SYMBOLS]), jnp.int32)
    tried = jnp.where(first, symbols[guess[26] % len(SYMBOLS)], ord("a") + guess[which] % 26)
    say = jnp.where(first | ((second | third) & letter), tried, byte)
    # Answers to punctuation say nothing about letters.
    last = jnp.where(first | letter, which, 27)
    return say, dataclasses.replace(notes, guess=guess, last=last.astype(jnp.int32))


@struct.dataclass
class Table:
    """A table of replies, `[B]` each, or as said.

    Attributes:
      recent: `int32[B, history]`, the last bytes, the latest one last.
      key: `int32`, the entry that the last reply came from, and
      reply: `int32`, the reply.
      right: `int32[B, size]`, what was rewarded last after these bytes,
      sure: `bool[B, size]`, and not punished since.
      tried: `int32[B, size]`, replies of its own that were punished since.
      own: `int32`, which the next of them was.
      common: `int32`, what was rewarded last after whatever bytes, or is tried next,
      common_sure: `bool`, and whether it was.
      turns: `int32`, punishments so far.
    """

    recent: jax.Array
    key: jax.Array
    reply: jax.Array
    right: jax.Array
    sure: jax.Array
    tried: jax.Array
    own: jax.Array
    common: jax.Array
    common_sure: jax.Array
    turns: jax.Array


FIRST_PRINTABLE, PRINTABLE = 32, 95


def _blank_table(batch: int, history: int, size: int) -> Table:
    zero, space = jnp.zeros(batch, jnp.int32), jnp.full(batch, SPACE, jnp.int32)
    return Table(
        recent=jnp.full((batch, history), SPACE, jnp.int32),
        key=zero,
        reply=space,
        right=jnp.zeros((batch, size), jnp.int32),
        sure=jnp.zeros((batch, size), bool),
        tried=jnp.zeros((batch, size), jnp.int32),
        own=space,
        common=space,
        common_sure=jnp.zeros(batch, bool),
        turns=zero,
    )


def _printable(number: jax.Array) -> jax.Array:
    return FIRST_PRINTABLE + number % PRINTABLE


def _look_up(table: Table, byte: jax.Array, reward: jax.Array) -> tuple[jax.Array, Table]:
    """One stream's step with a table: what to say, and the table after it."""
    # What became of the last reply.
    key, good, bad = table.key, reward > 0, reward < 0
    right = table.right.at[key].set(jnp.where(good, table.reply, table.right[key]))
    sure = table.sure.at[key].set((table.sure[key] | good) & ~bad)
    failed = bad & (table.reply == table.own)
    tried = table.tried.at[key].set(jnp.where(good, 0, table.tried[key] + failed))
    blamed = bad & (table.reply == table.common)
    common = jnp.where(blamed, _printable(table.common + 1 - FIRST_PRINTABLE), table.common)
    # What an entry was sure of says nothing about others.
    found = good & ~table.sure[key]
    common = jnp.where(found, table.reply, common)
    common_sure = (table.common_sure | found) & ~blamed
    turns = table.turns + bad

    # What to reply. Three of four tries are one and the same whatever the bytes were, each the
    # next one after a punishment; one is of this entry, the byte itself first.
    recent = jnp.concatenate([table.recent[1:], byte[None]])
    size = right.shape[0]
    number = byte.astype(jnp.uint32)
    if len(recent) > 1:
        number = jnp.zeros((), jnp.uint32)
        for i in range(len(recent)):
            number = mixed(number * np.uint32(257) + recent[i].astype(jnp.uint32))
    key = (number % np.uint32(size)).astype(jnp.int32)
    own = _printable(byte - FIRST_PRINTABLE + tried[key])
    guess = jnp.where(common_sure | (turns % 4 != 0), common, own)
    reply = jnp.where(sure[key], right[key], guess).astype(jnp.int32)
    return reply, Table(
        recent=recent,
        key=key,
        reply=reply,
        right=right,
        sure=sure,
        tried=tried,
        own=own,
        common=common,
        common_sure=common_sure,
        turns=turns,
    )


def look_up_table(history: int = 1, size: int = 256) -> Agent:
    """Learns by trial and error which reply is rewarded after which bytes, across the stream.

    It repeats what was rewarded last after these bytes, or else what was rewarded last after any,
    and otherwise tries printable bytes one after another, until a reply is not punished. It reads
    bytes and rewards, not feedback, and knows nothing of tasks. It passes micro1 and micro4, of
    which the document says that they teach what may be said and to copy; new mappings in each
    instance (from micro5.1 on) it learns anew by trying, if at all.

    Args:
      history: how many bytes a reply depends on.
      size: entries of the table; with more than one byte, sets of bytes may share an entry.

    Raises:
      ValueError: for `history` below 1 or `size` below 256.

    Example:
      >>> look_up_table().initial_carry(8).right.shape
      (8, 256)
    """
    check_at_least(1, history=history)
    check_at_least(256, size=size)

    def act(keys: jax.Array, params: ArrayTree, carry: Table, timestep: TimeStep) -> Any:
        del keys, params
        batch = timestep.observation.shape[0]
        carry = select(timestep.trial_start, _blank_table(batch, history, size), carry)
        reply, carry = jax.vmap(_look_up)(carry, timestep.observation, timestep.reward)
        return reply, {}, carry

    return Agent(lambda batch: _blank_table(batch, history, size), act)


def _ways() -> np.ndarray:
    """How a solver reads each task set."""
    ways = []
    for task in tasks.TASK_SETS:
        noisy = task.style in (tasks.ONE_BEFORE, tasks.PERHAPS_BEFORE, tasks.SOME_BEFORE)
        if task.family != tasks.MAPPING:
            ways.append(_WORDS if task.name in ("micro6", "micro15") else _KNOWN)
        elif task.style == tasks.NONE:
            ways.append(_REACTION)
        elif not task.marks & 1:
            ways.append(_BYTE if task.style == tasks.BARE else _BYTES)
        elif not task.marks & 2:
            ways.append(_OPEN)
        else:
            ways.append(_NOISY if noisy else _PLAIN)
    return np.array(ways, np.int32)


def solver() -> Agent:
    """Knows every task, but no instance: mappings it learns from the stream.

    It is told the number of the task set, and where an answer is a function of the question alone
    (micro7.1 to micro14, micro16 to micro20, and the mini tasks) also that, which is what knowing
    the task means there. Symbols without feedback it tries one after another; in the rest of
    micro5, in micro6 and micro15 it answers "." until it has heard what is right.

    Example:
      >>> solver().initial_carry(8).questions.shape
      (8, 16)
    """
    size = 16

    def act(keys: jax.Array, params: ArrayTree, carry: Notes, timestep: TimeStep) -> Any:
        del keys, params
        told, byte = timestep.privileged, timestep.observation
        batch = byte.shape[0]
        carry = select(timestep.trial_start, _blank_notes(batch, size), carry)
        way = jnp.asarray(_ways())[told["task"]]
        learnt, noted = jax.vmap(_read)(carry, byte, way)
        tried, guessed = jax.vmap(_react)(carry, byte, timestep.reward, told["task"])
        reacts = way == _REACTION
        say = jnp.where(reacts, tried, jnp.where(way == _KNOWN, told["answer"], learnt))
        carry = select(reacts, guessed, select(way == _KNOWN, carry, noted))
        return say.astype(jnp.int32), {}, carry

    return Agent(lambda batch: _blank_notes(batch, size), act)


def teacher_agent() -> Agent:
    """The agent to imitate: it replies what a learner could know by then, where that is one thing.

    Where feedback tells what would have been right it is a `solver`, which answers "." until it has
    heard it. In micro1 it says what was paid for, or else the next symbol after the one that was
    not; what was said is `timestep.privileged["played"]`, if that is there, or its own guess. In
    micro2 to micro4 it is the `oracle`: over many instances, its replies on letters that
    cannot be known yet are spread over those that are still possible.

    Example:
      >>> teacher_agent().initial_carry(8).questions.shape
      (8, 16)
    """
    knows = solver()
    places = np.full(256, -1, np.int32)
    places[[ord(x) for x in SYMBOLS]] = np.arange(len(SYMBOLS))
    told_all = np.array([name in ("micro2", "micro3", "micro4") for name in tasks.ALL_NAMES])

    def act(keys: jax.Array, params: ArrayTree, carry: Notes, timestep: TimeStep) -> Any:
        told, row = timestep.privileged, jnp.arange(len(carry.last))
        if "played" in told:
            place = jnp.asarray(places)[jnp.maximum(told["played"], 0)]
            known = (told["played"] >= 0) & (place >= 0)
            guess = jnp.where(known, place, carry.guess[row, carry.last])
            guess = carry.guess.at[row, carry.last].set(guess, mode="drop")
            carry = dataclasses.replace(carry, guess=guess)
        say, aux, carry = knows.act(keys, params, carry, timestep)
        say = jnp.where(jnp.asarray(told_all)[told["task"]], told["answer"], say)
        return say.astype(jnp.int32), aux, carry

    return Agent(knows.initial_carry, act)
