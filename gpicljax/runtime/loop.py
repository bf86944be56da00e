"""The host loop: chunks of compiled updates, with a log, progress, checkpoints and exact resume."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax

from gpicljax.runtime.checkpoints import Checkpointer
from gpicljax.runtime.metrics import MetricsLog
from gpicljax.runtime.progress import Progress, duration
from gpicljax.runtime.run_directory import RunDirectory
from gpicljax.runtime.signals import catch_stop

StateT = TypeVar("StateT")
Metrics = Mapping[str, Any]
RESERVED = ("step", "observations", "time")


def run_chunks(
    update_chunk: Callable[[StateT], tuple[StateT, Metrics]],
    state: StateT,
    *,
    num_chunks: int,
    run: RunDirectory,
    checkpointer: Checkpointer | None = None,
    checkpoint_every: int = 1,
    on_metrics: Callable[[int, Metrics], None] | None = None,
    progress: Progress | None = None,
    observations_per_chunk: int = 0,
) -> tuple[StateT, list[dict[str, Any]]]:
    """Trains for a number of chunks, or for those that a resumed run still lacks.

    A run that is killed at any moment and resumed ends with the state and, fields below `time`
    apart, the log of an undisturbed one, provided that the state holds everything the next update
    depends on. SIGTERM and SIGINT end the process after the current chunk has been saved.

    Args:
      update_chunk: compiled function from a state to the next one and its metrics, such as K
        updates in one `jit(scan(...))`. It may donate its argument.
      state: the initial state; a resumed run only uses its structure, shapes and shardings. It is
        consumed if `update_chunk` donates.
      num_chunks: chunks of the whole run, those before a resume included.
      run: the open run. Every chunk becomes one record of its log: `step` (chunks so far),
        `observations` (so far), the metrics, and `time` with `chunk_s`, `elapsed_s` (over all
        processes of the run, evaluation and saving included), `compile_s` (first chunk of a
        process only, and counted with that chunk's own work) and `observations_per_s` (all others).
      checkpointer: by default one in the run's folder.
      checkpoint_every: chunks between checkpoints; the last chunk is always saved.
      on_metrics: called with the step and the metrics (on the host) after each chunk is logged;
        a chunk that is repeated after a resume is reported again.
      progress: the progress line; None for silence.
      observations_per_chunk: observations that one chunk processes, over all seeds.

    Returns:
      The final state and the whole log, as `read_metrics` returns it.

    Raises:
      SystemExit: with code 143 or 130 after SIGTERM or SIGINT.
      ValueError: if a count is out of range or a metric has one of the names above.
      CheckpointError: if nothing can be restored, or saving fails repeatedly.
      OSError: if logging fails repeatedly.
    """
    for name, value, least in (
        ("num_chunks", num_chunks, 0),
        ("checkpoint_every", checkpoint_every, 1),
        ("observations_per_chunk", observations_per_chunk, 0),
    ):
        if value < least:
            raise ValueError(f"{name}: got {value}; accepted: an integer >= {least}")
    say: Callable[[str], None] = print if progress is None else progress.note
    saver = Checkpointer(run.checkpoints, report=say) if checkpointer is None else checkpointer
    log = MetricsLog(run.metrics_file)
    first = saved = tried = 0
    restored = saver.restore_latest(state) if run.resumed else None
    if restored is not None:
        first, state = restored
        saved = tried = first
        say(f"resuming after chunk {first} of {num_chunks}")
    log.truncate_after(first)
    records = log.read()
    before = records[-1].get("time", {}).get("elapsed_s", 0.0) if records else 0.0

    def save(step: int) -> None:
        nonlocal saved, tried
        # A checkpoint must not be ahead of the log: a resume could not fill the gap.
        if log.complete and step > tried:
            tried = step
            saved = step if saver.save(step, state) else saved

    begun = time.monotonic()
    pace: list[float] = []
    done = first
    with catch_stop() as stop:
        for step in range(first + 1, num_chunks + 1):
            start = time.monotonic()
            state, metrics = jax.block_until_ready(update_chunk(state))
            taken = time.monotonic() - start
            metrics = jax.device_get(dict(metrics))
            clash = [name for name in RESERVED if name in metrics]
            if clash:
                raise ValueError(
                    f"metrics: got the name {clash[0]!r}; accepted: any but {RESERVED}"
                )
            spent: dict[str, float] = {
                "chunk_s": taken,
                "elapsed_s": before + time.monotonic() - begun,
            }
            throughput = None
            if step == first + 1:
                spent["compile_s"] = taken
                if progress is not None:
                    say(f"first chunk, compilation included: {duration(taken)}")
            else:
                pace = [*pace[-19:], taken]
                throughput = observations_per_chunk / taken
                spent["observations_per_s"] = throughput
            observations = step * observations_per_chunk
            log.append(step, {"observations": observations, **metrics, "time": spent})
            if on_metrics is not None:
                on_metrics(step, metrics)
            done = step
            if step % checkpoint_every == 0 or step == num_chunks:
                save(step)
            if progress is not None:
                left = (num_chunks - step) * sum(pace) / len(pace) if pace else None
                progress.update(
                    step, metrics=metrics, observations_per_second=throughput, seconds_left=left
                )
            if stop.signal is not None:
                break
    # Only now, with the usual handlers back: no signal can slip in between look and leave.
    if progress is not None:
        progress.close()
    if stop.signal is not None:
        with contextlib.suppress(OSError):
            log.flush()
        save(done)
        kept = f"saved after chunk {saved}" if saved else "nothing saved"
        say(f"stopped by {stop.signal.name}: {kept}; --resume continues")
        raise SystemExit(stop.exit_code)
    log.flush()
    save(done)
    return state, log.read()
