"""A null model that copies: it makes answers of the question's own bytes.

An agent of the contract of `gpicljax.interface`, without parameters. Beside the suffix predictor of
`answering`, it is the null for task sets whose answers come from the question.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import ArrayLike

from gpicljax.batching import select
from gpicljax.checks import check_at_least
from gpicljax.interface import Agent, TimeStep
from gpicljax.systems.gradual_learning.env.conversation import PERIOD, SPACE
from gpicljax.systems.gradual_learning.env.hashing import mixed
from gpicljax.typing import ArrayTree

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
"""How an answer is made; of several that were right as often, the first."""
CONTEXTS = 32
_QUESTION, _ANSWER, _FEEDBACK = range(3)
_COLON, _SEMICOLON = ord(":"), ord(";")
_PLACES = np.arange(LONGEST)


@struct.dataclass
class Copies:
    """What a copier remembers, `[B]` each, or as said.

    Attributes:
      phase: `int32`, whether it reads a question, answers, or reads feedback.
      length: `int32`, bytes of that so far.
      text: `int32[B, LONGEST]`, the question, or the feedback.
      ways: `int32[B, WAYS, LONGEST]`, answers to the last question, without a period.
      chosen: `int32`, the way that it took.
      good: `bool`, whether that was rewarded.
      context: `int32`, number of the last word of the question that ended with a colon.
      right: `float32[B, CONTEXTS, WAYS]`, how often a way would have been right of late.
      asked: `uint32`, the last question, as a number, and
      questions: `uint32[B, N]`, those that it knows answers to,
      answers: `int32[B, N, LONGEST]`, and these.
      written: `int32`, how many entries were made.
    """

    phase: jax.Array
    length: jax.Array
    text: jax.Array
    ways: jax.Array
    chosen: jax.Array
    good: jax.Array
    context: jax.Array
    right: jax.Array
    asked: jax.Array
    questions: jax.Array
    answers: jax.Array
    written: jax.Array


def _blank(batch: int, size: int) -> Copies:
    def zeros(*shape: int) -> jax.Array:
        return jnp.zeros((batch, *shape), jnp.int32)

    return Copies(
        phase=zeros(),
        length=zeros(),
        text=zeros(LONGEST),
        ways=zeros(len(WAYS), LONGEST),
        chosen=zeros(),
        good=jnp.zeros(batch, bool),
        context=zeros(),
        right=jnp.zeros((batch, CONTEXTS, len(WAYS)), jnp.float32),
        asked=zeros().astype(jnp.uint32),
        questions=zeros(size).astype(jnp.uint32),
        answers=zeros(size, LONGEST),
        written=zeros(),
    )


def _kept(text: jax.Array, keep: ArrayLike) -> jax.Array:
    """The bytes that are kept, moved together."""
    place = jnp.where(jnp.asarray(keep) & (text > 0), jnp.cumsum(jnp.asarray(keep)) - 1, LONGEST)
    return jnp.zeros_like(text).at[place].set(text, mode="drop")


def _number(text: jax.Array) -> jax.Array:
    """A text as a number, `uint32`."""
    return mixed((text + 256 * _PLACES).astype(jnp.uint32)).sum(dtype=jnp.uint32)


def _before(mask: jax.Array) -> jax.Array:
    """Whether that was so at the place before."""
    return jnp.roll(mask, 1).at[0].set(False)


def _ends(word: jax.Array) -> jax.Array:
    """The place at which each word ends; `word` says where words are."""
    ends = jnp.where(word, LONGEST, _PLACES)
    return jax.lax.cummin(ends, reverse=True)


def _behind(text: jax.Array, place: jax.Array) -> jax.Array:
    """What stands behind a place, without a first space."""
    behind = _kept(text, place < _PLACES)
    return _kept(behind, (_PLACES > 0) | (behind != SPACE))


def _answers(text: jax.Array, told: jax.Array) -> jax.Array:
    """All ways to answer a question, `int32[WAYS, LONGEST]`; `told` is the first."""
    colon = text == _COLON
    last, first = jnp.max(jnp.where(colon, _PLACES, -1)), jnp.argmax(colon)
    first = jnp.where(colon.any(), first, -1)
    # Words that end with a colon are left out, and of spaces in a row all but the last one.
    ends = _ends((text != SPACE) & (text > 0))
    ordered = text[jnp.maximum(ends - 1, 0)] == _COLON
    words = _kept(text, ~(ordered & (text != SPACE)))
    gaps = words == SPACE
    words = _kept(words, ~(gaps & _before(gaps)))
    words = _kept(words, (_PLACES > 0) | (words != SPACE))
    gaps = words == SPACE
    # The same, without a space at the end, in reverse order.
    size = (words > 0).sum()
    size -= (size > 0) & gaps[jnp.maximum(size - 1, 0)]
    inside = size > _PLACES
    begins = jax.lax.cummax(jnp.where(_before(gaps), _PLACES, 0))
    until = jnp.minimum(_ends(~gaps & inside), size)
    place = jnp.where(gaps, size - 1 - _PLACES, size - until + _PLACES - begins)
    place = jnp.where(inside, place, LONGEST)
    turned = jnp.zeros_like(words).at[place].set(words, mode="drop")
    spread = jnp.where(_PLACES % 2 == 0, words[_PLACES // 2], SPACE)
    spread = jnp.where(words[_PLACES // 2] > 0, spread, 0)
    final = jnp.max(jnp.where(text == SPACE, _PLACES, -1))
    return jnp.stack(
        [
            told,
            _behind(text, last),
            _behind(text, first),
            words,
            _kept(words, ~gaps),
            turned,
            spread,
            text,
            _behind(text, final),
        ]
    )


def _told(answer: jax.Array, text: jax.Array, length: jax.Array) -> jax.Array:
    """Whether feedback ends with an answer and a period, or has only these."""
    size = (answer > 0).sum()
    ended = answer.at[size].set(PERIOD, mode="drop")
    begin = length - size - 1
    there = text[jnp.clip(begin + _PLACES, 0, LONGEST - 1)]
    same = (there == ended) | (size < _PLACES)
    free = (begin == 0) | (text[jnp.maximum(begin - 1, 0)] == SPACE)
    return (size > 0) & (begin >= 0) & same.all() & free


def _learn(copies: Copies) -> Copies:
    """At the end of feedback: which ways would have been right, and what the answer was."""
    used = copies.ways[copies.chosen]
    told = jax.vmap(_told, (0, None, None))(copies.ways, copies.text, copies.length)
    # Where it ends with several of them, the longest is the answer.
    sizes = jnp.where(told, (copies.ways > 0).sum(-1), 0)
    told &= sizes == sizes.max()
    right = told | (copies.good & (copies.ways == used).all(-1))
    context = copies.context
    marks = copies.right.at[context].set(0.7 * copies.right[context] + right)
    # The answer is what was rewarded, or what is told behind the first word.
    gap = jnp.argmax(copies.text == SPACE)
    gap = jnp.where((copies.text == SPACE).any(), gap, -1)
    heard = _behind(copies.text, gap)
    size = (heard > 0).sum()
    ended = heard[jnp.maximum(size - 1, 0)] == PERIOD
    heard = heard.at[jnp.where(ended, size - 1, LONGEST)].set(0, mode="drop")
    answer = jnp.where(copies.good, used, heard)
    known = copies.questions == copies.asked
    index = jnp.where(known.any(), jnp.argmax(known), copies.written % len(known))
    return dataclasses.replace(
        copies,
        right=marks,
        questions=copies.questions.at[index].set(copies.asked),
        answers=copies.answers.at[index].set(answer),
        written=copies.written + ~known.any(),
    )


def _begin(copies: Copies) -> Copies:
    """At the end of a question: the ways to answer it, and which to take."""
    text = copies.text
    asked = _number(text)
    last = jnp.max(jnp.where(text == _COLON, _PLACES, -1))
    ends = _ends((text != SPACE) & (text > 0))
    word = jnp.where(ends == last + 1, text, 0)
    context = (_number(_kept(word, word > 0)) % CONTEXTS).astype(jnp.int32)
    known = copies.questions == asked
    told = jnp.where(known.any(), copies.answers[jnp.argmax(known)], 0)
    marks = copies.right[context] + 0.01 * copies.right.sum(0)
    return dataclasses.replace(
        copies,
        ways=_answers(text, told),
        chosen=jnp.argmax(marks).astype(jnp.int32),
        context=context,
        asked=asked,
        good=jnp.zeros_like(copies.good),
    )


def _reply(copies: Copies, byte: jax.Array, reward: jax.Array) -> tuple[jax.Array, Copies]:
    """One stream's step: what to say, and what is remembered."""
    was = copies.phase
    copies = dataclasses.replace(copies, good=copies.good | ((was == _ANSWER) & (reward > 0)))
    # Silence while it answers goes on; a byte is the beginning of feedback.
    phase = jnp.where((was == _ANSWER) & (byte != SPACE), _FEEDBACK, was)
    length = jnp.where(phase != was, 0, copies.length)
    text = jnp.where(phase != was, jnp.zeros_like(copies.text), copies.text)
    done = (phase == _FEEDBACK) & (byte == _SEMICOLON)
    over = (phase == _QUESTION) & (length > 0) & (byte == PERIOD)
    takes = ~done & ~over & (phase != _ANSWER) & ((length > 0) | (byte != SPACE))
    text = text.at[jnp.where(takes, length, LONGEST)].set(byte, mode="drop")
    length += takes
    copies = dataclasses.replace(copies, text=text, length=length)
    copies = select(done, _learn(copies), copies)
    copies = select(over, _begin(copies), copies)
    answering = over | (phase == _ANSWER)
    place = jnp.where(over, 0, length)
    answer = copies.ways[copies.chosen]
    size = (answer > 0).sum()
    say = jnp.where(place < size, answer[jnp.minimum(place, LONGEST - 1)], SPACE)
    say = jnp.where(answering & (place == size), PERIOD, jnp.where(answering, say, SPACE))
    ends = done | over
    phase = jnp.where(done, _QUESTION, jnp.where(over, _ANSWER, phase))
    return say.astype(jnp.int32), dataclasses.replace(
        copies,
        phase=phase,
        length=jnp.where(answering, place + 1, jnp.where(ends, 0, length)),
        text=jnp.where(ends, jnp.zeros_like(text), text),
    )


def copier(size: int = 32) -> Agent:
    """Answers with bytes of the question, or with what it was told: a null for such task sets.

    It is not trained, and is not told the task. After each feedback it asks which of its `WAYS`
    would have given the answer that was told or rewarded, and takes the one that did most often of
    late, after questions whose last word with a colon was the same. More is built in than in
    `suffix_predictor`: questions and answers end with a period, feedback with a semicolon, and
    commands with a colon.

    Args:
      size: of how many questions it remembers the answers.

    Raises:
      ValueError: for `size` below 1.

    Example:
      >>> copier().initial_carry(8).answers.shape
      (8, 32, 96)
    """
    check_at_least(1, size=size)

    def act(keys: jax.Array, params: ArrayTree, carry: Copies, timestep: TimeStep) -> Any:
        del keys, params
        blank = _blank(timestep.observation.shape[0], size)
        carry = select(timestep.trial_start, blank, carry)
        say, after = jax.vmap(_reply)(carry, timestep.observation, timestep.reward)
        return say, {}, jax.tree.map(lambda x, like: x.astype(like.dtype), after, carry)

    return Agent(lambda batch: _blank(batch, size), act)
