"""R2D2 at the paper's sizes: observations per second of wall time over six seeds, all cores."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXPERIMENT = Path(__file__).parents[1] / "experiments" / "meta_rg.py"


@pytest.mark.parametrize("preset", ["quick", "paper-table2"])
def test_training_throughput(benchmark, tmp_path, preset):
    # A process of its own: this one is bound to a single thread. An empty cache: compile times.
    def run():
        return subprocess.run(
            [sys.executable, EXPERIMENT, "--preset", preset, "--seeds", "6", "--vmax", "5"]
            + ["--dry-run"],
            env={**os.environ, "XLA_FLAGS": "", "GPICLJAX_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    output = benchmark.pedantic(run, rounds=1)
    lines = dict(line.strip().split(": ", 1) for line in output.splitlines() if ": " in line)
    benchmark.extra_info.update(lines)
    assert "one step" in lines
