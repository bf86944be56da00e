"""The summary of `in_context_rl_train.py`: what one trained agent has come to."""

from __future__ import annotations

from gpicljax.runs.metrics import throughput
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.in_context_rl.studies.in_context_rl.report import (
    LEGEND,
    draw,
    icl_records,
    of_seeds,
    results_of,
    rows_of,
    table,
)


def report(outcome: RunResult) -> Report:
    """Draws the figures, and says what was found."""
    config = outcome.config
    tests = {}
    for where, found in outcome.host_measured.items():
        agents = {name: [tested] for name, tested in found.items()}
        for condition, measured in outcome.measured[where].items():
            shown = f"{config.learner}, {condition}" if condition else config.learner
            agents[f"**{shown}**"] = of_seeds(measured)
        tests[where] = agents
    rows = rows_of(tests)
    learner = f"**{config.learner}**"
    # Rules are in the table; the curves are of the agent, whole and without something.
    drawn = {
        where: {
            name: seeds
            for name, seeds in agents.items()
            if name in ("random", "oracle") or name.startswith("**")
        }
        for where, agents in tests.items()
    }
    profiles = draw(outcome.run.figures, drawn, dict.fromkeys(tests, learner))
    text = [
        f"# In-context RL: {config.learner} on {config.family}, preset {config.preset}",
        "",
        f"Trials of {config.actions} actions with frozen weights; {config.replicas:,} tasks, none "
        f"of them trained on. {LEGEND} {config.seeds} seeds; temperature {config.sharpness:g}.",
        "",
        table(rows),
        "",
        "Reward by actions taken before, of the first seed:",
        "",
        *(f"- {where}: {profile}" for where, profile in profiles.items()),
        "",
        f"{outcome.observations:,} observations per seed at "
        f"{throughput(outcome.history):,.0f}/s over all seeds; {outcome.parameters:,} parameters.",
    ]
    icl = icl_records(tests, {learner: config.architecture})
    return Report("\n".join(text), results_of(rows), icl=icl)
