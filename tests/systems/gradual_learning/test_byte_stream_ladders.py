"""The two other curricula, against Python's arithmetic and a world of dictionaries."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.env.tasks import (
    ALL_NAMES,
    ARITHMETIC_NAMES,
    BLOCKS_NAMES,
    CODE_NAMES,
    TASK_SETS,
)
from gpicljax.systems.gradual_learning.env.templates import ARITHMETIC

NAMES = ARITHMETIC_NAMES + BLOCKS_NAMES
STEPS = 1_700


@pytest.fixture(scope="module")
def streams():
    """Bytes said, replies and the like, `[T, task set, who]`: an oracle, and one who says "."."""
    env = ByteStream(families=("arithmetic", "blocks"), max_tasks=1)
    params_by_set = [env.make_params(curriculum=Curriculum((name,), "mixture")) for name in NAMES]
    params = jax.tree.map(lambda *x: jnp.stack([jnp.stack([y, y]) for y in x]), *params_by_set)

    def play(key, params, errs):
        task = env.sample_task(key, params)

        def step(state, _):
            views = env.privileged(state, task)
            wrong = jnp.where(views["answering"], ord("."), ord(" "))
            reply = jnp.where(errs, wrong, views["answer"])
            moved = env.move(state, reply, (), task)
            out = state.byte, reply, views["answering"], moved.reward, moved.info["instance"]
            return moved.state, (*out, moved.info["solved"])

        return jax.lax.scan(step, env.initial(key, task), None, STEPS)[1]

    keys = jax.vmap(lambda key: jnp.stack([key, key]))(
        jax.random.split(jax.random.key(3), len(NAMES))
    )
    errs = jnp.tile(jnp.array([False, True]), (len(NAMES), 1))
    played = jax.jit(jax.vmap(jax.vmap(play)))(keys, params, errs)
    return jax.tree.map(lambda x: np.moveaxis(np.asarray(x), -1, 0), played)


def conversation(streams, name, who):
    """Questions, replies, and what was said to them, by instance: `{instance: [(q, a, f)]}`."""
    outputs, replies, answering, _, instances, _ = (x[:, NAMES.index(name), who] for x in streams)
    rows_by_instance, text, reply = {}, "", ""
    for byte, answer, is_answering, instance in zip(
        outputs, replies, answering, instances, strict=True
    ):
        rows = rows_by_instance.setdefault(int(instance), [])
        if is_answering:
            text += chr(byte) * (not reply)  # a question's last byte
            reply += chr(answer)
            if chr(answer) == ".":
                rows.append([text, reply, None])
                text = reply = ""
            continue
        text += chr(byte)
        if chr(byte) == ";" and rows and rows[-1][2] is None:
            rows[-1][2], text = text.strip(" ;"), ""
    return {i: [(q.strip(), a, f) for q, a, f in rows] for i, rows in rows_by_instance.items()}


def expected_value(name, question):
    """Returns the right answer to a question of arithmetic, by Python."""
    rung = ARITHMETIC[ARITHMETIC_NAMES.index(name)]
    *definitions, expression = question.removeprefix("Evaluate: ").split("; ")
    values = {key: int(value, 16) for key, value in (text.split("=") for text in definitions)}

    def number(match):
        word = match[0]
        return str(values[word] if word in values else int(word, rung.base))

    value = eval(re.sub("[a-z0-9]+", number, expression[:-1]).replace("/", "//"))
    return f"{len(str(value))} {value}." if rung.counted else f"{value}."


@pytest.mark.parametrize("who", [0, 1])
def test_arithmetic(streams, who):
    for name in ARITHMETIC_NAMES:
        rows = [row for instance in conversation(streams, name, who).values() for row in instance]
        assert len(rows) >= 10, name
        for question, reply, feedback in rows:
            answer = expected_value(name, question)
            assert reply == ("." if who else answer), name
            if feedback is None:
                continue
            if name == "arithmetic14":
                ((value, left, right),) = re.findall(r"^good if (.)==(\d+)\+(\d+)$", feedback)
                assert (int(value, 16) == int(left) + int(right)) == (who == 0)
            else:
                assert feedback == ("good job!", f"wrong! {answer}")[who]
    long = [q for rows in conversation(streams, "arithmetic13", 0).values() for q, _, _ in rows]
    assert any("(" in q for q in long) and any("; " in q for q in long)


def expected_answer(name, question, world):
    """Returns the right answer, in a world that the question may change."""
    if "put:" not in question:
        world.clear()
    for words_of_thing, place in re.findall(r"((?:[A-Z]+ ?)+) on ([a-z]+)(?=[,.])", question):
        world[place] = words_of_thing.split()
    if match := re.search(r"swap: ([a-z]+) ([a-z]+)", question):
        a, b = match.groups()
        world[a], world[b] = world[b], world[a]
    if match := re.search(r"is: ([A-Z]+) on ([a-z]+)", question):
        return "yes" if match[1] in world[match[2]] else "no"
    if match := re.search(r"count: ([A-Z]+)", question):
        return str(sum(match[1] in thing for thing in world.values()))
    if match := re.search(r"see: ([a-z]+)\.", question):
        size, colour, shape = world[match[1]]
        return " ".join((shape, size, colour))
    ((thing, kind),) = re.findall(r"^see: ([A-Z ]+)\. ([a-z]+)\?$", question)
    words = thing.split()
    if kind == "object":
        return " ".join((words[2], words[0], words[1]))
    return words[{"shape": -1, "colour": -2, "size": -3}[kind]]


@pytest.mark.parametrize("who", [0, 1])
def test_blocks(streams, who):
    for name in BLOCKS_NAMES:
        for rows in conversation(streams, name, who).values():
            world, rest = {}, []
            for question, reply, feedback in rows:
                if question == "and?":
                    answer = rest.pop(0)
                elif name == "blocks10":
                    answer, *rest = expected_answer(name, question, world).split()
                else:
                    answer = expected_answer(name, question, world)
                assert reply == ("." if who else answer + "."), (name, question)
                assert feedback in (None, ("yes", f"no, {answer}.")[who]), name


def test_an_oracle_solves_and_errors_cost(streams):
    *_, rewards, _, solved = streams
    for place, name in enumerate(NAMES):
        assert solved[:, place, 0].sum() >= 1 and rewards[:, place, 0].min() == 0, name
        assert not solved[:, place, 1].any() and rewards[:, place, 1].min() == -1, name
        longest = TASK_SETS[ALL_NAMES.index(name)].answer[1]
        assert all(
            len(reply) <= longest + 1
            for rows in conversation(streams, name, 0).values()
            for _, reply, _ in rows
        )
        assert ALL_NAMES.index(name) >= ALL_NAMES.index(CODE_NAMES[0]) - len(NAMES)
