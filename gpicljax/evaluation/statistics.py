"""Intervals and tests over seeds, tasks and trials: small samples, stated counts.

Everything here runs on the host in float64: the samples are a handful of seeds or a few hundred
trials, and p-values far in the tail need the digits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from gpicljax.checks import check, check_array, check_choice

Alternative = Literal["two-sided", "greater", "less"]
Method = Literal["bca", "percentile"]
Statistic = Callable[[NDArray[np.float64]], ArrayLike]


def format_interval(
    mean: float,
    low: float = float("nan"),
    high: float = float("nan"),
    spec: str = ".2f",
    scale: float = 1.0,
) -> str:
    """Returns `mean [low, high]`; the mean alone where there is no interval, a dash for NaN.

    Args:
      mean: the value, or any other centre of the interval.
      low: lower end of the interval; NaN for none.
      high: upper end.
      spec: format of each number, as in f-strings.
      scale: factor of the numbers: 100 for shares in per cent.
    """
    if np.isnan(mean):
        return "-"
    value, *ends = (f"{scale * x:{spec}}" for x in (mean, low, high))
    return f"{value} [{', '.join(ends)}]" if np.isfinite(low) else value


class SummaryStats(NamedTuple):
    """Mean and sample standard deviation over `n` seeds, as a cell of a paper's table."""

    mean: float
    std: float
    n: int

    @property
    def percent(self) -> str:
        """Shares in per cent, as tables have them: mean ± standard deviation."""
        return f"{100 * self.mean:.1f} ± {100 * self.std:.1f}"


@dataclass(frozen=True)
class Interval:
    """Mean, sample standard deviation (ddof 1), interval and number of samples.

    Example:
      >>> Interval(mean=94.0, std=0.6, low=93.4, high=94.6, count=6).moments
      SummaryStats(mean=94.0, std=0.6, n=6)
    """

    mean: float
    std: float
    low: float
    high: float
    count: int

    @property
    def moments(self) -> SummaryStats:
        """The part of the interval that `welch_test_from_stats` takes."""
        return SummaryStats(self.mean, self.std, self.count)

    @property
    def percent(self) -> str:
        """A share in per cent, as tables have it: mean ± standard deviation [interval].

        The interval ends where shares do, at 0 and 100 %.

        Example:
          >>> Interval(0.94, 0.006, 0.934, 0.946, 6).percent
          '94.0 ± 0.6 [93.4, 94.6]'
        """
        if self.count < 2:
            return f"{100 * self.mean:.1f}"
        ends = f"[{100 * max(self.low, 0.0):.1f}, {100 * min(self.high, 1.0):.1f}]"
        return f"{self.moments.percent} {ends}"

    def format(self, spec: str = ".2f") -> str:
        """Returns `mean [low, high]` with numbers of this format, see `format_interval`."""
        return format_interval(self.mean, self.low, self.high, spec)


class WelchResult(NamedTuple):
    """Welch's statistic, its degrees of freedom (Welch-Satterthwaite) and the p-value."""

    t: float
    dof: float
    p: float


def mean_interval(samples: ArrayLike, confidence: float = 0.95) -> Interval:
    """Returns the mean of independent samples (seeds, usually) with its t-interval.

    Args:
      samples: `float[N]`, N >= 1; NaN in, NaN out, so a diverged seed stays visible.
      confidence: coverage of the interval, in (0, 1).

    Returns:
      `Interval` of floats in the units of `samples`. With one sample `std`, `low` and `high` are
      NaN: one run says nothing about spread.

    Raises:
      ValueError: if `samples` is not one-dimensional or is empty, or `confidence` is not in (0, 1).

    Source: Student (1908); scipy's `ttest_1samp(...).confidence_interval()` is the tests' oracle.

    Example:
      >>> interval = mean_interval([94.1, 93.2, 94.8])
      >>> f"{interval.mean:.1f} ± {interval.std:.1f} [{interval.low:.1f}, {interval.high:.1f}]"
      '94.0 ± 0.8 [92.0, 96.0]'
    """
    x = as_samples(samples, "samples", minimum=1)
    check_confidence(confidence)
    mean = float(np.mean(x))
    if x.size == 1:
        return Interval(mean, float("nan"), float("nan"), float("nan"), 1)
    std = float(np.std(x, ddof=1))
    half = float(t_quantile(confidence, x.size - 1)) * std / np.sqrt(x.size)
    return Interval(mean, std, float(mean - half), float(mean + half), int(x.size))


def interval_over_seeds(values: Sequence[NDArray[Any]] | NDArray[Any]) -> Interval:
    """Returns the mean with its interval over the means of seeds, or over the values of one seed.

    Args:
      values: of each seed, `float[N]`.

    Example:
      >>> two = np.array([[1.0, 3.0], [4.0, 4.0]])
      >>> interval_over_seeds(two).mean, interval_over_seeds(two[:1]).count
      (3.0, 2)
    """
    return mean_interval([np.mean(x) for x in values] if len(values) > 1 else values[0])


def rank_auc(positive: ArrayLike, negative: ArrayLike) -> float:
    """Returns the area under the ROC curve: how often a positive score exceeds a negative one.

    Args:
      positive: `float[N]`.
      negative: `float[M]`.

    Returns:
      Ties count one half; NaN without scores on both sides, or with a score that is NaN.

    Source: Mann & Whitney (1947); scipy's `mannwhitneyu` is the tests' oracle.

    Example:
      >>> rank_auc([0.9, 0.4], [0.1, 0.4])
      0.875
    """
    high, low = np.asarray(positive, np.float64), np.sort(np.asarray(negative, np.float64))
    if not high.size or not low.size or np.isnan(high).any() or np.isnan(low).any():
        return float("nan")
    below = np.searchsorted(low, high, "left") + np.searchsorted(low, high, "right")
    return float(below.mean() / (2 * low.size))


def bootstrap_interval(
    samples: ArrayLike,
    statistic: Statistic = np.mean,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    method: Method = "bca",
    seed: int = 0,
) -> tuple[float, float]:
    """Bootstrap interval of any statistic of independent samples (tasks, trials, episodes).

    Args:
      samples: `float[N, ...]`, N >= 2; whole entries of the leading axis are drawn with
        replacement, so everything measured on one task stays together.
      statistic: maps `float[N, ...]` to a scalar. NaN values of it are left out.
      confidence: coverage of the interval, in (0, 1).
      resamples: number of bootstrap samples, at least 100.
      method: `"bca"` corrects the percentiles for bias and skew; `"percentile"` does not.
      seed: seed of the draws; the same seed gives the same interval.

    Returns:
      `(low, high)` as floats. Both equal the statistic if it does not vary; NaN if it is NaN on
      the samples, or on more than half of the resamples.

    Raises:
      ValueError: if N < 2, `resamples` < 100, or `confidence` or `method` is not accepted.

    Source: Efron & Tibshirani (1993), chapters 13 (percentile) and 14 (BCa).

    Example:
      >>> low, high = bootstrap_interval([0.1, 0.4, 0.2, 0.3, 0.2, 0.5])
      >>> f"[{low:.2f}, {high:.2f}]"
      '[0.18, 0.40]'
    """
    x = np.asarray(samples, np.float64)
    several = x.ndim >= 1 and x.shape[0] >= 2
    check_array(several, "samples", x, "float[N, ...] with N of at least 2")
    check_confidence(confidence)
    check(resamples >= 100, "resamples", resamples, "at least 100")
    check_choice("method", method, ("bca", "percentile"))

    def measure(sample: NDArray[np.float64]) -> float:
        return float(np.asarray(statistic(sample), np.float64))

    rng = np.random.default_rng(seed)
    count = x.shape[0]
    draws = np.array(
        [measure(x[rng.integers(0, count, count)]) for _ in range(resamples)], np.float64
    )
    estimate = measure(x)
    draws = draws[~np.isnan(draws)]
    if np.isnan(estimate) or 2 * draws.size < resamples:
        return float("nan"), float("nan")
    tails = np.array([0.5 - confidence / 2, 0.5 + confidence / 2])
    if method == "bca" and np.ptp(draws) > 0:
        keep = ~np.eye(count, dtype=bool)
        jackknife = np.array([measure(x[row]) for row in keep], np.float64)
        tails = _bca_levels(tails, draws, estimate, jackknife)
    low, high = np.quantile(draws, tails)
    return float(low), float(high)


def ratio_interval(
    a: ArrayLike, b: ArrayLike, *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[float, float, float]:
    """Returns the ratio of two means over the same tasks, with its paired bootstrap interval.

    Args:
      a: `float[N]`, N >= 2.
      b: `float[N]`, of the same tasks.
      confidence: coverage of the interval, in (0, 1).
      resamples: number of bootstrap samples, at least 100.
      seed: seed of the draws.

    Returns:
      The mean of `a` divided by that of `b`, and the interval's ends.

    Raises:
      ValueError: if the shapes differ, or as `bootstrap_interval`.

    Example:
      >>> ratio, low, high = ratio_interval([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
      >>> ratio, low, high
      (0.5, 0.5, 0.5)
    """
    x, y = as_samples(a, "a", 2), as_samples(b, "b", 2)
    check(x.shape == y.shape, "b", f"{y.size} samples", f"{x.size}, as many as a")
    pairs = np.stack([x, y], axis=1)

    def ratio(sample: NDArray[np.float64]) -> float:
        return float(sample[:, 0].mean() / sample[:, 1].mean())

    low, high = bootstrap_interval(
        pairs, ratio, confidence=confidence, resamples=resamples, seed=seed
    )
    return ratio(pairs), low, high


def _bca_levels(
    tails: NDArray[np.float64],
    draws: NDArray[np.float64],
    estimate: float,
    jackknife: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Quantile levels corrected for the bias and the skew of `draws` (Efron & Tibshirani, 14.9)."""
    # Ties count half: a statistic on a lattice (an accuracy of ten games) is not thereby biased.
    share = np.mean(draws < estimate) + np.mean(draws == estimate) / 2
    edge = 0.5 / draws.size
    bias = special.ndtri(np.clip(share, edge, 1 - edge))
    pull = np.nanmean(jackknife) - jackknife
    spread = np.nansum(pull**2) ** 1.5
    acceleration = np.nansum(pull**3) / (6 * spread) if spread > 0 else 0.0
    shifted = bias + special.ndtri(tails)
    return cast(NDArray[np.float64], special.ndtr(bias + shifted / (1 - acceleration * shifted)))


def welch_test(a: ArrayLike, b: ArrayLike, alternative: Alternative = "two-sided") -> WelchResult:
    """Welch's t-test that two sets of seeds have equal means, without assuming equal variances.

    Args:
      a: `float[N]`, N >= 2.
      b: `float[M]`, M >= 2.
      alternative: `"greater"` asks whether the mean of `a` is greater than that of `b`, `"less"`
        whether it is less.

    Returns:
      `WelchResult(t, dof, p)`; all NaN if neither set varies, because a spread of zero is then an
      artefact of rounding or of equal seeds and would make any difference look certain.

    Raises:
      ValueError: if a set has fewer than two samples or `alternative` is not accepted.

    Source: Welch (1947); equals `scipy.stats.ttest_ind(a, b, equal_var=False)`.

    Example:
      >>> result = welch_test([94.1, 93.2, 94.8], [52.4, 53.0, 52.6], alternative="greater")
      >>> result.p < 0.001
      True
    """
    x, y = as_samples(a, "a", minimum=2), as_samples(b, "b", minimum=2)
    return welch_test_from_stats(
        float(np.mean(x)),
        float(np.std(x, ddof=1)),
        x.size,
        float(np.mean(y)),
        float(np.std(y, ddof=1)),
        y.size,
        alternative,
    )


def welch_test_from_stats(
    mean_a: float,
    std_a: float,
    n_a: int,
    mean_b: float,
    std_b: float,
    n_b: int,
    alternative: Alternative = "two-sided",
) -> WelchResult:
    """Welch's t-test from printed cells, `mean ± std` over a known number of seeds.

    With `SummaryStats`: `welch_test_from_stats(*ours.moments, *TABLE_3[4, 1], "greater")`.

    Args:
      mean_a: mean of the first set; any unit, the same for both.
      std_a: its sample standard deviation (ddof 1), not its standard error.
      n_a: its number of samples, at least 2.
      mean_b: mean of the second set.
      std_b: its sample standard deviation.
      n_b: its number of samples, at least 2.
      alternative: as in `welch_test`.

    Returns:
      `WelchResult(t, dof, p)`; all NaN if both standard deviations are 0.

    Raises:
      ValueError: if a count is below 2, a standard deviation is negative, or `alternative` is not
        accepted.

    Source: Welch (1947); equals `scipy.stats.ttest_ind_from_stats(..., equal_var=False)`.

    Example:
      >>> result = welch_test_from_stats(62.2, 3.7, 6, 60.4, 1.5, 6)
      >>> f"t = {result.t:.2f} with {result.dof:.1f} degrees of freedom"
      't = 1.10 with 6.6 degrees of freedom'
    """
    for name, n in (("n_a", n_a), ("n_b", n_b)):
        check(n >= 2, name, n, "at least 2 samples, for a variance")
    for name, std in (("std_a", std_a), ("std_b", std_b)):
        check(not std < 0, name, std, "at least 0")
    check_choice("alternative", alternative, ("two-sided", "greater", "less"))
    part_a, part_b = std_a**2 / n_a, std_b**2 / n_b
    variance = part_a + part_b
    if variance == 0:
        return WelchResult(float("nan"), float("nan"), float("nan"))
    t = (mean_a - mean_b) / variance**0.5
    # As shares of the variance, so that the squares of tiny spreads do not underflow.
    share_a, share_b = part_a / variance, part_b / variance
    dof = 1 / (share_a**2 / (n_a - 1) + share_b**2 / (n_b - 1))
    if alternative == "two-sided":
        p = 2 * special.stdtr(dof, -abs(t))
    else:
        p = special.stdtr(dof, -t if alternative == "greater" else t)
    return WelchResult(float(t), float(dof), float(p))


def holm_correction(p_values: ArrayLike) -> NDArray[np.float64]:
    """Returns Holm's step-down adjusted p-values, which hold for a whole family of tests.

    Args:
      p_values: `float[M]` in [0, 1]; NaN marks a test that could not be made. It stays NaN and
        still counts in M, which errs on the careful side.

    Returns:
      `float64[M]` in [0, 1]: reject where it is below the level wanted for the family.

    Raises:
      ValueError: if `p_values` is not one-dimensional or a value lies outside [0, 1].

    Source: Holm (1979), "A simple sequentially rejective multiple test procedure".

    Example:
      >>> [round(p, 3) for p in holm_correction([0.01, 0.04, 0.03]).tolist()]
      [0.03, 0.06, 0.06]
    """
    p = as_samples(p_values, "p_values", minimum=0)
    finite = p[~np.isnan(p)]
    if np.any((finite < 0) | (finite > 1)):
        raise ValueError(f"p_values: got {finite.min()} to {finite.max()}; accepted: [0, 1]")
    order = np.argsort(p)  # NaN sorts last, where it takes the smallest factors
    steps = np.minimum(p[order] * np.arange(p.size, 0, -1), 1.0)
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted


def t_quantile(confidence: float, dof: ArrayLike) -> NDArray[np.float64]:
    """Two-sided quantile of Student's t, `P(|t| < q) = confidence`; NaN where `dof` <= 0."""
    degrees = np.asarray(dof, np.float64)
    safe = np.where(degrees > 0, degrees, 1.0)
    quantile = special.stdtrit(safe, 0.5 + confidence / 2)
    return np.where(degrees > 0, quantile, np.nan)


def check_confidence(confidence: float) -> None:
    """Raise `ValueError` unless `confidence` lies strictly between 0 and 1."""
    check(0 < confidence < 1, "confidence", confidence, "0 < confidence < 1, e.g. 0.95")


def as_samples(values: ArrayLike | Sequence[float], name: str, minimum: int) -> NDArray[np.float64]:
    """`values` as `float64[N]` with N >= `minimum`, or a `ValueError` that names the argument."""
    x = np.asarray(values, np.float64)
    enough = x.ndim == 1 and x.size >= minimum
    check_array(enough, name, x, f"float[N] with N of at least {minimum}")
    return x
