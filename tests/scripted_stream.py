"""A script of questions played to given bytes: what other implementations can be compared with.

The script says what is asked, what is accepted and what is said to it. The rules of the
conversation (timing, rewards, acceptors, clocks, success and switching) are those of `ByteStream`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import check, check_choice
from gpicljax.systems.gradual_learning.env import conversation, interpreter, tasks
from gpicljax.systems.gradual_learning.env.conversation import (
    ANSWER,
    PATTERN,
    TEXT,
    PackedQuestion,
    Question,
    TaskRules,
)
from gpicljax.systems.gradual_learning.env.tasks import ALL_NAMES

_ACCEPTORS = ("exact", "one of", "lacking", "containing")


@dataclasses.dataclass(frozen=True)
class Line:
    """A question of a script.

    Args:
      question: its text, at least one byte.
      answer: an answer that is accepted, with its period if it has one.
      right: what is said to a right answer, and
      wrong: to a wrong one.
      accepts: `"exact"`, the answer only; `"one of"` up to four `patterns` of up to three bytes,
        each with its period; `"lacking"`, anything without the first pattern's byte;
        `"containing"`, anything with one of the patterns in it.
      patterns: see there.
      key: which key of a mapping is asked for, and
      keys: of how many.
    """

    question: str
    answer: str
    right: str = ""
    wrong: str = ""
    accepts: Literal["exact", "one of", "lacking", "containing"] = "exact"
    patterns: tuple[str, ...] = ()
    key: int = 0
    keys: int = 1

    def __post_init__(self) -> None:
        check_choice("accepts", self.accepts, _ACCEPTORS)
        for field in ("question", "answer", "right", "wrong"):
            text = getattr(self, field)
            fine = isinstance(text, str) and len(text) <= 110 and all(ord(x) < 256 for x in text)
            check(fine, field, text, "text of at most 110 bytes")
        check(self.question, "question", self.question, "at least one byte")
        fine = len(self.patterns) <= 4 and all(0 < len(p) <= 3 for p in self.patterns)
        check(fine, "patterns", self.patterns, "up to four of one to three bytes")


class ReplayResult(NamedTuple):
    """The environment's bytes and its judgement of the learner's.

    Attributes:
      output: the environment's bytes, one more than the learner's.
      rewards: as many; the one with a byte is for the learner's byte before it.
      solved: for each instance that ended, whether it was solved.
    """

    output: bytes
    rewards: list[int]
    solved: list[bool]


@functools.cache
def _programs(corrected: bool) -> tuple:
    hear = jax.jit(functools.partial(interpreter.process_reply, corrected=corrected))
    return hear, jax.jit(interpreter.say_byte), jax.jit(conversation.pack_question)


def _row(pool: str, parts: Sequence[str], size: int) -> jax.Array:
    """Texts as tokens: where in the pool each begins, and how long it is."""
    tokens = np.zeros(size, np.int32)
    for place, text in enumerate(parts):
        tokens[place] = (pool.index(text) << 8) + len(text) if text else 0
    return jnp.asarray(tokens)


def _question(pool: str, line: Line, parts: Sequence[str], cursor: jax.Array) -> Question:
    """Returns a question with these parts of its text."""
    pattern = np.zeros((4, 3), np.uint8)
    for place, text in enumerate(line.patterns):
        pattern[place, : len(text)] = list(text.encode("latin-1"))
    return Question(
        text=_row(pool, parts, TEXT),
        answer=_row(pool, _parts(line.answer), ANSWER),
        pattern=jnp.asarray(pattern.reshape(PATTERN)),
        acceptor=jnp.int32(_ACCEPTORS.index(line.accepts)),
        style=jnp.int32(0),
        key=jnp.int32(line.key),
        keys=jnp.int32(2**line.keys - 1),
        cursor=cursor,
    )


def replay(
    script: Sequence[tuple[str, Sequence[Line]]],
    learner: bytes,
    rules: Literal["corrected", "reference"] = "reference",
) -> ReplayResult:
    """Plays a script to a learner's bytes.

    Args:
      script: instances: the name of the task set, whose rules apply, and its questions in order.
      learner: the learner's replies, the first of which is that to the first byte.
      rules: see `ByteStream`.

    Raises:
      ValueError: for unknown names, and where the script ends before the learner does.
    """
    check_choice("rules", rules, ("corrected", "reference"))
    check(len(script) > 0, "script", script, "at least one instance")
    for name, _ in script:
        check_choice("script", name, ALL_NAMES)
    corrected = rules == "corrected"
    hear, speak, pose = _programs(corrected)
    texts = sorted({t for _, ls in script for x in ls for t in (x.question, x.right, x.wrong)})
    texts += sorted({part for _, lines in script for x in lines for part in _parts(x.answer)})
    pool = "".join(texts) + " "
    # Few sizes, so that few programs are compiled.
    size = max(2**12, 2 ** (len(pool) - 1).bit_length())
    data = jnp.asarray(np.frombuffer(pool.ljust(size).encode("latin-1"), np.uint8))
    table = tasks.table(corrected)

    def question_of(line: Line, parts: Sequence[str], cursor: jax.Array) -> PackedQuestion:
        return pose(_question(pool, line, parts, cursor))

    def line_of(instance: int, number: int) -> Line:
        check(instance < len(script), "script", f"{len(script)} instances", "as many as are begun")
        lines = script[instance][1]
        check(number < len(lines), f"script[{instance}]", f"{len(lines)} lines", "one per question")
        return lines[number]

    def rules_of(instance: int) -> TaskRules:
        task = ALL_NAMES.index(script[instance][0])
        return TaskRules(*(jnp.int32(table[name][task]) for name in TaskRules._fields))

    instance, number, zero = 0, 0, jnp.zeros((), jnp.int32)
    line = line_of(0, 0)
    parts = [line.question]
    question, rule = question_of(line, parts, zero), rules_of(0)
    progress = conversation.first_progress(rule.know)
    output, rewards, solved = bytearray(), [0], []
    byte, question, progress = speak(data, question, progress)
    output.append(int(byte))
    for reply in learner:
        heard = hear(data, rule, question, progress, jnp.int32(reply))
        progress = heard.progress
        rewards.append(int(heard.reward))
        if bool(heard.starts_next):
            solved.append(int(progress.result) == 1)
            instance, number = instance + 1, 0
            line = line_of(instance, 0)
            rule, parts = rules_of(instance), [line.question]
            progress = conversation.first_progress(rule.know)
            question = question_of(line, parts, zero)
        elif bool(heard.due.feedback) or bool(heard.due.question):
            parts = parts if bool(heard.due.rest) else []
            if bool(heard.due.is_late):
                parts = [*parts, line.wrong]
            if bool(heard.due.feedback):
                parts = [*parts, line.right if bool(heard.due.is_correct) else line.wrong]
            if bool(heard.due.question):
                number += 1
                line = line_of(instance, number)
                parts = [*parts, line.question]
            cursor = question.unpack().cursor if bool(heard.due.rest) else zero
            question = question_of(line, parts, cursor)
        byte, question, progress = speak(data, question, progress)
        output.append(int(byte))
    return ReplayResult(bytes(output), rewards, solved)


def _parts(answer: str) -> list[str]:
    """An answer's text and its period."""
    return [answer[:-1], "."] if answer.endswith(".") else [answer]
