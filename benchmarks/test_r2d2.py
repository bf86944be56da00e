"""R2D2: observations per second of wall time over several seeds, by preset and memory."""

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from gpicljax.networks.memories import MemoryKind

EXPERIMENT = Path(__file__).parents[1] / "experiments" / "meta_rg.py"
MEMORIES = get_args(MemoryKind)
# What a kind needs beside its name; caches never enter a replay memory.
NEEDED = {
    "transformer": ["--agent.carries", "none"],
    "events": ["--network.event-keys", "message", "--network.event-values", "stimulus"]
    + ["--network.event-when", "round=2"],
}


def dry_run(benchmark, cache, *flags):
    """Adds the costs that `meta_rg.py --dry-run` measures to a benchmark."""

    # A process of its own: this one is bound to a single thread. An empty cache: compile times.
    def run():
        return subprocess.run(
            [sys.executable, EXPERIMENT, *flags, "--dry-run"],
            env={**os.environ, "XLA_FLAGS": "", "GPICLJAX_CACHE": str(cache)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    output = benchmark.pedantic(run, rounds=1)
    lines = dict(line.strip().split(": ", 1) for line in output.splitlines() if ": " in line)
    benchmark.extra_info.update(lines)
    print(lines)
    assert "time" in lines


@pytest.mark.parametrize("preset", ["quick", "paper-table2"])
def test_training_throughput(benchmark, tmp_path, preset):
    dry_run(benchmark, tmp_path, "--preset", preset, "--seeds", "6", "--vmax", "5")


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("preset", ["cpu-lstm-v0", "paper-table2"])
def test_training_throughput_of_memories(benchmark, tmp_path, preset, memory):
    """Two seeds, a core each. At the paper's sizes other kinds than LSTM and GRU have one layer."""
    if memory == "transformer" and preset == "paper-table2":
        pytest.skip("the paper's burn-in starts from stored memories, and caches are not stored")
    flags = ["--preset", preset, "--seeds", "2", "--vmax", "5", "--network.memory", memory]
    if preset == "paper-table2" and memory not in ("lstm", "gru"):
        flags += ["--network.core", "256"]
    dry_run(benchmark, tmp_path, *flags, *NEEDED.get(memory, []))
