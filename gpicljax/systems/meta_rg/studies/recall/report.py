"""The table, the figures and the summary of `recall.py`."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from gpicljax.evaluation.icl import icl_curve
from gpicljax.evaluation.statistics import mean_interval
from gpicljax.evaluation.tables import Row, results_table
from gpicljax.runs.metrics import throughput
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.meta_rg.measures.recall import RecallAccuracy, recall_accuracy
from gpicljax.viz.curves import icl_figure, learning_curves
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
    rows = []
    for name in sorted(rules, key=lambda name: name != "single stimulus"):
        accuracy = rules[name]
        shares = accuracy.second.by_game, accuracy.second.by_episode, accuracy.first.by_game
        rows.append(Row(name, "rule", [f"{100 * float(x):.1f}" for x in shares]))
    for name, accuracy in agents.items():
        shares = accuracy.second.by_game, accuracy.second.by_episode, accuracy.first.by_game
        seeds = " ".join(f"{100 * x:.1f}" for x in accuracy.second.by_game)
        cells = [*(mean_interval(x).percent for x in shares), seeds]
        rows.append(Row("R2D2", "learner", cells, condition=name))
    return results_table([*head, "second shot, seed by seed"], rows)


def share_table(agents: dict[str, RecallAccuracy], rules: dict[str, RecallAccuracy]) -> str:
    """Accuracy in the course of the first shot."""
    cells = lambda shares: [f"{100 * x:.1f}" for x in shares]  # noqa: E731
    rows = [
        Row("R2D2", "learner", cells(accuracy.by_share.mean(0)), condition)
        for condition, accuracy in agents.items()
    ]
    rows += [Row(name, "rule", cells(accuracy.by_share)) for name, accuracy in rules.items()]
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
    if len(outcome.steps) > 1:
        figure = learning_curves(
            outcome.steps,
            outcome.curve("second_shot"),
            baselines=lines,
            xlabel="observations per seed",
            ylabel="accuracy in the second shot, greedy",
            title=title,
            percent=True,
        )
        save_figure(figure, outcome.run.figures / "learning.png")
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
    text = [
        f"# Recall, {config.stimulus.upper()}: R2D2 with {config.network.memory}, "
        f"preset {config.preset}",
        "",
        f"{config.max_values} answers, V in {config.min_values} .. {config.max_values}, "
        f"the {config.rules}'s rules, "
        f"{outcome.observations:,} observations per seed. Accuracy in %, "
        f"{config.evaluation_episodes} fresh episodes per seed: mean ± standard deviation "
        f"[95 % t-interval] over {config.seeds} seed(s).",
        "",
        table(agents, rules),
        "",
        "Accuracy in the first shot, in %, by the share of it that has been seen before:",
        "",
        share_table(agents, rules),
        "",
        "The paper prints no numbers beside its Figure 8; it reports a large gap of asymptotic "
        "performance between one-hot (better) and continuous stimuli. A single one-hot stimulus "
        "tells the answer; what a single continuous one tells is the row `single stimulus`.",
        "",
        f"Agents have {outcome.parameters:,} parameters each. Training ran at "
        f"{throughput(outcome.history):,.0f} observations/s over all seeds, probes included.",
    ]
    results: dict[str, Any] = {
        name: {
            "second shot": np.asarray(accuracy.second.by_game).tolist(),
            "first shot": np.asarray(accuracy.first.by_game).tolist(),
            "first shot by share": np.asarray(accuracy.by_share).tolist(),
        }
        for name, accuracy in (agents | rules).items()
    }
    results["parameters"] = outcome.parameters
    results["observations_per_s"] = throughput(outcome.history)
    evaluations = [
        {name: recall.second.by_game[seed] for name, recall in agents.items()}
        for seed in range(config.seeds)
    ]
    return Report("\n".join(text), results, evaluations)
