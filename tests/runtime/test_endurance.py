"""Bad days: killed over and over, disks that stop writing, runs that take long."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from resumed import assert_same, result, wait_for_lines

from gpicljax.runs import read_metrics
from gpicljax.storage.manifest import find_damage

CHUNKS, KILLS = 60, 20


def checkpoints(folder):
    """The finished steps on disk, all of them intact."""
    steps = sorted(int(f.name) for f in (folder / "tiny/quick/checkpoints").glob("[0-9]*"))
    assert all(find_damage(folder / "tiny/quick/checkpoints" / str(step)) is None for step in steps)
    return steps


@pytest.mark.slow
def test_kill_9_at_20_random_moments(tmp_path, start, train):
    """Saving after every chunk, so that many of the kills fall into a save."""
    flags = ("--chunks", CHUNKS, "--every", 1)
    generator = np.random.default_rng(0)
    assert train(tmp_path / "undisturbed", *flags)[0] == 0
    expected = result(tmp_path / "undisturbed")
    kills = torn = runs = 0
    while kills < KILLS:
        folder, more = tmp_path / f"run{runs}", []
        while True:
            process = start(folder, *flags, *more)
            log = folder / "tiny/quick/metrics.jsonl"
            done = len(read_metrics(log)) if more else 0
            try:
                if done < CHUNKS:
                    wait_for_lines(log, done + 1, process)
                timeout = generator.uniform(0, 0.6) if done < CHUNKS else 60
                output, _ = process.communicate(timeout=timeout)
                break  # it got to its end first
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
            kills += 1
            torn += len(re.findall("removed the unfinished checkpoint", output))
            more = ["--resume"]
        torn += len(re.findall("removed the unfinished checkpoint", output))
        assert process.returncode == 0, output
        assert_same(result(folder), expected, CHUNKS)
        runs += 1
    assert torn > 0, "no kill fell into a save"
    print(f"{kills} kills in {runs} runs, {torn} of them during a save")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_a_disk_that_stops_writing_for_a_while(tmp_path, train, undisturbed_run, kind):
    code, output = train(tmp_path, "--every", 1, "--disk", f"{kind}:5:6")
    assert code == 0, output
    assert output.count("record(s) kept for the next attempt") == 2
    assert {"full": "File too large", "read-only": "Read-only file system"}[kind] in output
    assert_same(result(tmp_path), undisturbed_run)
    assert checkpoints(tmp_path) == [55, 60]  # five updates in a chunk


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_a_disk_that_stops_writing_for_good(tmp_path, train, undisturbed_run, kind):
    code, output = train(tmp_path, "--every", 2, "--disk", f"{kind}:6:99")
    assert code == 1, output
    assert {"full": "File too large", "read-only": "Read-only file system"}[kind] in output
    assert "could not write" in output and "metrics.jsonl" in output
    assert checkpoints(tmp_path) == [10, 20]
    assert [r["step"] for r in read_metrics(tmp_path / "tiny/quick/metrics.jsonl")][-1] == 5
    code, output = train(tmp_path, "--every", 2, "--resume")
    assert code == 0 and "resuming after chunk 4 of 12" in output, output
    assert_same(result(tmp_path), undisturbed_run)


LONG = """
import resource, sys
from pathlib import Path
import jax, jax.numpy as jnp
import gpicljax
from gpicljax.runtime import RunConfig
from gpicljax.runtime.loop import run_chunks
from gpicljax.runs.run_directory import open_run

vec = gpicljax.VectorEnv(gpicljax.make("FrozenLake-v1"), 64, resets="bank")

@jax.jit
def chunk(state):
    def step(state, key):
        actions = jax.random.randint(key, (64,), 0, 4, jnp.int32)
        vstate, timestep = vec.step(state[0], actions)
        return (vstate, timestep), timestep.reward.mean()
    keys = jax.random.split(jax.random.fold_in(jax.random.key(0), state[0].time), 50)
    state, rewards = jax.lax.scan(step, state, keys)
    return vec.renew(*state), {"reward": rewards.mean()}

def pages():
    return int(open("/proc/self/statm").read().split()[1])

seen = {}
def look(step, _):
    if step % 250 == 0:
        seen[step] = (pages() * resource.getpagesize() / 2**20, len(jax.live_arrays()))

with open_run("long", RunConfig(runs_dir=Path(sys.argv[1]))) as run:
    run_chunks(chunk, jax.jit(vec.init)(jax.random.key(0)), num_chunks=1500, run=run,
               checkpoint_every=50, on_metrics=look)
import json
print(json.dumps(seen))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_over_a_long_run(tmp_path, child_environment):
    done = subprocess.run(
        [sys.executable, "-c", LONG, str(tmp_path)],
        env=child_environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    print({step: (round(mib, 1), arrays) for step, (mib, arrays) in report.items()})
    assert len({arrays for _, arrays in report.values()}) == 1
    # Allocators keep what they once had; a leak of one state (0.3 MiB) per chunk would be 300 MiB.
    assert report["1500"][0] - report["500"][0] < 16
