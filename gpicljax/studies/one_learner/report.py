"""The summary of the study `one_learner`."""

from __future__ import annotations

import numpy as np

from gpicljax.evaluation.records import icl_record
from gpicljax.evaluation.statistics import Interval, mean_interval
from gpicljax.evaluation.tables import Row, join_paragraphs, results_table
from gpicljax.runtime import Report, RunResult
from gpicljax.studies.one_learner.config import SOURCES, Config

WIPED = "memory wiped"


def report(outcome: RunResult) -> Report:
    """Draws the learning curve and returns the summary."""
    config: Config = outcome.config
    tables, numbers, records = [], {}, []
    for name in config.tested_systems:
        task = outcome.program.more[name]
        measured = {role: outcome.seeds(x) for role, x in outcome.measured[name].items()}
        # Models that are tested as they are count as seeds of one.
        models = outcome.by_cell(measured) if config.train else {"": measured}
        programs = {
            role: np.asarray(x, np.float64)[None] for role, x in outcome.host_measured[name].items()
        }
        null = next(iter(task.nulls))
        rows = []
        for cell, rewards in models.items():
            title = cell or "the network"
            rows.append(Row(title, "learner", _cells(rewards[""])))
            rows.append(Row(title, "control", _cells(rewards[WIPED]), WIPED))
        rows.append(Row("random", "rule", _cells(programs["random"])))
        if task.teacher not in task.nulls.values() and task.env.symbols().acts:
            rows.append(Row("its teacher", "rule", _cells(programs["teacher"])))
        rows.append(Row(null, "rule", _cells(programs[null])))
        rows.append(Row(task.oracle[1], "oracle", _cells(programs["oracle"])))
        tables += [
            f"## {name}: {task.measure}",
            results_table(["agent", "whole trial", "last quarter"], rows),
        ]
        for cell, rewards in models.items():
            lead = _lead(rewards[""], programs[null])
            title = cell or "the network"
            tables.append(f"Paired by trial, {title} is ahead of the {null} by {lead.format()}.")
            numbers[f"{name}, {title}"] = {"mean": _mean(rewards[""]), "lead": lead}
            records.append(
                icl_record(
                    {"agent": rewards[""], WIPED: rewards[WIPED], "oracle": programs["oracle"]},
                    {null: programs[null]},
                    system=SOURCES[name].system,
                    task=SOURCES[name].task,
                    agent="one network for all" if len(config.systems) > 1 else "symbols alone",
                    measure=task.measure,
                    context="steps",
                    oracle=task.oracle[1],
                    bins=16,
                )
            )
    learnt = _learning_tables(outcome)
    outcome.draw_learning("nats", ylabel="nats per symbol")
    text = join_paragraphs(
        f"# One network, trials of {len(config.systems)} systems: preset {config.preset}",
        f"Taught: {', '.join(config.systems)}. {config.seeds} seeds.",
        f"Trials with frozen weights, {config.trials} of each system, on tasks that were not "
        "learnt from where a system has some apart for that. Means per step: of the whole trial, "
        "and of its last quarter."
        if config.plays
        else "",
        *tables,
        *learnt,
        outcome.training_note("symbols"),
    )
    return Report(text, numbers, icl=records)


def _learning_tables(outcome: RunResult) -> list[str]:
    """Returns the nats of several models on the streams that they learn from, before they do."""
    if len(outcome.program.cells) == 1 or not outcome.history:
        return []
    parts = []
    for name in outcome.config.systems:
        curves = outcome.by_cell(outcome.seeds(outcome.curve(f"nats.{name}")))
        places = np.unique(np.linspace(0, len(outcome.steps) - 1, 6).astype(int))
        rows = [
            Row(cell, "learner", [mean_interval(curve[:, i]).format() for i in places])
            for cell, curve in curves.items()
        ]
        head = ["model", *(f"by {outcome.steps[i]:,} symbols" for i in places)]
        parts += [f"## {name}: nats of what is learnt", results_table(head, rows)]
    return parts


def _mean(rewards: np.ndarray, first: float = 0.0) -> float:
    """Returns the mean reward of a step of `[S, N, T]`, from a share of each trial on."""
    length = np.isfinite(rewards).sum(-1, keepdims=True)
    is_late = np.arange(rewards.shape[-1]) >= first * length
    return float(np.nanmean(np.where(is_late, rewards, np.nan)))


def _cells(rewards: np.ndarray) -> list[str]:
    return [f"{_mean(rewards):.3f}", f"{_mean(rewards, 0.75):.3f}"]


def _lead(network: np.ndarray, null: np.ndarray) -> Interval:
    """Returns the mean lead per step on the same trials: over seeds, or over trials of one seed."""
    lead = np.nanmean(network, -1) - np.nanmean(null, -1)
    return mean_interval(lead.mean(1) if len(lead) > 1 else lead[0])
