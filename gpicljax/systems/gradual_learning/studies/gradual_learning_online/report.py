"""The tables of `gradual_learning_online.py`."""

from __future__ import annotations

import numpy as np

from gpicljax.evaluation.statistics import bootstrap_interval, mean_interval
from gpicljax.evaluation.tables import markdown_table
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.gradual_learning.studies.gradual_learning_lifelong.report import (
    format_interval,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning_online.config import (
    DEEP,
    Method,
)

NULL: Method = "suffix-predictor"


def _format_median(steps: np.ndarray) -> str:
    """Formats the median with its interval; streams that are not done count as longest."""
    is_cleared = np.isfinite(steps)
    if is_cleared.mean() <= 0.5:
        return f"({is_cleared.sum()} of {len(is_cleared)})"
    bounded = np.where(is_cleared, steps, 1e12)
    low, high = bootstrap_interval(bounded, np.median, method="percentile")
    end = "never" if high > 1e9 else f"{high:,.0f}"
    share = "" if is_cleared.all() else f" ({is_cleared.sum()} of {len(is_cleared)})"
    return f"{np.median(bounded):,.0f} [{low:,.0f}, {end}]{share}"


def report(outcome: RunResult) -> Report:
    """Returns the tables and the numbers behind them."""
    config, lives = outcome.config, outcome.host_measured
    text = [
        f"# Learning online on byte streams, preset {config.preset}",
        "",
        f"{config.seeds} streams ({config.deep_seeds} of recurrent-ppo and r2d2) of "
        f"{' '.join(config.curriculum)}, in this order; {config.threshold} instances solved in a "
        "row clear a task set. Every stream is one life that begins with new weights. The streams "
        "are the same for all methods but recurrent-ppo and r2d2.",
        "",
        "## Task sets cleared after so many steps",
        "",
        "Means over streams with t-intervals of 95 %.",
        "",
    ]
    rows = []
    for method, method_lives in lives.items():
        counted = [steps for steps in config.checkpoints if steps <= method_lives.budget]
        cells = [
            format_interval(mean_interval(method_lives.count_cleared(steps))) for steps in counted
        ]
        rows.append([method, *cells])
    text += [markdown_table(["", *(f"{steps:,}" for steps in config.checkpoints)], rows), ""]
    if NULL in lives:
        text += [
            "## Task sets more than the suffix predictor",
            "",
            "Paired by stream: means of the differences with t-intervals of 95 %.",
            "",
        ]
        rows = []
        for method, method_lives in lives.items():
            if method != NULL and method not in DEEP:
                differences = [
                    format_interval(
                        mean_interval(
                            method_lives.count_cleared(steps) - lives[NULL].count_cleared(steps)
                        )
                    )
                    for steps in config.checkpoints
                ]
                rows.append([method, *differences])
        text += [markdown_table(["", *(f"{steps:,}" for steps in config.checkpoints)], rows), ""]
    text += [
        "## Steps until cleared, from the beginning of the stream",
        "",
        "Medians over streams with bootstrap intervals of 95 %; in brackets the streams that "
        "cleared the task set, where not all did. A stream that did not counts as longest.",
        "",
    ]
    cells = [
        [name, *(_format_median(streams.finished[:, place]) for streams in lives.values())]
        for place, name in enumerate(config.curriculum)
    ]
    text += [markdown_table(["task set", *lives], cells), ""]
    finished = {method: streams.finished.tolist() for method, streams in lives.items()}
    return Report("\n".join(text), {"finished": finished})
