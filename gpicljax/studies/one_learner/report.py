"""The summary of the study `one_learner`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpicljax.evaluation.records import ICLRecord, icl_record
from gpicljax.evaluation.statistics import Interval, mean_interval
from gpicljax.evaluation.tables import Row, join_paragraphs, results_table
from gpicljax.runtime import Report, RunResult
from gpicljax.studies.one_learner.config import TITLES, Config, System

WIPED = "memory wiped"


def report(outcome: RunResult) -> Report:
    """Draws the learning curve and returns the summary."""
    config: Config = outcome.config
    tables, numbers, records = [], {}, []
    for name in config.played:
        task = outcome.program.more[name]
        network = {role: outcome.seeds(x) for role, x in outcome.measured[name].items()}
        programs = {
            role: np.asarray(x, np.float64)[None] for role, x in outcome.host_measured[name].items()
        }
        null = next(iter(task.nulls))
        rows = [
            Row("the network", "learner", _cells(network[""])),
            Row("the network", "control", _cells(network[WIPED]), WIPED),
            Row("random", "rule", _cells(programs["random"])),
            Row(null, "rule", _cells(programs[null])),
            Row(task.oracle[1], "oracle", _cells(programs["oracle"])),
        ]
        if task.teacher not in task.nulls.values() and task.env.symbols().acts:
            rows.insert(3, Row("its teacher", "rule", _cells(programs["teacher"])))
        lead = _lead(network[""], programs[null])
        tables += [
            f"## {name}: {task.measure}",
            results_table(["agent", "whole trial", "last quarter"], rows),
            f"Paired by trial, the network's lead over the {null} is {lead.format()}.",
        ]
        numbers[name] = {"network": _mean(network[""]), "lead": lead}
        records.append(_record(config, name, task, network, programs))
    outcome.draw_learning("nats", ylabel="nats per symbol")
    text = join_paragraphs(
        f"# One network, trials of {len(config.taught)} systems: preset {config.preset}",
        f"Taught: {', '.join(config.taught)}. Trials with frozen weights, {config.trials} of each "
        "system, on tasks that were not learnt from where a system has some apart for that; "
        f"{config.seeds} seeds. Means per step: of the whole trial, and of its last quarter.",
        *tables,
        outcome.training_note("symbols"),
    )
    return Report(text, numbers, icl=records)


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


def _record(
    config: Config,
    name: System,
    task: Any,
    network: dict[str, np.ndarray],
    programs: dict[str, np.ndarray],
) -> ICLRecord:
    system, kind = TITLES[name]
    several = len(config.taught) > 1
    return icl_record(
        {"agent": network[""], WIPED: network[WIPED], "oracle": programs["oracle"]},
        {null: programs[null] for null in task.nulls},
        system=system,
        task=kind,
        agent="one network for all systems" if several else "symbols of one system",
        measure=task.measure,
        context="steps",
        oracle=task.oracle[1],
        bins=16,
    )
