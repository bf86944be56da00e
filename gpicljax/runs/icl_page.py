"""The command `gpicljax profile`: how well agents learn in context, on one scale.

gpicljax profile
gpicljax profile meta_rg/quick-MetaRG-v1 maze_world/quick --out page
gpicljax profile experiments/results/in_context_learning.json
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import tyro

from gpicljax.checks import refusal
from gpicljax.evaluation.icl import Estimate
from gpicljax.evaluation.records import ICLRecord, icl_summary
from gpicljax.evaluation.tables import markdown_table
from gpicljax.runs.arguments import read_arguments, user_path
from gpicljax.runs.command import plain
from gpicljax.runs.run_directory import ICL
from gpicljax.runs.stored_runs import UnknownRunError, find_run, find_runs
from gpicljax.storage.atomic import to_json_text, write_atomically
from gpicljax.storage.reading import read_json
from gpicljax.viz.icl_panels import first_of_each_system, icl_panels
from gpicljax.viz.style import save_figure

EXPLAINED = (
    "Share: how much of the gap between the strongest null that needs no training and an oracle "
    "the agent closes, 0 as the null and 1 as the oracle; below 0 the null does better. At the "
    "end of the context (its last tenth; in trials of episodes, the last half), where asymptote, "
    "null and oracle are those of the table; and overall, by means over the whole context. A "
    "dash: the null is at the oracle, or the gap between them within noise. In brackets 95 % "
    "intervals over training seeds, or, of agents with a single seed, over trials (marked *). "
    "Nulls are the best on the very samples that they are compared on, which favours them. "
    "Horizon: the context after which the agent stays near its own end; in brackets the range "
    "over seeds, or the interval over trials."
)


@dataclasses.dataclass(frozen=True)
class Profile:
    """Shows how well agents learn in context, beside nulls and oracles, in any system."""

    runs: tyro.conf.Positional[Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN ...")]] = ()
    """Runs, EXPERIMENT/NAME (names alone or paths of their folders will do), or files that `--out`
    wrote; all finished runs by default."""
    out: Path | None = None
    """A folder for the table, the figure and the records themselves."""
    runs_dir: Path = Path("runs")
    """Folder that holds all runs."""

    def records(self) -> tuple[list[ICLRecord], list[str]]:
        """Returns the records of the runs or files, and a line for each that is damaged.

        Raises:
          OSError: if no file can be read.
          ValueError: if a run is not known, or there is no sound record.
        """
        files = [path / ICL for path in find_runs(self.runs_dir) if (path / ICL).exists()]
        if self.runs:
            paths = [user_path(name) for name in self.runs]
            files = [p if p.is_file() else find_run(self.runs_dir, str(p)) / ICL for p in paths]
        sound: list[ICLRecord] = []
        damaged, kind = [], ValueError
        for file in files:
            try:
                entries = read_json(file)
                if not isinstance(entries, list):
                    raise ValueError(refusal("records", type(entries).__name__, "a list"))
                sound += [ICLRecord.from_json(entry) for entry in entries]
            except (OSError, ValueError) as error:
                name = file.relative_to(self.runs_dir) if file.name == ICL else file
                damaged.append(f"damaged: {name.parent}: {file.name} ({error})")
                kind = OSError if isinstance(error, OSError) else ValueError
        if not sound:
            if damaged:
                raise kind("; ".join(damaged))
            requested = list(self.runs) or str(self.runs_dir)
            raise UnknownRunError(
                refusal("runs", requested, "finished runs that record such learning")
            )
        systems = list(dict.fromkeys(record.system for record in sound))
        return sorted(sound, key=lambda record: systems.index(record.system)), damaged

    def __call__(self) -> int:
        """Prints the table, writes the files, and returns the exit code."""
        records, damaged = self.records()
        for line in damaged:
            print(plain(line), file=sys.stderr)
        code = 1 if damaged and self.runs else 0
        text = f"{profile_table(records)}\n\n{EXPLAINED}\n"
        print(text)
        if self.out is None:
            return code
        self.out.mkdir(parents=True, exist_ok=True)
        write_atomically(self.out / "in_context_learning.md", text)
        text_of_records = to_json_text([record.to_json() for record in records]) + "\n"
        write_atomically(self.out / "in_context_learning.json", text_of_records)
        save_figure(icl_panels(records), self.out / "in_context_learning.png")
        overview = icl_panels(first_of_each_system(records), columns=2)
        save_figure(overview, self.out / "overview.png")
        print(f"table, records and figures: {self.out}")
        return code


def profile_table(records: Sequence[ICLRecord]) -> str:
    """Returns a row in Markdown for every record."""
    columns = (
        *("system", "task", "agent", "measure", "context", "zero-shot", "asymptote", "potential"),
        *("horizon", "strongest null", "oracle", "share at the end", "overall", "wiped"),
    )
    rows = []
    for record in records:
        summary = icl_summary(record)
        star = "" if record.rows == "seeds" else " *"
        cells = [
            record.system,
            record.task,
            record.agent,
            record.measure + ("" if record.higher_is_better else " (low is good)"),
            f"{record.length:,} {record.context}",
            _value(summary.zero_shot),
            _value(summary.asymptote),
            _value(summary.potential, bracket=True),
            _value(summary.horizon, _context(record), bracket=True),
            f"{record.null}: {_value(summary.null)}",
            f"{record.oracle}: {_value(summary.oracle)}",
            _share(summary.share, star),
            _share(summary.overall, star),
            _value(summary.wiped, "{:.1f}".format),
        ]
        # What files say may neither end a cell or a line nor reach the terminal as a command.
        rows.append([plain(cell).replace("|", "/").replace("\n", " ") for cell in cells])
    return markdown_table(columns, rows)


def _share(share: Estimate, star: str) -> str:
    if math.isnan(share.value):
        return "-"
    show = "{:.2f}".format
    return f"**{show(share.value)}** {_bracket(share, show)}{star}"


def _number(value: float) -> str:
    return f"{value:.3g}"


def _context(record: ICLRecord) -> Callable[[float], str]:
    def show_steps(value: float) -> str:
        return f"beyond {record.length}" if math.isinf(value) else f"{value:.0f}"

    return show_steps


def _value(
    estimate: Estimate, show: Callable[[float], str] = _number, *, bracket: bool = False
) -> str:
    if math.isnan(estimate.value):
        return "-"
    return show(estimate.value) + (f" {_bracket(estimate, show)}" if bracket else "")


def _bracket(estimate: Estimate, show: Callable[[float], str]) -> str:
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return ""
    return f"[{show(estimate.low)}, {show(estimate.high)}]"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
      argv: arguments without the program's name; `sys.argv[1:]` by default.

    Returns:
      The exit code: 0, 1 if a file cannot be read or written, 2 if there is no such run.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = read_arguments(Profile, args=arguments, prog="gpicljax profile", description=__doc__)
    try:
        return command()
    except (OSError, ValueError) as error:
        print(f"error: {plain(str(error))}", file=sys.stderr)
        return 1 if isinstance(error, OSError) else 2
