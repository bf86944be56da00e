"""Measures of learning one task after another: speed, transfer and retention.

All are functions of the steps that tasks took until they were cleared, by any learner: an agent
with frozen weights, a trainer, a program at the other end of a socket. Where a task was not cleared
within the budget its steps are censored: a lower bound, and marked as such.
"""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from gpicljax.checks import check, check_array, check_no_circle
from gpicljax.evaluation.statistics import (
    Interval,
    bootstrap_interval,
    check_confidence,
    format_interval,
    mean_interval,
)


class CompletionTimes(NamedTuple):
    """R runs of an agent through a sequence of n tasks; each task follows once the last is cleared.

    Attributes:
      steps: `int[R, n]`, steps spent in each task; 0 for tasks that were never reached.
      cleared: `bool[R, n]`, whether the task was cleared. A task that was begun and is not cleared
        is censored, and is the last one of its run.

    Example:
      >>> runs = CompletionTimes(np.array([[10, 20, 0]]), np.array([[True, False, False]]))
      >>> runs.is_begun.tolist()
      [[True, True, False]]
    """

    steps: NDArray[Any]
    cleared: NDArray[Any]

    @property
    def is_begun(self) -> NDArray[Any]:
        """Returns `bool[R, n]`, whether the run reached the task."""
        return np.cumprod(np.roll(self.cleared, 1, 1).astype(int) | _first_column(self), 1) > 0


def _first_column(runs: CompletionTimes) -> NDArray[Any]:
    return np.arange(runs.cleared.shape[1])[None] == 0


def completion_times(
    steps: ArrayLike,
    cleared: ArrayLike,
    *,
    budget: ArrayLike | None = None,
    total: int | None = None,
) -> CompletionTimes:
    """Returns runs under a budget: a task that takes longer is censored, and ends its run.

    Args:
      steps: `int[R, n]`, steps spent in each task of the sequence.
      cleared: `int[R]`, number of tasks of the sequence that each run cleared.
      budget: `int[]` or `int[n]`, steps that a task may take; None for any number.
      total: steps that a run may take; None for any number.

    Returns:
      Steps and what was cleared, under the budget.

    Raises:
      ValueError: if the shapes are others, or a number is negative.

    Source: evaluation criteria of the General AI Challenge's first round, quantitative prize, 1.

    Example:
      >>> completion_times([[10, 50, 9]], [3], budget=20).steps.tolist()
      [[10, 20, 0]]
      >>> completion_times([[10, 50, 9]], [2]).cleared.tolist()
      [[True, True, False]]
    """
    spent, count = np.asarray(steps), np.asarray(cleared)
    check_array(spent.ndim == 2 and spent.size > 0, "steps", spent, "int[R, n]")
    fits = count.shape == spent.shape[:1]
    check_array(fits, "cleared", count, f"int[{len(spent)}], a number for each run")
    check(bool(np.all(spent >= 0)), "steps", spent.min(), "no negative numbers")
    runs, tasks = spent.shape
    is_done = np.arange(tasks) < count[:, None]
    limit = np.full((runs, tasks), np.iinfo(np.int64).max, np.int64)
    if budget is not None:
        limit = np.broadcast_to(np.asarray(budget, np.int64), (runs, tasks)).copy()
    if total is not None:
        before = np.cumsum(spent, 1) - spent
        limit = np.minimum(limit, np.maximum(total - before, 0))
    within = is_done & (spent <= limit)
    times = CompletionTimes(np.minimum(spent, limit), np.cumprod(within, 1) > 0)
    return times._replace(steps=np.where(times.is_begun, times.steps, 0))


@dataclass(frozen=True)
class Efficiency:
    """The speed at which a sequence was cleared (Figure A).

    Attributes:
      steps: `float[n]`, the median over runs that came so far; NaN where none did. Censored runs
        count with their budget, so that the median is a lower bound where `cleared` is below half.
      cleared: `float[n]`, the share of all runs that cleared the task.
      relative: `float[n]`, `steps` over the reference's: 1 is as fast as an agent that knows all.
      tasks: number of tasks that a run cleared.
      total: steps of a run, its censored task included.
    """

    steps: NDArray[np.float64]
    cleared: NDArray[np.float64]
    relative: NDArray[np.float64]
    tasks: Interval
    total: Interval


def efficiency(runs: CompletionTimes, reference: ArrayLike | None = None) -> Efficiency:
    """Sums up how fast an agent cleared a sequence.

    Args:
      runs: the agent's, R >= 1.
      reference: `float[n]`, steps of an agent that knows the tasks; `relative` is NaN without.

    Returns:
      Medians by task, shares, totals with t-intervals over runs.

    Raises:
      ValueError: if the reference has another shape.

    Example:
      >>> fast = efficiency(completion_times([[10, 30], [20, 50]], [2, 1]), reference=[10, 10])
      >>> fast.steps.tolist(), fast.cleared.tolist(), fast.relative.tolist()
      ([15.0, 40.0], [1.0, 0.5], [1.5, 4.0])
      >>> fast.total.mean
      55.0
    """
    reference_steps = (
        np.full(runs.steps.shape[1], np.nan) if reference is None else np.asarray(reference)
    )
    fits = reference_steps.shape == runs.steps.shape[1:]
    check_array(
        fits, "reference", reference_steps, f"float[{runs.steps.shape[1]}], one for each task"
    )
    spent = np.where(runs.is_begun, runs.steps, np.nan)
    is_reached = runs.is_begun.any(0)
    median = np.full(spent.shape[1], np.nan)
    median[is_reached] = np.nanmedian(spent[:, is_reached], axis=0)
    return Efficiency(
        steps=median,
        cleared=runs.cleared.mean(0),
        relative=median / reference_steps,
        tasks=mean_interval(runs.cleared.sum(1)),
        total=mean_interval(runs.steps.sum(1)),
    )


@dataclass(frozen=True)
class Transfer:
    """The gain from earlier tasks on a task (Figure B).

    Attributes:
      ratio: median steps without them over median steps with them; above 1 they help.
      low: lower end of the interval of the geometric mean of the runs' ratios.
      mean: the geometric mean of the runs' ratios.
      high: upper end of the interval.
      p: of the sign test, two-sided: as many runs faster as slower; ties are left out.
      pairs: runs.
      censored: `(without, with)`, runs that did not clear the task.
      inclusive: as `ratio`, with the steps of the tasks before counted too: above 1, they pay even
        where only the last task counts.
    """

    ratio: float
    low: float
    mean: float
    high: float
    p: float
    pairs: int
    censored: tuple[int, int]
    inclusive: float

    @property
    def gradual(self) -> bool:
        """Returns whether the whole interval is above 1."""
        return self.ratio > 1 and self.low > 1

    @property
    def interval(self) -> str:
        """Returns the geometric mean with its interval, as tables have it."""
        return format_interval(self.mean, self.low, self.high)

    @property
    def not_cleared(self) -> str:
        """Returns the censored runs, as tables have them."""
        return f"{self.censored[0]}, {self.censored[1]} of {self.pairs}"


def transfer(
    single: CompletionTimes,
    after: CompletionTimes,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Transfer:
    """Compares runs on a task alone with runs on its predecessors and then on it.

    Both come from the same initial agents, run by run. Where only the run alone did not clear the
    task, the ratio is a lower bound; where neither did, the pair is a tie. Where only the run after
    the predecessors did not, because it was not fast enough or never came so far, the pair counts
    as slower: with all steps of that run, and at least one more than the run alone took.

    Args:
      single: `[R, 1]`, the task and nothing else.
      after: `[R, m + 1]`, the m tasks before it, and it.
      confidence: coverage of the interval, in (0, 1).
      resamples: of the bootstrap, over pairs.
      seed: of the bootstrap.

    Returns:
      Ratios, interval and sign test.

    Raises:
      ValueError: if the numbers of runs differ, there are fewer than two, or `single` has more than
        one task.

    Source: evaluation criteria of the General AI Challenge's first round, quantitative prize, 2.

    Example:
      >>> alone = completion_times([[400], [300], [500]], [1, 1, 1])
      >>> after = completion_times([[50, 100], [60, 100], [50, 125]], [2, 2, 2])
      >>> helped = transfer(alone, after)
      >>> helped.ratio, helped.gradual, round(helped.inclusive, 2)
      (4.0, True, 2.5)
    """
    check_confidence(confidence)
    runs = len(single.steps)
    check_array(single.steps.shape[1] == 1, "single", single.steps, "steps [R, 1], one task")
    check_array(len(after.steps) == runs > 1, "after", after.steps, f"steps [{runs}, m + 1]")
    slow, slow_cleared = single.steps[:, 0].astype(float), single.cleared[:, 0]
    fast, fast_cleared = after.steps[:, -1].astype(float), after.cleared[:, -1]
    before, worse = after.steps[:, :-1].sum(1), slow_cleared & ~fast_cleared
    fast = np.where(slow_cleared | fast_cleared, fast, slow)
    fast = np.where(worse, np.maximum(before + fast, slow + 1), fast)
    slow, fast = np.maximum(slow, 1), np.maximum(fast, 1)
    logs = np.log2(slow / fast)
    wins, losses = int((logs > 0).sum()), int((logs < 0).sum())
    low, high = (float(logs[0]),) * 2
    if np.ptp(logs) > 0:
        low, high = bootstrap_interval(logs, confidence=confidence, resamples=resamples, seed=seed)
    return Transfer(
        ratio=float(np.median(slow) / np.median(fast)),
        low=float(2**low),
        mean=float(2 ** logs.mean()),
        high=float(2**high),
        p=float(stats.binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0,
        pairs=runs,
        censored=(int((~slow_cleared).sum()), int((~fast_cleared).sum())),
        inclusive=float(np.median(slow) / np.median(np.where(worse, fast, before + fast))),
    )


def hint_gain(
    synonyms: CompletionTimes,
    hints: CompletionTimes,
    *,
    reference: tuple[float, float] = (1.0, 1.0),
    **options: Any,
) -> Transfer:
    """Returns how much faster commands under other names are learnt with hints than without.

    To do better with hints than without them is the document's sign of having learnt to learn: a
    hint helps only a learner that relates new names to its skills. Tasks with hints are not the
    same tasks, though: their questions are longer, and their names new in every instance. So steps
    are counted in those of an agent that knows both: for it the ratio is 1 by definition.

    Args:
      synonyms: `[R, 1]`, the task without hints, such as micro19.
      hints: `[R, 1]`, the task with hints, such as micro20, by the same agents, run by run. Where
        only it was not cleared, the pair counts as slower.
      reference: steps that an agent that knows all takes for the first, and for the second.
      **options: `confidence`, `resamples` and `seed`, see `transfer`.

    Returns:
      Ratio of medians, geometric mean with its bootstrap interval, and sign test over runs, see
      `Transfer`: above 1 hints help, beyond doubt if it is `gradual`. `inclusive` is the ratio, for
      there is nothing before either task.

    Raises:
      ValueError: if one has another shape, there are fewer than two runs, or the reference is not
        positive.

    Source: sections A.2.19 and A.2.20 of the document of the General AI Challenge's first round.
    """
    fits = len(reference) == 2 and all(np.isfinite(x) and x > 0 for x in reference)
    check(fits, "reference", reference, "two positive numbers of steps")
    for name, runs in (("synonyms", synonyms), ("hints", hints)):
        check_array(runs.steps.shape[1:] == (1,), name, runs.steps, "steps [R, 1], one task")
    same = len(synonyms.steps) == len(hints.steps) > 1
    check_array(same, "hints", hints.steps, f"steps [{len(synonyms.steps)}, 1], at least two runs")
    scaled = hints.steps * (reference[0] / reference[1])
    return transfer(synonyms, hints._replace(steps=scaled), **options)


def learns_gradually(transfers: Sequence[Transfer]) -> bool:
    """Returns the challenge's verdict: earlier tasks help beyond doubt in most of the tasks tried.

    Example:
      >>> alone = completion_times([[9], [8]], [1, 1])
      >>> after = completion_times([[1, 3], [1, 4]], [2, 2])
      >>> learns_gradually([transfer(alone, after)])
      True
    """
    return sum(gain.gradual for gain in transfers) * 2 > len(transfers)


MARGIN = 1.25
"""So many times the steps of the first time are allowed for clearing a task again."""


@dataclass(frozen=True)
class Retention:
    """The steps of a task the first time and once more, after others were learnt (Figure C).

    A test of non-inferiority: what counts is not whether the second time was slower, which chance
    decides where nothing is lost, but whether it is beyond doubt that it was not much slower.

    Attributes:
      ratio: geometric mean, over runs, of the steps of the first time over those of the second: 1
        or more, nothing is lost. NaN without runs.
      low: lower end of its t-interval; NaN with fewer than two runs.
      high: upper end.
      pairs: runs that cleared the task the first time.
      lost: number of these runs that did not clear it again.
      margin: allowed multiple of the steps of the first time.
    """

    ratio: float
    low: float
    high: float
    pairs: int
    lost: int
    margin: float

    @property
    def interval(self) -> str:
        """Returns the ratio with its interval, as tables have it."""
        return format_interval(self.ratio, self.low, self.high)

    @property
    def is_retained(self) -> bool:
        """Returns whether the whole interval is within the margin."""
        return self.low > 1 / self.margin

    @property
    def is_forgotten(self) -> bool:
        """Returns whether the whole interval is outside the margin."""
        return self.high < 1 / self.margin


def retention(
    first: CompletionTimes, second: CompletionTimes, *, margin: float = MARGIN
) -> Retention:
    """Compares how long a task takes the first time and once more, after others were learnt.

    Args:
      first: `[R, 1]`, the first time. Only runs that cleared the task then are compared.
      second: `[R, 1]`, once more, by the agent as it was later in the same run. A run that does not
        clear it counts with its steps, and at least with `margin` times those of the first time.
      margin: allowed multiple of the steps of the first time, at least 1.

    Returns:
      Geometric mean of the runs' ratios, with its t-interval of 95 %.

    Raises:
      ValueError: if the shapes differ, there is more than one task, or the margin is below 1.

    Source: evaluation criteria of the General AI Challenge's first round, quantitative prize, 3.
    The margin is this project's: the document states none.

    Example:
      >>> first = completion_times([[100], [120], [110]], [1, 1, 1])
      >>> again = completion_times([[105], [115], [110]], [1, 1, 1])
      >>> kept = retention(first, again)
      >>> round(kept.ratio, 2), round(kept.low, 2), kept.is_retained, kept.is_forgotten
      (1.0, 0.89, True, False)
    """
    check_array(first.steps.shape[1] == 1, "first", first.steps, "steps [R, 1], one task")
    fits = first.steps.shape == second.steps.shape
    check_array(fits, "second", second.steps, f"steps {[*first.steps.shape]}, as first")
    check(margin >= 1, "margin", margin, "at least 1")
    runs = first.cleared[:, 0]
    first_steps, second_steps = (
        np.maximum(x.steps[runs, 0].astype(float), 1) for x in (first, second)
    )
    lost = ~second.cleared[runs, 0]
    second_steps = np.where(lost, np.maximum(second_steps, margin * first_steps), second_steps)
    ratio = low = high = float("nan")
    if runs.any():
        logs = mean_interval(np.log(first_steps / second_steps))
        ratio, low, high = (float(np.exp(x)) for x in (logs.mean, logs.low, logs.high))
    return Retention(ratio, low, high, int(runs.sum()), int(lost.sum()), margin)


class Forgetting(NamedTuple):
    """Skill in every task after every task of a sequence.

    Attributes:
      backward: mean change of a task's skill from when it was learnt to the sequence's end.
      forgetting: mean of the best skill ever reached after learning it, less that at the end.
      forward: mean skill in a task just before it is learnt, less that before the first task.
    """

    backward: float
    forgetting: float
    forward: float


def forgetting(skill: ArrayLike, untaught: ArrayLike) -> Forgetting:
    """Sums up a matrix of skills.

    Args:
      skill: `float[n, n]`, n >= 2; row j: skill in each task once task j was learnt, such as the
        share of first instances that are solved.
      untaught: `float[n]`, skill in each task before any was learnt.

    Returns:
      Backward transfer, forgetting and forward transfer.

    Raises:
      ValueError: if the shapes are others.

    Source: Lopez-Paz & Ranzato (2017), equations 3 and 4; Chaudhry et al. (2018), section 3.

    Example:
      >>> forgetting([[1.0, 0.2], [0.4, 1.0]], untaught=[0.0, 0.1])
      Forgetting(backward=-0.6, forgetting=0.6, forward=0.1)
    """
    table = np.asarray(skill, float)
    square = table.ndim == 2 and table.shape[0] == table.shape[1] > 1
    check_array(square, "skill", table, "float[n, n], n >= 2")
    tasks = len(table)
    learnt, end = np.diag(table)[:-1], table[-1, :-1]
    best = np.array([table[i:-1, i].max() for i in range(tasks - 1)])
    start = np.asarray(untaught, float)
    check_array(start.shape == (tasks,), "untaught", start, f"float[{tasks}]")
    forward = float(np.mean(np.diag(table, 1) - start[1:]))
    return Forgetting(float(np.mean(end - learnt)), float(np.mean(best - end)), forward)


def curriculum_orders(requires: Mapping[str, Sequence[str]], seed: int) -> tuple[str, ...]:
    """Returns an order of tasks in which each comes after all that it builds on.

    Args:
      requires: by task, what it builds on directly.
      seed: 0 for the order nearest to the mapping's own, any other for a random one: at every
        place, each task that may come is as likely.

    Raises:
      ValueError: if a task is unknown, or one builds on itself in the end.

    Example:
      >>> curriculum_orders({"spell": ["copy"], "copy": []}, 0)
      ('copy', 'spell')
    """
    place = {name: i for i, name in enumerate(requires)}
    for name, needed in requires.items():
        unknown = [name_before for name_before in needed if name_before not in place]
        check(not unknown, f"requires[{name!r}]", unknown, f"some of {[*place]}")
    check_no_circle("requires", requires)
    sorter = graphlib.TopologicalSorter(requires)
    sorter.prepare()
    generator = np.random.default_rng(seed)
    ready: list[str] = []
    order: list[str] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()], key=place.__getitem__)
        name = ready.pop(int(generator.integers(len(ready))) if seed else 0)
        sorter.done(name)
        order.append(name)
    return tuple(order)
