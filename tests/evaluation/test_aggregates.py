"""Aggregates over runs and tasks, against definitions and against rliable."""

import itertools

import numpy as np
import pytest

from gpicljax.evaluation.aggregates import (
    aggregate,
    interquartile_mean,
    probability_of_improvement,
)

RNG = np.random.default_rng(0)
OURS, THEIRS = RNG.normal(0.6, 0.3, (8, 5)), RNG.normal(0.5, 0.3, (6, 5))


def by_task(table):
    return list(table.T)


def test_the_middle_half_alone_counts():
    scores = np.sort(OURS.ravel())
    assert interquartile_mean(by_task(OURS)) == pytest.approx(scores[10:30].mean())
    outlier = OURS.copy()
    outlier[np.unravel_index(OURS.argmax(), OURS.shape)] = 1e6
    assert interquartile_mean(by_task(outlier)) == interquartile_mean(by_task(OURS))
    assert np.isnan(interquartile_mean([[1.0, np.nan]]))


def test_improvement_is_a_share_of_pairs_and_ties_count_half():
    a, b = np.round(OURS, 1), np.round(THEIRS, 1)
    wins = []
    for task in range(5):
        pairs = itertools.product(a[:, task], b[:, task])
        wins.append(np.mean([1.0 if x > y else 0.5 if x == y else 0.0 for x, y in pairs]))
    assert probability_of_improvement(by_task(a), by_task(b)) == pytest.approx(np.mean(wins))
    back = probability_of_improvement(by_task(b), by_task(a))
    assert back == pytest.approx(1 - np.mean(wins))


@pytest.mark.slow
def test_intervals_cover_and_are_stratified():
    found = aggregate(interquartile_mean, by_task(OURS))
    assert found == aggregate(interquartile_mean, by_task(OURS))
    assert found.low < found.value < found.high
    # Runs are exchanged within their task alone: tasks far apart do not widen the interval.
    apart = aggregate(lambda tasks: float(np.mean(tasks)), by_task(OURS + 100 * np.arange(5)))
    assert apart.high - apart.low < 0.5
    truth, covered = 0.6, 0
    for seed in range(60):
        drawn = np.random.default_rng(seed).normal(truth, 0.3, (10, 4))
        interval = aggregate(interquartile_mean, by_task(drawn), resamples=200)
        covered += interval.low <= truth <= interval.high
    assert covered >= 50  # of 60, nominally 57


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="scores: got 'no task'"):
        interquartile_mean([])
    with pytest.raises(ValueError, match=r"scores\[1\]: got float64\[0\]"):
        interquartile_mean([[1.0], []])
    with pytest.raises(ValueError, match="b: got '1 tasks'; accepted: the 2 tasks of a"):
        probability_of_improvement([[1.0], [2.0]], [[1.0]])
    with pytest.raises(ValueError, match="resamples: got 5"):
        aggregate(interquartile_mean, [[1.0]], resamples=5)


def test_it_is_what_rliable_says():
    metrics = pytest.importorskip("rliable.metrics")
    assert interquartile_mean(by_task(OURS)) == pytest.approx(metrics.aggregate_iqm(OURS))
    theirs = metrics.probability_of_improvement(OURS, THEIRS)
    assert probability_of_improvement(by_task(OURS), by_task(THEIRS)) == pytest.approx(theirs)
