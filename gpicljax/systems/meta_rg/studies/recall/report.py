"""The table, the figures and the summary of `recall.py`."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from gpicljax.evaluation.icl import icl_curve
from gpicljax.evaluation.statistics import mean_interval
from gpicljax.evaluation.tables import (
    Row,
    join_paragraphs,
    percents,
    results_table,
    seeds_legend,
)
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.meta_rg.measures.recall import RecallAccuracy, recall_accuracy
from gpicljax.viz.curves import icl_figure
from gpicljax.viz.style import save_figure

SHOWN = ("random", "single stimulus", "ranking oracle")
"""The rules that figures compare with."""

of_seeds = jax.jit(jax.vmap(recall_accuracy))
"""Accuracy by seed, of `Games` with leaves `[seeds, N, G]`."""


def accuracies(outcome: RunResult) -> dict[str, RecallAccuracy]:
    """Returns the accuracies of the agents by condition, leaves `float64[seeds, ...]`."""
    return {
        name: jax.tree.map(outcome.seeds, of_seeds(*games))
        for name, games in outcome.measured.items()
    }


def table(agents: dict[str, RecallAccuracy], rules: dict[str, RecallAccuracy]) -> str:
    """Rules and agents side by side, what a single stimulus is worth first: it is the null."""
    head = ["agent", "second shot (games)", "second shot (episodes)", "first shot (games)"]
    head += ["second shot, seed by seed"]

    def shares(accuracy: RecallAccuracy) -> tuple[Any, ...]:
        return accuracy.second.by_game, accuracy.second.by_episode, accuracy.first.by_game

    rows = [
        Row(name, "rule", percents(shares(rules[name])))
        for name in sorted(rules, key=lambda name: name != "single stimulus")
    ]
    for name, accuracy in agents.items():
        cells = [mean_interval(x).percent for x in shares(accuracy)]
        cells.append(" ".join(percents(accuracy.second.by_game)))
        rows.append(Row("R2D2", "learner", cells, condition=name))
    return results_table(head, rows)


def share_table(agents: dict[str, RecallAccuracy], rules: dict[str, RecallAccuracy]) -> str:
    """Accuracy in the course of the first shot."""
    rows = [
        Row("R2D2", "learner", percents(accuracy.by_share.mean(0)), condition)
        for condition, accuracy in agents.items()
    ]
    rows += [Row(name, "rule", percents(accuracy.by_share)) for name, accuracy in rules.items()]
    bins = len(rows[0].cells)
    heads = [f"{100 * i // bins} - {100 * (i + 1) // bins}" for i in range(bins)]
    return results_table(["seen, %", *heads], rows)


def draw(outcome: RunResult, agents: dict[str, RecallAccuracy]) -> None:
    """The paper's figure for one representation, and the course of the first shot."""
    config, rules = outcome.config, outcome.host_measured
    lines = {
        name: float(accuracy.second.by_game) for name, accuracy in rules.items() if name in SHOWN
    }
    title = f"Recall, {config.stimulus.upper()}, {config.max_values} ways, {config.network.memory}"
    outcome.draw_learning(
        "second_shot",
        baselines=lines,
        xlabel="observations per seed",
        ylabel="accuracy in the second shot, greedy",
        title=title,
        percent=True,
    )
    shares = {"R2D2, greedy": agents["greedy"].by_share}
    shares |= {name: rules[name].by_share[None] for name in lines}
    figure = icl_figure(
        {name: icl_curve(values, np.isfinite(values)) for name, values in shares.items()},
        xlabel="tenths of the first shot seen before",
        ylabel="accuracy in the first shot",
        title=title,
        percent=True,
    )
    save_figure(figure, outcome.run.figures / "first_shot.png")


def report(outcome: RunResult) -> Report:
    """Draws the figures and returns the summary."""
    config, agents, rules = outcome.config, accuracies(outcome), outcome.host_measured
    draw(outcome, agents)
    text = join_paragraphs(
        f"# Recall, {config.stimulus.upper()}: R2D2 with {config.network.memory}, "
        f"preset {config.preset}",
        f"{config.max_values} answers, V in {config.min_values} .. {config.max_values}, "
        f"the {config.rules}'s rules. Accuracy in %, {config.evaluation_episodes} fresh episodes "
        f"per seed: {seeds_legend(config.seeds)}.",
        table(agents, rules),
        "Accuracy in the first shot, in %, by the share of it that has been seen before:",
        share_table(agents, rules),
        "The paper prints no numbers beside its Figure 8; it reports a large gap of asymptotic "
        "performance between one-hot (better) and continuous stimuli. A single one-hot stimulus "
        "tells the answer; what a single continuous one tells is the row `single stimulus`.",
        outcome.training_note(),
    )
    results: dict[str, Any] = {
        name: {
            "second shot": accuracy.second.by_game,
            "first shot": accuracy.first.by_game,
            "first shot by share": accuracy.by_share,
        }
        for name, accuracy in (agents | rules).items()
    }
    results |= {"parameters": outcome.parameters, "observations_per_s": outcome.speed}
    evaluations = [
        {name: recall.second.by_game[seed] for name, recall in agents.items()}
        for seed in range(config.seeds)
    ]
    return Report(text, results, evaluations)
