"""The summary of the study `in_context_rl`."""

from __future__ import annotations

from gpicljax.evaluation.tables import join_paragraphs
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.in_context_rl.figures.trials import (
    LEGEND,
    draw_curves,
    icl_records,
    results_markdown,
    summary_numbers,
)
from gpicljax.systems.in_context_rl.measures.results import agent_results, count_tasks


def table_report(outcome: RunResult) -> Report:
    """Draws the figures of the study `in_context_rl` and returns its summary."""
    config, (tests, notes) = outcome.config, outcome.host_measured
    learners = {}
    for test_name, agents in tests.items():
        first = next((agent.name for agent in agents.values() if agent.kind == "learner"), None)
        learners |= {} if first is None else {test_name: first}
    drawn = {
        test_name: {name: agent for name, agent in agents.items() if agent.kind != "control"}
        for test_name, agents in tests.items()
    }
    profiles = draw_curves(outcome.run.figures, drawn, learners)
    results = agent_results(tests)
    text = join_paragraphs(
        f"# In-context RL, preset {config.preset}",
        f"Trials of {config.actions} actions with frozen weights; {config.replicas:,} tasks, the "
        "same for all agents, with the same noise, none of them trained on (a language model plays "
        f"the first {config.conversations}). {count_tasks(tests)} {LEGEND}",
        results_markdown(results),
        *notes,
        "Reward by actions taken before:",
        "\n".join(f"- {name}, {learners[name]}: {text}" for name, text in profiles.items()),
    )
    return Report(text, summary_numbers(results), icl=icl_records(tests))
