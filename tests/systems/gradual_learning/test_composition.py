"""Operations and operands that are held out of training: which questions are asked."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.systems.gradual_learning.env import sentences
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream, _pool
from gpicljax.systems.gradual_learning.env.conversation import QuestionSource
from gpicljax.systems.gradual_learning.env.hashing import Seed
from gpicljax.systems.gradual_learning.env.pool import Row, row_ends
from gpicljax.systems.gradual_learning.env.tasks import ALL_NAMES
from gpicljax.systems.gradual_learning.env.templates import PAIRS, TRIPLES

SETS = ("micro11", "micro12", "micro16", "micro16.mixed", "micro9.2")
INSTANCES, QUESTIONS, SIZE = 100, 10, 40
OPERATION = re.compile(r"say: (\w+) say: (\w+) (reverse|concatenate|interleave|union|exclude):")


def question_texts(composition):
    """Questions of the task sets, instance by instance, as texts `[set][...]`."""

    def one(task, instance, question):
        seed = Seed(jnp.uint32(5), instance.astype(jnp.uint32))
        source = QuestionSource(seed, seed, jnp.int32(0), task, question)
        text = sentences.ask(source, True, composition).text
        return Row(text, row_ends(text, text.shape[0])).render(_pool(), SIZE)

    every = jnp.meshgrid(jnp.arange(INSTANCES), jnp.arange(QUESTIONS), indexing="ij")
    tasks = jnp.asarray([ALL_NAMES.index(name) for name in SETS])
    by_set = jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, None))
    texts = np.asarray(jax.jit(by_set)(tasks, *(x.ravel() for x in every)))
    return [[bytes(row[row > 0]).decode() for row in rows] for rows in texts]


@pytest.fixture(scope="module")
def questions():
    return {name: question_texts(name) for name in ("all", "train", "test")}


def operations(texts):
    """Operations with their operands."""
    return {match.groups()[::-1] for text in texts if (match := OPERATION.search(text))}


def test_no_pair_is_in_both_and_every_one_in_either(questions):
    pairs = {name: operations(sum(texts, [])) for name, texts in questions.items()}
    assert not pairs["train"] & pairs["test"]
    everything = {
        (op, q, p) for op in ("reverse", "concatenate", "interleave") for p in PAIRS for q in PAIRS
    }
    everything |= {(op, c, t) for op in ("union", "exclude") for t in TRIPLES for c in "abcd"}
    assert pairs["train"] | pairs["test"] == pairs["all"] == everything


def test_every_part_of_what_is_held_out_is_known_from_training(questions):
    train, test = (operations(sum(questions[name], [])) for name in ("train", "test"))
    for parts in ((0, 1), (0, 2), (1, 2)):  # an operation with an operand; both operands
        assert {(x[parts[0]], x[parts[1]]) for x in test} <= {
            (x[parts[0]], x[parts[1]]) for x in train
        }


def test_other_questions_and_the_default_are_as_they_were(questions):
    assert questions["train"][-1] == questions["all"][-1]  # spelling has no operands
    # The first of each set, from before there was a choice.
    assert [texts[0] for texts in questions["all"]] == GOLDEN
    # The operation and its first operand are drawn as ever.
    for question, test_question in zip(questions["all"][0], questions["test"][0], strict=True):
        assert question[:8] == test_question[:8] and question[15:] == test_question[15:]


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match="composition"):
        ByteStream(composition="half")  # pyright: ignore[reportArgumentType]


GOLDEN = [
    "say: bd say: ad reverse:.",
    "say: bda say: a union:.",
    "spell: competition.",
    "say: competition say: verse.",
    "spell: competition.",
]
