"""Costs of the runtime: importing the package, checkpoints, the log."""

import os
import subprocess
import sys
import time

import jax
import pytest

from gpicljax.runs.checkpoints import Checkpointer
from gpicljax.runs.run_directory import open_run
from gpicljax.runtime import FAST_COMPILE, RunConfig
from gpicljax.runtime.loop import run_chunks

IMPORT = """
import resource, gpicljax
use = resource.getrusage(resource.RUSAGE_SELF)
print(use.ru_utime + use.ru_stime)
"""


def test_import(benchmark):
    seconds = []

    def run():
        command = [sys.executable, "-c", IMPORT]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds.append(float(done.stdout))

    benchmark.pedantic(run, rounds=5, warmup_rounds=1)
    benchmark.extra_info["cpu_seconds"] = sorted(seconds[1:])[2]


@pytest.mark.parametrize("preset", ["quick"])
def test_checkpoints_of_an_experiment(benchmark, tmp_path, preset):
    """The share of a run's wall time that saving takes, with its own state and schedule."""
    from gpicljax.systems.meta_rg.studies.meta_rg import program as meta_rg

    config = meta_rg.PRESETS[preset]
    study = meta_rg.build(config)
    keys = jax.random.split(jax.random.key(0), config.seeds)
    options = {"compiler_options": FAST_COMPILE}
    params = next(iter(study.cells.values()))
    updates = config.chunks(study.observations)[0]

    def chunk(state):
        return jax.lax.scan(lambda state, _: study.update(state), state, None, updates)

    state = jax.jit(jax.vmap(study.init, (0, None)), **options)(keys, params)
    update = jax.jit(jax.vmap(chunk), donate_argnums=0, **options)
    state, _ = jax.block_until_ready(update(state))
    start = time.perf_counter()
    state, _ = jax.block_until_ready(update(state))
    chunk_s = time.perf_counter() - start
    saver, step = Checkpointer(tmp_path), 0

    def save():
        nonlocal step
        step += 1
        assert saver.save(step, state)

    benchmark.pedantic(save, rounds=5, warmup_rounds=1)
    save_s = benchmark.stats.stats.median
    saves = -(-config.num_chunks // config.checkpoint_every)
    benchmark.extra_info.update(
        mebibytes=sum(x.nbytes for x in jax.tree.leaves(state)) / 2**20,
        chunk_wall_s=chunk_s,
        share_of_the_run=saves * save_s / (config.num_chunks * chunk_s),
    )


def test_loop_without_checkpoints(benchmark, tmp_path):
    """Wall time per chunk of the host loop itself: log, metrics to the host, flush to the disk."""
    chunk = jax.jit(lambda state: (state + 1, {"value": state}))
    names = iter(range(100))

    def run():
        config = RunConfig(runs_dir=tmp_path, name=str(next(names)), progress=False)
        with open_run("loop", config) as opened:
            run_chunks(chunk, 0.0, num_chunks=200, run=opened, checkpoint_every=200)

    benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    benchmark.extra_info["milliseconds_per_chunk"] = benchmark.stats.stats.median / 200 * 1e3
    benchmark.extra_info["cores"] = os.cpu_count()
