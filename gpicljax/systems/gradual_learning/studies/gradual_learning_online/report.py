"""The tables of `gradual_learning_online.py`."""

from __future__ import annotations

import numpy as np

from gpicljax.evaluation.statistics import bootstrap_interval
from gpicljax.evaluation.tables import interval_table, join_paragraphs, markdown_table
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.gradual_learning.studies.gradual_learning_online.config import DEEP, Method

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
    head = ["", *(f"{steps:,}" for steps in config.checkpoints)]
    counted = {
        method: [
            method_lives.count_cleared(steps)
            for steps in config.checkpoints
            if steps <= method_lives.budget
        ]
        for method, method_lives in lives.items()
    }
    parts = [
        f"# Learning online on byte streams, preset {config.preset}",
        f"{config.seeds} streams ({config.deep_seeds} of recurrent-ppo and r2d2) of "
        f"{' '.join(config.curriculum)}, in this order; {config.threshold} instances solved in a "
        "row clear a task set. Every stream is one life that begins with new weights. The streams "
        "are the same for all methods but recurrent-ppo and r2d2.",
        "## Task sets cleared after so many steps",
        "Means over streams with t-intervals of 95 %.",
        interval_table(head, counted),
    ]
    if NULL in lives:
        leads = {
            method: [count - null for count, null in zip(counts, counted[NULL], strict=True)]
            for method, counts in counted.items()
            if method != NULL and method not in DEEP
        }
        parts += [
            "## Task sets more than the suffix predictor",
            "Paired by stream: means of the differences with t-intervals of 95 %.",
            interval_table(head, leads),
        ]
    cells = [
        [name, *(_format_median(streams.finished[:, place]) for streams in lives.values())]
        for place, name in enumerate(config.curriculum)
    ]
    parts += [
        "## Steps until cleared, from the beginning of the stream",
        "Medians over streams with bootstrap intervals of 95 %; in brackets the streams that "
        "cleared the task set, where not all did. A stream that did not counts as longest.",
        markdown_table(["task set", *lives], cells),
    ]
    finished = {method: streams.finished for method, streams in lives.items()}
    return Report(join_paragraphs(*parts), {"finished": finished})
