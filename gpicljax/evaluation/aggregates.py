"""Scores of several runs over several tasks, in one number with an interval.

A method's scores are one `float[N]` per task, of N independent runs each. Across tasks they must be
on one scale (normalised); `probability_of_improvement` compares within tasks and needs none.

Source: Agarwal et al. (2021), "Deep reinforcement learning at the edge of the statistical
precipice"; the tests compare with its library, rliable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from gpicljax.checks import check
from gpicljax.evaluation.statistics import as_samples, check_confidence

Scores = Sequence[ArrayLike]
"""One `float[N]` per task, of N runs; N may differ between tasks."""


class Aggregate(NamedTuple):
    """A number over all runs and tasks, with its bootstrap interval."""

    value: float
    low: float
    high: float


def interquartile_mean(scores: Scores) -> float:
    """Returns the mean of the middle half of all scores, whatever their task.

    Less swayed by single runs than the mean, and less wasteful than the median.

    Args:
      scores: see `Scores`; at least one task, of at least one run each.

    Returns:
      A float in the units of the scores; NaN if one of them is NaN.

    Example:
      >>> interquartile_mean([[0.0, 1.0, 2.0, 30.0]])
      1.5
    """
    return float(stats.trim_mean(np.concatenate(_tasks(scores, "scores")), 0.25))


def probability_of_improvement(a: Scores, b: Scores) -> float:
    """Returns the probability that a run of `a` beats one of `b` on a random task; ties count half.

    Args:
      a: see `Scores`.
      b: the same tasks in the same order.

    Returns:
      A float in [0, 1].

    Raises:
      ValueError: if the numbers of tasks differ.

    Example:
      >>> probability_of_improvement([[1.0, 2.0], [5.0]], [[0.0, 2.0], [7.0]])
      0.3125
    """
    a_tasks, b_tasks = _tasks(a, "a"), _tasks(b, "b")
    check(
        len(a_tasks) == len(b_tasks), "b", f"{len(b_tasks)} tasks", f"the {len(a_tasks)} tasks of a"
    )
    wins = [
        np.mean((x[:, None] > y).astype(float) + 0.5 * (x[:, None] == y))
        for x, y in zip(a_tasks, b_tasks, strict=True)
    ]
    return float(np.mean(wins))


def aggregate(
    statistic: Callable[..., float],
    *scores: Scores,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Aggregate:
    """Returns a statistic of one or more methods with its stratified percentile-bootstrap interval.

    Args:
      statistic: of as many `Scores` as are given, such as `interquartile_mean`.
      *scores: see `Scores`. In each resample, every task's runs are drawn with replacement from
        its own; tasks are not.
      confidence: coverage of the interval, in (0, 1).
      resamples: how many.
      seed: of the draws; the same seed gives the same interval.

    Returns:
      The statistic and its interval. With one run per task the interval has no width: it says
      nothing then.

    Example:
      >>> aggregate(interquartile_mean, [[0.0, 1.0, 2.0, 3.0]]).value
      1.5
    """
    check_confidence(confidence)
    check(resamples >= 100, "resamples", resamples, "at least 100")
    methods = [_tasks(runs, f"scores[{i}]") for i, runs in enumerate(scores)]
    rng = np.random.default_rng(seed)

    def resample(tasks: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        return [x[rng.integers(0, x.size, x.size)] for x in tasks]

    draws = [statistic(*map(resample, methods)) for _ in range(resamples)]
    low, high = np.quantile(draws, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return Aggregate(float(statistic(*methods)), float(low), float(high))


def _tasks(scores: Scores, name: str) -> list[NDArray[np.float64]]:
    check(len(scores) > 0, name, "no task", "one float[N] or more, one for each task")
    return [as_samples(x, f"{name}[{i}]", minimum=1) for i, x in enumerate(scores)]
