"""Agents side by side on the same tasks: the measures of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import numpy as np

from gpicljax.evaluation.statistics import Interval, interval_over_seeds, mean_interval
from gpicljax.systems.in_context_rl.env import TESTS
from gpicljax.systems.in_context_rl.measures.playing import Contender, Contenders, PlayedTrials
from gpicljax.systems.in_context_rl.measures.trials import (
    measure_trials,
    regrets,
    scaled_score,
    summarise_measures,
    trial_values,
)

Tests = Mapping[str, Contenders]
"""The agents with their trials, by name of the tasks."""


def split_seeds(trials: PlayedTrials) -> list[PlayedTrials]:
    """Returns the trials of each seed, from leaves `[seeds, ...]`."""
    count = len(jax.tree.leaves(trials)[0])
    return [jax.tree.map(lambda x, i=i: np.asarray(x)[i], trials) for i in range(count)]


def count_tasks(tests: Tests) -> str:
    """Returns how many distinct tasks each test has, in a sentence."""
    counts = [
        f"{name} {len(np.unique(agents['oracle'].seeds[0].task)):,}"
        for name, agents in tests.items()
    ]
    return f"Distinct tasks: {', '.join(counts)}."


def sum_by_task(values: np.ndarray, task: np.ndarray | None) -> np.ndarray:
    """Returns sums over the trials of each task, `[..., N] -> [..., tasks]`.

    Trials of the same task are no independent samples of tasks. Where all have the same task it is
    the task that is asked about, and they stay apart.
    """
    if task is None:
        return values
    distinct, group = np.unique(np.asarray(task), return_inverse=True)
    if len(distinct) in (1, len(group)):
        return values
    return np.asarray(values, np.float64) @ (group[:, None] == np.arange(len(distinct)))


MEANS = (
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


@dataclasses.dataclass(frozen=True)
class AgentResult:
    """The measures of an agent on one set of tasks.

    Attributes:
      tasks: Name of the tasks.
      agent: The agent, with its trials.
      score: Share of what all actions of a trial earn, from random play (0) to the oracle (1).
      seeds: Score of each training seed.
      regret: Regret over all actions of a trial, with its interval over seeds where there are
        several; None where the tasks are no bandits.
      means: Means of `measures.summary` over trials and seeds, by name; NaN where undefined.
    """

    tasks: str
    agent: Contender
    score: Interval
    seeds: Sequence[float]
    regret: Interval | None
    means: Mapping[str, float]

    @property
    def trials(self) -> int:
        """The number of trials of each seed."""
        return len(self.agent.seeds[0].trials.length)


def agent_results(tests: Tests) -> list[AgentResult]:
    """Returns the measures of every agent on every set of tasks."""
    return [
        _agent_result(test_name, agent, agents)
        for test_name, agents in tests.items()
        for agent in agents.values()
    ]


def _agent_result(test_name: str, agent: Contender, agents: Contenders) -> AgentResult:
    goals = test_name in TESTS and TESTS[test_name].ends_are_goals
    random, oracle = agents["random"].seeds[0].trials, agents["oracle"].seeds[0].trials
    worst = min(0.0, float(np.min(random.rewards)))
    low, high = trial_values(random, goals, worst), trial_values(oracle, goals, worst)
    is_bandit = bool(np.any(random.regret))
    best = np.asarray(measure_trials(oracle).reward_per_step)
    scores, summaries = [], []
    for seed in agent.seeds:
        # A language model plays the first of the tasks only.
        count = len(seed.trials.length)
        values = trial_values(seed.trials, goals, worst), low[:count], high[:count]
        scores.append(scaled_score(*(sum_by_task(x, seed.task) for x in values)))
        measured = measure_trials(
            seed.trials,
            num_actions=np.asarray(seed.best).shape[-1],
            best=seed.best if is_bandit else None,
            ends_are_goals=goals,
        )
        summaries.append(summarise_measures(measured))
    regret = [regrets(seed.trials, best) for seed in agent.seeds]
    return AgentResult(
        tasks=test_name,
        agent=agent,
        score=scores[0] if len(scores) == 1 else mean_interval([s.mean for s in scores]),
        seeds=[score.mean for score in scores],
        regret=interval_over_seeds(regret) if is_bandit else None,
        means={
            key: float(np.mean([s[key].mean for s in summaries if key in s] or [np.nan]))
            for key in MEANS
        },
    )
