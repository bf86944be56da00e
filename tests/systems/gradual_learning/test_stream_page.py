"""The page of a stream has the challenge's three rows, and what the agent found likely."""

import base64
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from browser import browse, in_browser

from gpicljax.interface import Agent
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.env.tasks import ALL_NAMES
from gpicljax.systems.gradual_learning.figures.stream_page import byte_name, stream_page
from gpicljax.systems.gradual_learning.measures.streams import (
    LIKELIEST,
    StreamSteps,
    play_streams,
    record_stream,
    streams_of,
)

STEPS = 300


def copying(tells_logits):
    """Says what it hears; the bytes that it finds likely are told, or not."""

    def act(keys, params, carry, timestep):
        heard = timestep.observation
        shares = 0.6 * jax.nn.one_hot(heard, 256)
        shares += 0.3 * jax.nn.one_hot(65, 256) + 0.1 * jax.nn.one_hot(66, 256)
        return heard, {"logits": jnp.log(shares + 1e-9)} if tells_logits else {}, carry

    return Agent(lambda batch: (), act)


@pytest.fixture(scope="module")
def stream():
    """The steps of a stream, and what is counted of it."""
    env = ByteStream(max_tasks=4, families=("mapping",))
    curriculum = Curriculum(("micro4", "micro1"), threshold=1)
    tasks = streams_of(jax.random.key(0), env, [curriculum], STEPS)
    task = jax.tree.map(lambda x: x[0], tasks)
    key = jax.random.key(1)
    record = jax.jit(
        lambda key: record_stream(key, env, copying(tells_logits=True), (), task, STEPS)
    )
    play = jax.jit(
        lambda key: play_streams(key, env, copying(tells_logits=False), (), tasks, STEPS)
    )
    return jax.device_get(record(key)), jax.device_get(play(key))


def test_steps_are_those_that_are_counted(stream):
    steps, counted = stream
    assert steps.length == STEPS and np.array_equal(steps.heard, steps.said)
    names = [ALL_NAMES[task] for task in steps.task]
    assert names.count("micro4") == counted.steps[0, 0] < STEPS
    assert steps.ended.sum() == counted.instances.sum() > 0
    assert steps.solved.sum() == counted.solved.sum() > 0
    assert (steps.reward > 0).sum() == counted.right.sum()


def test_likely_bytes_are_those_of_the_policy(stream):
    steps, _ = stream
    assert steps.choices.shape == steps.chances.shape == (STEPS, LIKELIEST)
    usual = (steps.heard != 65) & (steps.heard != 66)
    assert np.array_equal(steps.choices[usual, 0], steps.heard[usual])
    assert (steps.choices[usual, 1:3] == [65, 66]).all()
    np.testing.assert_allclose(steps.chances[usual, :3], [[0.6, 0.3, 0.1]] * usual.sum(), rtol=1e-4)
    np.testing.assert_allclose(steps.chance, steps.chances[:, 0])


def by_hand(**changes):
    """Seven steps of two task sets; the third instance is cut off, and so are two steps."""
    output = np.array([97, 32, 10, 98, 200, 99, 100, 0, 0])
    nine = len(output)
    choices = np.tile([97, 98, 99, 100, 101], (nine, 1))
    steps = StreamSteps(
        length=np.int32(7),
        heard=np.array([104, 105, 32, 46, 59, 120, 121, 0, 0]),
        said=output,
        reward=np.array([1.0, 0, -1, 0, 1, 0, -1, 0, 0]),
        task=np.array([0, 0, 0, 0, 3, 3, 3, 0, 0]),
        instance=np.array([0, 0, 1, 1, 2, 2, 2, 0, 0]),
        question=np.zeros(nine, int),
        row=np.array([0, 0, 1, 1, 0, 0, 0, 0, 0]),
        ended=np.array([0, 1, 0, 1, 0, 0, 0, 0, 0], bool),
        solved=np.array([0, 1, 0, 0, 0, 0, 0, 0, 0], bool),
        choices=choices,
        chances=np.tile([0.5, 0.2, 0.1, 0.1, 0.05], (nine, 1)),
        chance=np.array([0.5, 0.02, 0.01, 0.2, 0, 0.1, 0.1, 0, 0]),
    )
    return steps._replace(**changes)


def test_everything_is_in_the_page():
    text = stream_page(by_hand(), title="A <stream>", about={"of": "seed 0"})
    assert not re.search(r"https?://|\bsrc=|\bhref=|url\(|@import", text)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["last"] == 7 and data["chapters"] == [0, 2, 4]
    assert data["actions"] == ["a", "space", "0a", "b", "c8", "c", "d"]
    assert data["words"][2] == "micro1, instance 1, question 0; 1 instances solved in a row"
    assert len(data["words"]) == 8 and "return +0" in text
    stream = data["stream"]
    assert base64.b64decode(stream["heard"]) == b"hi .;xy"
    assert list(base64.b64decode(stream["chance"]))[:2] == [128, 5]
    assert list(base64.b64decode(stream["choices"]))[:6] == [97, 98, 99, 100, 101, 97]
    assert [(x["task"], x["start"], x["end"], x["solved"]) for x in stream["instances"]] == [
        ("micro1", 0, 1, True),
        ("micro1", 2, 3, False),
        ("micro4", 4, None, False),
    ]


def test_an_instance_that_ends_with_the_recording_is_told():
    steps = by_hand(ended=by_hand().ended | (np.arange(9) == 6))
    data = json.loads(re.search(r'id="data">(.*?)</script>', stream_page(steps, title=""))[1])
    assert [instance["end"] for instance in data["stream"]["instances"]] == [1, 3, 6]


@pytest.mark.parametrize("steps", [by_hand(length=0), by_hand(length=1)])
def test_short_streams_have_a_page(steps):
    assert "recording ends" in stream_page(steps, title="Short")


@pytest.mark.parametrize("byte", [0, 31, 33, 126, 127, 255])
def test_every_byte_has_a_name(byte):
    name = byte_name(byte)
    assert (name == chr(byte)) if 32 < byte < 127 else int(name, 16) == byte


def said_by(dom):
    return re.search(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL)[1].strip().split("\n")


@in_browser
def test_rows_are_read_in_columns(tmp_path):
    script = """
      const text = (id) => document.getElementById(id).textContent;
      const key = (name) => window.dispatchEvent(new KeyboardEvent("keydown", {key: name}));
      const rows = $("rows").children;
      const row = (r) => [...rows].slice(5).filter((_, i) => i % 5 === r).map((x) => x.textContent);
      show(5);
      for (const r of [0, 1, 2, 4]) say(row(r).join("|"));
      say(text("where"));
      say([...$("likely").children].map((x) => x.textContent).join(" "));
      key("PageUp");
      say(document.body.dataset.step + " " + text("where"));
      key("PageUp"); key("PageUp");
      say(document.body.dataset.step);
      rows[5 + 3 * 5].dispatchEvent(new MouseEvent("click", { bubbles: true }));
      say(document.body.dataset.step);
      const box = $("whole").getBoundingClientRect();
      const end = { clientX: box.right, clientY: box.top + 5 };
      $("whole").dispatchEvent(new MouseEvent("click", end));
      say(document.body.dataset.step + " " + $("likely").children.length);
    """
    output = said_by(browse(stream_page(by_hand(), title="Stream"), tmp_path, script))
    middle, minus = "\N{MIDDLE DOT}", "\N{MINUS SIGN}"
    # An instance's verdict shows when it has ended.
    assert output[0] == "micro1: 0 \N{CHECK MARK}||1 \N{BALLOT X}||micro4: 2||"
    assert output[1] == f"h|i|{middle}|.|;|x|y"
    assert output[2] == f"a|{middle}|0a|b|c8|c|d"
    assert output[3] == f"+||{minus}||+||"
    assert output[4] == "Task set 2, micro4; instance 2"
    # Bytes, bars and shares of what is likely at this step; what it says is among them.
    assert output[5] == "a  50 % b  20 % c  10 % d  10 % e  5 %"
    assert output[6:] == ["4 Task set 2, micro4; instance 2", "0", "3", "7 0"]


@in_browser
def test_an_agent_that_tells_no_chances_has_none(tmp_path):
    steps = by_hand(choices=None, chances=None, chance=None)
    script = """
      show(3);
      say([$("likely-box").hidden, document.querySelectorAll("#rows i").length]);
    """
    output = said_by(browse(stream_page(steps, title="Stream"), tmp_path, script))
    assert output == ["true,0"]
