"""In-context learning over a trial: the curve by context, and the three numbers that sum it up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpicljax.checks import check, check_array
from gpicljax.evaluation.statistics import check_confidence, t_quantile
from gpicljax.evaluation.tables import markdown_table

Floats = NDArray[np.float64]
Bins = int | Sequence[int] | None
Trend = Literal["improving", "settled", "declining"]

_ASYMPTOTE_SHARE = 0.1
_TREND_SHARE = 0.2
_BLOCK = 128  # bootstrap samples measured at once: bounds memory at 128 curves


@dataclass(frozen=True, eq=False)
class ICLCurve:
    """A measure by context, over trials. All fields are arrays of length T.

    Attributes:
      position: `float64[T]`, the context before the measured step, episode or game: 0 is zero-shot.
        For binned curves the mean position of each bin.
      mean: `float64[T]`, mean over trials; NaN where no trial has data.
      std: `float64[T]`, sample standard deviation over trials; NaN below two trials.
      low: `float64[T]`, lower end of the t-interval; NaN below two trials.
      high: `float64[T]`, upper end of the t-interval; NaN below two trials.
      count: `int64[T]`, number of trials with data.

    Example:
      >>> curve = icl_curve([[0.5, 1.0], [0.25, 0.0]], weights=[[True, True], [True, False]])
      >>> curve.mean.tolist(), curve.count.tolist()
      ([0.375, 1.0], [2, 1])
    """

    position: Floats
    mean: Floats
    std: Floats
    low: Floats
    high: Floats
    count: NDArray[np.int64]


class Estimate(NamedTuple):
    """A value with its bootstrap interval; the interval is NaN where there is none."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ICLProfile:
    """Zero-shot performance, potential and horizon of in-context learning.

    Attributes:
      zero_shot: performance at the first position (or in the first bin).
      asymptote: mean of the last 10 % of the positions.
      potential: gap from zero-shot to asymptote, positive where context helps.
      horizon: context after which the smoothed curve stays within `tolerance` of the potential from
        the asymptote; `inf` is beyond `length`, NaN is "no potential to reach".
      trend: what the last 20 % of the positions do: `"improving"`, `"settled"` or `"declining"`.
      beyond: share of the bootstrap samples whose horizon is beyond `length`; NaN without them.
      length: number of positions measured, T.
      trials: number of trials with data, N.
      higher_is_better: direction of better.
      tolerance: width of the band around the asymptote, as a share of the potential.
      confidence: coverage of the intervals.

    Example:
      >>> curves = np.tile(1 - 0.5 ** np.arange(30), (4, 1))
      >>> profile = icl_profile(curves)
      >>> profile.rows()[0], profile.trend
      (('zero-shot', '0', '[0, 0]'), 'settled')
    """

    zero_shot: Estimate
    asymptote: Estimate
    potential: Estimate
    horizon: Estimate
    trend: Trend
    beyond: float
    length: int
    trials: int
    higher_is_better: bool
    tolerance: float
    confidence: float

    def rows(self) -> list[tuple[str, str, str]]:
        """`(measure, value, interval)` as text, one row per measure."""
        measures = {
            "zero-shot": self.zero_shot,
            "asymptote": self.asymptote,
            "potential": self.potential,
        }
        rows = [
            (name, f"{e.value:.4g}", _bracket(f"{e.low:.4g}", f"{e.high:.4g}"))
            for name, e in measures.items()
        ]
        value, low, high = (self._context(x) for x in self.horizon)
        rows.append(("horizon", value, "" if low == "none" else _bracket(low, high)))
        return rows

    def table(self) -> str:
        """Returns the profile as a Markdown table."""
        return markdown_table(["measure", "value", "interval"], self.rows())

    def __str__(self) -> str:
        """Returns the profile as aligned text, one line per measure."""
        better = "higher" if self.higher_is_better else "lower"
        trials = f"{self.trials} trial" + ("" if self.trials == 1 else "s")
        rows = self.rows()
        wide = max(len(value) for _, value, _ in rows)
        lines = [
            f"ICL profile: {trials} of {self.length} positions, {better} is better, "
            f"{100 * self.confidence:g} % intervals"
        ]
        lines += [f"  {name:<10}{value:>{wide}}  {i}".rstrip() for name, value, i in rows]
        lines.append(f"  at the end: {self.trend}")
        return "\n".join(lines)

    def _context(self, horizon: float) -> str:
        if np.isnan(horizon):
            return "none"
        return f"beyond {self.length}" if np.isinf(horizon) else f"{horizon:.4g}"


def icl_curve(
    values: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    bins: Bins = None,
) -> ICLCurve:
    """Mean, spread and t-interval of a measure at every position of the context.

    Args:
      values: `float[N, T]`, trials by positions (steps, episodes or games of a trial).
      weights: `bool[N, T]` mask of the entries that exist (ragged trials), or `float[N, T]`
        non-negative weights, e.g. the number of games behind each value; all ones if None. Where it
        is 0 the value may be anything, NaN included. Intervals with unequal weights rest on Kish's
        effective number of trials.
      confidence: coverage of the interval, in (0, 1).
      bins: None, a number of bins of equal width, or the ascending start positions of the bins,
        beginning with 0; each trial is averaged within a bin first.

    Returns:
      `ICLCurve` in the units of `values`, of length T or the number of bins.

    Raises:
      ValueError: if `values` has another rank, T < 2, there is no data, an entry that counts is not
        finite, or `weights`, `confidence` or `bins` is not accepted.

    Source: the ICL axis of Figure 1 of the GPICL paper.

    Example:
      >>> import numpy as np
      >>> curve = icl_curve(np.array([[0.5, 0.75, 1.0], [0.25, 0.75, 1.0]]))
      >>> curve.mean.tolist()
      [0.375, 0.75, 1.0]
    """
    x, w = _trials(values, weights, "weights")
    check_confidence(confidence)
    length = x.shape[1]
    starts = _bin_starts(bins, length)
    totals = np.add.reduceat(w, starts, axis=1)
    sums = np.add.reduceat(w * x, starts, axis=1)
    x, w = _divide(sums, totals, fill=0.0), totals

    total = w.sum(0)
    mean = _divide((w * x).sum(0), total)
    square = (w**2).sum(0)
    effective = _divide(total**2, square, fill=0.0)
    deviation = np.where(w > 0, x - mean, 0.0)
    count = (w > 0).sum(0)
    # Unbiased for equal weights (ddof 1) and for weights that measure precision.
    freedom = np.where(count > 1, total - _divide(square, total, fill=0.0), 0.0)
    std = np.sqrt(_divide((w * deviation**2).sum(0), freedom))
    half = t_quantile(confidence, np.where(count > 1, effective - 1, 0.0))
    half = half * _divide(std, np.sqrt(effective))
    position = _centres(starts, length)
    return ICLCurve(position, mean, std, mean - half, mean + half, count.astype(np.int64))


def log_bins(length: int, count: int = 48) -> list[int]:
    """Starts of bins whose width grows with the position; the first bins are single positions.

    Args:
      length: T, number of positions.
      count: of bins, at most.
    """
    edges = np.unique(np.geomspace(1, length, count).round().astype(int)) - 1
    return [int(x) for x in edges[:-1]] or [0]


def icl_profile(
    values: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    higher_is_better: bool = True,
    smoothing: float = 0.2,
    tolerance: float = 0.05,
    bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    bins: Bins = None,
) -> ICLProfile:
    """Zero-shot performance, potential and horizon of in-context learning, with intervals.

    Zero-shot is the mean over trials at the first position, the asymptote the mean over the last
    10 % of the positions (each entry counts once), the potential the gap between them in the
    direction of better. The horizon is the first position from which the smoothed curve stays
    within `tolerance` of the potential from the asymptote, on either side.

    *Still improving.* A curve cut off while it rises has no asymptote to be near, so the horizon is
    `inf`, "beyond T", if the least-squares gain over the last 20 % of the positions exceeds
    `tolerance` of the potential, at the stated confidence (one-sided, under the bootstrap). For an
    exponential approach that flags time constants above T / 2.8, just where the true 95 % horizon
    leaves [0, T]. It is `inf` as well if the smoothed curve has not entered the band by T. A
    logarithmic approach, which never settles, gains less than that from T = 60 on: look at the
    curve on a logarithmic axis too.

    *No potential.* Where the interval of the potential reaches 0, context does not demonstrably
    help and the horizon is NaN.

    *Bias.* Smoothing and the finite T shift the horizon: by some per cent if the curve converged
    well before T, down to 0.75 T where an exponential's true horizon is T. A jump at c is found at
    c / (1 - 0.9 smoothing). Noise delays it: the smoothed curve's standard error should be well
    below `tolerance` of the potential, else smooth more, use bins, or run more trials.

    Args:
      values: `float[N, T]`, trials by positions (steps, episodes or games of a trial).
      mask: `bool[N, T]`, True where an entry exists (ragged trials); all if None. Values that do
        not exist may be anything, NaN included.
      higher_is_better: False for losses, perplexities, steps to the goal.
      smoothing: half-width of the moving average as a share of the position it stands at (0 for
        none). A window that grows with the context blurs early, fast learning no more than late,
        slow learning, and never the zero-shot position.
      tolerance: width of the band around the asymptote as a share of the potential.
      bootstrap: number of bootstrap samples over trials; 0 for no intervals (then the signs of the
        point estimates decide on trend and horizon).
      confidence: coverage of the percentile intervals, in (0, 1).
      seed: seed of the bootstrap.
      bins: as in `icl_curve`. Zero-shot is then the first bin, so keep that one short.

    Returns:
      `ICLProfile`; print it, or put its `table()` into a summary. With a single trial the intervals
      are NaN.

    Raises:
      ValueError: as `icl_curve`, or if the first position has no data, or a share or `bootstrap` is
        out of range.

    Source: Figure 1 of the GPICL paper and the paragraph below it (low zero-shot, high potential,
    long horizon); the tolerances are ours.

    Example:
      >>> import numpy as np
      >>> accuracy = 1 - 0.5 * np.exp(-np.arange(40) / 4) + np.zeros((10, 1))
      >>> profile = icl_profile(accuracy, bootstrap=0)
      >>> f"{profile.zero_shot.value:.2f} {profile.asymptote.value:.2f} {profile.trend}"
      '0.50 1.00 settled'
    """
    x, w = _trials(values, mask, "mask")
    check_confidence(confidence)
    check(0 <= smoothing < 1, "smoothing", smoothing, "0 <= smoothing < 1")
    check(0 < tolerance < 1, "tolerance", tolerance, "0 < tolerance < 1")
    is_accepted = bootstrap == 0 or bootstrap >= 100
    check(is_accepted, "bootstrap", bootstrap, "0 (none) or at least 100")

    length = int(np.flatnonzero(w.any(0))[-1]) + 1
    starts = _bin_starts(bins, x.shape[1])
    starts = starts[starts < length]
    if length < 2 or starts.size < 2:
        raise ValueError(
            f"values: got data at {length} positions, {starts.size} bins; accepted: 2 or more"
        )
    keep = w.any(1)
    x, w = x[keep, :length], w[keep, :length]
    sums, totals = np.add.reduceat(w * x, starts, axis=1), np.add.reduceat(w, starts, axis=1)
    if not totals[:, 0].any():
        raise ValueError(
            "values has no data at the first position (or bin): zero-shot is not measured"
        )
    sign = 1.0 if higher_is_better else -1.0
    shape = _Shape.of(_centres(starts, length), length, smoothing)

    point = _measure(sums.sum(0, keepdims=True), totals.sum(0, keepdims=True), shape, sign)
    trials = sums.shape[0]
    draws = point._replace(**{name: np.full(1, np.nan) for name in point._fields})
    if bootstrap and trials > 1:
        counts = np.random.default_rng(seed).multinomial(
            trials, np.full(trials, 1 / trials), size=bootstrap
        )
        blocks = [
            _measure(c @ sums, c @ totals, shape, sign)
            for c in np.split(counts.astype(np.float64), range(_BLOCK, bootstrap, _BLOCK))
        ]
        draws = _CurveStatistics(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))

    tails = (0.5 - confidence / 2, 0.5 + confidence / 2)
    zero_shot, asymptote, potential = (
        Estimate(float(value[0]), *_quantiles(drawn, tails))
        for value, drawn in zip(point[:3], draws[:3], strict=True)
    )
    rise, fall = (_excess(point, draws, tolerance, s) for s in (1.0, -1.0))
    rising, margin = _significant(*rise, level=1 - confidence)
    falling, _ = _significant(*fall, level=1 - confidence)
    trend: Trend = "improving" if rising else "declining" if falling else "settled"

    horizon, beyond = Estimate(float("nan"), float("nan"), float("nan")), float("nan")
    if potential.value > 0 and not potential.low <= 0:  # an interval of NaN does not object
        value = _horizons(point, shape, tolerance, improving=np.array([rising]))[0]
        # Every sample is judged as the trials themselves are: by more than the margin of error.
        drawn = _horizons(draws, shape, tolerance, improving=rise[1] > margin)
        horizon = Estimate(float(value), *_quantiles(drawn, tails))
        measured = drawn[~np.isnan(drawn)]
        beyond = float(np.isinf(measured).mean()) if measured.size else float("nan")
    return ICLProfile(
        zero_shot,
        asymptote,
        potential,
        horizon,
        trend,
        beyond,
        length,
        trials,
        higher_is_better,
        tolerance,
        confidence,
    )


class _CurveStatistics(NamedTuple):
    """Statistics of K curves: four `float64[K]` and the smoothed curves `float64[K, T]`."""

    zero_shot: Floats
    asymptote: Floats
    potential: Floats
    gain: Floats  # over the last 20 % of the positions, in the direction of better
    smooth: Floats


class _Shape(NamedTuple):
    """Index arithmetic shared by all bootstrap samples."""

    position: Floats
    first: NDArray[np.int64]  # of each smoothing window
    last: NDArray[np.int64]  # one past its end
    asymptote: slice
    trend: slice
    span: float

    @classmethod
    def of(cls, position: Floats, length: int, smoothing: float) -> "_Shape":
        count = position.size
        reach = smoothing * position
        tail = min(int(np.searchsorted(position, (1 - _ASYMPTOTE_SHARE) * length)), count - 1)
        rise = min(int(np.searchsorted(position, (1 - _TREND_SHARE) * length)), count - 2)
        return cls(
            position,
            np.searchsorted(position, position - reach, side="left"),
            np.searchsorted(position, position + reach, side="right"),
            slice(tail, None),
            slice(rise, None),
            _TREND_SHARE * length,
        )


def _measure(sums: Floats, totals: Floats, shape: _Shape, sign: float) -> _CurveStatistics:
    """Measures of K mean curves, given as `float64[K, T]` sums of values and of weights."""
    mean = _divide(sums, totals)
    zero_shot = mean[:, 0]
    asymptote = _divide(sums[:, shape.asymptote].sum(1), totals[:, shape.asymptote].sum(1))

    # Least squares with the amount of data as weight: a position without data does not count.
    weight = totals[:, shape.trend]
    value = np.where(weight > 0, mean[:, shape.trend], 0.0)
    at = shape.position[shape.trend]
    total = weight.sum(1, keepdims=True)
    at = at - _divide((weight * at).sum(1, keepdims=True), total, fill=0.0)
    slope = _divide((weight * at * value).sum(1), (weight * at**2).sum(1))

    def windows(data: Floats) -> Floats:
        running = np.concatenate([np.zeros((data.shape[0], 1)), np.cumsum(data, axis=1)], axis=1)
        return running[:, shape.last] - running[:, shape.first]

    smooth = _divide(windows(sums), windows(totals))
    return _CurveStatistics(
        zero_shot, asymptote, sign * (asymptote - zero_shot), sign * slope * shape.span, smooth
    )


def _horizons(
    measures: _CurveStatistics, shape: _Shape, tolerance: float, improving: NDArray[np.bool_]
) -> Floats:
    """Horizon of each curve: a position, `inf` beyond the last, NaN without potential."""
    band = tolerance * measures.potential[:, None] * (1 + 1e-9)
    outside = np.abs(measures.smooth - measures.asymptote[:, None]) > band  # NaN: no data, no exit
    stays = ~np.logical_or.accumulate(outside[:, ::-1], axis=1)[:, ::-1]
    horizon = np.where(stays[:, -1], shape.position[np.argmax(stays, axis=1)], np.inf)
    horizon = np.where(improving, np.inf, horizon)
    return np.where(measures.potential > 0, horizon, np.nan)


def _excess(
    point: _CurveStatistics, draws: _CurveStatistics, tolerance: float, sign: float
) -> tuple[float, Floats]:
    """By how much the final movement exceeds `tolerance` of the potential; and in each sample."""
    value, drawn = (sign * m.gain - tolerance * np.abs(m.potential) for m in (point, draws))
    return float(value[0]), drawn


def _significant(value: float, drawn: Floats, level: float) -> tuple[bool, float]:
    """Whether `value` is above 0 at this one-sided level; its margin of error (0 if unknown)."""
    (low,) = _quantiles(drawn, (level,))
    margin = 0.0 if np.isnan(low) else max(value - low, 0.0)
    return value > margin, margin


def _quantiles(draws: Floats, levels: Sequence[float]) -> tuple[float, ...]:
    """Quantiles of the draws that are not NaN; NaN if those are fewer than half."""
    finite = draws[~np.isnan(draws)]
    if 2 * finite.size < draws.size or finite.size == 0:
        return (float("nan"),) * len(levels)
    # Order statistics, not interpolation: between a position and infinity lies nothing.
    return tuple(float(q) for q in np.quantile(finite, levels, method="closest_observation"))


def _trials(
    values: ArrayLike, weights: ArrayLike | None, weights_name: str
) -> tuple[Floats, Floats]:
    """Returns checked `float64[N, T]` values, 0 where they do not count, and their weights."""
    x = np.asarray(values, np.float64)
    check_array(x.ndim == 2, "values", x, "float[N, T], trials by positions")
    is_large_enough = x.shape[0] >= 1 and x.shape[1] >= 2
    check_array(is_large_enough, "values", x, "at least one trial of at least 2 positions")
    w = np.ones_like(x) if weights is None else np.asarray(weights)
    check_array(w.shape == x.shape, weights_name, w, f"the shape of values, {[*x.shape]}")
    if weights_name == "mask" and weights is not None:
        check_array(w.dtype == np.bool_, "mask", w, "bool, True where data exist")
    w = w.astype(np.float64)
    if not np.all(np.isfinite(w)) or np.any(w < 0):
        raise ValueError(f"{weights_name}: got negative or non-finite entries; accepted: >= 0")
    if not w.any():
        raise ValueError(f"there is no data: {weights_name} is zero (or False) everywhere")
    bad = int(np.sum(~np.isfinite(x) & (w > 0)))
    if bad:
        raise ValueError(
            f"values has {bad} entries that are not finite and not excluded by {weights_name}; "
            f"pass {weights_name}=np.isfinite(values) if they are missing data"
        )
    return np.where(w > 0, x, 0.0), w


def _bin_starts(bins: Bins, length: int) -> NDArray[np.int64]:
    """First position of every bin: `int64[B]`, B >= 2."""
    if bins is None:
        return np.arange(length)
    if isinstance(bins, int):
        check(2 <= bins <= length, "bins", bins, f"2 to the number of positions, {length}")
        return np.arange(bins) * length // bins
    starts = np.asarray(bins)
    valid = starts.ndim == 1 and starts.size >= 2 and np.issubdtype(starts.dtype, np.integer)
    valid = valid and starts[0] == 0 and np.all(np.diff(starts) >= 1) and starts[-1] < length
    accepted_values = f"2 or more ascending start positions, from 0 to at most {length - 1}"
    check(valid, "bins", bins, accepted_values)
    return starts.astype(np.int64)


def _centres(starts: NDArray[np.int64], length: int) -> Floats:
    """Returns mean position of every bin: `float64[B]`."""
    ends = np.append(starts[1:], length)
    return (starts + ends - 1) / 2


def _divide(a: ArrayLike, b: ArrayLike, fill: float = np.nan) -> Floats:
    """`a / b`, and `fill` where `b` is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64))
    return np.divide(top, bottom, out=np.full(top.shape, fill), where=bottom != 0)


def _bracket(low: str, high: str) -> str:
    return "" if "nan" in (low, high) or "none" in (low, high) else f"[{low}, {high}]"
