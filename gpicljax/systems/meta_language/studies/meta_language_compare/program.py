"""The program of the study `meta_language_compare`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro

from gpicljax.evaluation.icl import ICLCurve
from gpicljax.evaluation.tables import markdown_table
from gpicljax.runs.arguments import read_arguments
from gpicljax.runs.distributed import log_once
from gpicljax.runs.stored_runs import StoredRun, find_run, read_run
from gpicljax.runtime.failures import failures_reported
from gpicljax.storage.atomic import write_atomically
from gpicljax.systems.meta_language.figures import nats_figure
from gpicljax.systems.meta_language.measures.curves import CURVES, UNTRAINED, read_curves
from gpicljax.viz.curves import learning_curves
from gpicljax.viz.style import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Languages = dict[str, dict[str, ICLCurve]]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Compares finished runs.

    Attributes:
      runs: Names of the runs, two or more; also folders.
      runs_dir: Folder that holds all runs.
      out: Folder for figures and table.
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    runs_dir: Path = Path("runs")
    out: Path = Path("comparison")


def read(config: Comparison) -> tuple[list[StoredRun], list[Languages]]:
    """Returns the runs, and their curves on the kinds of languages that all were measured on.

    Raises:
      ValueError: for fewer than two runs, one that is unknown or unfinished, or no common kind.
    """
    if len(config.runs) < 2:
        raise ValueError(f"runs: got {len(config.runs)}; two or more are needed")
    runs = [read_run(find_run(config.runs_dir, name)) for name in config.runs]
    for run in runs:
        if not (run.path / CURVES).exists() or not run.summary:
            raise ValueError(f"runs: {run.name} is {run.status}, without {CURVES}")
        if not run.records:
            raise ValueError(f"runs: {run.name} has no training to compare")
    curves = [read_curves(run.path) for run in runs]
    common = [name for name in curves[0] if all(name in run for run in curves)]
    if not common:
        raise ValueError("runs: they were not measured on the same kinds of languages")
    return runs, [{name: curve[name] for name in common} for curve in curves]


def floors_agree(curves: Sequence[Languages], name: str) -> bool:
    """Whether the runs were measured on the very same sequences, which have the same floor."""
    first, *rest = (languages[name].get("floor") for languages in curves)
    if first is None:
        return False
    return all(o is not None and np.array_equal(o.mean, first.mean) for o in rest)


def table(runs: Sequence[StoredRun], curves: Sequence[Languages]) -> str:
    """Returns a table of each run's size, budget and nats over the last bin."""
    kinds = list(curves[0])
    rows = []
    for run, languages in zip(runs, curves, strict=True):
        results = run.summary["results"]
        cells = [run.path.name, run.config["model"]["kind"]]
        cells += [f"{results[x]:,.0f}" for x in ("parameters", "tokens", "tokens_per_s")]
        cells += [f"{languages[kind]['model'].mean[-1]:.3f}" for kind in kinds]
        rows.append(cells)
    nulls = "unigram", "adaptive n-gram", "softmax regression", "mixture", UNTRAINED
    for line in (*nulls, "floor"):
        ends = [curves[0][kind].get(line) for kind in kinds]
        cells = ["" if curve is None else f"{curve.mean[-1]:.3f}" for curve in ends]
        rows.append([f"{line} ({runs[0].path.name}'s)", *[""] * 4, *cells])
    return markdown_table(["run", "model", "parameters", "tokens", "tokens/s", *kinds], rows)


def training_figure(runs: Sequence[StoredRun]) -> Figure:
    """Returns the figure of training losses by tokens, means over each run's seeds."""
    tokens, nats = {}, {}
    for run in runs:
        name, count = run.path.name, len(run.records)
        tokens[name] = run.summary["results"]["tokens"] / count * np.arange(1, count + 1)
        nats[name] = np.asarray([[np.mean(record["nats"]) for record in run.records]])
    return learning_curves(tokens, nats, xlabel="tokens", ylabel="training loss, nats")


def main(argv: list[str] | None = None) -> str:
    """Draws and writes the comparison; returns its table."""
    config = read_arguments(Comparison, args=argv, prog="gpicljax run meta_language_compare")
    with failures_reported(ValueError):
        runs, curves = read(config)
        for kind in curves[0]:
            lines = {r.path.name: c[kind]["model"] for r, c in zip(runs, curves, strict=True)}
            if floors_agree(curves, kind):
                lines["floor"] = curves[0][kind]["floor"]
            file = kind.replace(" ", "").replace("=", "_") + ".png"
            save_figure(nats_figure(lines, kind), config.out / file)
        save_figure(training_figure(runs), config.out / "training.png")
        text = table(runs, curves)
        write_atomically(config.out / "table.md", text + "\n")
        log_once(text)
    return text
