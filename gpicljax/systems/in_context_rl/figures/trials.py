"""Agents side by side on the same tasks: tables, curves, and the page of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpicljax.evaluation.icl import ICLCurve, icl_curve, icl_profile
from gpicljax.evaluation.records import ICLRecord, icl_record
from gpicljax.evaluation.tables import markdown_table
from gpicljax.llm.outcomes import OUTCOME_LEGEND, OUTCOMES
from gpicljax.storage.atomic import write_atomically
from gpicljax.storage.folders import with_folder
from gpicljax.systems.in_context_rl.env import TESTS
from gpicljax.systems.in_context_rl.measures.playing import Contender, PlayedTrials
from gpicljax.systems.in_context_rl.measures.results import (
    MEANS,
    AgentResult,
    Tests,
)
from gpicljax.systems.in_context_rl.measures.trials import measure_trials
from gpicljax.viz.arms import arms_stage
from gpicljax.viz.curves import icl_figure
from gpicljax.viz.episode_page import episode_page
from gpicljax.viz.style import save_figure

BINS = 20
LEGEND = (
    "Scores: of what all actions of a trial earn, those not taken included, or on cliffs of the "
    "goals reached; random play is 0, an oracle that knows the task and how many actions are left "
    "is 1, with intervals of 95 % (bootstrap over distinct tasks of one agent, t over the seeds of "
    "one that was trained with several). "
    "`actions`: taken in a trial; `ended`: episodes that ended in a trial; `success`: trials in "
    "which at least one of them ended well; `regret`: over all actions, those not taken included. "
    "`last 20`: mean reward of the last 20 episodes; `suffix failures`: trials whose second half "
    "never takes the best action; `least action`: how often the least-taken action was, times the "
    "number of actions; `tokens`: read and written by a language model in all trials of the row. "
    f"{OUTCOME_LEGEND}"
)


def results_markdown(results: Sequence[AgentResult]) -> str:
    """Returns the table of all agents on all tasks."""
    names = ["tasks", "agent", "score", "actions", "ended", "success", "episode reward"]
    names += ["return", "last 20", "regret", "suffix failures", "least action"]
    has_models = any(result.agent.seeds[0].usage is not None for result in results)
    rows = []
    for result in results:
        regret = result.regret
        numbers = [
            "" if np.isnan(result.means[key]) else f"{result.means[key]:.{digits}f}"
            for key, digits in zip(MEANS[:-1], (1, 1, 2, 3, 3, 3, 2, 2), strict=True)
        ]
        numbers.insert(6, "" if regret is None or np.isnan(regret.mean) else regret.format())
        cells = [result.score.format(".3f"), *numbers]
        tally, usage = result.agent.seeds[0].tally, result.agent.seeds[0].usage
        if tally is not None and tally.is_silent:
            cells = ["-"] * (len(names) - 2)
        if tally is not None:
            cells += [*tally.cells(), f"{usage.total:,}"]
        rows.append([result.tasks, result.agent.label, *cells])
    return markdown_table([*names, *([*OUTCOMES, "tokens"] if has_models else [])], rows)


def summary_numbers(results: Sequence[AgentResult]) -> dict[str, Any]:
    """Returns the numbers of `summary.json`, by tasks and agent."""
    return {f"{result.tasks}: {result.agent.full_name}": _numbers(result) for result in results}


def _numbers(result: AgentResult) -> dict[str, Any]:
    usage, tally, means = result.agent.seeds[0].usage, result.agent.seeds[0].tally, result.means
    return {
        "score": result.score.mean,
        "trials": result.trials,
        "tokens read": None if usage is None else usage.prompt,
        "tokens written": None if usage is None else usage.completion,
        "low": result.score.low,
        "high": result.score.high,
        "seeds": result.seeds,
        "actions": means["total_steps"],
        "episodes ended": means["ended"],
        "success": means["success"],
        "return": means["total_return"],
        "suffix failures": means["suffix_failure"],
        "average episode reward": means["average_episode_reward"],
        "invalid response rate": means["invalid_response_rate"],
        "replies": None if tally is None else dict(tally.counts),
        "regret": None if result.regret is None else result.regret.mean,
        "regret high": None if result.regret is None else result.regret.high,
        "regret low": None if result.regret is None else result.regret.low,
    }


def draw_curves(folder: Path, tests: Tests, learners: Mapping[str, str]) -> dict[str, str]:
    """Draws curves of reward, of rewards so far and by episode, in a folder for each set of tasks.

    Args:
      folder: Folder of the figures.
      tests: The agents with their trials.
      learners: Name of the agent whose profile is drawn, by tasks.

    Returns:
      The profiles in words, by tasks.
    """
    profile_texts = {}
    for test_name, agents in tests.items():
        test_folder = folder / test_name
        first_seeds = {name: agent.seeds[0] for name, agent in agents.items()}
        steps = {name: np.asarray(t.trials.rewards, np.float64) for name, t in first_seeds.items()}
        bins = min(BINS, next(iter(steps.values())).shape[1])
        profiles = {}
        if test_name in learners:
            learner = learners[test_name]
            profile = icl_profile(steps[learner], bins=bins)
            profiles = {learner: profile}
            profile_texts[test_name] = "; ".join(
                " ".join(filter(None, cells)) for cells in profile.rows()
            )
            page = trial_page(test_name, learner, first_seeds[learner], first_seeds["oracle"].means)
            if page is not None:
                write_atomically(with_folder(test_folder / "trial.html"), page.encode())
        rolling = {name: icl_curve(x, bins=bins) for name, x in steps.items()}
        so_far = {name: icl_curve(np.cumsum(x, axis=1)) for name, x in steps.items()}
        curves_by_episode = {name: _by_episode(trials) for name, trials in first_seeds.items()}
        # An agent that has not ended an episode (one that never moves on a lake) has no curve.
        by_episode = {name: curve for name, curve in curves_by_episode.items() if curve is not None}
        actions_before = "actions taken before"
        for name, curves, xlabel, ylabel, profile in (
            ("rolling", rolling, actions_before, "reward of an action", profiles),
            ("cumulative", so_far, actions_before, "rewards so far", {}),
            ("episodes", by_episode, "episodes before", "reward of an episode", {}),
        ):
            if not curves:
                continue
            figure = icl_figure(
                curves, profile=profile, xlabel=xlabel, ylabel=ylabel, title=test_name
            )
            save_figure(figure, test_folder / f"{name}.png")
    return profile_texts


def trial_page(
    test_name: str, agent: str, played: PlayedTrials, means: np.ndarray | None
) -> str | None:
    """Returns a page of the bandit trial with median regret, action by action.

    Args:
      test_name: Name of the tasks.
      agent: Name of the agent.
      played: Trials of the agent.
      means: float `[N, A]`, mean reward of each arm; None for other tasks, which have no page.
    """
    if means is None:
        return None
    trials, count = played.trials, len(played.trials.length)
    median = int(np.argsort(trials.regret, kind="stable")[count // 2])
    length = int(trials.length[median])
    actions, rewards = (x[median, :length] for x in (trials.actions, trials.rewards))
    totals = np.concatenate([[0.0], np.cumsum(rewards, dtype=np.float64)])
    return episode_page(
        title=f"{agent} on {test_name}",
        about={
            "actions": length,
            "arms": means.shape[1],
            "trial": f"of median regret, of {count:,}",
        },
        words=[f"{t} of {length} actions taken; they paid {x:.2f}" for t, x in enumerate(totals)],
        actions=[f"arm {action}" for action in actions],
        rewards=rewards,
        stage=arms_stage(actions, rewards, means.shape[1], means[median]),
    )


def _by_episode(played: PlayedTrials) -> ICLCurve | None:
    """Reward by episodes ended, as far as a tenth of the trials go; None if none has ended."""
    measured = measure_trials(played.trials, accounting="reference")
    episodes = np.asarray(measured.episode_rewards, np.float64)
    has_ended = np.isfinite(episodes)
    if not has_ended.any():
        return None
    last = max(int((has_ended.mean(0) >= 0.1).sum()), 2)
    return icl_curve(np.nan_to_num(episodes[:, :last]), has_ended[:, :last])


def icl_records(tests: Tests, names: Mapping[str, str] | None = None) -> list[ICLRecord]:
    """Returns the rewards, or goals, of each trained agent by the actions taken before.

    A trained agent stands beside all rules that learn within the trial.

    Args:
      tests: The agents with their trials.
      names: Names of agents in the records, where they are others than in `tests`.
    """
    records = []
    for test_name, agents in tests.items():
        full = len(agents["oracle"].seeds[0].trials.length)
        goals = test_name in TESTS and TESTS[test_name].ends_are_goals

        def step_gains(agent: Contender, goals: bool = goals) -> np.ndarray:
            steps = [t.trials.ends if goals else t.trials.rewards for t in agent.seeds]
            return np.stack([np.asarray(x, np.float64) for x in steps])

        for agent in agents.values():
            if agent.kind != "learner" or len(agent.seeds[0].trials.length) < full:
                continue  # a language model plays the first tasks alone
            curves = {"agent": step_gains(agent), "oracle": step_gains(agents["oracle"])}
            wiped = agents.get(f"{agent.name}, memory wiped")
            if wiped is not None:
                curves["memory wiped"] = step_gains(wiped)
            records.append(
                icl_record(
                    curves,
                    {
                        name: step_gains(rule)
                        for name, rule in agents.items()
                        if rule.kind == "rule"
                    },
                    system="In-context RL",
                    task=test_name,
                    agent=(names or {}).get(agent.name, agent.name),
                    measure="goals per action" if goals else "reward per action",
                    context="actions",
                    oracle="knows the task",
                    end=0.5,
                    bins=24,
                )
            )
    return records
