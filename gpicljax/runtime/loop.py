"""The host loop: chunks of compiled updates, with a log, progress, checkpoints and exact resume."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from signal import Signals
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import check, check_at_least
from gpicljax.interface import TrainingState
from gpicljax.runs.checkpoints import Checkpointer
from gpicljax.runs.distributed import exchange, is_main, log_once, to_host
from gpicljax.runs.loggers import open_loggers
from gpicljax.runs.metrics import NOT_FINITE, MetricsLog, in_words, not_finite_since
from gpicljax.runs.progress import Progress, duration
from gpicljax.runs.provenance import provenance
from gpicljax.runs.run_directory import RunDirectory
from gpicljax.runtime.profiling import CompileClock, profile
from gpicljax.runtime.replicas import Replicas
from gpicljax.runtime.signals import StopRequest, catch_stop, exit_code
from gpicljax.storage.atomic import to_json_text, write_atomically

StateT = TypeVar("StateT")
TrainingStateT = TypeVar("TrainingStateT", bound=TrainingState)
Metrics = Mapping[str, Any]
RESERVED = ("step", "observations", "time", NOT_FINITE)
FINITE = "finite"
"""The metric by which `watched` says which runs are sound."""
STRETCH = 2.0
"""Seconds of training between two looks for a signal, as far as updates are shorter."""
NOT_FINITE_CODE = 3
"""The exit code where a run's loss or parameters have stopped being finite."""


def with_finite_check(
    update: Callable[[TrainingStateT], tuple[TrainingStateT, dict[str, jax.Array]]],
) -> Callable[[TrainingStateT], tuple[TrainingStateT, dict[str, jax.Array]]]:
    """Returns an update that also reports whether the run is still sound.

    Args:
      update: from a state with `params` to the next one and metrics.

    Returns:
      The same, with a further metric: `bool[]`, all parameters and all metrics whose names end in
      `loss` are finite.
    """

    def watching(state: TrainingStateT) -> tuple[TrainingStateT, dict[str, jax.Array]]:
        state, metrics = update(state)
        checked = state.params, {n: m for n, m in metrics.items() if n.endswith("loss")}
        floats = [x for x in jax.tree.leaves(checked) if jnp.issubdtype(x.dtype, jnp.inexact)]
        finite = jnp.asarray([jnp.isfinite(x).all() for x in floats], bool).all()
        return state, metrics | {FINITE: finite}

    return watching


def run_chunks(
    update_chunk: Callable[[StateT], tuple[StateT, Metrics]],
    state: StateT,
    *,
    num_chunks: int,
    run: RunDirectory,
    advance: Callable[[StateT, np.int32], tuple[StateT, object]] | None = None,
    updates: int = 1,
    replicas: Replicas | None = None,
    probe: Callable[[int, StateT], Metrics] | None = None,
    checkpointer: Checkpointer | None = None,
    checkpoint_every: int = 1,
    on_metrics: Callable[[int, Metrics], None] | None = None,
    progress: Progress | None = None,
    key_metric: str | None = None,
    observations_per_chunk: int = 0,
) -> tuple[StateT, list[dict[str, Any]]]:
    """Trains for a number of chunks, or for those that a resumed run still lacks.

    A run that is killed at any moment and resumed ends with the state and, fields below `time`
    apart, the log of an undisturbed one, provided that the state holds everything the next update
    depends on. SIGTERM and SIGINT end the process after the current chunk has been saved; or, with
    `advance`, after a few seconds, in the middle of a chunk.

    The processes of a run call it together, stop at the same chunk if any of them is told to, and
    get the same metrics and the same log. `on_metrics` is called in all of them.

    Args:
      update_chunk: compiled function from a state to the next one and its metrics, such as K
        updates in one `jit(scan(...))`. It may donate its argument.
      state: the initial state; a resumed run only uses its structure, shapes and shardings. It is
        consumed if `update_chunk` donates.
      num_chunks: chunks of the whole run, those before a resume included.
      advance: compiled function from a state and a number of updates, `int32[]`, to the state after
        them (and anything). With it, `update_chunk` is what comes after the updates of a chunk.
      updates: of a chunk. Checkpoints are numbered by updates.
      run: the open run. Every chunk becomes one record of its log: `step` (chunks so far),
        `observations` (so far), the metrics, and `time` with `chunk_s`, `elapsed_s` (over all
        processes of the run, evaluation and saving included), `compile_s` (the part of `chunk_s`
        that went into compilation: in the first chunk of a process, and where something was
        compiled again) and `observations_per_s` (compilation left out; not in the first chunk of a
        process, nor in one that is profiled). Its configuration says where records are shown
        besides, and whether the second chunk of this process is profiled. The runs that are not
        sound any more (see `watched`) are named under `not_finite`, in a message and in the
        progress line; if none is left, training ends.
      replicas: the runs on the leading axis of state and metrics; surplus replicas are neither
        logged nor saved. None for a single run without such an axis.
      probe: `(step, state) -> metrics`, measured after each chunk and logged with its metrics, on
        the host and without surplus replicas.
      checkpointer: by default one in the run's folder.
      checkpoint_every: chunks between checkpoints; the last chunk is always saved.
      on_metrics: called with the step and the metrics (on the host, whole) after each chunk
        is logged; a chunk that is repeated after a resume is reported again.
      progress: the progress line; None for silence.
      key_metric: what `gpicljax runs` shows of the run first; by default that of the progress line.
      observations_per_chunk: observations that one chunk processes, over all runs.

    Returns:
      The final state and the whole log, as `read_metrics` returns it.

    Raises:
      SystemExit: with code 143 or 130 after SIGTERM or SIGINT; with `NOT_FINITE_CODE` if no run is
        sound any more.
      ValueError: if a count is out of range or a metric has one of the names above.
      CheckpointError: if nothing can be restored, or saving fails repeatedly.
      OSError: if logging fails repeatedly.
    """
    check_at_least(0, num_chunks=num_chunks, observations_per_chunk=observations_per_chunk)
    check_at_least(1, updates=updates, checkpoint_every=checkpoint_every)
    loop = _Loop(
        update_chunk=update_chunk,
        advance=advance,
        probe=probe,
        on_metrics=on_metrics,
        run=run,
        replicas=replicas,
        progress=progress,
        key_metric=key_metric if progress is None else key_metric or progress.key_metric,
        num_chunks=num_chunks,
        updates=updates,
        checkpoint_every=checkpoint_every,
        observations=observations_per_chunk,
    )
    return loop.train(state, checkpointer)


@dataclasses.dataclass(eq=False, kw_only=True)
class _Loop(Generic[StateT]):
    """The chunks that one process of a run trains; fields as the arguments of `run_chunks`."""

    update_chunk: Callable[[StateT], tuple[StateT, Metrics]]
    advance: Callable[[StateT, np.int32], tuple[StateT, object]] | None
    probe: Callable[[int, StateT], Metrics] | None
    on_metrics: Callable[[int, Metrics], None] | None
    run: RunDirectory
    replicas: Replicas | None
    progress: Progress | None
    key_metric: str | None
    num_chunks: int
    updates: int
    checkpoint_every: int
    observations: int

    def train(
        self, state: StateT, checkpointer: Checkpointer | None
    ) -> tuple[StateT, list[dict[str, Any]]]:
        """Trains the chunks that are missing; returns the final state and the whole log."""
        records = self._begin(state, checkpointer)
        nothing = contextlib.nullcontext()
        closing = nothing if self.progress is None else contextlib.closing(self.progress)
        views = open_loggers(self.run, records, report=self._say)
        with self._watch.clock, closing, views as self._views:
            with catch_stop() as stop:
                for step in range(self._first + 1, self.num_chunks + 1):
                    chunk = self._chunk(step, stop)
                    if chunk is None:
                        break
                    self._record(step, *chunk)
                    if _agree_on_signal(stop) is not None or len(self._unsound) == len(self._names):
                        break
            # Only now, with the usual handlers back: no signal can slip in between look and leave.
            return self._end(_agree_on_signal(stop))

    def _begin(self, state: StateT, checkpointer: Checkpointer | None) -> list[dict[str, Any]]:
        """Restores state and log of a resumed run; returns the records that the log holds."""
        self._say: Callable[[str], None] = log_once if self.progress is None else self.progress.note
        if checkpointer is None:
            checkpointer = Checkpointer(self.run.checkpoints, report=self._say)
        self._log = MetricsLog(self.run.metrics_file)
        self._keeper = _Keeper(checkpointer, self.replicas, self._log)
        self._names = ("the run",) if self.replicas is None else self.replicas.names
        self._done, self._state = self._keeper.restore(state) if self.run.resumed else (0, state)
        if self._done:
            self._say(f"resuming after {_chunks(self._done, self.updates, self.num_chunks)}")
        self._first = self._done // self.updates
        records = self._log.read_until(self._first)
        before = records[-1].get("time", {}).get("elapsed_s", 0.0) if records else 0.0
        self._unsound = not_finite_since(records)
        self._watch = _Stopwatch(self.observations, before)
        if is_main():
            _write_plan(
                self.run,
                num_chunks=self.num_chunks,
                observations_per_chunk=self.observations,
                key_metric=self.key_metric,
                replicas=self._names,
            )
        return records

    def _chunk(
        self, step: int, stop: StopRequest
    ) -> tuple[dict[str, Any], dict[str, float]] | None:
        """Trains a chunk; returns metrics and times, or None where a signal came in its middle."""
        profiled = is_main() and self.run.config.profile and step == self._first + 2
        metrics, probed = {}, {}
        folder = self.run.path / "profile"
        with profile(folder, report=self._say) if profiled else contextlib.nullcontext():
            self._watch.start()
            while self.advance is not None and (left := step * self.updates - self._done):
                count = self._watch.affordable(left)
                advanced = self.advance(self._state, np.int32(count))
                self._state, _ = jax.block_until_ready(advanced)
                self._watch.record_updates(count)
                self._done += count
                if count < left and _agree_on_signal(stop) is not None:
                    break
            else:
                self._done = step * self.updates
                self._state, metrics = jax.block_until_ready(self.update_chunk(self._state))
                probed = {} if self.probe is None else self.probe(step, self._state)
            spent = self._watch.stop(count=not profiled)
        if self._done < step * self.updates:
            return None
        fetch = to_host if self.replicas is None else self.replicas.fetch
        return fetch(dict(metrics)) | dict(probed), spent

    def _record(self, step: int, metrics: dict[str, Any], spent: dict[str, float]) -> None:
        """Logs, shows and saves what a chunk came to."""
        sound = np.atleast_1d(metrics.pop(FINITE, np.ones(len(self._names), bool)))
        for name in RESERVED:
            check(name not in metrics, "metrics", name, f"names other than {RESERVED}")
        if step == self._first + 1 and self.progress is not None:
            taken, compiled = duration(spent["chunk_s"]), duration(spent["compile_s"])
            self._say(f"first chunk, compilation included: {taken} ({compiled} to compile)")
        broken = {name: step for name, ok in zip(self._names, sound, strict=True) if not ok}
        if broken.keys() - self._unsound.keys():
            self._unsound = broken | self._unsound
            self._say(f"warning: {in_words(self._unsound)}")
        record = {"observations": step * self.observations, **metrics, "time": spent}
        record |= {NOT_FINITE: [*self._unsound]} if self._unsound else {}
        self._log.append(step, record)
        self._views.log(step, record)
        if self.on_metrics is not None:
            self.on_metrics(step, metrics)
        if step % self.checkpoint_every == 0 or step == self.num_chunks:
            self._keeper.save(self._done, self._state)
        if self.progress is not None:
            self.progress.update(
                step,
                metrics=metrics,
                observations_per_second=spent.get("observations_per_s"),
                seconds_left=self._watch.seconds_left(self.num_chunks - step),
                warning=f"not finite: {', '.join(self._unsound)}" if self._unsound else None,
            )

    def _end(self, stop_signal: Signals | None) -> tuple[StateT, list[dict[str, Any]]]:
        """Saves the state; leaves the process after a signal, or where no run is sound any more."""
        if self.progress is not None:
            self.progress.close()
        if self.run.config.profile and self._done < (self._first + 2) * self.updates:
            self._say(
                "note: nothing profiled; only the second chunk of a process is, when all is warm"
            )
        if stop_signal is not None:
            with contextlib.suppress(OSError):
                self._log.flush()
            self._keeper.save(self._done, self._state)
            saved = self._keeper.saved
            kept = f"saved after {_chunks(saved, self.updates)}" if saved else "nothing saved"
            self._say(f"stopped by {stop_signal.name}: {kept}; --resume continues")
            raise SystemExit(exit_code(stop_signal))
        self._log.flush()
        self._keeper.save(self._done, self._state)
        if len(self._unsound) == len(self._names):
            self._say(f"stopped: {in_words(self._unsound)}")
            raise SystemExit(NOT_FINITE_CODE)
        return self._state, self._log.read()


def _chunks(done: int, updates: int, total: int | None = None) -> str:
    """Describes a number of updates in chunks."""
    chunks, more = divmod(done, updates)
    whole = f"chunk {chunks}" if total is None else f"chunk {chunks} of {total}"
    return f"{whole} and {more} of {updates} updates" if more else whole


def _write_plan(run: RunDirectory, **plan: Any) -> None:
    """Writes what is ahead of a run and where it comes from, for `gpicljax runs` only."""
    with contextlib.suppress(OSError):
        write_atomically(run.plan_file, to_json_text(plan | provenance(), indent=2) + "\n")


class _Keeper:
    """The checkpoints of a run, which are never ahead of its log: a resume could not fill the gap.

    Attributes:
      saved: updates until the newest one; 0 if there is none.
    """

    def __init__(self, saver: Checkpointer, replicas: Replicas | None, log: MetricsLog) -> None:
        self.saved = 0
        self._tried = 0
        self._saver, self._replicas, self._log = saver, replicas, log

    def restore(self, state: StateT) -> tuple[int, StateT]:
        """Updates and state of the newest intact one; 0 and `state` itself if there is none."""
        like = state if self._replicas is None else self._replicas.checkpoint_template(state)
        if (restored := self._saver.restore_latest(like)) is None:
            return 0, state
        done, stored = restored
        self.saved = self._tried = done
        return done, stored if self._replicas is None else self._replicas.from_checkpoint(stored)

    def save(self, done: int, state: object) -> None:
        """Saves a state after so many updates, unless that was tried already."""
        if self._log.complete and done > self._tried:
            self._tried = done
            stored = state if self._replicas is None else self._replicas.to_checkpoint(state)
            self.saved = done if self._saver.save(done, stored) else self.saved


class _Stopwatch:
    """The time of each chunk, split into compilation and updates.

    Args:
      observations: of one chunk.
      before: seconds that earlier processes of the run have spent.
    """

    def __init__(self, observations: int, before: float) -> None:
        self.clock = CompileClock()
        self._observations = observations
        self._begun = time.monotonic() - before
        self._chunk = 0.0
        self._warm = False
        self._pace: list[float] = []
        self._stretch = 0.0
        self._update: float | None = None

    def start(self) -> None:
        """A chunk begins."""
        self.clock.take()
        self._chunk = self._stretch = time.monotonic()

    def affordable(self, left: int) -> int:
        """Returns the number of updates to do at once, of those left; the same in every process.

        The first is timed alone, compilation and all.
        """
        slowest = max(exchange(STRETCH if self._update is None else self._update))
        return max(1, min(left, int(STRETCH / max(slowest, 1e-9))))

    def record_updates(self, updates: int) -> None:
        """So many updates are done."""
        seconds = time.monotonic()
        self._update, self._stretch = (seconds - self._stretch) / updates, seconds

    def stop(self, count: bool) -> dict[str, float]:
        """The `time` of the chunk that ends; `count` says whether its pace is the usual one."""
        seconds = time.monotonic()
        taken = seconds - self._chunk
        compiled = min(self.clock.take(), taken)
        spent = {"chunk_s": taken, "elapsed_s": seconds - self._begun}
        if compiled > 0 or not self._warm:
            spent["compile_s"] = compiled
        if self._warm and count and taken > compiled:
            self._pace = [*self._pace[-19:], taken - compiled]
            spent["observations_per_s"] = self._observations / self._pace[-1]
        self._warm = True
        return spent

    def seconds_left(self, chunks: int) -> float | None:
        """Returns the seconds that so many chunks will take, at the pace of the last twenty."""
        return chunks * sum(self._pace) / len(self._pace) if self._pace else None


def _agree_on_signal(stop: StopRequest) -> Signals | None:
    """The signal to stop that any of the processes has had: the same answer in all of them."""
    answer = next((signal for signal in exchange(stop.signal) if signal is not None), None)
    # Only ever set: a signal that came during the exchange waits for the next one.
    if answer is not None:
        stop.signal = answer
    return answer
