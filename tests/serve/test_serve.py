"""Learners at the other end of a socket, good ones and bad ones, as threads here."""

import contextlib
import json
import threading
import time

import jax
import parrot
import pytest

import gpicljax
from gpicljax.runtime import environment_arguments
from gpicljax.serve import command
from gpicljax.serve.remote import RemoteLearners

zmq = pytest.importorskip("zmq")


def start(learner, port):
    """Runs `learner(socket)` in a thread of its own, connected."""

    def run():
        with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
            socket.linger = 200
            socket.rcvtimeo = 5000
            socket.connect(f"tcp://127.0.0.1:{port}")
            with contextlib.suppress(zmq.Again):  # a run may end without a word
                learner(socket)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def echo(steps, seen=None, after=None):
    """Says hello and repeats so many bytes; notes what it is sent; then does what comes after."""

    def learner(socket):
        socket.send_string("hello")
        for _ in range(steps):
            reward, byte = socket.recv_string(), socket.recv_string()
            if seen is not None:
                seen.append((reward, byte))
            socket.send_string(byte)
        if after is not None:
            after(socket)

    return learner


@pytest.fixture(scope="module")
def vec():
    return gpicljax.VectorEnv(parrot.Parrot(), 3, resets="fresh")


def test_each_learner_is_served_and_one_that_fails_stops_nobody(vec, tmp_path):
    seen = []
    with RemoteLearners(3, port=0, patience=5) as learners:
        last = echo(2, after=lambda socket: socket.send_string("two"))
        for learner, port in zip((echo(6, seen), echo(6), last), learners.ports, strict=True):
            start(learner, port)
        learners.greet(5)
        summary = command.serve(
            jax.random.key(0), vec, learners, steps=6, results=tmp_path / "results.json"
        )
    assert summary["learners"] == json.loads((tmp_path / "results.json").read_text())["learners"]
    first, second, third = summary["learners"]
    assert [first["ended"], second["ended"]] == ["through"] * 2
    assert third["ended"] == (
        "step 2: sent 'two'; accepted: one character with a number in 0 .. 255"
    )
    assert (first["steps"], first["reward"], first["cleared"]) == (6, 6.0, 3)
    assert first["steps_by_task"] == [2, 2, 2, 0]
    assert (third["steps"], third["steps_by_task"]) == (2, [2, 0])
    assert [reward for reward, _ in seen] == ["0", *["1"] * 5]
    assert all(len(byte) == 1 and ord(byte) < 256 for _, byte in seen)
    assert len({byte for _, byte in seen}) > 3


@pytest.mark.parametrize(
    ("after", "ended"),
    [
        (lambda socket: time.sleep(2), "step 1: no message for 0.5 seconds"),
        (lambda socket: None, "step 1: the connection was closed"),
        (lambda socket: socket.send(b"\xff\xfe"), "step 1: sent b'\\xff\\xfe'; accepted: UTF-8"),
        (lambda socket: socket.send_string("Ā"), "step 1: sent 'Ā'; accepted"),
        (lambda socket: socket.send_string(""), "step 1: sent ''; accepted"),
    ],
)
def test_what_a_learner_did_before_it_failed_is_kept(after, ended, one):
    with RemoteLearners(port=0, patience=0.5) as learners:
        start(echo(1, after=after), learners.ports[0])
        learners.greet(5)
        summary = command.serve(jax.random.key(0), one, learners, steps=6)
    (learner,) = summary["learners"]
    assert learner["ended"].startswith(ended)
    assert (learner["steps"], learner["reward"]) == (1, 1.0)


@pytest.fixture(scope="module")
def one():
    return gpicljax.VectorEnv(parrot.Parrot(), 1, resets="fresh")


def test_budgets_end_a_run(one):
    with RemoteLearners(port=0, patience=5) as learners:
        start(echo(3), learners.ports[0])
        learners.greet(5)
        summary = command.serve(jax.random.key(0), one, learners, steps=3)
    assert summary["learners"][0]["steps_by_task"] == [2, 1]
    assert summary["learners"][0]["ended"] == "through"
    with RemoteLearners(port=0, patience=5) as learners:
        start(echo(1), learners.ports[0])
        learners.greet(5)
        summary = command.serve(jax.random.key(0), one, learners, steps=6, seconds=0.0)
    assert summary["learners"][0]["ended"] == "out of time"


def test_who_does_not_greet_is_not_served():
    with RemoteLearners(port=0) as learners:
        with pytest.raises(ConnectionError, match=r"learner 0: no message for 0\.3 seconds"):
            learners.greet(0.3)
        start(lambda socket: socket.send_string("bonjour"), learners.ports[0])
        with pytest.raises(ConnectionError, match="said 'bonjour'; accepted: 'hello'"):
            learners.greet(5)


def test_the_command(tmp_path, capsys, monkeypatch):
    assert command.main(["CliffWalking-v1"]) == 2
    assert "accepted: bytes" in capsys.readouterr().err
    assert command.main(["CliffWalkin-v1"]) == 2
    assert "CliffWalking-v1" in capsys.readouterr().err

    parrots = lambda env_id, **static: parrot.Parrot(**static)  # noqa: E731
    monkeypatch.setattr(environment_arguments, "make", parrots)
    with RemoteLearners(port=0) as taken:
        port = taken.ports[0]
        assert command.main(["Parrot", "--port", str(port)]) == 2
        assert f"port: got {port}" in capsys.readouterr().err
    start(echo(6), port)
    results = tmp_path / "results.json"
    flags = ["--port", str(port), "--results", str(results), "--steps", "6"]
    assert command.main(["Parrot", *flags]) == 0
    assert json.loads(results.read_text())["learners"][0]["reward"] == 6
    assert "learner 0: ended through" in capsys.readouterr().out
