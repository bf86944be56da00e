"""Studies that make data: shards of records, in the run's folder or in one that the user names."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import jax

from gpicljax.data.collection import Collection, collect_shards
from gpicljax.data.shards import ShardReader, ShardWriter
from gpicljax.runs.config import RunConfig
from gpicljax.runs.distributed import log_once
from gpicljax.runs.progress import Progress, duration
from gpicljax.runs.run_directory import RunDirectory
from gpicljax.runtime.dry_run import compile_within_memory, measure_seconds
from gpicljax.runtime.program import Report, RunResult


def check_memory(collection: Collection, config: RunConfig, folder: Path) -> Collection:
    """Returns the collection with a compiled program, unless all of its shards are there already.

    Raises:
      TooLargeError: if a shard needs more memory than is free.
      DamagedShardError: if the folder's manifest is damaged.
    """
    if not config.overwrite and not collection.lacks_shards(folder):
        return collection
    label, key = f"a shard of {collection.record_name}", jax.random.key(collection.seed)
    make, _ = compile_within_memory(jax.jit(collection.make), label, key)
    return collection._replace(make=make)


def collect(run: RunDirectory, collection: Collection) -> ShardReader:
    """Collects the shards that the run's folder lacks; returns a reader of all of them."""
    progress = Progress(collection.shards)
    begun, first = time.monotonic(), None

    def report(done: int, total: int) -> None:
        nonlocal first
        if first is None:
            first = done
            if done:
                log_once(f"{done} of {total} shards are there already")
        elif run.config.progress:
            pace = (time.monotonic() - begun) / (done - first)
            progress.update(
                done,
                metrics={},
                observations_per_second=collection.steps / pace,
                seconds_left=pace * (total - done),
            )

    collect_shards(run.path, collection, report, run.lock)
    progress.close()
    return ShardReader(run.path)


def report_collection(outcome: RunResult) -> Report:
    """Returns the number of records, their size and their place, in a line."""
    reader, collection = outcome.host_measured, outcome.program.collection
    assert isinstance(reader, ShardReader) and collection is not None
    size = sum(s for shard in reader.manifest.shards for s, _ in shard.files.values())
    took = duration(time.monotonic() - outcome.run.started)
    size_text = f"{len(reader):,} {collection.record_name}, {size / 1e6:,.1f} MB"
    text = f"{size_text} in {outcome.run.path}; {took}"
    return Report(text, {"records": len(reader), "bytes": size, "about": reader.about})


def measure_collection(collection: Collection) -> dict[str, str]:
    """Returns the time and the space that a collection would take, from a part of a shard.

    Raises:
      TooLargeError: if a whole shard needs more memory than is free.
    """
    key = jax.random.key(collection.seed)
    label = f"a shard of {collection.record_name}"
    make, cost = compile_within_memory(jax.jit(collection.make), label, key)
    steps = collection.steps
    if collection.sample is not None:
        sample, steps = collection.sample
        make, cost = compile_within_memory(jax.jit(sample), f"a part of {label}", key)
    seconds = measure_seconds(lambda key: (key, make(key)), key)
    with tempfile.TemporaryDirectory() as folder, ShardWriter(folder) as writer:
        writer.append(make(key))
        size = sum(size for size, _ in writer.shards[0].files.values())
    parts = collection.shards * collection.steps / steps
    return {
        "compilation": f"{cost.compile_s:.1f} s",
        "speed": f"{steps / seconds:,.0f} steps/s",
        "projected time": f"{parts * seconds / 3600:.2f} hours",
        "projected size": f"{parts * size / 1e9:.2f} GB ({size / steps:.2f} bytes per step)",
    }
