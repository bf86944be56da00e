"""Task sets of a module outside the package, in a process of their own: registering is for good."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpicljax
from gpicljax.systems.gradual_learning.env import TASK_SETS, StreamTaskSet

MODULE = """
from gpicljax.systems.gradual_learning.env import StreamTaskSet

StreamTaskSet(
    "capitals",
    "capitals of countries",
    lines=(
        ("capital of france?", "paris"),
        ("capital of chile?", "santiago"),
        ("capital of peru?", "lima"),
    ),
).register()
StreamTaskSet(
    "codes",
    "numbers that stand for colours",
    lines=(("red.", "7"), ("green.", "8"), ("blue.", "99")),
    hidden="pairs",
).register()
"""
SCRIPT = """
import argparse
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
from gpicljax.agents.combinators import by_block
from gpicljax.interface import TimeStep
from gpicljax.runtime.environment_arguments import add_environment_arguments, make_environment
from gpicljax.systems.gradual_learning import experts
from gpicljax.systems.gradual_learning.env import TASK_SETS, Curriculum, StreamTaskSet
from gpicljax.systems.gradual_learning.env.tasks import ALL_NAMES
from gpicljax.systems.gradual_learning.measures.streams import streams_of

parser = argparse.ArgumentParser()
add_environment_arguments(parser, "ByteStream-v0")
flags = ["mine:ByteStream-v0", "--curriculum", "mine.json"]
env, params = make_environment(parser.parse_args(flags))
assert env.families == ("mapping", "lines") and int(params.count) == 3
import mine
again = StreamTaskSet("capitals", "capitals of countries", lines=TASK_SETS[-2].lines)
assert again.register() == TASK_SETS[-2]
assert len({task.name for task in TASK_SETS}) == len(TASK_SETS)

names = ("capitals", "codes", "code.3") * 2
tasks = streams_of(jax.random.key(0), env, [Curriculum((n,), "mixture") for n in names], 10**6)
agent, no = by_block([experts.oracle(), experts.solver()], [3, 3]), jnp.zeros(6, bool)

@jax.jit
def play(tasks):
    state = jax.vmap(env.initial)(jax.random.split(jax.random.key(0), 6), tasks)

    def body(loop, number):
        state, reward, carry = loop
        start = no | (number == 0)
        told = jax.vmap(env.privileged)(state, tasks)
        moment = TimeStep(state.byte, reward, no, no, start, start, {}, told)
        says, _, carry = agent.act(None, (), carry, moment)
        moved = jax.vmap(env.move, (0, 0, None, 0))(state, says, (), tasks)
        return (moved.state, moved.reward, carry), (state.byte, says, moved.reward, moved.info)

    return jax.lax.scan(body, (state, jnp.zeros(6), agent.initial_carry(6)), jnp.arange(900))[1]

said, replies, rewards, info = jax.tree.map(np.asarray, play(tasks))
assert set(info["task"][:, 0]) == {len(TASK_SETS) - 2}
text = [bytes(row.astype(np.uint8)).decode() for row in said.T]
reply = [bytes(row.astype(np.uint8)).decode() for row in replies.T]

known = dict(TASK_SETS[-2].lines)
asked = re.findall(r"capital of \\w+\\?", text[0])
assert set(asked) == set(known) and rewards[:, 0].min() == 0 and info["solved"][:, 0].sum() >= 2
answers = re.findall(r"\\w+(?=\\.)", reply[0])
assert all(known[q] == a for q, a in zip(asked, answers))
assert "good job! ;" in text[0]
# The solver learns hidden pairs from feedback; they differ by instance.
assert "wrong! " in text[4] and info["solved"][:, 4].sum() >= 2 and rewards[:, 4].min() == -1
pairs = set(zip(re.findall(r"(red|green|blue)\\.", text[1]), re.findall(r"\\w+(?=\\.)", reply[1])))
assert len(pairs) > 3
# One answer tells all of a hidden shift: the solver is wrong once in every instance.
ended, wrong = info["solved"][:, 5].sum(), (rewards[:, 5] < 0).sum()
assert ended >= 3 and wrong in (ended, ended + 1)
# It is of 0 to 2 places.
order = "".join(letter for _, letter in TASK_SETS[ALL_NAMES.index("code.3")].lines)
shown = re.findall(r"(\\w)\\.wrong! (\\w)", text[5])
places = {(order.index(told) - order.index(asked)) % len(order) for asked, told in shown}
assert len(shown) >= 3 and places <= {0, 1, 2}

try:
    StreamTaskSet("late", "too late", lines=(("a?", "b"),)).register()
except ValueError as error:
    assert "before the first stream" in str(error)
else:
    raise AssertionError
print("all said")
"""


def test_a_module_registers_task_sets(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    curriculum = {"tasks": ["capitals", {"name": "codes", "requires": ["capitals"]}, "micro4"]}
    (tmp_path / "mine.json").write_text(json.dumps(curriculum))
    environment = os.environ | {"PYTHONPATH": str(Path(gpicljax.__file__).parents[1])}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "all said"


LINES = (("a?", "b"),)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"title": "another"}, "name: got 'micro1'; accepted: a name that no other"),
        ({"name": "x", "lines": ()}, "lines: got '0 lines'; accepted: 1 to 4096"),
        ({"name": "x", "lines": (("a?", "b"), ("a?", "c"))}, "lines: got .*each question once"),
        (
            {"name": "x", "lines": LINES, "hidden": "pairs"},
            "lines: got '1 lines'; accepted: 2 to 12",
        ),
        (
            {"name": "x", "lines": (*LINES, ("b?", "b")), "hidden": "pairs"},
            "lines: got 'one answer to all questions'",
        ),
        ({"name": "", "lines": LINES}, "name: got ''"),
        ({"name": "x", "lines": (("a? ", "b"),)}, "question: got 'a\\? '; accepted: 1 to 128"),
        ({"name": "x", "lines": (("a?", "b."),)}, "answer: got 'b.'; accepted: .*without a period"),
        ({"name": "x", "lines": (("a?", "Ā"),)}, "answer: got 'Ā'"),
        ({"name": "x", "lines": LINES * 13, "hidden": "pairs"}, "lines: got '13 lines'; accepted"),
        ({"name": "x", "lines": LINES, "hidden": True}, "hidden: got True; accepted: nothing"),
        ({"name": "x", "lines": LINES, "hidden": "shift"}, "lines: got '1 lines'; accepted: 2 to"),
        ({"name": "x", "lines": LINES, "shifts": 1}, "shifts: got 1; accepted: 0 to 0"),
        ({"name": "x", "lines": (("a?",),)}, "lines: got"),
        ({"name": "x", "lines": LINES, "requires": ("micro55",)}, "did you mean 'micro5.5'"),
        ({"name": "x", "question": (1, 11)}, "question: got .*up to 10"),
        ({"name": "x", "code": 6}, "code: got 6; accepted: 0 to 5"),
        ({"name": "x", "tolerance": 9}, "tolerance: got 9; accepted: an integer from 0 to 3"),
    ],
)
def test_what_cannot_be_registered_is_refused(fields, message):
    count = len(TASK_SETS)
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(StreamTaskSet("micro1", "mine"), **fields).register()
    assert len(TASK_SETS) == count
