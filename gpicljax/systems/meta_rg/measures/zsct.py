"""Meta-Referential Games: zero-shot compositional test (ZSCT) accuracies, Table 3's hypotheses."""

import itertools
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from jax.typing import ArrayLike
from numpy.typing import ArrayLike as HostArrayLike

from gpicljax.checks import check, check_array
from gpicljax.evaluation.statistics import (
    SummaryStats,
    WelchResult,
    holm_correction,
    mean_interval,
    welch_test_from_stats,
)
from gpicljax.evaluation.tables import markdown_table
from gpicljax.systems.meta_rg.measures.accuracy import PhaseAccuracy, checked_games, phase_accuracy

Verdict = Literal["supported", "contradicted", "undecided"]


class ZSCTAccuracy(NamedTuple):
    """Accuracies of both phases; the paper's ZSCT accuracy is `query.by_episode`."""

    query: PhaseAccuracy
    support: PhaseAccuracy


def zsct_accuracy(correct: ArrayLike, valid: ArrayLike, is_query: ArrayLike) -> ZSCTAccuracy:
    """Query and support accuracy of finished episodes, jittable and vmappable (over seeds, say).

    Games of one episode share its semantic structure, its channel and the agent's memory, so they
    are not independent: both standard errors take the episode as the unit.

    Args:
      correct: `bool[B, G]`, whether the listener decided game g of episode b correctly.
      valid: `bool[B, G]`, whether that game was played (episodes differ in length).
      is_query: `bool[B, G]`, True in the query phase, False in the support phase.

    Returns:
      `ZSCTAccuracy` with fractions in JAX's default float type. A phase without games has NaN
      accuracies, one with a single episode NaN errors.

    Raises:
      ValueError: if the shapes differ or are not `[B, G]`.
      TypeError: if an array is not boolean; a reward of -2 would otherwise pass for a success.

    Source: section 4.1 and Algorithm 3 of the Meta-Referential Games paper (Acc_ZSCT); averaged
      over episodes as in its reference code.
    """
    right, played, query = checked_games(correct=correct, valid=valid, is_query=is_query)
    return ZSCTAccuracy(
        query=phase_accuracy(right, played & query),
        support=phase_accuracy(right, played & ~query),
    )


class HypothesisRow(NamedTuple):
    """One comparison of two cells of Table 3.

    Attributes:
      hypothesis: 1 (accuracy falls as O grows) or 2 (accuracy grows with S).
      fixed: what both cells share, e.g. `"S = 2"`.
      change: what differs, e.g. `"O: 1 to 4"`.
      extreme: True for the smallest against the largest value, False for neighbours.
      difference: mean accuracy after the change minus before it.
      test: one-sided Welch test of the hypothesis; NaN if neither cell varies.
      p_adjusted: its p-value after Holm's correction over the rows of the hypothesis.
      p_against: p-value of the opposite hypothesis, corrected in the same way.
      verdict: which of the two, if any, is below the level.
    """

    hypothesis: Literal[1, 2]
    fixed: str
    change: str
    extreme: bool
    difference: float
    test: WelchResult
    p_adjusted: float
    p_against: float
    verdict: Verdict


def hypothesis_tests(
    cells: Mapping[tuple[int, int], HostArrayLike | SummaryStats], *, level: float = 0.05
) -> tuple[HypothesisRow, ...]:
    """Table 3's two hypotheses, tested cell against cell.

    Hypothesis 1: accuracy decreases as O increases, for each S. Hypothesis 2: accuracy increases
    with S, for each O. Each is a family of one-sided Welch tests between neighbouring cells and
    between the smallest and the largest value, corrected after Holm (1979) within the hypothesis.
    The opposite direction is tested as well, as a family of its own: the paper reports cells that
    *contradict* hypothesis 2, which is more than a failure to support it.

    Args:
      cells: accuracies by (S, O): `float[N]` of N >= 2 seeds, or `SummaryStats` for published cells
        (`hypothesis_tests(published.TABLE_3)`). The grid may have holes; one unit for all.
      level: family-wise error rate of each verdict, in (0, 1).

    Returns:
      Rows, hypothesis 1 first, then by the fixed and the changing value.

    Raises:
      ValueError: if no two cells share S or O, a cell has fewer than two seeds or values that are
        not finite, or `level` is not in (0, 1).

    Source: section 4.3 and Table 3 of the Meta-Referential Games paper, which states the hypotheses
      and "non-significant"; the tests are ours.
    """
    check(0 < level < 1, "level", level, "0 < level < 1")
    moments = {key: _moments(key, cell) for key, cell in cells.items()}
    by_samples = _compare(moments, hypothesis=1, level=level)
    by_shots = _compare(moments, hypothesis=2, level=level)
    if not by_samples and not by_shots:
        raise ValueError(
            f"cells has the (S, O) keys {sorted(moments)}; at least two must share S or share O"
        )
    return by_samples + by_shots


def hypothesis_table(rows: tuple[HypothesisRow, ...]) -> str:
    """Rows of `hypothesis_tests` as a Markdown table; differences in percentage points."""
    head = ["hypothesis", "cells", "change", "difference (points)", "t", "dof", "p (Holm)"]
    shown = []
    for row in rows:
        name = "1: falls with O" if row.hypothesis == 1 else "2: grows with S"
        change = row.change + (" (extremes)" if row.extreme else "")
        test = f"{row.test.t:.2f}", f"{row.test.dof:.1f}", _p_value(row.p_adjusted)
        shown.append([name, row.fixed, change, f"{100 * row.difference:+.1f}", *test, row.verdict])
    return markdown_table([*head, "verdict"], shown)


def _compare(
    cells: Mapping[tuple[int, int], SummaryStats], *, hypothesis: Literal[1, 2], level: float
) -> tuple[HypothesisRow, ...]:
    held, varied = (0, 1) if hypothesis == 1 else (1, 0)
    names = ("S", "O")
    rows: list[HypothesisRow] = []
    against: list[float] = []
    for fixed in sorted({key[held] for key in cells}):
        line = sorted(key for key in cells if key[held] == fixed)
        pairs = [(a, b, False) for a, b in itertools.pairwise(line)]
        if len(line) > 2:
            pairs.append((line[0], line[-1], True))
        for first, last, extreme in pairs:
            before, after = cells[first], cells[last]
            falls = welch_test_from_stats(*after, *before, alternative="less")
            grows = welch_test_from_stats(*after, *before, alternative="greater")
            test, opposite = (falls, grows) if hypothesis == 1 else (grows, falls)
            against.append(opposite.p)
            rows.append(
                HypothesisRow(
                    hypothesis=hypothesis,
                    fixed=f"{names[held]} = {fixed}",
                    change=f"{names[varied]}: {first[varied]} to {last[varied]}",
                    extreme=extreme,
                    difference=after.mean - before.mean,
                    test=test,
                    p_adjusted=test.p,
                    p_against=opposite.p,
                    verdict="undecided",
                )
            )
    adjusted = zip(
        rows, holm_correction([row.test.p for row in rows]), holm_correction(against), strict=True
    )
    return tuple(
        row._replace(
            p_adjusted=float(p), p_against=float(q), verdict=_verdict(float(p), float(q), level)
        )
        for row, p, q in adjusted
    )


def _moments(key: tuple[int, int], cell: HostArrayLike | SummaryStats) -> SummaryStats:
    if isinstance(cell, SummaryStats):
        moments = cell
    else:
        seeds = np.asarray(cell, np.float64)
        several = seeds.ndim == 1 and seeds.size >= 2
        check_array(several, f"cells[{key}]", seeds, "float[N] of N >= 2 seeds, or Moments")
        moments = mean_interval(seeds).moments
    if not np.all(np.isfinite([moments.mean, moments.std])):
        raise ValueError(f"cells[{key}] has values that are not finite: {moments}")
    return moments


def _verdict(p: float, against: float, level: float) -> Verdict:
    return "supported" if p < level else "contradicted" if against < level else "undecided"


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
