"""The null that copies: its ways against answers worked out by hand, and a conversation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conversing import replies_of

from gpicljax.interface import TimeStep
from gpicljax.systems.gradual_learning.experts.copying import (
    LONGEST,
    WAYS,
    _candidate_answers,
    copier,
)

KEYS = jax.random.split(jax.random.key(0), 2)


def of(text):
    return jnp.zeros(LONGEST, jnp.int32).at[: len(text)].set(np.array([*map(ord, text)], np.int32))


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        (
            "say: ab  cd say: e reverse:",
            ("t", "", "ab  cd say: e reverse:", "ab cd e ", "abcde", "e cd ab", "a b   c d   e   ")
            + ("say: ab  cd say: e reverse:", "reverse:"),
        ),
        ("say:  a b", ("t", " a b", " a b", "a b", "ab", "b a", "a   b ", "say:  a b", "b")),
        ("12", ("t", "12", "12", "12", "12", "12", "1 2 ", "12", "12")),
    ],
)
def test_ways_to_answer(question, answers):
    candidates = jax.jit(_candidate_answers)(of(question), of("t"))
    assert ["".join(chr(x) for x in row if x) for row in np.asarray(candidates)] == [*answers]
    assert len(answers) == len(WAYS)


@pytest.fixture(scope="module")
def replies():
    """Returns the copier's replies to texts, each with a reward at its first byte."""
    return replies_of(copier(size=4))


def test_it_takes_the_longest_way_that_was_told(replies):
    # "cd" is the last word, but "ab cd" was told, and then another command has its own way.
    parts = ("say: ab cd.", 0), (" ", 0), ("no! ab cd.;do: ef g.", -1), ("    ", 0), ("ok.;", 1)
    more = ("turn: ab cd.", 0), ("     ", 0), ("no! cd ab.;turn: x y.", -1), ("   ", 0)
    output = replies(*parts, *more)
    assert output.split() == [".", "ef", "g.", "ab", "cd.", "y", "x."]


def test_it_repeats_what_was_told_of_the_same_question(replies):
    parts = ("q: a.", 0), (" ", 0), ("no! tree.;q: b.", -1), (" ", 0), ("no! sky.;q: a.", -1)
    assert replies(*parts, ("    ", 0)).split() == [".", ".", "tree."]


def test_dtypes_stay_and_sizes_are_checked():
    agent = copier()
    carry = agent.initial_carry(2)
    false = jnp.zeros(2, bool)
    with jax.enable_x64(True):
        timestep = TimeStep(
            jnp.zeros(2, jnp.uint8), jnp.zeros(2), false, false, false, false, {}, None
        )
        after = jax.eval_shape(lambda carry: agent.act(KEYS, (), carry, timestep)[2], carry)
    shapes = [jax.tree.map(lambda x: (x.shape, x.dtype), memory) for memory in (carry, after)]
    assert shapes[0] == shapes[1]
    with pytest.raises(ValueError, match="size"):
        copier(0)
