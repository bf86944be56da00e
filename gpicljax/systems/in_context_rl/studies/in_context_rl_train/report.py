"""The summary of the study `in_context_rl_train`."""

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
from gpicljax.systems.in_context_rl.measures.playing import (
    Contenders,
    learner_contender,
)
from gpicljax.systems.in_context_rl.measures.results import agent_results, count_tasks, split_seeds


def report(outcome: RunResult) -> Report:
    """Draws the figures and returns the summary."""
    config = outcome.config
    tests: dict[str, Contenders] = {}
    for test_name, rules in outcome.host_measured.items():
        agents = [
            learner_contender(config.learner, condition, split_seeds(measured))
            for condition, measured in outcome.measured[test_name].items()
        ]
        tests[test_name] = {**rules, **{agent.full_name: agent for agent in agents}}
    results = agent_results(tests)
    # Rules are in the table; the curves are of the agent, whole and without something.
    drawn = {
        test_name: {
            name: agent
            for name, agent in agents.items()
            if agent.name in ("random", "oracle", config.learner)
        }
        for test_name, agents in tests.items()
    }
    learner: str = config.learner
    profiles = draw_curves(outcome.run.figures, drawn, dict.fromkeys(tests, learner))
    text = join_paragraphs(
        f"# In-context RL: {config.learner} on {config.family}, preset {config.preset}",
        f"Trials of {config.actions} actions with frozen weights; {config.replicas:,} tasks, none "
        f"of them trained on. {count_tasks(tests)} {LEGEND} {config.seeds} seeds; temperature "
        f"{config.sharpness:g}.",
        results_markdown(results),
        "Reward by actions taken before, of the first seed:",
        "\n".join(f"- {test_name}: {profile}" for test_name, profile in profiles.items()),
        outcome.training_note(),
    )
    icl = icl_records(tests, {config.learner: config.architecture})
    return Report(text, summary_numbers(results), icl=icl)
