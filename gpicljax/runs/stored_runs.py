"""Reading run folders, whatever state they are in."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpicljax.checks import refusal, unknown_choice
from gpicljax.runs.metrics import (
    NOT_FINITE,
    MetricsError,
    as_numbers,
    not_finite_since,
    read_metrics,
)
from gpicljax.runs.run_directory import IRRELEVANT, PLAN
from gpicljax.storage.lock import is_locked
from gpicljax.storage.manifest import MANIFEST, find_damage
from gpicljax.storage.nested import flatten
from gpicljax.storage.reading import read_bytes, read_json
from gpicljax.typing import JsonObject

Floats = NDArray[np.float64]
BOOKKEEPING = ("step", "observations", "time", NOT_FINITE)


class UnknownRunError(ValueError):
    """There is no run, or no metric, of this name."""


@dataclasses.dataclass(frozen=True)
class StoredRun:
    """The content of a run's folder. Whatever is missing or damaged is empty, and named in
    `problems`.

    Attributes:
      path: the folder.
      config: `config.json`.
      plan: `run.json`, what the latest process set out to do.
      records: the log.
      summary: `summary.json`; empty until the experiment has finished.
      problems: what is damaged, for people.
      running: whether a process has the run open.
      cell: which cell of a grid this is, see `cells_of`; empty for the whole run.

    Example:
      >>> records = [{"step": 1, "return": [0.25, 0.75]}]
      >>> run = StoredRun(Path("runs/bandits/quick"), {}, {"chunks": 4}, records, {}, (), False)
      >>> run.name, run.done, run.seeds("return").tolist()
      ('bandits/quick', 1, [0.25, 0.75])
    """

    path: Path
    config: dict[str, Any]
    plan: dict[str, Any]
    records: list[dict[str, Any]]
    summary: dict[str, Any]
    problems: tuple[str, ...]
    running: bool
    cell: str = ""

    @property
    def name(self) -> str:
        """`experiment/name`, and the cell in brackets."""
        return f"{self.path.parent.name}/{self.path.name}{f' [{self.cell}]' * bool(self.cell)}"

    @property
    def done(self) -> int:
        """Chunks in the log."""
        return self.records[-1]["step"] if self.records else 0

    @property
    def planned_chunks(self) -> int | None:
        """Chunks of the whole run, if known."""
        count = self.plan.get("num_chunks")
        return count if isinstance(count, int) else None

    @property
    def status(self) -> str:
        """`running`, `damaged`, `finished`, `trained` (only the summary lacks) or `stopped`."""
        if self.running:
            return "running"
        if self.problems:
            return "damaged"
        if self.summary:
            return "finished"
        return "trained" if self.planned_chunks and self.done >= self.planned_chunks else "stopped"

    @property
    def observations(self) -> int:
        """Observations so far, over all seeds."""
        count = self.records[-1].get("observations") if self.records else 0
        return count if isinstance(count, int) else 0

    @property
    def seconds(self) -> float:
        """Wall time of the training, over all processes of the run."""
        spent = self.times("elapsed_s")
        return spent[-1] if spent else 0.0

    @property
    def origin(self) -> dict[str, Any]:
        """Date, commit, hardware and versions: of the summary, else of the latest process."""
        return self.summary or self.plan

    @property
    def metrics(self) -> list[str]:
        """Names of everything that the last record measured, nested ones joined by `/`."""
        last = self.records[-1] if self.records else {}
        return [
            name for name in _metrics_of(last) if as_numbers(_metrics_of(last)[name]) is not None
        ]

    @property
    def key_metric(self) -> str | None:
        """The metric of the progress line, else the first metric."""
        key = self.plan.get("key_metric")
        return key if key in self.metrics else next(iter(self.metrics), None)

    def times(self, name: str) -> list[float]:
        """Returns a field of `time`, of those records that have it."""
        spent = [record.get("time") for record in self.records]
        values = [item.get(name) for item in spent if isinstance(item, dict)]
        return [float(value) for value in values if isinstance(value, int | float)]

    def seeds(self, metric: str, record: int = -1) -> Floats:
        """Returns a metric's values in one record, `float64[seeds]`; NaN for null, empty if absent.

        A value for all seeds counts as one; where a study has several cells, their seeds follow
        one another.
        """
        values = as_numbers(_metrics_of(self.records[record]).get(metric, []))
        if values is None or values.size == 0:
            return np.empty(0)
        rows = values.reshape(len(values), -1) if values.ndim else values.reshape(1, 1)
        finite = np.isfinite(rows)
        total = np.where(finite, rows, 0.0).sum(1)
        return np.where(finite.any(1), total / np.maximum(finite.sum(1), 1), np.nan)

    def curve(self, metric: str) -> tuple[Floats, Floats]:
        """Returns a metric over the whole log.

        Returns:
          `float64[T]`, observations so far of all seeds together (chunks, if none are counted), and
          `float64[seeds, T]`, NaN where a record lacks the metric.
        """
        columns = [self.seeds(metric, index) for index in range(len(self.records))]
        table = np.full((max((c.size for c in columns), default=0), len(columns)), np.nan)
        for index, column in enumerate(columns):
            table[: column.size, index] = column
        counts = [record.get("observations") for record in self.records]
        steps = np.asarray([record["step"] for record in self.records], np.float64)
        counted = all(isinstance(count, int) and count > 0 for count in counts)
        return (np.asarray(counts, np.float64) if counted else steps), table

    @property
    def not_finite(self) -> dict[str, int]:
        """The seeds whose loss or parameters stopped being finite, and in which chunk."""
        return not_finite_since(self.records)

    def replicas(self, metric: str) -> int:
        """Returns the number of values in a record, one for each seed; 0 if it is one number."""
        values = as_numbers(_metrics_of(self.records[-1]).get(metric, []))
        return len(values) if values is not None and values.ndim else 0

    def checkpoints(self) -> dict[str, str]:
        """Returns the state of every checkpoint: `intact`, `unfinished`, or what is damaged."""
        folder = self.path / "checkpoints"
        states: dict[str, str] = {}
        steps = [f for f in folder.iterdir() if f.name.isdigit()] if folder.is_dir() else []
        for step in sorted(steps, key=lambda f: int(f.name)):
            finished = (step / MANIFEST).exists()
            states[step.name] = (find_damage(step) or "intact") if finished else "unfinished"
        aside = folder / "damaged"
        for step in sorted(aside.iterdir()) if aside.is_dir() else []:
            states[f"damaged/{step.name}"] = "set aside"
        return states


def _metrics_of(record: JsonObject) -> dict[str, Any]:
    kept = {name: value for name, value in record.items() if name not in BOOKKEEPING}
    return flatten(kept, separator="/") if kept else {}


def read_run(path: Path) -> StoredRun:
    """Reads a run's folder; what cannot be read is reported in the result, never raised.

    Example:
      >>> read_run(Path("runs/bandits/nowhere")).records
      []
    """
    problems: list[str] = []

    def load(name: str, needed: bool = False) -> dict[str, Any]:
        try:
            content = read_json(path / name)
        except FileNotFoundError:
            problems.extend([f"{name} is missing"] if needed else [])
            return {}
        except (OSError, ValueError) as error:
            problems.append(f"{name} is unreadable ({error})")
            return {}
        if not isinstance(content, dict):
            problems.append(f"{name} holds no JSON object")
            return {}
        return content

    running = is_locked(path)
    config, plan, summary = load("config.json", True), load(PLAN), load("summary.json")
    log = path / "metrics.jsonl"
    records: list[dict[str, Any]] = []
    try:
        records = read_metrics(log)
        # A process that writes right now may be in the middle of a line.
        torn = not running and log.exists() and read_bytes(log)[-1:] not in (b"\n", b"")
        if torn:
            problems.append("metrics.jsonl ends in a torn line (--resume removes it)")
    except (MetricsError, OSError) as error:
        problems.append(str(error))
    return StoredRun(path, config, plan, records, summary, tuple(problems), running)


def cells_of(run: StoredRun) -> list[StoredRun]:
    """Returns a run of several cells as one run for each, with its own seeds; any other as it is.

    The configuration of each has the cell's settings under `cell`.
    """
    names = run.plan.get("replicas")
    names = [str(name) for name in names] if isinstance(names, list | tuple) else []
    indices: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        indices.setdefault(name.rpartition(", seed ")[0], []).append(index)
    if len(indices) < 2:
        return [run]
    cells = []
    for cell, chosen in indices.items():
        parts = [part.partition("=") for part in cell.split(", ")]
        settings = {name: value for name, equals, value in parts if equals} or cell
        records = [_select_replicas(record, names, chosen) for record in run.records]
        config = run.config | {"cell": settings}
        cells.append(dataclasses.replace(run, cell=cell, config=config, records=records))
    return cells


def _select_replicas(record: JsonObject, names: list[str], chosen: list[int]) -> dict[str, Any]:
    """Returns a record of some replicas: values that each has, and their share of the others."""

    def select(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: select(entry) for name, entry in value.items()}
        if isinstance(value, list) and len(value) == len(names):
            return [value[index] for index in chosen]
        return value

    kept = {name: x if name in BOOKKEEPING else select(x) for name, x in record.items()}
    if isinstance(count := record.get("observations"), int):
        kept["observations"] = count * len(chosen) // len(names)
    if isinstance(broken := record.get(NOT_FINITE), list):
        kept[NOT_FINITE] = [name for name in broken if name in {names[i] for i in chosen}]
    return kept


def find_runs(runs_dir: Path) -> list[Path]:
    """Returns the run folders below `runs_dir`, `<experiment>/<name>`, sorted by name."""
    if not runs_dir.is_dir():
        return []
    folders = [f for f in runs_dir.glob("*/*") if f.is_dir() and not f.name.startswith(".")]
    marks = (".lock", "config.json", "metrics.jsonl")
    return sorted(f for f in folders if any((f / mark).exists() for mark in marks))


def find_run(runs_dir: Path, name: str) -> Path:
    """Returns the folder of a run.

    Args:
      runs_dir: the folder of all runs.
      name: `experiment/name`, the path of its folder, or its bare name if no other run has it.

    Raises:
      UnknownRunError: if there is none; the message suggests the nearest.
    """
    runs = {f"{path.parent.name}/{path.name}": path for path in find_runs(runs_dir)}
    for shown, path in runs.items():
        if name == shown or Path(name).absolute() == path.absolute():
            return path
    bare = [path for path in runs.values() if path.name == name]
    if len(bare) == 1:
        return bare[0]
    bare = [path.name for path in runs.values()]
    short = [p.name if bare.count(p.name) == 1 else shown for shown, p in runs.items()]
    raise UnknownRunError(
        unknown_choice("run", name, runs if "/" in name else short)
        if runs
        else refusal("run", name, f"a run; there are none in {runs_dir} (--runs-dir says where)")
    )


def config_differences(runs: list[StoredRun]) -> dict[str, list[Any]]:
    """Returns the fields in which configurations differ, by dotted name: one value per run.

    A field that a run lacks has the value `(absent)`. Where a run is stored and how it was watched
    is no difference.
    """
    flat = [flatten(run.config) if run.config else {} for run in runs]
    names = dict.fromkeys(name for fields in flat for name in fields)
    table = {name: [fields.get(name, "(absent)") for fields in flat] for name in names}
    ignored = (*IRRELEVANT, "name")
    return {
        name: values
        for name, values in table.items()
        if name not in ignored and any(value != values[0] for value in values)
    }


def by_method(runs: Sequence[StoredRun], field: str, metric: str) -> dict[str, list[Floats]]:
    """A metric's last values, for `evaluation.aggregates`: one list of tasks for each method.

    Args:
      runs: with different configurations.
      field: the dotted name of the field of the configuration that names the method.
      metric: its name.

    Returns:
      By the field's value, one `float64[seeds]` per task in one order: a task is what else the
      configurations differ in, and runs of one method and task are pooled.

    Raises:
      UnknownRunError: if the runs do not differ in the field, or a method lacks one of the tasks.
    """
    differences = config_differences(list(runs))
    if field not in differences:
        raise UnknownRunError(unknown_choice("--by", field, differences))
    methods = [str(value) for value in differences.pop(field)]
    tasks = [tuple(str(values[i]) for values in differences.values()) for i in range(len(runs))]
    pools: dict[str, dict[tuple[str, ...], list[Floats]]] = {}
    for run, method, task in zip(runs, methods, tasks, strict=True):
        pools.setdefault(method, {}).setdefault(task, []).append(run.seeds(metric))
    every = dict.fromkeys(tasks)
    for method, by_task in pools.items():
        if missing := [task for task in every if task not in by_task]:
            task_text = ", ".join(map("=".join, zip(differences, missing[0], strict=True)))
            accepted_values = f"runs of every task for each; {method} has none with {task_text}"
            raise UnknownRunError(refusal("--by", field, accepted_values))
    return {
        method: [np.concatenate(result[task]) for task in every] for method, result in pools.items()
    }


def write_values(path: Path, runs: Sequence[StoredRun]) -> None:
    """Every value of every metric as a CSV file: a row for each run, cell, chunk, metric and seed.

    Results of the summary are the chunk `final`; where a result is a list, its entries have the
    numbers 0, 1 and so on in the place of seeds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["run", "cell", "chunk", "observations", "metric", "seed", "value"])
        finals: dict[Path, StoredRun] = {}
        for run in runs:
            name = f"{run.path.parent.name}/{run.path.name}"
            finals.setdefault(run.path, run)
            for index, record in enumerate(run.records):
                place = [name, run.cell, record["step"], record.get("observations", "")]
                for metric in run.metrics:
                    for seed, value in enumerate(run.seeds(metric, index)):
                        rows.writerow([*place, metric, seed, repr(float(value))])
        for path, run in finals.items():
            place = [f"{path.parent.name}/{path.name}", "", "final", ""]
            results = run.summary.get("results")
            for name, result in (flatten(results, separator="/") if results else {}).items():
                values = as_numbers(result)
                for number, value in enumerate(() if values is None else np.ravel(values)):
                    seed = number if values is not None and values.ndim else ""
                    rows.writerow([*place, name, seed, repr(float(value))])
