"""Learners at the other end of a socket, good ones and bad ones, as threads here."""

import contextlib
import json
import os
import signal
import socket
import threading
import time

import jax
import parrot
import pytest

import gpicljax
from gpicljax.runtime import environment_arguments
from gpicljax.serve import command, remote
from gpicljax.serve.remote import RemoteLearners

zmq = pytest.importorskip("zmq")

PATIENCE = 60
"""Seconds to wait for a thread: never reached on a machine that is not stuck."""


def start(learner, port):
    """Runs `learner(socket)` in a thread of its own, connected."""

    def run():
        with zmq.Context() as context, context.socket(zmq.PAIR) as mine:
            mine.linger = 200
            mine.rcvtimeo = 1000 * PATIENCE
            mine.connect(f"tcp://127.0.0.1:{port}")
            with contextlib.suppress(zmq.Again):  # a run may end without a word
                learner(mine)

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
    with RemoteLearners(3, port=0, patience=PATIENCE) as learners:
        last = echo(2, after=lambda socket: socket.send_string("two"))
        for learner, port in zip((echo(6, seen), echo(6), last), learners.ports, strict=True):
            start(learner, port)
        learners.greet(PATIENCE)
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
        (lambda socket: None, "step 1: the connection was closed"),
        (lambda socket: socket.send(b"\xff\xfe"), "step 1: sent b'\\xff\\xfe'; accepted: UTF-8"),
        (lambda socket: socket.send_string("Ā"), "step 1: sent 'Ā'; accepted"),
        (lambda socket: socket.send_string(""), "step 1: sent ''; accepted"),
    ],
)
def test_what_a_learner_did_before_it_failed_is_kept(after, ended, one):
    with RemoteLearners(port=0, patience=PATIENCE) as learners:
        start(echo(1, after=after), learners.ports[0])
        learners.greet(PATIENCE)
        summary = command.serve(jax.random.key(0), one, learners, steps=6)
    (learner,) = summary["learners"]
    assert learner["ended"].startswith(ended)
    assert (learner["steps"], learner["reward"]) == (1, 1.0)


def test_a_learner_that_falls_silent_is_waited_for_as_long_as_said(one):
    over = threading.Event()

    def learner(socket):
        socket.send_string("hello")
        socket.recv_string(), socket.recv_string()
        learners.patience = 0.5  # from the next answer on
        socket.send_string("a")
        over.wait(PATIENCE)

    with RemoteLearners(port=0, patience=PATIENCE) as learners:
        start(learner, learners.ports[0])
        learners.greet(PATIENCE)
        summary = command.serve(jax.random.key(0), one, learners, steps=6)
        over.set()
    (account,) = summary["learners"]
    assert account["ended"] == "step 1: no message for 0.5 seconds" and account["steps"] == 1


@pytest.fixture(scope="module")
def one():
    return gpicljax.VectorEnv(parrot.Parrot(), 1, resets="fresh")


def test_budgets_end_a_run(one):
    with RemoteLearners(port=0, patience=PATIENCE) as learners:
        start(echo(3), learners.ports[0])
        learners.greet(PATIENCE)
        summary = command.serve(jax.random.key(0), one, learners, steps=3)
    assert summary["learners"][0]["steps_by_task"] == [2, 1]
    assert summary["learners"][0]["ended"] == "through"
    with RemoteLearners(port=0, patience=PATIENCE) as learners:
        start(echo(1), learners.ports[0])
        learners.greet(PATIENCE)
        summary = command.serve(jax.random.key(0), one, learners, steps=6, seconds=0.0)
    assert summary["learners"][0]["ended"] == "out of time"


def test_learners_are_told_the_end_and_time_counts_from_the_start(vec, tmp_path):
    """Each when its own stream ends: the last reward, and why."""
    ends, order, begun = [], [], []

    def end(name):
        def after(socket):
            ends.append((name, socket.recv_string(), socket.recv_string()))

        return after

    def begin():
        order.append("compiled")
        assert json.loads((tmp_path / "results.json").read_text())["seconds"] < 60
        time.sleep(0.6)
        for i, learner in enumerate((echo(6, after=end("first")), echo(2, after=slow))):
            start(learner, learners.ports[i])
        start(echo(6, after=end("third")), learners.ports[2])
        learners.greet(PATIENCE)
        begun.append(time.monotonic())

    def slow(socket):
        socket.recv_string(), socket.recv_string()
        # The others have heard of their ends before this one answers at all.
        until = time.monotonic() + PATIENCE
        while len(ends) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        order.append(len(ends))
        socket.send_string("two")
        end("second")(socket)

    with RemoteLearners(3, port=0, patience=PATIENCE) as learners:
        summary = command.serve(
            jax.random.key(0),
            vec,
            learners,
            steps=9,
            results=tmp_path / "results.json",
            begin=begin,
        )
        # Neither compiling nor waiting for the learners counts.
        assert summary["seconds"] <= time.monotonic() - begun[0] + 0.1
    until = time.monotonic() + PATIENCE
    while len(ends) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert order == ["compiled", 2]
    complete = ("1", "end: the stream is complete")
    assert sorted(ends[:2]) == [("first", *complete), ("third", *complete)]
    name, reward, why = ends[2]
    assert (name, reward) == ("second", "0") and why.startswith("end: step 2: sent 'two'; accepted")


def test_a_stream_lasts_as_long_as_the_steps():
    parser = command._parser()
    for flags, horizon in ((["--steps", "70"], 70), (["--params", "horizon=9"], 9)):
        options = parser.parse_args(["ByteStream-v0", *flags])
        params = environment_arguments.make_environment(options, horizon=options.steps)[1]
        assert int(params.horizon) == horizon


def test_who_does_not_greet_is_not_served():
    with RemoteLearners(port=0) as learners:
        with pytest.raises(ConnectionError, match=r"learner 0: no message for 0\.3 seconds"):
            learners.greet(0.3)
        start(lambda socket: socket.send_string("bonjour"), learners.ports[0])
        with pytest.raises(ConnectionError, match="said 'bonjour'; accepted: 'hello'"):
            learners.greet(PATIENCE)


def test_a_port_is_a_whole_number():
    for port in (1.5, "80", True, -1, 65_536):
        with pytest.raises(ValueError, match="port: got"):
            RemoteLearners(port=port)


def test_someone_who_is_connected_and_says_nothing_is_told_of(monkeypatch, caplog):
    monkeypatch.setattr(remote, "_SILENT", 0.2)
    with RemoteLearners(port=0) as learners:
        said = threading.Event()

        def learner(mine):
            said.wait(PATIENCE)
            mine.send_string("hello")

        def wait_for_the_warning():
            while "does not say hello" not in caplog.text:
                time.sleep(0.01)
            said.set()

        threading.Thread(target=wait_for_the_warning, daemon=True).start()
        start(learner, learners.ports[0])
        learners.greet()
    assert caplog.text.count("does not say hello") == 1


def probe(port):
    """Looks whether the port is open, in two ways, and goes away again."""
    socket.create_connection(("127.0.0.1", port)).close()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")


def test_strangers_change_nothing(one, caplog):
    def learner(mine):
        mine.send_string("hello")
        for step in range(4):
            mine.recv_string(), mine.recv_string()
            if step == 1:
                probe(port)
                start(lambda second: second.send_string("hello"), port)
            time.sleep(0.5 if step in (1, 2) else 0)  # longer than between two looks
            mine.send_string(" ")
        mine.poll(300)

    with RemoteLearners(port=0, patience=PATIENCE) as learners:
        port = learners.ports[0]
        probe(port)
        timer = threading.Timer(0.5, start, (learner, port))
        timer.start()
        learners.greet(PATIENCE)
        summary = command.serve(jax.random.key(0), one, learners, steps=4)
        timer.join()
    assert summary["learners"][0]["ended"] == "through"
    assert summary["learners"][0]["steps"] == 4
    assert f"port {port}: turned another learner away" in caplog.text


@pytest.mark.parametrize(
    ("message", "ended"),
    [
        ([b"a", b"b"], "step 1: sent a message of 2 parts; accepted: one part"),
        ([b"x" * 2000], "step 1: the connection was closed"),
    ],
)
def test_messages_of_another_form_are_refused(message, ended, one):
    after = lambda socket: (socket.send_multipart(message), socket.poll(1000 * PATIENCE))  # noqa: E731
    with RemoteLearners(port=0, patience=PATIENCE) as learners:
        start(echo(1, after=after), learners.ports[0])
        learners.greet(PATIENCE)
        summary = command.serve(jax.random.key(0), one, learners, steps=6)
    assert summary["learners"][0]["ended"] == ended


def test_another_one_in_a_learners_place_is_not_taken_for_it(one):
    """The one left, and the next one connects before this is noticed."""
    gone = threading.Event()

    def second(socket):
        socket.send_string("hello")
        socket.poll(1000)

    with RemoteLearners(port=0, patience=PATIENCE) as learners:
        first = start(echo(0, after=lambda socket: gone.wait(PATIENCE)), learners.ports[0])
        learners.greet(PATIENCE)
        gone.set()
        first.join()
        start(second, learners.ports[0])
        time.sleep(0.3)
        summary = command.serve(jax.random.key(0), one, learners, steps=6)
    assert summary["learners"][0]["ended"] == "step 0: the connection was closed"


@pytest.mark.skipif(not socket.has_ipv6, reason="without IPv6")
@pytest.mark.parametrize("address", ["::1", "[::1]"])
def test_addresses_of_ipv6(address):
    with (
        RemoteLearners(port=0, address=address) as learners,
        zmq.Context() as context,
        context.socket(zmq.PAIR) as mine,
    ):
        mine.ipv6, mine.linger = True, 0
        mine.connect(f"tcp://[::1]:{learners.ports[0]}")
        mine.send_string("hello")
        learners.greet(PATIENCE)


def test_results_that_cannot_be_written(one, tmp_path, capsys):
    for path in (tmp_path, tmp_path / "none" / "results.json"):
        assert command.main(["ByteStream-v0", "--results", str(path)]) == 2
        assert "error: --results: got" in capsys.readouterr().err
    folder = tmp_path / "taken away"
    with RemoteLearners(port=0, patience=PATIENCE) as learners:
        start(echo(2), learners.ports[0])
        learners.greet(PATIENCE)
        results = folder / "results.json"
        folder.write_text("a file where the folder was")
        summary = command.serve(jax.random.key(0), one, learners, steps=2, results=results)
    assert summary["learners"][0]["ended"] == "through"
    assert f"warning: {results} was not written" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_the_command_with_results(number, code, tmp_path, monkeypatch):
    """Also while it waits for a learner that is silent."""
    parrots = lambda env_id, **static: parrot.Parrot(**static)  # noqa: E731
    monkeypatch.setattr(environment_arguments, "make", parrots)
    with RemoteLearners(port=0) as free:
        port = free.ports[0]

    def stop(socket):
        os.kill(os.getpid(), number)
        time.sleep(1)

    start(echo(2, after=stop), port)
    results = tmp_path / "results.json"
    assert command.main(["Parrot", "--port", str(port), "--results", str(results)]) == code
    (learner,) = json.loads(results.read_text())["learners"]
    assert learner["steps"] == 2 and f"stopped by {number.name}" in learner["ended"]


BAD_PARAMS = [
    ("order=[4,5] count=2", "order: got int32[2]; accepted: [64]; a curriculum says it"),
    ("order=[[1]]", "order: got int32[1, 1]"),
    (f"order={[200] * 64}", "order: got"),
    (f"order={[80] * 64} count=2", "curriculum: got 'arithmetic14'; accepted: task sets of"),
    ("order=x", "order: got 'x'; accepted: integers that int32 holds"),
    ("shares=[1]", "shares: got int32[1]; accepted: [64]"),
    ("count=65", "count: got 65; accepted: up to 64"),
    ("count=[1,2]", "count: got int32[2]; accepted: [], one for each order"),
    ("horizon=[5,6]", "params.horizon: got [2]; accepted: shape []"),
    ("mixture=yes", "mixture: got 'yes'; accepted: True or False"),
    ("threshold=0", "threshold: got 0; accepted: integers from 1 to 1000000"),
    ("curriculum=", "curriculum: got ''; accepted: a curriculum's file"),
    ("curriculum=5", "curriculum: got 5; accepted: a Curriculum, or the path"),
    ("permutation=[1,0,0,0]", "permutation: got [1, 0, 0, 0]; accepted: none, but with"),
]
BAD_FILES = [
    ("", "a file that is no JSON"),
    ("[" * 100_000, "a file that is no JSON"),
    ('{"tasks": [["micro1"]]}', "tasks: got ['micro1']; accepted: names"),
    ('{"tasks": [{"name": "micro1", "weight": NaN}], "mode": "mixture"}', "weights: got (nan,)"),
    ('{"tasks": [{"name": "micro1", "weight": "a"}], "mode": "mixture"}', "weights: got ('a',)"),
    ('{"tasks": ["micro1", "micro2"], "mode": ["mixture"]}', "mode: got ['mixture']"),
    ('{"tasks": ["micro1"], "threshold": 1e400}', "threshold: got inf"),
    ('{"tasks": ["micro1"], "threshold": null}', "threshold: got None"),
    (json.dumps({"tasks": ["micro1"] * 70_000}), "max_tasks: got 70000; accepted"),
]


BAD = [(["--params", params], "", words) for params, words in BAD_PARAMS]
BAD += [(["--curriculum", "mine.json"], content, words) for content, words in BAD_FILES]
BAD += [
    (["--curriculum", "none.json"], "", "curriculum: got 'none.json'; accepted: a curriculum's")
]
BAD += [(["--curriculum", "mine.json", "--params", "curriculum=x"], "", "a curriculum once, by")]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_curricula_are_refused_in_a_line_before_anything_is_compiled(
    case, tmp_path, monkeypatch, capsys
):
    flags, content, message = BAD[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text(content)
    monkeypatch.setattr(command, "serve", None)
    flags = [
        part
        for flag in flags
        for part in (flag.replace(", ", ",").split() if "=" in flag else [flag])
    ]
    assert command.main(["ByteStream-v0", "--port", "0", *flags]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1, said


def test_a_curriculum_needs_an_environment_that_has_one(capsys):
    assert command.main(["CliffWalking-v1", "--curriculum", "mine.json"]) == 2
    assert "make_params: got 'curriculum'" in capsys.readouterr().err


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
