"""The summary of the study `in_context_control`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpicljax.evaluation.records import icl_record
from gpicljax.evaluation.statistics import interval_over_seeds
from gpicljax.evaluation.tables import Row, RowKind, join_paragraphs, results_table
from gpicljax.runtime import Report, RunResult
from gpicljax.viz.curves import learning_curves
from gpicljax.viz.style import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEAN, TRUTH = "controller told the mean physics", "controller told the truth"
KINDS: dict[str, RowKind] = {"random": "rule", MEAN: "rule", TRUTH: "oracle"}


def _learning_figure(outcome: RunResult, played: Mapping[str, Sequence[np.ndarray]]) -> Figure:
    """Returns the figure of returns on training tasks, beside those of the rules."""
    return learning_curves(
        outcome.steps,
        outcome.curve("return"),
        baselines={name: played[name][0].mean() for name in KINDS},
        xlabel="observations",
        ylabel="return of a first episode",
    )


def report(outcome: RunResult) -> Report:
    """Returns the table of returns, episode by episode, and of paired differences."""
    config = outcome.config
    shape = config.replicas, config.episodes
    played = {name: [np.asarray(x).reshape(shape)] for name, x in outcome.host_measured.items()}
    rows = [Row(name, KINDS[name]) for name in played]
    for condition, measured in outcome.measured.items():
        row = Row(config.network.memory, "control" if condition else "learner", (), condition)
        played[row.label] = [np.asarray(x).reshape(shape) for x in outcome.seeds(measured.returns)]
        rows.append(row)
    nulls = {name: played[name][0].mean(-1) for name in (MEAN, TRUTH)}
    numbers, cells = {}, []
    for row in rows:
        seeds = played[row.label]
        returns = [interval_over_seeds([x[:, k] for x in seeds]) for k in range(config.episodes)]
        ahead = [interval_over_seeds([x.mean(-1) - null for x in seeds]) for null in nulls.values()]
        own = {MEAN: 0, TRUTH: 1}.get(row.name)
        shown = ["" if own == k else x.format() for k, x in enumerate(ahead)]
        cells.append(Row(row.name, row.kind, [x.format() for x in returns] + shown, row.condition))
        numbers[row.label] = {
            "returns": [x.mean for x in returns],
            "ahead of the mean": ahead[0].mean,
            "ahead of the truth": ahead[1].mean,
        }
    save_figure(_learning_figure(outcome, played), outcome.run.figures / "training.png")
    episodes = [f"episode {k + 1}" for k in range(config.episodes)]
    head = ["agent", *episodes, "minus: told the mean", "minus: told the truth"]
    text = join_paragraphs(
        f"# In-context control: {config.network.memory} on {config.env}, preset {config.preset}",
        f"Returns of episodes of at most {config.steps} steps, {config.episodes} in a row on one "
        f"system; {config.replicas:,} systems, the same and from the same starts for all. "
        f"Intervals of 95 % over seeds ({config.seeds}; of one seed and of rules over systems). "
        "The last columns are paired differences of the mean over a trial.",
        results_table(head, cells),
        outcome.training_note(),
    )
    learner, wiped = (row.label for row in rows[-2:])
    record = icl_record(
        {
            "agent": np.stack(played[learner]),
            "memory wiped": np.stack(played[wiped]),
            "oracle": np.stack(played[TRUTH]),
        },
        {name: np.stack(played[name]) for name in ("random", MEAN)},
        system="In-context RL",
        task=config.env,
        agent=f"PPO, {config.network.memory}",
        measure="return",
        context="episodes",
        oracle="told the physics",
        end=1 / config.episodes,
    )
    return Report(text, numbers, icl=[record] if config.episodes > 1 else [])
