"""The command `gpicljax runs`: lists, shows and compares runs.

    gpicljax runs list
    gpicljax runs show meta_rg/quick-MetaRG-v0
    gpicljax runs compare meta_rg/a meta_rg/b --metric query_accuracy --out comparison.png

It reads files only: no device is touched, and runs may be running.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich import markup
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from gpicljax.checks import refusal, unknown_choice
from gpicljax.evaluation.aggregates import (
    aggregate,
    interquartile_mean,
    probability_of_improvement,
)
from gpicljax.evaluation.statistics import mean_interval
from gpicljax.runs.arguments import read_arguments
from gpicljax.runs.progress import count, duration
from gpicljax.runs.stored_runs import (
    StoredRun,
    UnknownRunError,
    by_method,
    cells_of,
    config_differences,
    find_run,
    find_runs,
    read_run,
    write_values,
)
from gpicljax.storage.nested import flatten
from gpicljax.storage.reading import MOST, read_bytes
from gpicljax.viz.curves import learning_curves
from gpicljax.viz.style import save_figure


def plain(text: str) -> str:
    """Text without what a terminal would obey: escape sequences and other control characters."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text)


def escape(text: str) -> str:
    """Returns `plain` text in one line, without Rich's markup."""
    return markup.escape(re.sub(r"[\n\t]+", " ", plain(text)))


COLOURS = {
    "running": "cyan",
    "finished": "green",
    "trained": "yellow",
    "stopped": "yellow",
    "damaged": "red",
}


@dataclasses.dataclass(frozen=True)
class ListRuns:
    """Lists all runs."""

    runs_dir: Path = Path("runs")
    """Folder that holds all runs."""

    def __call__(self, out: Console) -> None:
        """Prints the table."""
        runs = [cell for path in find_runs(self.runs_dir) for cell in cells_of(read_run(path))]
        if not runs:
            out.print(f"no runs in {self.runs_dir}")
            return
        names = ["run", "status", "chunks", "observed", "training", "metric", "date", "commit"]
        shown = len(names) if out.width >= 110 else 6
        table = _table(*names[:shown], right=(2, 3, 4))
        for column in table.columns:  # where it is narrow, the metric goes into several lines
            column.no_wrap = column.header != "metric"
            column.min_width = 12 if column.header == "metric" else None
        for run in runs:
            try:
                cells = _row(run)
            except Exception as error:  # one folder that says anything must not hide all others
                cells = [escape(run.name), f"[red]damaged[/] ({escape(type(error).__name__)})"]
            table.add_row(*cells[:shown])
        out.print(table)
        _print_problems(out, runs)


@dataclasses.dataclass(frozen=True)
class ShowRun:
    """Shows one run: configuration, last metrics, checkpoints, figures and summary."""

    run: tyro.conf.Positional[str]
    """The run, EXPERIMENT/NAME; its name alone or the path of its folder will do."""
    runs_dir: Path = Path("runs")
    """Folder that holds all runs."""

    def __call__(self, out: Console) -> None:
        """Prints everything."""
        run = read_run(find_run(self.runs_dir, self.run))
        out.print(f"[bold]{escape(run.name)}[/]  {_status(run)}  {escape(str(run.path))}")
        _print_problems(out, [run])
        _print(out, _facts([run]))
        if run.config:
            table = _table("configuration", "value")
            for name, value in flatten(run.config).items():
                table.add_row(escape(name), escape(str(value)))
            _print(out, table)
        if run.metrics:
            cells, columns = cells_of(run), ("metric, last chunk", "mean", "95 % interval", "seeds")
            table = _table(*["cell"] * (len(cells) > 1), *columns)
            for name in run.metrics:
                for cell in cells:
                    seeds = cell.seeds(name)
                    values = " ".join(f"{x:.4g}" for x in seeds) if seeds.size > 1 else ""
                    row = escape(name), _mean(seeds), _bounds(seeds), values
                    table.add_row(*[escape(cell.cell)] * (len(cells) > 1), *row)
            _print(out, table)
            _print_not_finite(out, [run])
        checkpoints = run.checkpoints()
        if checkpoints:
            table = _table("checkpoint", "state")
            for step, state in checkpoints.items():
                colour = "green" if state == "intact" else "red"
                table.add_row(escape(step), f"[{colour}]{escape(state)}[/]")
            _print(out, table)
        for figure in sorted((run.path / "figures").glob("*")):
            out.print(f"figure: {escape(str(figure))}")
        summary = run.path / "summary.md"
        if summary.exists():
            text = plain(read_bytes(summary, MOST).decode("utf-8", errors="replace"))
            out.print()
            out.print(Markdown(text) if out.is_terminal else markup.escape(text))


@dataclasses.dataclass(frozen=True)
class CompareRuns:
    """Compares runs: configurations, last metrics over seeds, and learning curves in one figure."""

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Two or more runs, or one of several cells, EXPERIMENT/NAME; names alone or paths of their
    folders will do. The cells of a sweep are compared as runs of their own."""
    metric: str | None = None
    """What to draw; by default what the first run's progress line showed."""
    out: Path = Path("comparison.png")
    """Where to draw it; the suffix chooses the format."""
    by: str | None = None
    """A field of the configuration that names the method: runs that agree in it are pooled, and
    what else they differ in is the task. Prints interquartile means and probabilities of
    improvement of the metric, as last measured; across tasks it must be on one scale."""
    csv: Path | None = None
    """Where to write every value of every metric: run, chunk, observations, metric, seed, value."""
    runs_dir: Path = Path("runs")
    """Folder that holds all runs."""

    def __call__(self, out: Console) -> None:
        """Prints the tables and draws the figure."""
        paths = dict.fromkeys(find_run(self.runs_dir, name) for name in self.runs)
        runs = [cell for path in paths for cell in cells_of(read_run(path))]
        if len(runs) < 2:
            raise UnknownRunError(refusal("runs", self.runs, "two or more different runs"))
        names = _labels(runs)
        metrics = list(dict.fromkeys(name for run in runs for name in run.metrics))
        metric = self.metric or next((r.key_metric for r in runs if r.key_metric), None)
        if metric is not None and metric not in metrics:
            raise UnknownRunError(unknown_choice("--metric", metric, metrics))

        _print_problems(out, runs)
        differences = config_differences(runs)
        if differences:
            table = _table("configuration", *names)
            for field, values in differences.items():
                table.add_row(escape(field), *(escape(str(value)) for value in values))
            _print(out, table)
        else:
            out.print("the configurations are equal\n")
        _print(out, _facts(runs, names))
        if metrics:
            table = _table("metric, last chunk", *names)
            for name in metrics:
                cells = [run.seeds(name) if name in run.metrics else np.empty(0) for run in runs]
                shown = [_mean(c) + (f" {b}" if (b := _bounds(c)) else "") for c in cells]
                table.add_row(escape(name), *(s or "-" for s in shown))
            _print(out, table)
            out.print("mean over seeds ± half of its 95 % t-interval (number of seeds)")
            _print_not_finite(out, runs)
        if self.csv is not None:
            write_values(self.csv, runs)
            out.print(f"values: {escape(str(self.csv))}")
        if metric is not None:
            self._draw(out, dict(zip(names, runs, strict=True)), metric)
        if self.by is not None and metric is not None:  # last: what it refuses loses nothing else
            _print(out, self._aggregates(runs, metric))

    def _aggregates(self, runs: Sequence[StoredRun], metric: str) -> Table:
        """Methods, their interquartile means, and how likely each beats the first."""
        methods = by_method(runs, self.by or "", metric)
        first = next(iter(methods.values()))
        table = _table(f"{metric} by {self.by}", "tasks", "runs", "IQM", "beats the first")
        for name, scores in methods.items():
            middle = aggregate(interquartile_mean, scores)
            better = "-"
            if scores is not first:
                chances = aggregate(probability_of_improvement, scores, first)
                better = "{:.0%} [{:.0%}, {:.0%}]".format(*chances)
            table.add_row(
                escape(name),
                str(len(scores)),
                str(sum(len(x) for x in scores)),
                "{:.4g} [{:.4g}, {:.4g}]".format(*middle),
                better,
            )
        return table

    def _draw(self, out: Console, runs: dict[str, StoredRun], metric: str) -> None:
        curves = {name: run.curve(metric) for name, run in runs.items() if metric in run.metrics}
        drawn = {
            name: (x, y)
            for name, (x, y) in curves.items()
            if x.size > 1 and np.all(np.diff(x) > 0) and np.isfinite(y).any()
        }
        for name in runs.keys() - drawn.keys():
            out.print(f"not drawn, for it has fewer than two values: {escape(name)}")
        if not drawn:
            return
        replicas = [runs[name].replicas(metric) for name in drawn]
        counted = all(runs[name].observations > 0 for name in drawn)
        apart = counted and all(n > 0 for n in replicas)
        steps = {
            name: (x / n if apart else x) if counted else np.arange(1.0, x.size + 1)
            for (name, (x, _)), n in zip(drawn.items(), replicas, strict=True)
        }
        figure = learning_curves(
            steps,
            {name: y for name, (_, y) in drawn.items()},
            xlabel=("observations per seed" if apart else "observations") if counted else "chunks",
            ylabel=metric,
            title=", ".join(dict.fromkeys(run.path.parent.name for run in runs.values())),
        )
        out.print(f"figure: {escape(str(save_figure(figure, self.out)))}")


def _subcommand(name: str) -> Any:
    return tyro.conf.subcommand(name=name)


RunCommand = (
    Annotated[ListRuns, _subcommand("list")]
    | Annotated[ShowRun, _subcommand("show")]
    | Annotated[CompareRuns, _subcommand("compare")]
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
      argv: arguments without the program's name; `sys.argv[1:]` by default.

    Returns:
      The exit code: 0, 1 if a file cannot be read or written, 2 if there is no such run or metric.

    Raises:
      SystemExit: with code 2 for arguments that are not accepted, 0 after `--help`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    command: Any = read_arguments(
        RunCommand,  # type: ignore[arg-type]
        args=arguments,
        prog="gpicljax runs",
        description="Lists, shows or compares runs.",
        config=(tyro.conf.OmitSubcommandPrefixes,),
    )
    # Where no terminal sets a width (a pipe, a file), nothing is to be cut off.
    out = Console(width=None if sys.stdout.isatty() else 240, highlight=False)
    try:
        command(out)
    except (OSError, ValueError, RecursionError) as error:
        print(f"error: {plain(str(error))}", file=sys.stderr)
        return 1 if isinstance(error, OSError) else 2
    return 0


def _table(*columns: str, right: Sequence[int] = ()) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(escape(column), justify="right" if index in right else "left")
    return table


def _print(out: Console, table: Table) -> None:
    out.print(table)
    out.print()


def _print_problems(out: Console, runs: Sequence[StoredRun]) -> None:
    for run in runs:
        for problem in run.problems:
            out.print(f"[red]damaged: {escape(run.name)}: {escape(problem)}[/]")


def _print_not_finite(out: Console, runs: Sequence[StoredRun]) -> None:
    for run in runs:
        for name, chunk in run.not_finite.items():
            out.print(
                f"[red]not finite: {escape(run.name)}: {escape(name)} from chunk {chunk} on[/]"
            )


def _facts(runs: Sequence[StoredRun], names: Sequence[str] = ("",)) -> Table:
    table = _table("run", *names) if len(runs) > 1 else _table("run", "")

    def median(run: StoredRun) -> str:
        rates = run.times("observations_per_s")
        return f"{count(float(np.median(rates)))} observations/s" if any(rates) else "-"

    rows = {
        "status": [_status(run) for run in runs],
        "chunks": [_chunks(run) for run in runs],
        "observations": [f"{run.observations:,}" for run in runs],
        "throughput (median)": [median(run) for run in runs],
        "compilation": [f"{sum(run.times('compile_s')):.1f} s" for run in runs],
        "training": [duration(run.seconds) for run in runs],
        "date": [_date(run) for run in runs],
        "commit": [_commit(run) for run in runs],
        "devices": [escape(_devices(run)) for run in runs],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _labels(runs: Sequence[StoredRun]) -> list[str]:
    """Names short enough for a figure: without the experiment, if there is only one."""
    same = len({run.path.parent.name for run in runs}) == 1
    return [run.name.partition("/")[2] if same else run.name for run in runs]


def _row(run: StoredRun) -> list[str]:
    """Returns the row of a run in the list."""
    key = run.key_metric
    return [
        escape(run.name),
        _status(run),
        _chunks(run),
        count(run.observations),
        duration(run.seconds),
        escape(f"{key} {_mean(run.seeds(key))}") if key else "",
        _date(run),
        _commit(run),
    ]


def _status(run: StoredRun) -> str:
    text = "no summary" if run.status == "trained" else run.status
    return f"[{COLOURS[run.status]}]{text}[/]"


def _chunks(run: StoredRun) -> str:
    return f"{run.done}/{run.planned_chunks if run.planned_chunks is not None else '?'}"


def _date(run: StoredRun) -> str:
    date = run.origin.get("date")
    try:
        when = datetime.datetime.fromisoformat(str(date))
    except ValueError:
        try:
            when = datetime.datetime.fromtimestamp(run.path.stat().st_mtime, datetime.UTC)
        except OSError:
            return "-"
    return f"{when:%Y-%m-%d %H:%M}"


def _commit(run: StoredRun) -> str:
    """Returns the commit's beginning, with a plus where files differed from it."""
    git = run.origin.get("git")
    if not isinstance(git, dict):
        return "-"
    return f"{escape(str(git.get('commit'))[:8])}{'+' if git.get('modified') else ''}"


def _devices(run: StoredRun) -> str:
    hardware = run.origin.get("hardware")
    devices = hardware.get("devices") if isinstance(hardware, dict) else None
    if not isinstance(devices, dict):
        return "-"
    return ", ".join(f"{number} x {kind}" for kind, number in devices.items())


def _mean(seeds: np.ndarray) -> str:
    finite = seeds[np.isfinite(seeds)]
    return f"{finite.mean():.4g}" if finite.size else "nan" if seeds.size else ""


def _bounds(seeds: np.ndarray) -> str:
    """Half of the t-interval of the seeds that are finite, and how many they are."""
    finite = seeds[np.isfinite(seeds)]
    if seeds.size < 2:
        return ""
    if finite.size < 2:
        return f"({finite.size} of {seeds.size})"
    interval = mean_interval(finite)
    total = f" of {seeds.size}" if finite.size < seeds.size else ""
    return f"± {interval.high - interval.mean:.2g} ({finite.size}{total})"
