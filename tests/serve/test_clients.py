"""Clients of the served protocol: the manual's, a recorded one, and a saved agent."""

import dataclasses
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import parrot
import pytest

import gpicljax
from gpicljax import agents
from gpicljax.networks.recurrent_settings import RecurrentSettings
from gpicljax.runs import save_agent
from gpicljax.serve import command
from gpicljax.serve.remote import RemoteLearners
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream

zmq = pytest.importorskip("zmq")

pytest.importorskip("zmq")
HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "manual" / "byte_streams.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def parrots():
    return gpicljax.VectorEnv(parrot.Parrot(), 1, resets="fresh")


@pytest.mark.parametrize(("name", "program"), [("echo.py", sys.executable), ("echo.js", "node")])
def test_the_manuals_clients(name, program, parrots, tmp_path):
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    source = re.search(rf"```\w+\n((?:#|//) {name}\n.*?)```", PAGE, re.DOTALL)[1]
    (tmp_path / name).write_text(source)
    with RemoteLearners(port=0, patience=60) as learners:
        client = subprocess.Popen(
            [program, str(tmp_path / name), str(learners.ports[0])],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        summary = command.serve(
            jax.random.key(0), parrots, learners, steps=9, begin=lambda: learners.greet(20)
        )
    assert client.communicate(timeout=60)[0] == "reward 6, end: the stream is complete\n"
    (learner,) = summary["learners"]
    assert (learner["ended"], learner["steps"], learner["reward"]) == ("through", 6, 6)
    assert learner["why"] == "the stream is complete"


BYTES = (65, 233, 255, 0, 32, 46, 128)


@dataclasses.dataclass(frozen=True)
class Recited(parrot.Parrot):
    """The same bytes in every episode."""

    length: int = len(BYTES)

    def initial(self, key, task):
        return parrot.State(jnp.int32(BYTES[0]), jnp.zeros((), jnp.int32))

    def transition(self, key, state, action, task):
        moved = super().transition(key, state, action, task)
        byte = jnp.asarray(BYTES)[moved.state.steps % len(BYTES)]
        reward = jnp.where(action == ord(" "), 0, moved.reward)
        return moved._replace(state=moved.state.replace(byte=byte), reward=reward)


def frame(stream):
    """The next message on a connection, with its kind and size in front."""
    head = stream.read(2)
    return head + stream.read(head[1])


def test_octets_are_those_of_a_recorded_session():
    """A plain connection carries a session octet by octet."""
    recorded = json.loads((HERE / "session.json").read_text())
    vec = gpicljax.VectorEnv(Recited(), 1, resets="fresh")
    sent = [bytes.fromhex(message) for message in recorded["learner"]]
    heard = []
    with RemoteLearners(port=0, patience=60) as learners:

        def learner():
            with socket.create_connection(("127.0.0.1", learners.ports[0]), 60) as connection:
                stream = connection.makefile("rwb")
                stream.write(bytes.fromhex(recorded["greeting"]))
                stream.flush()
                assert stream.read(64)[10] == 3 and frame(stream)[0] == 4
                for message in sent:
                    stream.write(message)
                    stream.flush()
                    heard.extend(frame(stream) for _ in range(2))

        thread = threading.Thread(target=learner, daemon=True)
        thread.start()
        command.serve(jax.random.key(0), vec, learners, steps=9, begin=lambda: learners.greet(60))
    thread.join(60)
    assert [message.hex() for message in heard] == recorded["server"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An agent of bytes that was not trained: all of its weights are 0."""
    path = tmp_path_factory.mktemp("agents") / "seed_0"
    env = ByteStream(max_tasks=1, families=("mapping",))
    vec = gpicljax.VectorEnv(env, 1, resets="fresh")
    rule, network = agents.get_algorithm("recurrent-ppo"), RecurrentSettings("gru", core=(8,))
    config = rule.config(minibatches=1)
    trainer = rule.make(config, vec, network)
    state = jax.eval_shape(trainer.init, jax.random.key(0), rule.hparams())
    save_agent(
        path,
        algorithm="recurrent-ppo",
        env_id="ByteStream-v0",
        env_options={"max_tasks": 1, "families": ("mapping",)},
        env_params=env.default_params,
        num_envs=1,
        config=config,
        network=network,
        params=jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), state.params),
    )
    return path


def test_a_saved_agent_is_a_learner(folder, parrots, capsys):
    codes = []
    with RemoteLearners(port=0, patience=60) as learners:
        flags = ["--agent", str(folder), "--port", str(learners.ports[0])]
        thread = threading.Thread(target=lambda: codes.append(command.main(flags)))
        thread.start()
        summary = command.serve(
            jax.random.key(0), parrots, learners, steps=4, begin=lambda: learners.greet(60)
        )
    thread.join(60)
    assert codes == [0] and summary["learners"][0]["steps"] == 4
    assert summary["learners"][0]["why"] == "4 steps are done"
    said = capsys.readouterr().out
    assert "agent: ended 4 steps are done, steps 4, reward -4" in said


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        (["0", "a", "0", "end: \x1b]0;owned\x07 well"], "agent: ended \ufffd]0;owned\ufffd well"),
        (["0", "a", "0", "end: x\nerror: all lost"], "agent: ended x error: all lost,"),
        (["0", "a", "0", "end: " + "x" * 900], f"agent: ended {'x' * 100}, steps 1"),
        (["0", "a", "0", "x" * 100_000], "error: no "),
        (["0", "a", "1" * 400, "b"], "error: sent the reward '1111"),
        (["0", "a", "1e9", "b"], "error: sent the reward '1e9'"),
        (["0", "a", b"\xff", "b"], "error: sent b'\\xff'; accepted: UTF-8"),
    ],
)
def test_a_strange_server_is_told_of_in_one_clean_line(messages, said, folder, capsys):
    socket = zmq.Context.instance().socket(zmq.PAIR)
    socket.linger, socket.sndtimeo = 500, 60_000
    port = socket.bind_to_random_port("tcp://127.0.0.1")

    def talk():
        socket.recv()
        for message in messages:
            socket.send(message if isinstance(message, bytes) else message.encode())

    threading.Thread(target=talk, daemon=True).start()
    code = command.main(["--agent", str(folder), "--port", str(port), "--patience", "2"])
    socket.close()
    shown = capsys.readouterr()
    (line,) = [x for x in (shown.out + shown.err).splitlines() if not x.startswith("waiting")]
    assert line.startswith(said) and len(line) < 200 and code == said.startswith("error")


def test_agents_that_cannot_answer_are_refused(folder, tmp_path, capsys):
    for flags, message in (
        ([str(tmp_path)], f"error: {tmp_path}"),
        (["meta_language_tiny"], "accepted: bytes, Discrete(256), as both"),
        ([str(folder), "--params", "horizon=5"], "accepted: none with --agent"),
        ([str(folder), "--port", "0"], "--port: got 0; accepted"),
        ([str(folder), "--steps", "0"], "--steps: got 0; accepted"),
    ):
        assert command.main(["--agent", *flags]) == 2
        said = capsys.readouterr().err
        assert message in said and said.count("\n") == 1, said
    for flags in ([], ["ByteStream-v0", "--agent", str(folder)]):
        with pytest.raises(SystemExit):
            command.main(flags)
        assert "an environment to serve, or --agent FOLDER" in capsys.readouterr().err
