"""The folder of one run, `runs/<experiment>/<name>/`, and the lock on writing to it.

Process 0 makes, locks and writes it; other processes see it through a file system
that they share, and are refused whatever process 0 is.
"""

from __future__ import annotations

import dataclasses
import platform
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpicljax.checks import unknown_choice
from gpicljax.data.shard_files import ShardError
from gpicljax.evaluation.records import ICLRecord
from gpicljax.runs.config import DataConfig, RunConfig, validate
from gpicljax.runs.config_json import describe_difference, to_json
from gpicljax.runs.distributed import all_agree, exchange, is_main, on_main
from gpicljax.runs.metrics import NOT_FINITE, in_words, not_finite_since, read_metrics
from gpicljax.runs.provenance import provenance
from gpicljax.storage.atomic import to_json_text, write_atomically
from gpicljax.storage.lock import Held, LockedError, exclusive, is_locked
from gpicljax.storage.reading import read_json
from gpicljax.typing import JsonObject

IRRELEVANT = (
    "experiment",
    "resume",
    "requeue",
    "overwrite",
    "progress",
    "dry_run",
    "target",
    "runs_dir",
    "log_to",
    "profile",
    "distributed",
    # Where a language model is, and how much it may be asked: not what it answers.
    "llm.endpoint",
    "llm.key_variable",
    "llm.max_queries",
    "llm.budget_tokens",
    "llm.at_once",
    "llm.timeout",
)
"""Fields of a configuration that may change when a run is resumed."""
PLAN = "run.json"
ICL = "icl.json"
_DELETED = ".deleted.json"
"""The configuration of a run that is being deleted."""


class RunError(RuntimeError):
    """A run's folder cannot be used as asked."""


class RunExistsError(RunError):
    """The run exists, and neither continuing nor replacing it was asked for."""


class RunLockedError(RunError, LockedError):
    """Another process is writing to the run."""


class ConfigMismatchError(RunError):
    """The run to be resumed was made with another configuration."""


@dataclasses.dataclass(frozen=True)
class RunDirectory:
    """An open run: its paths, and the lock that keeps other processes out.

    Use as a context manager, or call `close`. The lock goes with the process in any case.

    Attributes:
      experiment: the experiment's name.
      path: the run's folder.
      resumed: whether earlier work is to be continued.
      started: `time.monotonic()` at opening, in seconds.
      config: the configuration it was opened with.
      lock: that keeps other processes out; None in those that did not take it.
    """

    experiment: str
    path: Path
    resumed: bool
    started: float
    config: RunConfig
    lock: Held | None = dataclasses.field(repr=False, compare=False)

    @property
    def config_file(self) -> Path:
        """`config.json`."""
        return self.path / "config.json"

    @property
    def plan_file(self) -> Path:
        """`run.json`: what the latest process set out to do, and where it runs."""
        return self.path / PLAN

    @property
    def metrics_file(self) -> Path:
        """`metrics.jsonl`."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def figures(self) -> Path:
        """The folder of figures; it exists."""
        return self.path / "figures"

    def close(self) -> None:
        """Lets other processes in."""
        if self.lock is not None:
            self.lock.close()

    def __enter__(self) -> RunDirectory:
        """Returns the run itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the run."""
        self.close()


def open_run(
    experiment: str,
    config: RunConfig,
    *,
    recognise: Callable[[Path], object] | None = None,
    before: Callable[[], object] = lambda: None,
) -> RunDirectory:
    """Makes, continues or replaces the folder of a run, and locks it.

    The processes of a run call it together.

    Args:
      experiment: the experiment's name; the folder is `config.run_folder(experiment)`.
      config: the configuration. `resume` continues a run made with an equal one (fields in
        `IRRELEVANT` and `config.free` apart), `requeue` does so or starts it, as does everything
        where `config.free` is not None; `overwrite` deletes an existing run.
      recognise: raises `ValueError` or `ShardError` for a folder without `config.json` that holds
        nothing of this experiment; by default none of them is deleted.
      before: called when the folder is locked and is to be used, before anything in it changes.

    Raises:
      ConfigError: if the configuration is not valid.
      RunExistsError: if the run exists and none of these is set.
      ConfigMismatchError: if the run to be resumed has another configuration.
      RunLockedError: if another process (or another `RunDirectory` here) has the run open.
      RunError: if the run to be resumed does not exist, or has lost its `config.json`; if what is
        to be overwritten is no run of this experiment, or a link; if the processes were given
        different configurations, or do not share the file system.
    """
    started = time.monotonic()
    all_agree(lambda: validate(config))
    first, *further_lines = exchange(to_json(config))
    for number, configuration in enumerate(further_lines, start=1):
        differences = describe_difference(first, configuration)
        if differences:
            lines = "".join(f"\n  {line}" for line in differences)
            raise RunError(f"processes 0 and {number} were given different configurations:{lines}")
    path = config.run_folder(experiment)
    locks: list[Held] = []

    def prepare() -> bool:
        if config.resume and not _entries(path):
            run_names = sorted(file.parent.name for file in path.parent.glob("*/config.json"))
            none = f"the name of a run in {path.parent}, where there is none; --requeue starts one"
            raise RunError(unknown_choice("--resume", config.run_name, run_names or [none]))
        if config.overwrite and not is_locked(path):  # whose lock would be left in it
            _check_is_run(path, experiment, config, recognise)
        path.mkdir(parents=True, exist_ok=True)
        try:
            locks.append(exclusive(path))
        except LockedError as error:
            raise RunLockedError(
                f"the run {error}; wait for it, stop it, or choose another {_flag(config)}"
            ) from error
        if config.overwrite:
            _check_is_run(path, experiment, config, recognise)
        elif _entries(path):
            _check_goes_on(path, config)
        before()
        resumed = _prepare(path, experiment, config)
        (path / "figures").mkdir(exist_ok=True)
        return resumed

    try:
        resumed = on_main(prepare)
        all_agree(lambda: _find(path / "config.json"))
    except BaseException:
        for lock in locks:
            lock.close()
        raise
    lock = locks[0] if locks else None
    return RunDirectory(experiment, path, resumed, started, config, lock)


def _find(file: Path) -> None:
    if not file.exists():
        raise RunError(
            f"{file} has been written by process 0, but is not here on {platform.node()}; "
            "--runs-dir must be on a file system that all processes share"
        )


def _entries(path: Path) -> list[Path]:
    """Returns the entries of a run's folder, without locks and the like; none where there is no
    folder.
    """
    return [entry for entry in path.glob("*") if not entry.name.startswith(".")]


def _check_is_run(
    path: Path, experiment: str, config: RunConfig, recognise: Callable[[Path], object] | None
) -> None:
    """Refuses to delete what is no run of this experiment.

    Raises:
      RunError: unless the folder is empty, or has the configuration of such a run, or what is left
        of one, or is recognised; for a link, which may lead anywhere.
    """
    delete = f"--overwrite does not delete {path}"
    if path.is_symlink():
        raise RunError(f"{delete}, which is a link; choose another {_flag(config)}")
    if not _entries(path):
        return
    config_file = path / ("config.json" if (path / "config.json").exists() else _DELETED)
    reason = "it has no config.json of one"
    try:
        stored = read_json(config_file)
        if isinstance(stored, dict) and {"preset", "seeds", "runs_dir"} <= stored.keys():
            # Runs of earlier versions are told by their place alone.
            if (stored_experiment := stored.get("experiment", path.parent.name)) == experiment:
                return
            reason = f"it is one of {stored_experiment}"
    except FileNotFoundError:
        try:
            if recognise is not None:
                recognise(path)
                return
        except (ValueError, ShardError) as error:
            reason = str(error)
    except (OSError, ValueError):
        pass
    fault = f"which is no run of {experiment}: {reason}"
    raise RunError(f"{delete}, {fault}; delete it yourself, or choose another {_flag(config)}")


def _check_goes_on(path: Path, config: RunConfig) -> None:
    """Refuses to go on with a run that was not asked for, or was made otherwise."""
    if not (config.resume or config.requeue or config.free is not None):
        raise RunExistsError(
            f"the run {path} exists already; --resume continues it, --overwrite "
            f"deletes it and starts again, another {_flag(config)} keeps both"
        )
    config_file = path / "config.json"
    if config.free is not None and not config_file.exists() and not (path / _DELETED).exists():
        return  # Whatever is there says by itself how it was made, and is checked when it is used.
    try:
        stored = read_json(config_file)
        if not isinstance(stored, dict):
            raise ValueError("no JSON object")
    except (OSError, ValueError) as error:
        raise RunError(
            f"cannot resume {path}: {config_file} is missing or damaged ({error}); "
            f"another {_flag(config)} starts anew"
        ) from error
    ignore = (*IRRELEVANT, *(config.free or ()))
    if differences := describe_difference(stored, _to_stored(config), ignore=ignore):
        lines = "".join(f"\n  {line}" for line in differences)
        raise ConfigMismatchError(
            f"cannot resume {path}, which was made with another configuration; choose another "
            f"{_flag(config)}, or --overwrite deletes it (stored -> given):{lines}"
        )


def _flag(config: RunConfig) -> str:
    """Returns the flag that names the run's folder."""
    return "--out" if isinstance(config, DataConfig) and config.out else "--name"


def _to_stored(config: RunConfig) -> dict[str, Any]:
    # The name is stored as resolved: giving the default name explicitly is no difference.
    return to_json(dataclasses.replace(config, name=config.run_name))


def _prepare(path: Path, experiment: str, config: RunConfig) -> bool:
    """Brings a locked folder into the state asked for; returns whether it holds earlier work."""
    config_file, stored = path / "config.json", {"experiment": experiment, **_to_stored(config)}
    text = to_json_text(stored, indent=2) + "\n"
    for leftover in path.glob(".*.tmp"):  # of writes that were killed
        _delete(leftover)
    if config.overwrite and _entries(path):
        # If this is interrupted, the rest cannot pass for a run, but may be deleted again.
        write_atomically(path / _DELETED, text)
        config_file.unlink(missing_ok=True)
        for entry in _entries(path):
            _delete(entry)
    resumed = bool(_entries(path))
    (path / _DELETED).unlink(missing_ok=True)
    if not resumed or config.free is not None:
        write_atomically(config_file, text)
    return resumed


def _delete(entry: Path) -> None:
    """Deletes a file, or a folder with all that is in it; of a link, the link."""
    linked = entry.is_symlink() or not entry.is_dir()
    entry.unlink() if linked else shutil.rmtree(entry)


def write_summary(
    run: RunDirectory,
    results: JsonObject,
    markdown: str,
    icl: Sequence[ICLRecord] = (),
) -> None:
    """Writes `summary.json` and `summary.md`, with where the results come from; process 0 does.

    Args:
      run: the run.
      results: numbers, strings, small arrays, or nested mappings and lists of them.
      markdown: the summary for readers; a section on duration, machine and versions is added.
      icl: what `gpicljax profile` reads, written to `icl.json`.

    Raises:
      OSError: if a file cannot be written; the previous one is then untouched.
      TypeError: if a result is of another type.
    """
    if not is_main():
        return
    records = read_metrics(run.metrics_file)
    times = [record.get("time", {}) for record in records]
    trained = times[-1].get("elapsed_s") if times else None
    compiled = sum(spent.get("compile_s", 0.0) for spent in times)
    broken = not_finite_since(records)
    origin = provenance()
    wall = time.monotonic() - run.started
    summary = {
        "experiment": run.experiment,
        "run": run.path.name,
        "results": results,
        NOT_FINITE: broken,
        # A resumed run spent time in earlier processes too; only the log knows about those.
        "wall_time_s": round(wall, 3),
        "training_time_s": trained,
        "compile_time_s": round(compiled, 3),
        "resumed": run.resumed,
        **origin,
    }
    hardware, git = origin["hardware"], origin["git"]
    devices = ", ".join(f"{n} x {kind}" for kind, n in hardware["devices"].items())
    commit = "none" if git is None else git["commit"] + (" (modified)" if git["modified"] else "")
    lines = [
        f"- wall time: {wall:.1f} s"
        + (f" (training {trained:.1f} s, of it compilation {compiled:.1f} s)" if trained else ""),
        f"- machine: {hardware['cpu']}, {hardware['cores']} cores; {devices}",
        "- versions: " + ", ".join(f"{name} {v}" for name, v in origin["versions"].items()),
        f"- commit: {commit}",
        f"- date: {origin['date']}",
        f"- command: `{origin['command']}`",
    ]
    if broken:
        markdown = f"**{in_words(broken)}** No mean over seeds includes them.\n\n{markdown}"
    text = f"{markdown.rstrip()}\n\n## Where this comes from\n\n" + "\n".join(lines) + "\n"
    if icl:
        records = to_json_text([record.to_json() for record in icl])
        write_atomically(run.path / ICL, records + "\n")
    write_atomically(run.path / "summary.json", to_json_text(summary, indent=2) + "\n")
    write_atomically(run.path / "summary.md", text)
