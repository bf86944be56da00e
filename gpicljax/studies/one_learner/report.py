"""The summary of the study `one_learner`."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from gpicljax.evaluation.records import icl_record
from gpicljax.evaluation.statistics import interval_over_seeds, mean_interval
from gpicljax.evaluation.tables import Row, interval_table, join_paragraphs, results_table
from gpicljax.runtime import Report, RunResult
from gpicljax.studies.one_learner.config import SOURCES, Config

WIPED = "memory wiped"
NEW = "new"  # models that are compared with saved ones


def report(outcome: RunResult) -> Report:
    """Draws the learning curve and returns the summary."""
    config: Config = outcome.config
    tables, numbers, records = [], {}, []
    tasks, _ = outcome.program.more
    for name in config.systems if config.plays else ():
        task = tasks[name]
        models = _by_run(_by_model(outcome, outcome.measured["rewards"][name]))
        programs = {
            role: np.asarray(x, np.float64)[None] for role, x in outcome.host_measured[name].items()
        }
        null = next(iter(task.nulls))
        rows = []
        for title, rewards in models.items():
            lead = interval_over_seeds(np.nanmean(rewards[""], -1) - np.nanmean(programs[null], -1))
            rows.append(Row(title, "learner", [*_cells(rewards[""]), lead.format()]))
            rows.append(Row(title, "control", [*_cells(rewards[WIPED]), ""], WIPED))
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
        for role in ("random", "its teacher", null):
            if role in programs:
                rows.append(Row(role, "rule", [*_cells(programs[role]), ""]))
        rows.append(Row(task.oracle[1], "oracle", [*_cells(programs["oracle"]), ""]))
        head = ["agent", "whole trial", "last quarter", f"ahead of the {null}, paired"]
        tables += [f"## {name}: {task.measure}", results_table(head, rows)]
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
        *_nats_tables(outcome, numbers),
        outcome.training_note("symbols"),
    )
    return Report(text, numbers, icl=records)


def _by_model(outcome: RunResult, measured: Any) -> dict[tuple[str, int], Any]:
    """Returns arrays `[S, ...]` by the run that a model was started from, and its seed there."""
    parts = outcome.by_cell(jax.tree.map(outcome.seeds, measured))
    return dict(zip(outcome.program.more[1], parts.values(), strict=True))


def _by_run(models: dict[tuple[str, int], Any]) -> dict[str, Any]:
    """Returns the arrays of all seeds of a run one after the other."""
    seeds = {run: [x for (own, _), x in models.items() if own == run] for run, _ in models}
    return {run: jax.tree.map(lambda *x: np.concatenate(x), *parts) for run, parts in seeds.items()}


def _nats_tables(outcome: RunResult, numbers: dict[str, Any]) -> list[str]:
    """Returns a table by system of what its teacher's choices cost models; adds to `numbers`."""
    parts = []
    for name in outcome.config.systems:
        nats = _by_model(outcome, outcome.measured["nats"][name])
        columns = {"nats": _by_run(nats)}
        if NEW in columns["nats"]:
            leads = {(run, seed): x - nats[NEW, seed] for (run, seed), x in nats.items()}
            columns["less the new one's, paired"] = _by_run(leads)
        samples = {run: [column[run] for column in columns.values()] for run, _ in nats}
        table = interval_table(["model", *columns], samples, lambda x: x.format(".3f"))
        parts += [f"## {name}: nats of the teacher's choices", table]
        for run, values in samples.items():
            numbers[f"{name}, {run}, nats"] = [mean_interval(x) for x in values]
    return parts


def _mean(rewards: np.ndarray, first: float = 0.0) -> float:
    """Returns the mean reward of a step of `[S, N, T]`, from a share of each trial on."""
    length = np.isfinite(rewards).sum(-1, keepdims=True)
    is_late = np.arange(rewards.shape[-1]) >= first * length
    return float(np.nanmean(np.where(is_late, rewards, np.nan)))


def _cells(rewards: np.ndarray) -> list[str]:
    return [f"{_mean(rewards):.3f}", f"{_mean(rewards, 0.75):.3f}"]
