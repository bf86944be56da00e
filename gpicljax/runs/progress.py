"""The terminal's output while an experiment runs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from gpicljax.runs.distributed import is_main
from gpicljax.typing import JsonObject


def duration(seconds: float) -> str:
    """Says a duration in seconds as `42 s`, `3 min 20 s` or `5 h 07 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def count(number: float) -> str:
    """Says a count with three digits and a unit prefix, `1.23M`."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{suffix}" if number < 999.5 * limit else f"{number:.3g}"
    return f"{number:.3g}"


def announce(
    title: str,
    details: JsonObject | None = None,
    *,
    expected_seconds: float | None = None,
    stream: IO[str] | None = None,
) -> None:
    """Prints what is about to run and how long to expect; of several processes, one does.

    Args:
      title: the experiment and the run.
      details: what a reader wants to know, by name (seeds, updates, parameters, devices, ...).
      expected_seconds: estimated duration in seconds, compilation included.
      stream: where to print; standard output by default.
    """
    if not is_main():
        return
    out = sys.stdout if stream is None else stream
    print(title, file=out)
    for name, value in (details or {}).items():
        print(f"  {name}: {value}", file=out)
    if expected_seconds is not None:
        print(f"  expected: about {duration(expected_seconds)}, compilation included", file=out)
    out.flush()


class Progress:
    """A bar that moves on after each chunk; plain lines where the output is not a terminal.

    Only process 0 shows it.

    Args:
      total: number of chunks of the whole run.
      key_metric: name of the metric to show; arrays are shown by their mean (over finite values).
      stream: where to print; standard output by default.
    """

    def __init__(
        self, total: int, *, key_metric: str | None = None, stream: IO[str] | None = None
    ) -> None:
        """Prepares the bar; see the class."""
        self.total = total
        self.key_metric = key_metric
        self.stream = sys.stdout if stream is None else stream
        self._bar: Bar | None = None
        if self.stream.isatty() and is_main():
            # Drawn when there is news: a thread of its own would draw while signals are handled.
            self._bar = Bar(
                BarColumn(24),
                TextColumn("{task.description}", markup=False),
                console=Console(file=self.stream, highlight=False),
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = self._bar.add_task("", total=total)

    def note(self, text: str) -> None:
        """Prints a line of its own, which stays."""
        self.close()
        if is_main():
            print(text, file=self.stream, flush=True)

    def update(
        self,
        done: int,
        *,
        metrics: JsonObject,
        observations_per_second: float | None,
        seconds_left: float | None,
        warning: str | None = None,
    ) -> None:
        """Shows the state after a chunk.

        Args:
          done: chunks done so far.
          metrics: the chunk's metrics.
          observations_per_second: throughput without compilation; None while unknown.
          seconds_left: None while unknown.
          warning: what must not be overlooked.
        """
        if not is_main():
            return
        parts = [f"{done}/{self.total} ({100 * done // max(1, self.total)}%)"]
        if self.key_metric is not None and self.key_metric in metrics:
            values = np.asarray(metrics[self.key_metric], np.float64)
            finite = values[np.isfinite(values)]
            shown = f"{finite.mean():.4g}" if finite.size else "nan"
            parts.append(f"{self.key_metric} {shown}")
        if observations_per_second:
            parts.append(f"{count(observations_per_second)} observations/s")
        if seconds_left is not None:
            parts.append(f"{duration(seconds_left)} left")
        if warning is not None:
            parts.append(warning.upper())
        line = "  ".join(parts)
        if self._bar is None:
            print(line, file=self.stream, flush=True)
        else:
            self._bar.start()
            self._bar.update(self._task, completed=done, description=line, refresh=True)

    def close(self) -> None:
        """Ends the bar, so that what is printed next starts on a new line."""
        if self._bar is not None:
            self._bar.stop()


class _Lenient:
    """A stream that a run outlives: what it cannot show or write is replaced or forgotten.

    Attributes:
      fault: why something was forgotten, where its reader has not just gone; None if all is well.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.fault: OSError | None = None

    def write(self, text: str) -> int:
        """Writes what the stream takes of a text; returns the text's length."""
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            coding = self._stream.encoding
            self._stream.write(text.encode(coding, "replace").decode(coding))
        except OSError as error:
            self._forget(error)
        return len(text)

    def flush(self) -> None:
        """Flushes the stream, if it can still be written to."""
        try:
            self._stream.flush()
        except OSError as error:
            self._forget(error)

    def _forget(self, error: OSError) -> None:
        """Sends all that follows nowhere, what Python flushes at its end included."""
        if not isinstance(error, BrokenPipeError):
            self.fault = error
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def lenient_output() -> Iterator[tuple[_Lenient, _Lenient]]:
    """Lets no terminal end what is at work: one that is closed, or shows ASCII only.

    Yields:
      Standard output and standard error as they are meanwhile.
    """
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        out, err = (_Lenient(nowhere if stream is None else stream) for stream in before)
        sys.stdout, sys.stderr = cast(Any, (out, err))
        try:
            yield out, err
        finally:
            sys.stdout, sys.stderr = before


def run_leniently(command: Callable[[], int]) -> int:
    """Runs a command whose output may be closed or full, and returns its exit code.

    The code is 1, after a line on standard error, where output is lost, as on a full disk. A reader
    that has gone, such as `head`, loses nothing.
    """
    with lenient_output() as (out, _):
        code = command()
        out.flush()
    if out.fault is None:
        return code
    print(f"error: standard output cannot be written ({out.fault.strerror})", file=sys.stderr)
    return code or 1
