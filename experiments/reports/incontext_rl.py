"""The table, the figures and the summary of `incontext_rl.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gpicljax.evaluation.icl import icl_curve, icl_profile
from gpicljax.evaluation.in_context_rl import Trials, measure, normalised, summary
from gpicljax.evaluation.statistics import Interval, mean_interval
from gpicljax.runtime import Outcome, Report, throughput
from gpicljax.viz.curves import icl_figure
from gpicljax.viz.style import save_figure

BINS = 20


class Tested(NamedTuple):
    """N trials of one agent.

    Attributes:
      trials: what was recorded.
      regret: float `[N]`, of bandits: the best arm's mean minus those of the pulled ones, summed.
      best: `bool[N, A]`, the best actions at the start.
    """

    trials: Trials
    regret: Any
    best: Any


def of_seed(measured: Tested, seed: int) -> Tested:
    """One seed of what was measured of all."""
    return jax.tree.map(lambda x: np.asarray(x)[seed], measured)


def rewards(tested: Tested) -> np.ndarray:
    """Mean reward of an action, by trial."""
    return np.asarray(measure(tested.trials).reward_per_step)


def cell(interval: Interval, digits: int = 3) -> str:
    """A number with its interval."""
    if not np.isfinite(interval.low):
        return f"{interval.mean:.{digits}f}"
    return f"{interval.mean:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def rows_of(outcome: Outcome) -> list[dict[str, Any]]:
    """A row for every agent and set of tasks: by name, score, measures and regret."""
    rows = []
    bandit = outcome.config.family.endswith("arms")
    for where, rules in outcome.baselines.items():
        low, high = rewards(rules["random"]), rewards(rules["oracle"])
        found = [(name, [tested]) for name, tested in rules.items()]
        for name, measured in outcome.measured.items():
            of_these = name == where if where else name not in outcome.baselines
            if of_these:
                seeds = [of_seed(measured, i) for i in range(outcome.config.seeds)]
                shown = outcome.config.learner
                if not where and name != "trained":
                    shown = f"{shown}, {name}"
                found.append((f"**{shown}**", seeds))
        for name, seeds in found:
            each = [normalised(rewards(tested), low, high) for tested in seeds]
            actions = np.asarray(seeds[0].best).shape[-1]
            best = seeds[0].best if bandit else None
            told = [summary(measure(t.trials, num_actions=actions, best=best)) for t in seeds]
            regret = np.concatenate([np.asarray(tested.regret) for tested in seeds])
            rows.append(
                {
                    "tasks": where or outcome.config.family,
                    "agent": name,
                    "score": each[0] if len(each) == 1 else mean_interval([s.mean for s in each]),
                    "seeds": [s.mean for s in each],
                    "regret": mean_interval(regret) if bandit else None,
                    **{
                        key: float(np.mean([t[key].mean for t in told if key in t] or [np.nan]))
                        for key in (
                            "average_episode_reward",
                            "total_return",
                            "last_20",
                            "suffix_failure",
                            "minimum_action_fraction",
                        )
                    },
                }
            )
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """All rows side by side."""
    lines = [
        "| tasks | agent | score | episode reward | return | last 20 | regret | suffix failures | "
        "least action |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        regret = "" if row["regret"] is None else cell(row["regret"], 2)
        numbers = [
            "" if np.isnan(row[key]) else f"{row[key]:.3f}"
            for key in ("average_episode_reward", "total_return", "last_20")
        ]
        more = [
            "" if np.isnan(row[key]) else f"{row[key]:.2f}"
            for key in ("suffix_failure", "minimum_action_fraction")
        ]
        cells = [row["tasks"], row["agent"], cell(row["score"]), *numbers, regret, *more]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def joint_table(outcomes: Sequence[Outcome]) -> str:
    """The rows of several runs in one table; agents that are not trained stand there once."""
    seen, rows = set(), []
    for outcome in outcomes:
        for row in rows_of(outcome):
            key = row["tasks"], row["agent"]
            if key not in seen:
                seen.add(key)
                rows.append(row)
    return table(sorted(rows, key=lambda row: row["tasks"]))


def _steps(tested: Tested) -> np.ndarray:
    """Rewards by action, `float[N, T]`."""
    return np.asarray(tested.trials.rewards, np.float64)


def draw(outcome: Outcome) -> dict[str, Any]:
    """Curves of reward, of cumulative reward and by episode; and the learner's ICL profile."""
    config = outcome.config
    named = dict(outcome.baselines[""])
    learner = of_seed(outcome.measured["trained"], 0)
    shown = {config.learner: learner, **named}
    steps = {name: _steps(tested) for name, tested in shown.items()}
    title = f"{config.family}: {config.learner}"
    curves = {name: icl_curve(x, bins=BINS) for name, x in steps.items()}
    profile = icl_profile(steps[config.learner], bins=BINS)
    figure = icl_figure(
        curves,
        profile={config.learner: profile},
        xlabel="actions taken before",
        ylabel="reward of an action",
        title=title,
    )
    save_figure(figure, outcome.run.figures / "rolling.png")
    cumulative = {name: icl_curve(np.cumsum(x, axis=1)) for name, x in steps.items()}
    figure = icl_figure(
        cumulative, xlabel="actions taken before", ylabel="rewards so far", title=title
    )
    save_figure(figure, outcome.run.figures / "cumulative.png")
    by_episode = {}
    for name, tested in shown.items():
        episodes = np.asarray(measure(tested.trials).episode_rewards, np.float64)
        # As far as a tenth of the trials go.
        there = np.isfinite(episodes)
        last = max(int((there.mean(0) >= 0.1).sum()), 2)
        by_episode[name] = icl_curve(np.nan_to_num(episodes[:, :last]), there[:, :last])
    figure = icl_figure(
        by_episode, xlabel="episodes before", ylabel="reward of an episode", title=title
    )
    save_figure(figure, outcome.run.figures / "episodes.png")
    return {name: f"{value} {interval}".strip() for name, value, interval in profile.rows()}


def report(outcome: Outcome) -> Report:
    """Draws the figures, and says what was found."""
    config, rows = outcome.config, rows_of(outcome)
    profile = draw(outcome)
    text = [
        f"# In-context RL: {config.learner} on {config.family}, preset {config.preset}",
        "",
        f"Trials of {config.actions} actions with frozen weights; {config.replicas:,} tasks, none "
        "of them trained on, the same for all agents, with the same noise. Scores: random play is "
        "0, an oracle that knows the task is 1; with intervals of 95 % (bootstrap over tasks of "
        f"one agent, t over {config.seeds} seeds of a trained one). Temperature "
        f"{config.sharpness:g}. `last 20`: mean reward of the last 20 episodes; `least action`: "
        "how often the least-taken action was, times the number of actions.",
        "",
        table(rows),
        "",
        "Reward by actions taken before: "
        + "; ".join(f"{name} {value}" for name, value in profile.items())
        + ".",
        "",
        f"{outcome.observations:,} observations per seed at "
        f"{throughput(outcome.history):,.0f}/s over all seeds; {outcome.parameters:,} parameters.",
    ]
    results = {
        f"{row['tasks']}: {row['agent']}": {
            "score": row["score"].mean,
            "low": row["score"].low,
            "high": row["score"].high,
            "seeds": row["seeds"],
            "return": row["total_return"],
            "average episode reward": row["average_episode_reward"],
            "regret": None if row["regret"] is None else row["regret"].mean,
            "regret high": None if row["regret"] is None else row["regret"].high,
            "regret low": None if row["regret"] is None else row["regret"].low,
        }
        for row in rows
    }
    return Report("\n".join(text), results)
