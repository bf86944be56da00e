"""Steps of a stream of bytes that is served to a learner in another process, over loopback."""

import subprocess
import sys
import time

import jax
import pytest

import gpicljax
from gpicljax.serve.command import serve
from gpicljax.serve.remote import RemoteLearners

STEPS = 5_000
LEARNER = """
import sys, zmq
with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
    socket.linger, socket.rcvtimeo = 0, 600_000
    socket.connect(f"tcp://127.0.0.1:{sys.argv[1]}")
    socket.send_string("hello")
    for _ in range(int(sys.argv[2])):
        reward, byte = socket.recv_string(), socket.recv_string()
        socket.send_string(" ")
"""


@pytest.mark.benchmark(timer=time.perf_counter)
def test_steps_over_loopback(benchmark):
    pytest.importorskip("zmq")
    # As the command does it: small programs, one after the other.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    env = gpicljax.make("ByteStream-v0")
    vec = gpicljax.VectorEnv(env, 1, resets="fresh", params=env.make_params(horizon=10**9))

    def run(steps):
        """Seconds and CPU seconds of so many steps, loading of programs included."""
        with RemoteLearners(port=0) as learners:
            command = [sys.executable, "-c", LEARNER, str(learners.ports[0]), str(steps)]
            with subprocess.Popen(command) as process:
                learners.greet(60)
                began = time.perf_counter(), time.process_time()
                serve(jax.random.key(0), vec, learners, steps=steps)
                process.kill()
                return time.perf_counter() - began[0], time.process_time() - began[1]

    benchmark.extra_info["first calls, CPU seconds"] = round(run(10)[1], 1)
    loading = run(10)
    benchmark.pedantic(run, (STEPS,), rounds=1)
    long = [run(STEPS) for _ in range(3)]
    for i, name in enumerate(("steps_per_second", "steps_per_cpu_second")):
        spent = sorted(each[i] for each in long)[1] - loading[i]
        benchmark.extra_info[name] = round((STEPS - 10) / spent)
    print(benchmark.extra_info)
