"""Intervals and tests against scipy and closed forms."""

import numpy as np
import pytest
from scipy import stats

from gpicljax.evaluation import (
    bootstrap_interval,
    holm_correction,
    mean_interval,
    welch_test,
    welch_test_from_stats,
)
from gpicljax.evaluation.statistics import Interval, SummaryStats, rank_auc


@pytest.mark.parametrize("n", [2, 3, 6, 40])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_mean_interval_agrees_with_scipy(n, confidence):
    x = np.random.default_rng(n).normal(3.0, 2.0, n)
    ours = mean_interval(x, confidence)
    theirs = stats.ttest_1samp(x, 0.0).confidence_interval(confidence)
    np.testing.assert_allclose((ours.low, ours.high), theirs, rtol=1e-10)
    np.testing.assert_allclose((ours.mean, ours.std), (x.mean(), x.std(ddof=1)))
    assert ours.count == n
    assert ours.moments == SummaryStats(ours.mean, ours.std, n)


def test_one_seed_has_no_interval():
    ours = mean_interval([0.7])
    assert (ours.mean, ours.count) == (0.7, 1)
    assert np.isnan([ours.std, ours.low, ours.high]).all()


def test_a_diverged_seed_stays_visible():
    assert np.isnan(mean_interval([0.5, float("nan"), 0.6]).mean)


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_welch_agrees_with_scipy(alternative):
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.70, 0.02, 6), rng.normal(0.68, 0.05, 4)
    ours = welch_test(a, b, alternative)
    theirs = stats.ttest_ind(a, b, equal_var=False, alternative=alternative)
    np.testing.assert_allclose(ours, (theirs.statistic, theirs.df, theirs.pvalue), rtol=1e-10)

    cells = (0.735, 0.024, 6, 0.622, 0.037, 6)
    ours = welch_test_from_stats(*cells, alternative=alternative)
    theirs = stats.ttest_ind_from_stats(*cells, equal_var=False, alternative=alternative)
    np.testing.assert_allclose((ours.t, ours.p), (theirs.statistic, theirs.pvalue), rtol=1e-10)


def test_welch_keeps_the_far_tail():
    ours = welch_test_from_stats(1.0, 0.01, 50, 0.0, 0.01, 50, "greater")
    assert 0 < ours.p < 1e-100


def test_welch_without_any_spread_is_undefined():
    assert np.isnan(welch_test([0.5, 0.5], [0.9, 0.9])).all()


def test_welch_with_one_spread_only():
    ours = welch_test([0.5, 0.5, 0.5], [0.9, 0.8, 0.7])
    assert ours.dof == pytest.approx(2)
    assert ours.p == pytest.approx(stats.ttest_1samp([0.9, 0.8, 0.7], 0.5).pvalue)


def test_holm_closed_form():
    # Holm's own pattern: 4 x .005, 3 x .01, then the maximum so far, then 1 x .04 below it.
    np.testing.assert_allclose(holm_correction([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm_correction([0.9, 0.8]), [1.0, 1.0])
    assert holm_correction([]).shape == (0,)


def test_holm_lies_between_raw_and_bonferroni_and_keeps_order():
    p = np.random.default_rng(0).uniform(0, 0.2, 30)
    adjusted = holm_correction(p)
    assert (adjusted >= p).all()
    assert (adjusted <= np.minimum(30 * p, 1) + 1e-15).all()
    assert (np.diff(adjusted[np.argsort(p)]) >= 0).all()


def test_holm_counts_tests_that_could_not_be_made():
    adjusted = holm_correction([0.01, float("nan"), 0.02])
    np.testing.assert_allclose(adjusted[[0, 2]], [0.03, 0.04])
    assert np.isnan(adjusted[1])


@pytest.mark.parametrize("method", ["bca", "percentile"])
@pytest.mark.parametrize("statistic", [np.mean, np.median, np.std])
def test_bootstrap_agrees_with_scipy(method, statistic):
    x = np.random.default_rng(3).exponential(size=60)
    ours = bootstrap_interval(x, statistic, resamples=4000, method=method)
    theirs = stats.bootstrap(
        (x,),
        statistic,
        n_resamples=4000,
        method={"bca": "BCa"}.get(method, method),
        rng=np.random.default_rng(4),
    ).confidence_interval
    # Two independent sets of 4,000 draws: the quantiles differ by their own sampling error.
    np.testing.assert_allclose(ours, theirs, atol=0.12 * (theirs.high - theirs.low))


def test_bootstrap_is_deterministic_and_handles_constants():
    x = np.random.default_rng(0).normal(size=(20, 3))
    assert bootstrap_interval(x, np.mean, seed=1) == bootstrap_interval(x, np.mean, seed=1)
    assert bootstrap_interval(np.full(5, 0.25)) == (0.25, 0.25)
    assert np.isnan(bootstrap_interval([1.0, float("nan")])).all()


def test_bootstrap_coverage():
    rng = np.random.default_rng(5)
    inside = 0
    for i in range(200):
        low, high = bootstrap_interval(rng.exponential(size=40), resamples=300, seed=i)
        inside += low <= 1.0 <= high
    # 95 % nominal; 40 skewed samples cost a few points. Binomial s.e. 1.5 %.
    assert 0.88 <= inside / 200 <= 0.985


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([]), r"samples: got float64\[0\]"),
        (lambda: mean_interval([[1.0]]), r"samples: got float64\[1, 1\]"),
        (lambda: mean_interval([1.0, 2.0], 95), "confidence: got 95"),
        (lambda: welch_test([1.0], [1.0, 2.0]), r"a: got float64\[1\]"),
        (lambda: welch_test([1.0, 2.0], [1.0, 3.0], "bigger"), "alternative: got 'bigger'"),  # pyright: ignore[reportArgumentType]
        (lambda: welch_test_from_stats(1, 1, 1, 1, 1, 3), "n_a: got 1"),
        (lambda: welch_test_from_stats(1, 1, 3, 1, -1, 3), "std_b: got -1"),
        (lambda: holm_correction([0.1, 1.5]), r"accepted: \[0, 1\]"),
        (lambda: bootstrap_interval([1.0]), r"samples: got float64\[1\]"),
        (lambda: bootstrap_interval([1.0, 2.0], resamples=10), "resamples: got 10"),
        (lambda: bootstrap_interval([1.0, 2.0], method="basic"), "method: got 'basic'"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_shares_end_at_a_hundred_per_cent():
    assert Interval(0.975, 0.019, 0.927, 1.022, 3).percent == "97.5 ± 1.9 [92.7, 100.0]"
    assert Interval(0.02, 0.03, -0.05, 0.09, 3).percent == "2.0 ± 3.0 [0.0, 9.0]"


def test_area_under_the_curve_is_that_of_ranks():
    rng = np.random.default_rng(0)
    positive, negative = rng.integers(0, 9, 40) + 0.5, rng.integers(0, 9, 30).astype(float)
    negative[:9] = positive[:9]  # ties
    statistic = stats.mannwhitneyu(positive, negative).statistic
    assert rank_auc(positive, negative) == pytest.approx(statistic / (40 * 30))
    assert rank_auc([2, 3], [0, 1]) == 1 and rank_auc([0], [0]) == 0.5
    assert np.isnan(rank_auc([], [1.0])) and np.isnan(rank_auc([np.nan], [1.0]))
