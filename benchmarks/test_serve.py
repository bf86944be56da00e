"""Steps of a stream of bytes that is served to a learner in another process, over loopback."""

import json
import subprocess
import sys
import time

import pytest

from gpicljax.serve.remote import RemoteLearners
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream

STEPS = 20_000
# Says one byte, or letters at random half of the time.
LEARNER = """
import random, sys, zmq
port, steps, talks = sys.argv[1:]
with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
    socket.linger, socket.rcvtimeo = 0, 600_000
    socket.connect(f"tcp://127.0.0.1:{port}")
    socket.send_string("hello")
    for _ in range(int(steps)):
        reward, byte = socket.recv_string(), socket.recv_string()
        talking = talks == "talks" and random.random() < 0.5
        socket.send_string(random.choice("abcdefgh") if talking else " ")
"""


def learner(port, steps, talks="silent"):
    return subprocess.Popen([sys.executable, "-c", LEARNER, str(port), str(steps), talks])


def bare_exchange(steps):
    """Seconds of as many messages without anything behind them."""
    with RemoteLearners(port=0) as learners, learner(learners.ports[0], steps) as process:
        learners.greet(60)
        socket, began = learners._sockets[0], time.perf_counter()
        for _ in range(steps):
            socket.send_string("0")
            socket.send_string("a")
            while not socket.poll(200):
                pass
            socket.recv()
        spent = time.perf_counter() - began
        process.kill()
        return spent


def serve_seconds(folder, steps, talks, *options):
    """Seconds from the learner's hello to its last step, by the command; loading included."""
    with RemoteLearners(port=0) as free:
        (port,) = free.ports
    results = folder / "results.json"
    command = [sys.executable, "-m", "gpicljax.serve", "ByteStream-v0", "--port", str(port)]
    command += ["--steps", str(steps), "--results", str(results), *options]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with server, learner(port, steps, talks) as process:
        server.wait()
        process.kill()
    return json.loads(results.read_text())["seconds"]


@pytest.mark.benchmark(timer=time.perf_counter)
@pytest.mark.parametrize("talks", ["silent", "talks"])
@pytest.mark.parametrize("families", [ByteStream.families, ("mapping",)])
def test_steps_over_loopback(benchmark, families, talks, tmp_path):
    pytest.importorskip("zmq")
    options = ("--set", "families=" + json.dumps(families))
    benchmark.extra_info["first steps, seconds"] = serve_seconds(tmp_path, 10, talks, *options)
    rates, bare = [], []
    for _ in range(3):
        loading = serve_seconds(tmp_path, 10, talks, *options)
        spent = serve_seconds(tmp_path, STEPS, talks, *options) - loading
        rates.append((STEPS - 10) / spent)
        bare.append(STEPS / bare_exchange(STEPS))
    benchmark.pedantic(serve_seconds, (tmp_path, STEPS, talks, *options), rounds=1)
    benchmark.extra_info["steps_per_second"] = [round(rate) for rate in sorted(rates)]
    benchmark.extra_info["of a bare exchange"] = round(sum(rates) / sum(bare), 2)
    print(benchmark.extra_info)
