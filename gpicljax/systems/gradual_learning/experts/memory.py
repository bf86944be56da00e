"""Parts of agents that learn from one stream: a table of answers, and the agent of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.batching import select
from gpicljax.interface import Agent, TimeStep
from gpicljax.typing import ArrayTree

T = TypeVar("T")


@struct.dataclass
class AnswerTable:
    """The answers to the latest questions.

    Attributes:
      questions: `uint32[N]`, hashes of questions with known answers, 0 where none.
      answers: `int32[N, L]`, their answers.
      entry_count: `int32[]`, number of entries that were made.
    """

    questions: jax.Array
    answers: jax.Array
    entry_count: jax.Array

    def store(self, question: jax.Array, answer: jax.Array, condition: Any = True) -> AnswerTable:
        """Returns the table with an answer in place of an older one, if the condition holds."""
        size, is_stored = len(self.questions), self.questions == question
        index = jnp.where(is_stored.any(), jnp.argmax(is_stored), self.entry_count % size)
        index = jnp.where(condition, index, size)
        return AnswerTable(
            self.questions.at[index].set(question, mode="drop"),
            self.answers.at[index].set(answer, mode="drop"),
            self.entry_count + (condition & ~is_stored.any()),
        )

    def find(self, question: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns whether the answer to a question is known, and the answer."""
        is_stored = self.questions == question
        return is_stored.any(), self.answers[jnp.argmax(is_stored)]


def empty_table(size: int, longest: int, filler: int = 0) -> AnswerTable:
    """Returns a table of `size` answers of at most `longest` bytes, `filler` beyond their ends."""
    answers = jnp.full((size, longest), filler, jnp.int32)
    return AnswerTable(jnp.zeros(size, jnp.uint32), answers, jnp.zeros((), jnp.int32))


def repeat_memory(memory: T, batch: int) -> T:
    """Returns the memory of so many streams, all like this one."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *jnp.shape(x))), memory)


def stream_agent(
    empty: Callable[[], T], react: Callable[[T, jax.Array, jax.Array], tuple[jax.Array, T]]
) -> Agent:
    """Returns the agent that reads bytes and rewards, and begins each trial with empty memory.

    Args:
      empty: returns the memory of one stream at its beginning.
      react: returns one stream's reply to a byte and a reward, and its memory after it.
    """

    def act(keys: jax.Array, params: ArrayTree, carry: T, timestep: TimeStep) -> Any:
        del keys, params
        batch = timestep.observation.shape[0]
        carry = select(timestep.trial_start, repeat_memory(empty(), batch), carry)
        reply, after = jax.vmap(react)(carry, timestep.observation, timestep.reward)
        return reply, {}, jax.tree.map(lambda x, like: x.astype(like.dtype), after, carry)

    return Agent(lambda batch: repeat_memory(empty(), batch), act)
