"""One yardstick for in-context learning in any system: an agent between a null and an oracle."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpicljax.checks import Range, check, check_array, check_choice, fits
from gpicljax.evaluation.icl import Estimate, icl_profile, log_bins
from gpicljax.evaluation.statistics import mean_interval, t_quantile

Floats = NDArray[np.float64]
GROUPS = 64
"""Rows of a record over trials, at most: trials are averaged in groups."""


@dataclasses.dataclass(frozen=True, eq=False)
class ICLRecord:
    """Scores of an agent by context, beside a null, an oracle and the agent without memory.

    All were measured on the same samples. A curve has a row for each training seed, or, of an agent
    with a single seed, for each group of trials: then intervals say nothing about training.

    Attributes:
      system: in which system, such as "Maze World".
      task: on what.
      agent: what learnt to learn, such as "R2D2 with an event store".
      measure: what the curves show, with its unit.
      context: what the positions count, such as "games".
      higher_is_better: direction of better.
      rows: what a row is.
      length: number of positions that were measured.
      end: share of them that is the end, 0.1 for the last tenth.
      position: `float64[T]`, the context before.
      weight: `float64[T]`, number of positions behind each.
      curves: by role, `float64[N, T]`: "agent", "oracle", "null" (the strongest at the end that
        needs no training), "null overall" (the strongest over the whole context), and "memory
        wiped" where it was measured; NaN where there is no data.
      null: the strongest null at the end, in words.
      oracle: what the oracle is.
      least_gap: at the "end" and "overall", the lower end of the interval over trials of how far
        the oracle is ahead of the null; 0 or less says that noise may be all there is.

    Example:
      >>> ICLRecord.from_json({"system": "Maze World"})
      Traceback (most recent call last):
      ValueError: no record of in-context learning: got {'system': 'Maze World'}
    """

    system: str
    task: str
    agent: str
    measure: str
    context: str
    higher_is_better: bool
    rows: Literal["seeds", "trials"]
    length: int
    end: float
    position: Floats
    weight: Floats
    curves: Mapping[str, Floats]
    null: str
    oracle: str
    least_gap: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def ends(self, role: str) -> Floats:
        """Means over the end of the context, `float64[N]`.

        Args:
          role: which of `curves`.
        """
        last = self.position >= min((1 - self.end) * self.length, self.position[-1])
        return _mean(self.curves[role][:, last], 1, self.weight[last])

    def overall(self, role: str) -> Floats:
        """Means over the whole context, `float64[N]`.

        Args:
          role: which of `curves`.
        """
        return _mean(self.curves[role], 1, self.weight)

    def to_json(self) -> dict[str, Any]:
        """Returns the record for JSON, NaN as None."""
        entries = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for name in ("position", "weight"):
            entries[name] = [round(float(x), 3) for x in entries[name]]
        entries["curves"] = {
            role: [[None if np.isnan(x) else float(f"{x:.6g}") for x in row] for row in curve]
            for role, curve in self.curves.items()
        }
        return entries

    @classmethod
    def from_json(cls, entries: Any) -> ICLRecord:
        """Returns the inverse of `to_json`.

        Raises:
          ValueError: if it is anything else.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        # Records of before have no gap.
        if not isinstance(entries, dict) or {*entries, "least_gap"} != names:
            raise ValueError(f"no record of in-context learning: got {str(entries)[:80]}")
        entries = {"least_gap": {}, **entries}
        try:
            return cls(**{**entries, **_check_arrays(entries)})
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(f"no record of in-context learning: {error}") from None


def _check_arrays(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arrays of a stored record, and refuses fields that `icl_record` cannot write."""
    for name in ("system", "task", "agent", "measure", "context", "null", "oracle"):
        check(isinstance(entries[name], str), name, entries[name], "a text")
    check(
        isinstance(entries["higher_is_better"], bool),
        "higher_is_better",
        entries["higher_is_better"],
        "true or false",
    )
    check_choice("rows", entries["rows"], ("seeds", "trials"))
    check(
        fits(entries["length"], Annotated[int, Range(1)]),
        "length",
        entries["length"],
        "an int >= 1",
    )
    end = entries["end"]
    check(isinstance(end, float) and 0 < end < 1, "end", end, "a number between 0 and 1")
    position, weight = (_numbers(name, entries[name]) for name in ("position", "weight"))
    ascends = position.size > 1 and position[0] >= 0 and bool((np.diff(position) > 0).all())
    check(ascends, "position", entries["position"], "two or more ascending numbers >= 0")
    sound = weight.shape == position.shape and bool((weight > 0).all())
    check(sound, "weight", entries["weight"], f"{position.size} numbers above 0")
    curves = {role: _numbers(role, curve, 2) for role, curve in entries["curves"].items()}
    needed = {"agent", "null", "null overall", "oracle"}
    check(needed <= curves.keys(), "curves", [*curves], ", ".join(sorted(needed)))
    shape = len(curves["agent"]), position.size
    for role, curve in curves.items():
        check(curve.shape == shape, role, curve.shape, f"the shape {shape}")
    gap = dict(entries["least_gap"])
    check(gap.keys() <= {"end", "overall"}, "least_gap", [*gap], "end, overall")
    _numbers("least_gap", [*gap.values()])
    return {"position": position, "weight": weight, "curves": curves, "least_gap": gap}


def _numbers(name: str, value: Any, ndim: int = 1) -> Floats:
    """Returns numbers from JSON as an array; null is NaN in curves, and refused elsewhere."""
    rows = value if ndim == 2 else [value]
    values = [x for row in rows for x in row]
    sound = all(
        (x is None and ndim == 2)
        or (isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x))
        for x in values
    )
    check(sound, name, "other values", "finite numbers")
    return np.asarray(value, np.float64)


class ICLSummary(NamedTuple):
    """A record in numbers, each with its interval.

    Attributes:
      zero_shot: the agent at the first position.
      asymptote: the agent at the end.
      potential: from the one to the other, positive where context helps.
      horizon: context until the asymptote is reached, as `icl_profile` has it; NaN where context
        does not demonstrably help.
      null: the strongest null at the end.
      oracle: the oracle there.
      share: how much of the gap between them the agent closes there: 0 as the null, 1 as the
        oracle; NaN where the null is at the oracle, or their gap within noise.
      overall: the same of the means over the whole context: how fast the agent learns counts.
      wiped: the share at the end without memory; NaN where it was not measured.
    """

    zero_shot: Estimate
    asymptote: Estimate
    potential: Estimate
    horizon: Estimate
    null: Estimate
    oracle: Estimate
    share: Estimate
    overall: Estimate
    wiped: Estimate


def icl_record(
    curves: Mapping[str, ArrayLike],
    nulls: Mapping[str, ArrayLike],
    *,
    system: str,
    task: str,
    agent: str,
    measure: str,
    context: str,
    oracle: str,
    higher_is_better: bool = True,
    end: float = 0.1,
    bins: int | None = None,
    positions: ArrayLike | None = None,
    reached: bool = False,
) -> ICLRecord:
    """Makes a record of measured curves.

    The nulls are those that do best on these very samples, at the end and over the whole context.
    That choice favours the nulls.

    Args:
      curves: by role ("agent", "oracle", "memory wiped"), `float[S, N, T]`: N trials of S seeds; or
        `float[N, T]` of one seed. NaN marks what does not exist. The oracle's and the nulls' may
        have one seed where the agent's have several: all seeds then had the same trials.
      nulls: the same by name, of predictors and rules that need no training.
      system: see `ICLRecord`, as for `task`, `agent`, `measure`, `context`, `oracle` and
        `higher_is_better`.
      end: share of the positions that is the end. Where rewards come in episodes that all trials
        begin together, it should hold several of them.
      positions: ascending `float[T]`, what was measured at, if not at 0 .. T - 1; without bins.
      bins: number of bins whose width grows with the position (`log_bins`); None for positions.
      reached: whether to leave out the positions from `reached_length` of the agent on.

    Returns:
      The record: rows are seeds where there are several, else groups of trials.

    Raises:
      ValueError: if a shape does not fit, or there is no null.

    Example:
      >>> about = dict(system="games", task="easy", agent="LSTM", measure="accuracy")
      >>> about |= dict(context="games", oracle="told")
      >>> agent, oracle = np.tile([0.5, 0.9], (3, 20, 1)), np.ones((20, 2))
      >>> nulls = {"random": 0.5 * oracle, "a rule": 0.7 * oracle}
      >>> icl_record({"agent": agent, "oracle": oracle}, nulls, **about).null
      'a rule'
    """
    check(nulls, "nulls", sorted(nulls), "at least one")
    shaped = {role: _three_axes(role, x) for role, x in curves.items()}
    rest = {name: _three_axes(name, x) for name, x in nulls.items()}
    seeds, trials, length = shaped["agent"].shape
    if reached:
        length = reached_length(shaped["agent"])
        shaped, rest = ({n: x[..., :length] for n, x in named.items()} for named in (shaped, rest))
    for name, x in {**shaped, **rest}.items():
        fits = x.shape[1:] == (trials, length) and x.shape[0] in (1, seeds)
        check_array(fits, name, x, f"float[{seeds} or 1, {trials}, {length}], as the agent's")
    check(0 < end < 1, "end", end, "0 < end < 1")
    last = min(round((1 - end) * length), length - 1)
    starts = np.arange(length) if bins is None else np.append(log_bins(last, bins), last)
    ends = np.append(starts[1:], length)
    check(len(starts) >= 2, "bins", list(starts), "two positions or bins, or more")
    position = (starts + ends - 1) / 2.0 if positions is None else np.asarray(positions, np.float64)
    fits = position.shape == starts.shape and (np.diff(position) > 0).all()
    check_array(fits, "positions", position, f"ascending float[{length}], without bins")

    def bin_rows(x: Floats) -> Floats:
        # A single seed's trials in groups, the same ones for all curves.
        groups = min(trials, GROUPS)
        rows = [x[0, i::groups] for i in range(groups)] if seeds == 1 else [*x] * (seeds // len(x))
        parts = [[row[:, a:b].ravel() for a, b in zip(starts, ends, strict=True)] for row in rows]
        return np.array([[_mean(entries, 0) for entries in row] for row in parts], np.float64)

    sign = 1 if higher_is_better else -1

    def best(first: int) -> str:
        return max(rest, key=lambda name: sign * float(_mean(rest[name][..., first:].ravel(), 0)))

    def least_gap(name: str, first: int) -> float:
        gaps = [_mean(x[..., first:], -1).mean(0) for x in (shaped["oracle"], rest[name])]
        gap = sign * (gaps[0] - gaps[1])
        gap = gap[np.isfinite(gap)]
        return mean_interval(gap).low if len(gap) > 1 else float(gap.sum())

    chosen, chosen_overall = best(last), best(0)
    return ICLRecord(
        system=system,
        task=task,
        agent=agent,
        measure=measure,
        context=context,
        higher_is_better=higher_is_better,
        rows="seeds" if seeds > 1 else "trials",
        length=length if positions is None else int(position[-1]) + 1,
        end=end,
        position=position,
        weight=(ends - starts).astype(np.float64),
        curves={
            **{role: bin_rows(x) for role, x in shaped.items()},
            "null": bin_rows(rest[chosen]),
            "null overall": bin_rows(rest[chosen_overall]),
        },
        null=chosen,
        oracle=oracle,
        least_gap={"end": least_gap(chosen, last), "overall": least_gap(chosen_overall, 0)},
    )


def reached_length(values: ArrayLike) -> int:
    """Returns up to which position, of `float[..., T]`, at least a tenth of the trials has data."""
    is_there = np.isfinite(np.asarray(values, np.float64))
    is_reached = is_there.mean(tuple(range(is_there.ndim - 1))) >= 0.1
    return int(np.argmin(np.append(is_reached, False)))


def icl_summary(record: ICLRecord) -> ICLSummary:
    """Returns the numbers of a record.

    Intervals are t-intervals of 95 % of the jackknife over rows; for plain means that is the usual
    t-interval. That of the horizon is the range over seeds, or the bootstrap's over trials.
    """
    agent = record.curves["agent"]
    sign = 1 if record.higher_is_better else -1
    ends = {role: record.ends(role) for role in record.curves}

    def estimate(statistic: Callable[[NDArray[np.intp]], float]) -> Estimate:
        return _jackknife(statistic, len(agent))

    def mean(values: Floats) -> Estimate:
        return estimate(lambda rows: float(_mean(values[rows], 0)))

    def share_of(values: Floats, null: Floats, oracle: Floats, part: str = "end") -> Estimate:
        def share(rows: NDArray[np.intp]) -> float:
            if record.least_gap.get(part, 1.0) <= 0:
                return np.nan
            value, low, high = (float(_mean(x[rows], 0)) for x in (values, null, oracle))
            return (value - low) / (high - low) if (high - low) * sign > 0 else np.nan

        return estimate(share)

    limits, nan = (ends["null"], ends["oracle"]), Estimate(np.nan, np.nan, np.nan)
    return ICLSummary(
        zero_shot=mean(agent[:, 0]),
        asymptote=mean(ends["agent"]),
        potential=mean(sign * (ends["agent"] - agent[:, 0])),
        horizon=_horizon(record),
        null=mean(ends["null"]),
        oracle=mean(ends["oracle"]),
        share=share_of(ends["agent"], *limits),
        overall=share_of(
            *(record.overall(x) for x in ("agent", "null overall", "oracle")), part="overall"
        ),
        wiped=share_of(ends["memory wiped"], *limits) if "memory wiped" in ends else nan,
    )


def _horizon(record: ICLRecord) -> Estimate:
    agent = record.curves["agent"]

    def horizon_of(rows: Floats, bootstrap: int) -> Estimate:
        finite = np.isfinite(rows)
        better = record.higher_is_better
        profile = icl_profile(rows, finite, higher_is_better=better, bootstrap=bootstrap)
        last = len(record.position) - 1

        def context(index: float) -> float:  # between positions, and beyond the last
            if not np.isfinite(index):
                return index
            return float(np.interp(min(index, last), np.arange(last + 1), record.position))

        return Estimate(*map(context, profile.horizon))

    if len(agent) == 1:
        return Estimate(horizon_of(agent, 0).value, np.nan, np.nan)
    horizon = horizon_of(agent, 1000)
    if record.rows == "trials" or np.isnan(horizon.value):
        return horizon
    by_seed = [horizon_of(row[None], 0).value for row in agent]
    return Estimate(horizon.value, float(np.nanmin(by_seed)), float(np.nanmax(by_seed)))


def _jackknife(statistic: Callable[[NDArray[np.intp]], float], count: int) -> Estimate:
    """Returns a statistic of rows, given by their indices, with a t-interval of 95 %."""
    every = np.arange(count)
    value = statistic(every)
    if count < 2:
        return Estimate(value, np.nan, np.nan)
    left = np.array([statistic(np.delete(every, i)) for i in every])
    error = np.sqrt((count - 1) / count * ((left - left.mean()) ** 2).sum())
    half = float(t_quantile(0.95, np.array([count - 1.0]))[0] * error)
    return Estimate(value, value - half, value + half)


def _mean(values: Floats, axis: int, weight: Floats | float = 1.0) -> Floats:
    """Means of what exists, NaN where nothing does; weights along the last axis."""
    shares = np.isfinite(values) * weight
    total = (np.where(np.isfinite(values), values, 0.0) * shares).sum(axis)
    count = shares.sum(axis)
    return np.where(count > 0, total / np.where(count > 0, count, 1), np.nan)


def _three_axes(name: str, values: ArrayLike) -> Floats:
    x = np.asarray(values, np.float64)
    check_array(x.ndim in (2, 3), name, x, "float[N, T] or float[S, N, T]")
    return x if x.ndim == 3 else x[None]
