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
      key: `int32`, the byte that the last reply was to, and
      reply: `int32`, the reply.
      seen: `int32[B, 128]`, the step at which each byte was seen last.
      right: `int32[B, 256]`, what was rewarded last after a byte,
      sure: `bool[B, 256]`, and not punished since.
      tried: `int32[B, 256]`, replies of the byte's own that were punished since.
      own: `int32`, which the next of them was.
      common: `int32`, what was rewarded last after whatever bytes, or is tried next,
      common_sure: `bool`, and whether it was.
      turns: `int32`, punishments so far.
      steps: `int32`, steps so far.
    """

    key: jax.Array
    reply: jax.Array
    seen: jax.Array
    right: jax.Array
    sure: jax.Array
    tried: jax.Array
    own: jax.Array
    common: jax.Array
    common_sure: jax.Array
    turns: jax.Array
    steps: jax.Array


FIRST_PRINTABLE, PRINTABLE = 32, 95
LATELY = 48
"""Steps for which a byte counts as seen of late."""


def _blank_table(batch: int) -> Table:
    zero, space = jnp.zeros(batch, jnp.int32), jnp.full(batch, SPACE, jnp.int32)
    return Table(
        key=zero,
        reply=space,
        seen=jnp.full((batch, 128), -LATELY, jnp.int32),
        right=jnp.zeros((batch, 256), jnp.int32),
        sure=jnp.zeros((batch, 256), bool),
        tried=jnp.zeros((batch, 256), jnp.int32),
        own=space,
        common=space,
        common_sure=jnp.zeros(batch, bool),
        turns=zero,
        steps=zero,
    )


def _look_up(table: Table, byte: jax.Array, reward: jax.Array) -> tuple[jax.Array, Table]:
    """One stream's step with a table: what to say, and the table after it."""
    # What became of the last reply.
    key, good, bad = table.key, reward > 0, reward < 0
    right = table.right.at[key].set(jnp.where(good, table.reply, table.right[key]))
    sure = table.sure.at[key].set((table.sure[key] | good) & ~bad)
    failed = bad & (table.reply == table.own)
    tried = table.tried.at[key].set(jnp.where(good, 0, table.tried[key] + failed))
    blamed = bad & (table.reply == table.common)
    next_one = FIRST_PRINTABLE + (table.common + 1 - FIRST_PRINTABLE) % PRINTABLE
    common = jnp.where(blamed, next_one, table.common)
    # What an entry was sure of says nothing about others.
    found = good & ~table.sure[key]
    common = jnp.where(found, table.reply, common)
    common_sure = (table.common_sure | found) & ~blamed
    turns = table.turns + bad

    # What to reply. Three of four tries are one and the same whatever the bytes were, each the
    # next one after a punishment; one is of this byte alone: itself, and then what else of its
    # class was seen of late.
    seen = table.seen.at[byte].set(table.steps, mode="drop")
    others = (byte + jnp.arange(128)) % 128
    lately = (table.steps - seen[others] < LATELY) & (_class(others) == _class(byte))
    rank = jnp.cumsum(lately) - 1
    own = others[jnp.argmax(rank == tried[byte] % jnp.maximum(rank[-1] + 1, 1))]
    guess = jnp.where(common_sure | (turns % 4 != 0), common, own)
    reply = jnp.where(sure[byte], right[byte], guess).astype(jnp.int32)
    return reply, Table(
        key=byte.astype(jnp.int32),
        reply=reply,
        seen=seen,
        right=right,
        sure=sure,
        tried=tried,
        own=own.astype(jnp.int32),
        common=common,
        common_sure=common_sure,
        turns=turns,
        steps=table.steps + 1,
    )


# Classes of bytes: marks have numbers of their own, up to that of nothing.
_FEEDBACK_BEGINS, _DIGIT, _LETTER, _MARK = range(4)
_NOTHING = _MARK + 32


def _between(byte: jax.Array, first: str, last: str) -> jax.Array:
    return (byte >= ord(first)) & (byte <= ord(last))


def _class(byte: jax.Array) -> jax.Array:
    """Whether a byte is a digit or a letter, or else which mark."""
    letter = _between(byte | 32, "a", "z")
    mark = _MARK + byte % 32
    return jnp.where(_between(byte, "0", "9"), _DIGIT, jnp.where(letter, _LETTER, mark))


@struct.dataclass
class Reader:
    """What a suffix predictor remembers, `[B]` each, or as said. Positions move with the text.

    Attributes:
      text: `uint8[B, size]`, the last bytes that were heard, silence left out, the latest one last.
      match: `uint8[B, size]`, how many bytes up to a position are the last ones of the text, too.
      asked: `uint8[B, size]`, bytes of the word that ends at a position.
      told: `uint8[B, size]`, bytes of the feedback after a position, 0 where none was read.
      classes: `int32[B, 3]`, classes of the last bytes, equal ones in a row counted once.
      turn: `bool[B, CONTEXTS]`, whether it is to speak after these classes,
      failed: `int32[B, CONTEXTS]`, and punishments since that was confirmed.
      fresh: `bool`, whether the last byte was heard.
      spoke: `bool`, whether the last reply was more than silence.
      answering: `bool`, whether an answer is not decided yet.
      last: `int32`, position of its last turn, and
      found: `int32`, the position that it recalled then; negative where nothing.
      source: `int32`, position of the next byte to say, and
      left: `int32`, how many are left.
      whole: `int32`, evidence that all of the feedback is the answer; negative: its last byte.
      mute: `bool`, whether nothing was heard after the last turn.
      guessed: `bool`, whether the last reply came from
      table: a table of replies.
    """

    text: jax.Array
    match: jax.Array
    asked: jax.Array
    told: jax.Array
    classes: jax.Array
    turn: jax.Array
    failed: jax.Array
    fresh: jax.Array
    spoke: jax.Array
    answering: jax.Array
    last: jax.Array
    found: jax.Array
    source: jax.Array
    left: jax.Array
    whole: jax.Array
    mute: jax.Array
    guessed: jax.Array
    table: Table


CONTEXTS = 512
"""Contexts of three classes that a suffix predictor tells apart."""


def _blank_reader(batch: int, size: int) -> Reader:
    zero, no = jnp.zeros(batch, jnp.int32), jnp.zeros(batch, bool)
    bytes_ = jnp.zeros((batch, size), jnp.uint8)
    return Reader(
        text=bytes_,
        match=bytes_,
        asked=bytes_,
        told=bytes_,
        classes=jnp.full((batch, 3), _NOTHING, jnp.int32),
        turn=jnp.zeros((batch, CONTEXTS), bool),
        failed=jnp.zeros((batch, CONTEXTS), jnp.int32),
        fresh=no,
        spoke=no,
        answering=no,
        last=zero - 1,
        found=zero - 1,
        source=zero,
        left=zero,
        whole=zero,
        mute=no,
        guessed=no,
        table=_blank_table(batch),
    )


def _context(classes: jax.Array) -> jax.Array:
    return ((classes[0] * 37 + classes[1]) * 37 + classes[2]) % CONTEXTS


def _listen(reader: Reader, byte: jax.Array, reward: jax.Array) -> Reader:
    """Learns from what became of the last reply whether it was its turn, and takes in the byte."""
    heard, decided = byte != BLANK, reward != 0
    context = _context(reader.classes)
    # Silence that is punished, or met with silence, was a turn. A byte that is punished at once may
    # have been a wrong answer, or have come while it was to listen.
    waits = decided | ~heard
    doubtful = reader.spoke & heard & (reward < 0)
    turn = jnp.where(reader.fresh & ~doubtful, waits, reader.turn[context])
    wrong = jnp.where(waits & ((reward < 0) | ~reader.spoke), reader.failed[context] + 1, 0)
    failed = jnp.where(reader.fresh, wrong, reader.failed[context])
    # A turn that was let pass is a question, too.
    size = len(reader.text)
    missed = decided & ~reader.answering & reader.fresh
    last = jnp.where(missed, size - 1, reader.last)
    found = jnp.where(missed, -1, reader.found)
    # What earned a reward says which part of the feedback it was.
    long = reader.answering & (found >= 0) & (reader.told[jnp.maximum(found, 0)] > 1)
    sure = jnp.where(reader.whole < 0, -3, 3)
    whole = jnp.where(long & (reward > 0), sure, reader.whole)

    kind = jnp.where(decided & (byte != SEMICOLON), _FEEDBACK_BEGINS, _class(byte))
    before = reader.classes[2]
    again = (kind == before) & (kind < _MARK)
    classes = jnp.where(again, reader.classes, jnp.append(reader.classes[1:], kind))
    # The last word, and the marks after it.
    word = reader.asked[-1]
    goes_on = again & (kind != _FEEDBACK_BEGINS) | (kind >= _MARK) & (before < _MARK)
    word = jnp.where(goes_on, jnp.minimum(word, 254) + 1, 1)
    added = {"text": byte, "match": 0, "asked": word, "told": 0}
    moved = {
        name: jnp.append(getattr(reader, name)[1:], jnp.asarray(value).astype(jnp.uint8))
        for name, value in added.items()
    }
    same = (moved["text"] == byte.astype(jnp.uint8)).at[-1].set(False)
    moved["match"] = jnp.where(same, jnp.minimum(reader.match, 254) + 1, 0)
    taken = dataclasses.replace(
        reader,
        classes=classes,
        last=last - 1,
        found=found - 1,
        source=reader.source - 1,
        **moved,
    )
    stays = dataclasses.replace(reader, last=last, found=found)
    return dataclasses.replace(
        select(heard, taken, stays),
        turn=reader.turn.at[context].set(turn),
        failed=reader.failed.at[context].set(failed),
        fresh=heard,
        whole=whole,
        answering=reader.answering & ~heard & ~decided,
    )


def _recall(reader: Reader) -> Reader:
    """What it does as its turn begins: reads the last feedback, and looks for the question."""
    size, asked = len(reader.text), reader.asked[-1].astype(jnp.int32)
    last, found = reader.last, reader.found
    places = jnp.arange(LONGEST)

    def after(place: jax.Array) -> jax.Array:
        return reader.text[jnp.clip(place + 1 + places, 0, size - 1)]

    # Feedback goes up to a mark, or to where the question begins.
    new, old = after(last), after(found)
    alphanumeric = _class(new.astype(jnp.int32)) < _MARK
    length = jnp.where(alphanumeric.all(), LONGEST, jnp.argmin(alphanumeric))
    length = jnp.clip(jnp.minimum(length, size - 1 - last - asked), 0, LONGEST)
    was = reader.told[jnp.clip(found, 0, size - 1)].astype(jnp.int32)
    # Told the same twice, the answer is all of it; or its end, where only that is the same.
    known = (found >= 0) & (last >= 0) & (was > 0) & (length > 0) & (jnp.maximum(was, length) > 1)
    alike = (was == length) & ((new == old) | (places >= length)).all()
    ends = new[jnp.maximum(length - 1, 0)] == old[jnp.maximum(was - 1, 0)]
    votes = jnp.where(alike, 1, jnp.where(ends, -1, 0))
    whole = jnp.clip(reader.whole + jnp.where(known, votes, 0), -3, 3)
    told = reader.told.at[jnp.where(last >= 0, last, size)].set(
        length.astype(jnp.uint8), mode="drop"
    )

    equal = (reader.match >= asked) & (reader.asked == asked) & (told > 0)
    found = jnp.max(jnp.where(equal, jnp.arange(size), -1))
    length = told[jnp.maximum(found, 0)].astype(jnp.int32)
    left = jnp.where(whole < 0, 1, length)
    return dataclasses.replace(
        reader,
        told=told,
        whole=whole,
        mute=(last >= 0) & (told[jnp.maximum(last, 0)] == 0),
        last=jnp.full_like(last, size - 1),
        found=found,
        source=found + 1 + length - left,
        left=jnp.where(found >= 0, left, 0),
    )


def _predict(reader: Reader, byte: jax.Array, reward: jax.Array) -> tuple[jax.Array, Reader]:
    """One stream's step: what to say, and what is remembered."""
    reader = _listen(reader, byte, reward)
    context = _context(reader.classes)
    failed = reader.failed[context]
    # After several failures, silence tells whether this is a turn at all. It is tried twice in a
    # row, for where every other byte is a turn both kinds of them come under test.
    powers = ((failed & (failed - 1)) == 0) | (((failed - 1) & (failed - 2)) == 0)
    begins = ~reader.answering & reader.turn[context] & ~((failed > 3) & powers)
    reader = select(begins, _recall(reader), reader)
    speaks = begins | reader.answering

    learnt = jnp.where(reader.guessed, reward, 0)
    guess, table = _look_up(reader.table, byte, learnt)
    recalled = reader.text[jnp.clip(reader.source, 0, len(reader.text) - 1)].astype(jnp.int32)
    say = jnp.where(reader.left > 0, recalled, PERIOD)
    guesses = begins & (reader.found < 0) & reader.mute
    say = jnp.where(speaks, jnp.where(guesses, guess, say), SPACE).astype(jnp.int32)
    return say, dataclasses.replace(
        reader,
        answering=speaks,
        spoke=say != SPACE,
        source=reader.source + 1,
        left=jnp.maximum(reader.left - 1, 0),
        guessed=guesses,
        table=table,
    )


def suffix_predictor(size: int = 1024) -> Agent:
    """Says what it was told when it last heard the same question: the null to beat by training.

    It is not trained, and is not told the task. It finds out where to speak from what silence
    costs. There it looks for the last place where the text so far ended in the same word and
    feedback followed. It repeats that feedback, or only its last byte, whichever has been rewarded
    or told twice. To a word that it has not heard it says ".", which ends an answer. Where no
    feedback follows, it repeats what was rewarded after this byte, or tries what is printable.

    Four things are built in: silence is a space, answers end with a period, feedback does not begin
    with a semicolon, and a word is a run of digits or letters with the marks after it. Its memory
    is bounded: the last `size` bytes that it heard, and tables of fixed sizes.

    Args:
      size: how many of the last bytes it remembers, silence left out.

    Raises:
      ValueError: for `size` below 64.

    Example:
      >>> suffix_predictor().initial_carry(8).text.shape
      (8, 1024)
    """
    check_at_least(64, size=size)

    def act(keys: jax.Array, params: ArrayTree, carry: Reader, timestep: TimeStep) -> Any:
        del keys, params
        batch = timestep.observation.shape[0]
        carry = select(timestep.trial_start, _blank_reader(batch, size), carry)
        say, after = jax.vmap(_predict)(carry, timestep.observation, timestep.reward)
        return say, {}, jax.tree.map(lambda x, like: x.astype(like.dtype), after, carry)

    return Agent(lambda batch: _blank_reader(batch, size), act)


def _ways() -> np.ndarray:
    """How a solver reads each task set."""
    ways = []
    for task in tasks.TASK_SETS:
        noisy = task.style in (tasks.ONE_BEFORE, tasks.PERHAPS_BEFORE, tasks.SOME_BEFORE)
        if task.family != tasks.MAPPING:
            hidden = task.hidden and all(question.endswith(".") for question, _ in task.lines or ())
            learnt = hidden or task.name in ("micro6", "micro15")
            ways.append(_WORDS if learnt else _KNOWN)
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
    micro5, in micro6 and micro15 it answers "." until it has heard what is right; so it does in
    hidden task sets of one's own whose questions end with a period and whose answers are words.

    Example:
      >>> solver().initial_carry(8).questions.shape
      (8, 16)
    """
    size = 16

    def act(keys: jax.Array, params: ArrayTree, carry: Notes, timestep: TimeStep) -> Any:
        del keys, params
        told = timestep.privileged
        byte = told.get("byte", timestep.observation)
        batch = byte.shape[0]
        carry = select(timestep.trial_start, _blank_notes(batch, size), carry)
        answer = _translated(told, "meant", told["answer"])
        way = jnp.asarray(_ways())[told["task"]]
        learnt, noted = jax.vmap(_read)(carry, byte, way)
        tried, guessed = jax.vmap(_react)(carry, byte, timestep.reward, told["task"])
        reacts = way == _REACTION
        say = jnp.where(reacts, tried, jnp.where(way == _KNOWN, answer, learnt))
        carry = select(reacts, guessed, select(way == _KNOWN, carry, noted))
        return _translated(told, "shown", say).astype(jnp.int32), {}, carry

    return Agent(lambda batch: _blank_notes(batch, size), act)


def _translated(told: dict[str, jax.Array], table: str, byte: jax.Array) -> jax.Array:
    """Bytes, `int32[B]`, by a table of streams that permute them."""
    if table not in told:
        return byte
    return told[table][jnp.arange(len(byte)), byte].astype(byte.dtype)


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
            played = _translated(told, "meant", jnp.maximum(told["played"], 0))
            place = jnp.asarray(places)[played]
            known = (told["played"] >= 0) & (place >= 0)
            guess = jnp.where(known, place, carry.guess[row, carry.last])
            guess = carry.guess.at[row, carry.last].set(guess, mode="drop")
            carry = dataclasses.replace(carry, guess=guess)
        say, aux, carry = knows.act(keys, params, carry, timestep)
        say = jnp.where(jnp.asarray(told_all)[told["task"]], told["answer"], say)
        return say.astype(jnp.int32), aux, carry

    return Agent(knows.initial_carry, act)
