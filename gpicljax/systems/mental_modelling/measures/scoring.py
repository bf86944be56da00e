"""Scores of answers to queries, from an array rule or a language model.

Every query counts: one without a usable answer is wrong. The share among the usable ones stands
beside it.

Source: appendix C of Lu et al. (2024), "Mental modelling of reinforcement learning agents by
language models".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpicljax.checks import check
from gpicljax.evaluation.statistics import Interval, ratio_interval
from gpicljax.spaces import Box
from gpicljax.systems.mental_modelling.measures.questions import Queries, round_numbers, to_bins


class Answers(NamedTuple):
    """Answers to Q queries, in their form.

    Attributes:
      values: `[Q, E]`, as `Queries.truth`; whatever where nothing was parsed.
      parsed: `bool[Q]`, a reply was usable.
    """

    values: np.ndarray
    parsed: np.ndarray


class Score(NamedTuple):
    """The score of Q answers.

    Attributes:
      queries: Q.
      parsed: number of usable answers.
      accuracy: share of all queries answered right in all elements.
      accuracy_of_parsed: the same among usable answers; NaN without one, as in what follows.
      element_accuracy: share of all elements of all queries.
      element_accuracy_of_parsed: of usable answers.
      elements: float `[E]`, share of all queries in which an element is right.
      elements_of_parsed: float `[E]`, of usable answers.
      absolute_error: float `[E]`, mean distance of usable, finite answers; NaN unless numbers were
        asked for.
      right: `bool[Q]`, right in all elements.
    """

    queries: int
    parsed: int
    accuracy: float
    accuracy_of_parsed: float
    element_accuracy: float
    element_accuracy_of_parsed: float
    elements: np.ndarray
    elements_of_parsed: np.ndarray
    absolute_error: np.ndarray
    right: np.ndarray


def answers_of(queries: Queries, values: Sequence[Any]) -> Answers:
    """Returns answers from a list with one entry for each query, None where a reply was not usable.

    What has another number of elements than was asked for, or is no number, is not usable either.

    Raises:
      ValueError: if there are more or fewer entries than queries.
    """
    count, elements = queries.truth.shape
    check(len(values) == count, "values", len(values), f"{count} entries, one for each query")
    table = np.full((count, elements), np.nan)
    parsed = np.zeros(count, bool)
    for n, value in enumerate(values):
        try:
            entries = np.asarray(value, float).reshape(-1)
        except (TypeError, ValueError):
            continue
        if value is not None and entries.size == elements and np.isfinite(entries).all():
            table[n], parsed[n] = entries, True
    return Answers(table, parsed)


def score_answers(queries: Queries, answers: Answers) -> Score:
    """Compares answers with the truth.

    Classes, bins and numbers of actions and states must be met. Where numbers were asked for, both
    they and the truth are put into the ten parts of the range by `to_bins`, and must be in one.

    Args:
      queries: the queries.
      answers: the answers to the queries.

    Raises:
      ValueError: for answers to other queries.

    Example:
      >>> from types import SimpleNamespace as Some
      >>> asked = Some(truth=np.array([[1, 0], [0, 1], [1, 1], [1, 1]]), form="change")
      >>> said = answers_of(asked, [[1, 0], None, [1, 0], [1, 1]])
      >>> done = score_answers(asked, said)
      >>> done.accuracy, round(done.accuracy_of_parsed, 3), done.elements.tolist()
      (0.5, 0.667, [0.75, 0.5])
    """
    truth, values = queries.truth, np.asarray(answers.values)
    check(values.shape == truth.shape, "answers.values", values.shape, f"shape {truth.shape}")
    parsed = np.asarray(answers.parsed)
    fits = parsed.shape == truth.shape[:1] and parsed.dtype == bool
    check(fits, "answers.parsed", parsed, f"bool[{len(truth)}]")
    error = np.full(truth.shape, np.nan)
    if queries.form == "absolute":
        space = queries.action_space
        assert isinstance(space, Box)
        finite = np.isfinite(values) & parsed[:, None]
        rounded_values = round_numbers(np.where(finite, values, 0), queries.decimals)
        error = np.where(finite, abs(rounded_values - truth), np.nan)
        bounds = space.low, space.high, queries.decimals
        is_met = (to_bins(values, *bounds) == to_bins(truth, *bounds)) & finite
    else:
        is_met = (values == truth) & parsed[:, None]
    right = is_met.all(1)
    usable = is_met[parsed]
    return Score(
        queries=len(truth),
        parsed=int(parsed.sum()),
        accuracy=float(right.mean()),
        accuracy_of_parsed=float(_mean(right[parsed])),
        element_accuracy=float(is_met.mean()),
        element_accuracy_of_parsed=float(_mean(usable.mean(1))),
        elements=is_met.mean(0),
        elements_of_parsed=_mean(usable),
        absolute_error=_mean_of_finite(error),
        right=right,
    )


def accuracy_interval(queries: Queries, score: Score, *, resamples: int = 2000) -> Interval:
    """Returns the accuracy over all queries, with an interval of 95 % over episodes.

    Queries of one episode have much in common, so that episodes are drawn, not queries.

    Args:
      queries: queries of two episodes or more.
      score: score of the answers.
      resamples: bootstrap samples, at least 100.

    Returns:
      The accuracy and its interval; `count` is the number of episodes, `std` NaN.

    Raises:
      ValueError: if there is one episode only, or the score is of other queries.
    """
    check(score.right.shape == queries.episode.shape, "score", score.right.shape, "of the queries")
    _, episode_index, queries_by_episode = np.unique(
        queries.episode, return_inverse=True, return_counts=True
    )
    check(
        len(queries_by_episode) > 1,
        "queries",
        len(queries_by_episode),
        "those of 2 or more episodes",
    )
    right = np.bincount(episode_index, weights=score.right)
    mean, low, high = ratio_interval(right, queries_by_episode, resamples=resamples)
    return Interval(mean=mean, std=float("nan"), low=low, high=high, count=len(queries_by_episode))


def _mean(values: np.ndarray) -> np.ndarray:
    """Returns the mean over the first axis; NaN if that is empty."""
    return values.mean(0) if len(values) else np.full(values.shape[1:], np.nan)


def _mean_of_finite(values: np.ndarray) -> np.ndarray:
    is_finite = np.isfinite(values)
    count = is_finite.sum(0)
    sums = np.where(is_finite, values, 0).sum(0)
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan)
