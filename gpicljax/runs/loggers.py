"""TensorBoard and Weights & Biases as views of a run's log.

`metrics.jsonl` is the truth. A view is brought up to date from it when it is opened, so that a
resumed run looks like an undisturbed one, and a view that was added or lost on the way is complete
again after the next `--resume`.
"""

from __future__ import annotations

import contextlib
import glob
import json
import math
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gpicljax.runs.distributed import is_main
from gpicljax.runs.metrics import as_numbers
from gpicljax.storage.atomic import plain, to_json_text, write_atomically
from gpicljax.storage.nested import flatten
from gpicljax.typing import JsonObject

if TYPE_CHECKING:
    from gpicljax.runs.run_directory import RunDirectory

MAX_SEEDS = 16
"""Most values of a metric that are shown one by one; of more, only the mean is."""


class Logger(Protocol):
    """Something that shows a run's records."""

    def log(self, step: int, values: JsonObject) -> None:
        """Takes one record.

        Args:
          step: chunks so far, larger than at every call before.
          values: numbers, strings, small arrays or nested mappings of them.
        """
        ...

    def close(self) -> None:
        """Writes what is still waiting."""
        ...


def scalars(values: JsonObject) -> dict[str, float]:
    """Flattens a record into named numbers.

    Args:
      values: numbers, arrays and nested mappings of them; what is neither is left out.

    Returns:
      Nested names are joined by `/`. An array becomes its mean over finite entries (NaN if there
      are none), and a one-dimensional one of at most `MAX_SEEDS` values also `name/seed_0`, ...
      Infinities become NaN, as in the log.
    """
    numbers: dict[str, float] = {}
    for name, value in flatten(plain(values), separator="/").items():
        array = as_numbers(value)
        if array is None:
            continue
        finite = array[np.isfinite(array)]
        numbers[name] = float(finite.mean()) if finite.size else math.nan
        if array.ndim == 1 and array.size <= MAX_SEEDS:
            numbers |= {f"{name}/seed_{i}": float(x) for i, x in enumerate(array)}
    return numbers


def _split(record: JsonObject) -> tuple[int, dict[str, Any]]:
    values = dict(record)
    return values.pop("step"), values


def _with_moments(
    run: RunDirectory, history: Sequence[JsonObject]
) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """Yields the records of a log with the time at which each was made, in seconds since 1970.

    The last one was made when the log was last written; those before, as much earlier as they say.
    """
    try:
        end = run.metrics_file.stat().st_mtime
    except OSError:
        end = time.time()
    elapsed = [record.get("time", {}).get("elapsed_s") or 0.0 for record in history]
    for seconds, record in zip(elapsed, history, strict=True):
        yield end - (elapsed[-1] - seconds), record


class TensorBoardLogger:
    """Event files in the run's folder `tensorboard`.

    Args:
      run: the open run.
      history: the records that the run has so far; files of earlier processes are replaced by them.

    Raises:
      ImportError: if `tensorboardX` is not installed.
      OSError: if a file cannot be written.
    """

    def __init__(self, run: RunDirectory, history: Sequence[JsonObject] = ()) -> None:
        """Opens the files; see the class."""
        # Not its SummaryWriter: that one writes from a thread, and once a full disk has ended the
        # thread, its queue fills up and the training waits for ever.
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2, summary_pb2

        folder = run.path / "tensorboard"
        folder.mkdir(exist_ok=True)
        before = set(folder.glob("events.*"))
        events: Any = event_pb2  # the members of these modules are made when they are imported
        summaries: Any = summary_pb2
        self._event, self._summary = events.Event, summaries.Summary
        # TensorBoard reads files in the order of their names, which only tell seconds apart.
        self._writer = EventsWriter(str(folder / "events"), f".{time.time_ns()}")
        new = set(folder.glob("events.*")) - before
        try:
            # Makes a TensorBoard that is watching forget what it has read from the earlier files.
            start = events.SessionLog(status=events.SessionLog.START)
            self._writer.write_event(self._event(wall_time=time.time(), step=0, session_log=start))
            for moment, record in _with_moments(run, history):
                self._write(moment, *_split(record))
            self._writer.flush()
        except BaseException:
            before = new
            with contextlib.suppress(OSError):
                self._writer.close()
            raise
        finally:
            for file in before:
                file.unlink(missing_ok=True)

    def log(self, step: int, values: JsonObject) -> None:
        """Writes one event with all values, to be seen at once; see `Logger`."""
        self._write(time.time(), step, values)
        self._writer.flush()

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()

    def _write(self, moment: float, step: int, values: JsonObject) -> None:
        shown = [
            self._summary.Value(tag=tag, simple_value=value)
            for tag, value in scalars(values).items()
        ]
        self._writer.write_event(
            self._event(wall_time=moment, step=step, summary=self._summary(value=shown))
        )


class WandbLogger:
    """A run of Weights & Biases with files in the run's folder `wandb`.

    `WANDB_MODE`, `WANDB_PROJECT` (by default the experiment's name), `WANDB_ENTITY` and so on mean
    what they always mean. The identity is kept in `wandb.json`, so that a resumed run goes on in
    the same place: online after the last step that the server has; offline all over again, for an
    offline process that was killed may have written nothing. What earlier processes have left to
    be uploaded is then removed in the end.

    Args:
      run: the open run.
      history: the records that the run has so far.

    Raises:
      ImportError: if `wandb` is not installed.
      Exception: of the library's own types, if it cannot start.
    """

    def __init__(self, run: RunDirectory, history: Sequence[JsonObject] = ()) -> None:
        """Starts or continues the run; see the class."""
        import wandb

        identity = run.path / "wandb.json"
        try:
            name = str(json.loads(identity.read_text(encoding="utf-8"))["id"])
        except (OSError, ValueError, KeyError, TypeError):
            name = secrets.token_hex(4)
            write_atomically(identity, to_json_text({"id": name}) + "\n")
        self._replaced = [
            folder
            for folder in (run.path / "wandb").glob(f"offline-run-*-{glob.escape(name)}")
            if not any(folder.glob("*.synced"))
        ]
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or run.experiment,
            name=os.environ.get("WANDB_NAME") or run.path.name,
            id=name,
            resume="allow",
            dir=str(run.path.absolute()),
            config=json.loads(run.config_file.read_text(encoding="utf-8")),
            reinit="create_new",  # leaves alone what else runs in this process
            settings=wandb.Settings(console="off"),  # the progress line redraws itself
        )
        away = self._run.offline or self._run.disabled
        self._next = 0 if away else self._run.step
        for moment, record in _with_moments(run, history):
            self._log(moment, *_split(record))

    def log(self, step: int, values: JsonObject) -> None:
        """Hands one record over, unless the server has it already; see `Logger`."""
        self._log(time.time(), step, values)

    def _log(self, moment: float, step: int, values: JsonObject) -> None:
        if step >= self._next:
            self._run.log({**scalars(values), "_timestamp": moment}, step=step)

    def close(self) -> None:
        """Waits until everything is on disk or uploaded."""
        self._run.finish()
        for folder in self._replaced:
            shutil.rmtree(folder, ignore_errors=True)


class Views:
    """Several loggers, none of which can stop the training.

    One that raises an exception is dropped with a warning; the log on disk stays complete.

    Args:
      makers: by name, what opens a logger.
      report: where warnings go.
    """

    def __init__(
        self,
        makers: Mapping[str, Callable[[], Logger]],
        report: Callable[[str], None] = print,
    ) -> None:
        """Opens the loggers; see the class."""
        self._report = report
        self._loggers: dict[str, Logger] = {}
        for name, make in makers.items():
            try:
                self._loggers[name] = make()
            except Exception as error:  # network, disk, accounts: whatever these libraries raise
                self._warn(name, error)

    def log(self, step: int, values: JsonObject) -> None:
        """Gives a record to every logger that is left."""
        for name, logger in list(self._loggers.items()):
            try:
                logger.log(step, values)
            except Exception as error:
                self._warn(name, error)
                del self._loggers[name]
                with contextlib.suppress(Exception):
                    logger.close()

    def close(self) -> None:
        """Closes every logger that is left."""
        while self._loggers:
            name, logger = self._loggers.popitem()
            try:
                logger.close()
            except Exception as error:
                self._warn(name, error)

    def __enter__(self) -> Views:
        """Returns the loggers themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes them."""
        self.close()

    def _warn(self, name: str, error: Exception) -> None:
        self._report(
            f"warning: {name} dropped ({type(error).__name__}: {error}); metrics.jsonl stays "
            "complete, and --resume brings the view up to date"
        )


LOGGERS: dict[str, Callable[..., Logger]] = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger}


def open_loggers(
    run: RunDirectory,
    history: Sequence[JsonObject] = (),
    *,
    report: Callable[[str], None] = print,
) -> Views:
    """Opens the loggers that the run's configuration asks for, in the first process only.

    Args:
      run: the open run; its `config.log_to` names the loggers.
      history: the records that the run has so far, as `read_metrics` returns them.
      report: where warnings go.

    Returns:
      The loggers, up to date with `history`; a context manager that closes them.
    """
    names = dict.fromkeys(run.config.log_to if is_main() else ())
    return Views({name: lambda make=LOGGERS[name]: make(run, history) for name in names}, report)
