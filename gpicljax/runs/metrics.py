"""The metrics log: one JSON object per line, safe against being killed at any moment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from gpicljax.checks import check
from gpicljax.runs.distributed import on_main
from gpicljax.storage.atomic import flush_to_device, to_json_text, write_atomically
from gpicljax.storage.patience import Patience
from gpicljax.storage.reading import read_bytes
from gpicljax.typing import JsonObject

MAX_VALUES = 65536
"""Most numbers one metric may hold; larger arrays belong into files of their own."""


NOT_FINITE = "not_finite"
"""The field of a record that names the runs whose loss or parameters are not finite any more."""


class MetricsError(ValueError):
    """A metrics log is damaged in a place where no interruption can have damaged it."""


class MetricsLog:
    """Appends records to a JSONL file, each of them on the device before `append` returns.

    A record that cannot be written (a full disk) is kept in memory and written with the next one;
    the file is cut back to its last complete line meanwhile.

    The processes of a run call every method together; process 0 writes, and what it meets with
    happens to all.

    Args:
      path: the file; made if absent, continued otherwise (a torn last line is cut off).
      patience: how many write errors in a row, and for how long, before `append` raises.
    """

    def __init__(self, path: Path, *, patience: Patience | None = None) -> None:
        """Opens the log; see the class."""
        self.path = path
        self._patience = patience or Patience()
        self._pending: list[bytes] = []
        self._complete = True
        on_main(lambda: truncate_after(path, None))

    @property
    def complete(self) -> bool:
        """Whether everything appended so far is on the device."""
        return self._complete

    def append(self, step: int, values: JsonObject) -> None:
        """Writes one line, `{"step": step, **values}`.

        Args:
          step: the record's position, larger than every one before.
          values: numbers, strings, small arrays (any shape) or nested mappings of them. NaN and the
            infinities are written as null.

        Raises:
          ValueError: if a metric is called `step` or is larger than `MAX_VALUES` numbers.
          OSError: if it has failed more often and longer than `patience` allows.
        """
        self._complete = on_main(lambda: self._append(step, values))

    def _append(self, step: int, values: JsonObject) -> bool:
        check("step" not in values, "values", "step", "any other name of a metric")
        for name, value in values.items():
            few = not hasattr(value, "__array__") or np.size(value) <= MAX_VALUES
            check(few, f"values[{name!r}]", value, f"at most {MAX_VALUES} numbers")
        record: dict[str, Any] = {"step": int(step), **values}
        self._pending.append(to_json_text(record).encode() + b"\n")
        try:
            self._flush()
        except OSError as error:
            if self._patience.fails():
                raise
            print(
                f"warning: could not write {self.path} ({error}); "
                f"{len(self._pending)} record(s) kept for the next attempt"
            )
        return not self._pending

    def flush(self) -> None:
        """Writes what earlier errors have left waiting.

        Raises:
          OSError: if that fails again; the records stay in memory.
        """
        on_main(self._flush)
        self._complete = True

    def _flush(self) -> None:
        if self._pending:
            self._write(b"".join(self._pending))
        self._pending.clear()
        self._patience.succeeds()

    def _write(self, data: bytes) -> None:
        # Unbuffered: after an error nothing is left behind that closing the file would write again.
        with open(self.path, "ab", buffering=0) as file:
            start = file.seek(0, os.SEEK_END)
            try:
                written = 0
                while written < len(data):
                    written += file.write(data[written:]) or 0
                flush_to_device(file.fileno())
            except OSError:
                file.truncate(start)
                raise

    def truncate_after(self, step: int) -> None:
        """Drops every record later than `step`; see `truncate_after`."""
        self._pending.clear()
        self._complete = True
        on_main(lambda: truncate_after(self.path, step))

    def read_until(self, step: int) -> list[dict[str, Any]]:
        """The records up to `step`, as a checkpoint after so many chunks needs them; drops others.

        Raises:
          MetricsError: if one of them is missing.
        """
        self.truncate_after(step)
        records = self.read()
        if (steps := [record["step"] for record in records]) != [*range(1, step + 1)]:
            missing = sorted({*range(1, step + 1)} - {*steps})
            raise MetricsError(
                f"{self.path} does not fit the checkpoint after chunk {step}: it lacks "
                f"{len(missing)} of its chunks, from chunk {missing[0] if missing else 0} on; "
                "put the whole log back, or start another run (--name, --overwrite)"
            )
        return records

    def read(self) -> list[dict[str, Any]]:
        """Returns the records on disk; see `read_metrics`."""
        return on_main(lambda: read_metrics(self.path))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Reads a metrics log.

    Args:
      path: the JSONL file.

    Returns:
      One dict per line, in order. A torn last line (the writer was killed) is left out; a file that
      does not exist reads as empty.

    Raises:
      MetricsError: if any other line is not a JSON object with a `step`, or steps are not in
        order.
      OSError: if the file cannot be read.

    Example:
      >>> import tempfile
      >>> path = Path(tempfile.mkdtemp()) / "metrics.jsonl"
      >>> MetricsLog(path).append(1, {"return": 0.5})
      >>> read_metrics(path)
      [{'step': 1, 'return': 0.5}]
    """
    return [record for record, _ in _parse(path)]


def throughput(records: Sequence[JsonObject]) -> float:
    """Median observations per second over all seeds, without compilation; NaN if never measured."""
    rates = [record["time"].get("observations_per_s") for record in records]
    rates = [rate for rate in rates if rate is not None]
    return float(np.median(rates)) if rates else float("nan")


def not_finite_since(records: Sequence[JsonObject]) -> dict[str, int]:
    """Returns the runs that a log names as not finite, and the first chunk in which it does."""
    since: dict[str, int] = {}
    for record in records:
        names = record.get(NOT_FINITE, [])
        for name in names if isinstance(names, list) else []:
            since.setdefault(str(name), record["step"])
    return since


def in_words(since: Mapping[str, int]) -> str:
    """Says which runs are not finite, see `not_finite_since`."""
    named = ", ".join(f"{name} (from chunk {chunk} on)" for name, chunk in since.items())
    return f"Loss or parameters are not finite: {named}."


def as_numbers(value: object) -> np.ndarray | None:
    """A record's value as a float64 array, null as NaN; None if it is text or of ragged shape."""
    try:
        array = np.asarray(value)
        return None if array.dtype.kind in "SU" else array.astype(np.float64)
    except (TypeError, ValueError):
        return None


def truncate_after(path: Path, step: int | None) -> None:
    """Cuts a log back, in one atomic step.

    Args:
      path: the JSONL file; nothing happens if it does not exist.
      step: the last step to keep; None keeps all and only removes a torn last line.

    Raises:
      MetricsError: if a line other than the last is damaged.
    """
    if not path.exists():
        return
    kept = [line for record, line in _parse(path) if step is None or record["step"] <= step]
    content = b"".join(kept)
    if len(content) != path.stat().st_size:
        write_atomically(path, content)


def _is_record(line: object) -> TypeGuard[dict[str, Any]]:
    """Whether a line is a record: an object with a step, and with a number for each time."""
    if not isinstance(line, dict) or type(line.get("step")) is not int:
        return False
    times = line.get("time", {})
    return isinstance(times, dict) and all(isinstance(x, int | float) for x in times.values())


def _parse(path: Path) -> list[tuple[dict[str, Any], bytes]]:
    """Returns every complete record of a log with the bytes of its line."""
    if not path.exists():
        return []
    lines = read_bytes(path).splitlines(keepends=True)
    parsed: list[tuple[dict[str, Any], bytes]] = []
    for number, line in enumerate(lines, start=1):
        torn = not line.endswith(b"\n")
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if _is_record(record) and not torn:
            if parsed and record["step"] <= (before := parsed[-1][0]["step"]):
                raise MetricsError(
                    f"{path}: line {number} of {len(lines)} is of step {record['step']}, after "
                    f"step {before}; accepted: steps in order, each once"
                )
            parsed.append((record, line))
        elif number < len(lines):
            raise MetricsError(
                f"{path}: line {number} of {len(lines)} is damaged: {line[:60]!r}; "
                "accepted: one JSON object with a step per line"
            )
    return parsed
