"""The tables and figures of in-context RL: agents side by side on the same tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gpicljax.evaluation.icl import icl_curve, icl_profile
from gpicljax.evaluation.records import ICLRecord, icl_record
from gpicljax.evaluation.statistics import Interval, mean_interval
from gpicljax.evaluation.tables import markdown_table
from gpicljax.llm.outcomes import OUTCOME_LEGEND, OUTCOMES
from gpicljax.runtime import Report, RunResult
from gpicljax.storage.atomic import write_atomically
from gpicljax.storage.folders import with_folder
from gpicljax.systems.in_context_rl.measures import (
    earned,
    measure_trials,
    regrets,
    scaled_score,
    summary,
)
from gpicljax.systems.in_context_rl.studies.in_context_rl.tasks import TESTS
from gpicljax.viz.arms import arms_stage
from gpicljax.viz.curves import icl_figure
from gpicljax.viz.episode_page import episode_page
from gpicljax.viz.style import save_figure

BINS = 20
LEGEND = (
    "Scores: of what all actions of a trial earn, those not taken included, or on cliffs of the "
    "goals reached; random play is 0, an oracle that knows the task is 1, with intervals of 95 % "
    "(bootstrap over tasks of one agent, t over the seeds of one that was trained with several). "
    "`actions`: taken in a trial; `ended`: episodes that ended in a trial; `success`: trials in "
    "which at least one of them ended well; `regret`: over all actions, those not taken included. "
    "`last 20`: mean reward of the last 20 episodes; `suffix failures`: trials whose second half "
    "never takes the best action; `least action`: how often the least-taken action was, times the "
    "number of actions; `tokens`: read and written by a language model in all trials of the row. "
    f"{OUTCOME_LEGEND}"
)

Tests = Mapping[str, Mapping[str, Sequence[Any]]]
"""By tasks and agent, what each of its seeds was recorded with (`in_context_rl_playing.Tested`)."""


def of_seeds(measured: Any) -> list[Any]:
    """What was measured of all seeds, leaves `[seeds, ...]`, one by one."""
    count = len(jax.tree.leaves(measured)[0])
    return [jax.tree.map(lambda x, i=i: np.asarray(x)[i], measured) for i in range(count)]


def cell(interval: Interval, digits: int = 3) -> str:
    """Returns a number with its interval; a dash where there is none."""
    if np.isnan(interval.mean):
        return "-"
    if not np.isfinite(interval.low):
        return f"{interval.mean:.{digits}f}"
    return f"{interval.mean:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


_MEANS = (
    "total_steps",
    "ended",
    "success",
    "average_episode_reward",
    "total_return",
    "last_20",
    "suffix_failure",
    "minimum_action_fraction",
    "invalid_response_rate",
)


def rows_of(tests: Tests) -> list[dict[str, Any]]:
    """A row for every set of tasks and agent: names, score, measures and regret."""
    rows = []
    for where, agents in tests.items():
        goals = where in TESTS and TESTS[where].ends_are_goals
        worst = min(0.0, float(np.min(agents["random"][0].trials.rewards)))
        low, high = (earned(agents[n][0].trials, goals, worst) for n in ("random", "oracle"))
        bandit = bool(np.any(agents["random"][0].trials.regret))
        best = np.asarray(measure_trials(agents["oracle"][0].trials).reward_per_step)
        for name, seeds in agents.items():
            # A language model plays the first of the tasks only.
            counts = [len(tested.trials.length) for tested in seeds]
            each = [
                scaled_score(earned(t.trials, goals, worst), low[:n], high[:n])
                for t, n in zip(seeds, counts, strict=True)
            ]
            actions = np.asarray(seeds[0].best).shape[-1]
            told = [
                summary(
                    measure_trials(
                        t.trials,
                        num_actions=actions,
                        best=t.best if bandit else None,
                        ends_are_goals=goals,
                    )
                )
                for t in seeds
            ]
            regret = np.concatenate([regrets(tested.trials, best) for tested in seeds])
            means = {
                key: float(np.mean([t[key].mean for t in told if key in t] or [np.nan]))
                for key in _MEANS
            }
            rows.append(
                {
                    "tasks": where,
                    "agent": name,
                    "score": each[0] if len(each) == 1 else mean_interval([s.mean for s in each]),
                    "seeds": [s.mean for s in each],
                    "trials": counts[0],
                    "regret": mean_interval(regret) if bandit else None,
                    "usage": seeds[0].usage,
                    "tally": seeds[0].tally,
                    **means,
                }
            )
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """All rows side by side."""
    names = ["tasks", "agent", "score", "actions", "ended", "success", "episode reward"]
    names += ["return", "last 20", "regret"]
    names += ["suffix failures", "least action"]
    asked = any(row["usage"] is not None for row in rows)
    shown = [*names, *([*OUTCOMES, "tokens"] if asked else [])]
    found = []
    for row in rows:
        regret = row["regret"]
        regret = "" if regret is None or np.isnan(regret.mean) else cell(regret, 2)
        numbers = [
            "" if np.isnan(row[key]) else f"{row[key]:.{digits}f}"
            for key, digits in zip(_MEANS[:-1], (1, 1, 2, 3, 3, 3, 2, 2), strict=True)
        ]
        cells = [row["tasks"], row["agent"], cell(row["score"]), *numbers[:6], regret, *numbers[6:]]
        tally = row["tally"]
        if tally is not None and tally.is_silent:
            cells = [*cells[:2], *["-"] * (len(names) - 2)]
        if tally is not None:
            cells += [*tally.cells(), f"{row['usage'].total:,}"]
        found.append(cells)
    return markdown_table(shown, found)


def results_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The rows as numbers for a file."""
    return {
        f"{row['tasks']}: {row['agent']}": {
            "score": row["score"].mean,
            "trials": row["trials"],
            "tokens read": None if row["usage"] is None else row["usage"].prompt,
            "tokens written": None if row["usage"] is None else row["usage"].completion,
            "low": row["score"].low,
            "high": row["score"].high,
            "seeds": row["seeds"],
            "actions": row["total_steps"],
            "episodes ended": row["ended"],
            "success": row["success"],
            "return": row["total_return"],
            "suffix failures": row["suffix_failure"],
            "average episode reward": row["average_episode_reward"],
            "invalid response rate": row["invalid_response_rate"],
            "replies": None if row["tally"] is None else dict(row["tally"].counts),
            "regret": None if row["regret"] is None else row["regret"].mean,
            "regret high": None if row["regret"] is None else row["regret"].high,
            "regret low": None if row["regret"] is None else row["regret"].low,
        }
        for row in rows
    }


def draw(folder: Path, tests: Tests, learners: Mapping[str, str]) -> dict[str, str]:
    """Curves of reward, of rewards so far and by episode, and profiles; a folder for each tasks.

    Args:
      folder: of the figures.
      tests: what was recorded.
      learners: by tasks, the agent whose profile is drawn.

    Returns:
      The profiles in words, by tasks.
    """
    told = {}
    for where, agents in tests.items():
        place = folder / where
        shown = {name.strip("*"): seeds[0] for name, seeds in agents.items()}
        steps = {name: np.asarray(t.trials.rewards, np.float64) for name, t in shown.items()}
        bins = min(BINS, next(iter(steps.values())).shape[1])
        profiles = {}
        if where in learners:
            learner = learners[where].strip("*")
            profile = icl_profile(steps[learner], bins=bins)
            profiles = {learner: profile}
            told[where] = "; ".join(f"{n} {v} {i}".strip() for n, v, i in profile.rows())
            page = trial_page(where, learner, shown[learner], shown["oracle"].means)
            if page is not None:
                write_atomically(with_folder(place / "trial.html"), page.encode())
        rolling = {name: icl_curve(x, bins=bins) for name, x in steps.items()}
        so_far = {name: icl_curve(np.cumsum(x, axis=1)) for name, x in steps.items()}
        curves_by_episode = {name: _by_episode(tested) for name, tested in shown.items()}
        # An agent that has not ended an episode (one that never moves on a lake) has no curve.
        by_episode = {name: curve for name, curve in curves_by_episode.items() if curve is not None}
        taken = "actions taken before"
        for name, curves, xlabel, ylabel, profile in (
            ("rolling", rolling, taken, "reward of an action", profiles),
            ("cumulative", so_far, taken, "rewards so far", {}),
            ("episodes", by_episode, "episodes before", "reward of an episode", {}),
        ):
            if not curves:
                continue
            figure = icl_figure(curves, profile=profile, xlabel=xlabel, ylabel=ylabel, title=where)
            save_figure(figure, place / f"{name}.png")
    return told


def trial_page(where: str, agent: str, tested: Any, means: np.ndarray | None) -> str | None:
    """A bandit's trial of an agent, that of median regret, action by action; None of other tasks.

    Args:
      where: the name of the tasks.
      agent: its name.
      tested: its trials.
      means: float `[N, A]`, what the arms of each trial pay on average; None for other tasks.
    """
    if means is None:
        return None
    trials, count = tested.trials, len(tested.trials.length)
    shown = int(np.argsort(trials.regret, kind="stable")[count // 2])
    length = int(trials.length[shown])
    actions, rewards = (x[shown, :length] for x in (trials.actions, trials.rewards))
    earned = np.concatenate([[0.0], np.cumsum(rewards, dtype=np.float64)])
    return episode_page(
        title=f"{agent} on {where}",
        about={
            "actions": length,
            "arms": means.shape[1],
            "trial": f"of median regret, of {count:,}",
        },
        words=[f"{t} of {length} actions taken; they paid {x:.2f}" for t, x in enumerate(earned)],
        actions=[f"arm {action}" for action in actions],
        rewards=rewards,
        stage=arms_stage(actions, rewards, means.shape[1], means[shown]),
    )


def _by_episode(tested: Any) -> Any:
    """Reward by episode that has ended, as far as a tenth of the trials go; None if none has."""
    ended = measure_trials(tested.trials, accounting="reference")
    episodes = np.asarray(ended.episode_rewards, np.float64)
    there = np.isfinite(episodes)
    if not there.any():
        return None
    last = max(int((there.mean(0) >= 0.1).sum()), 2)
    return icl_curve(np.nan_to_num(episodes[:, :last]), there[:, :last])


def icl_records(tests: Tests, shown: Mapping[str, str] | None = None) -> list[ICLRecord]:
    """Rewards, or goals, by the actions taken before, of agents that were trained.

    A trained agent stands beside all rules that learn within the trial.

    Args:
      tests: what was recorded.
      shown: the names of agents in the records, where they are others than in `tests`.
    """
    records = []
    for where, agents in tests.items():
        trained = [n for n in agents if n.startswith("**") and ", " not in n]
        full = len(agents["oracle"][0].trials.length)
        goals = where in TESTS and TESTS[where].ends_are_goals

        def earned_by(name: str, agents: Any = agents, goals: bool = goals) -> np.ndarray:
            each = [t.trials.ends if goals else t.trials.rewards for t in agents[name]]
            return np.stack([np.asarray(x, np.float64) for x in each])

        rules = [n for n in agents if not n.startswith("**") and n != "oracle"]
        for name in trained:
            if len(agents[name][0].trials.length) < full:
                continue  # a language model plays the first tasks alone
            curves = {"agent": earned_by(name), "oracle": earned_by("oracle")}
            wiped = f"{name[:-2]}, memory wiped**"
            if wiped in agents:
                curves["memory wiped"] = earned_by(wiped)
            records.append(
                icl_record(
                    curves,
                    {rule: earned_by(rule) for rule in rules},
                    system="In-context RL",
                    task=where,
                    agent=(shown or {}).get(name, name.strip("*")),
                    measure="goals per action" if goals else "reward per action",
                    context="actions",
                    oracle="knows the task",
                    end=0.5,
                    bins=24,
                )
            )
    return records


def table_report(outcome: RunResult) -> Report:
    """The table of `in_context_rl.py`, and its figures."""
    config, (tests, notes) = outcome.config, outcome.host_measured
    learners = {}
    for where, agents in tests.items():
        mine = [name for name in agents if name.startswith("**") and ", " not in name]
        learners |= {where: mine[0]} if mine else {}
    # Without what is known to be random play, or impaired.
    shown = {
        where: {
            name: seeds
            for name, seeds in agents.items()
            if not name.endswith("reference") and not (name.startswith("**") and ", " in name)
        }
        for where, agents in tests.items()
    }
    profiles = draw(outcome.run.figures, shown, learners)
    rows = rows_of(tests)
    text = [
        f"# In-context RL, preset {config.preset}",
        "",
        f"Trials of {config.actions} actions with frozen weights; {config.replicas:,} tasks, the "
        "same for all agents, with the same noise, none of them trained on (a language model plays "
        f"the first {config.conversations}). {LEGEND}",
        "",
        table(rows),
        "",
        *(f"{note}\n" for note in notes),
        "Reward by actions taken before:",
        "",
        *(f"- {where}, {learners[where]}: {profile}" for where, profile in profiles.items()),
    ]
    return Report("\n".join(text), results_of(rows), icl=icl_records(tests))
