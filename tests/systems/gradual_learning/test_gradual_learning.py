"""Steps until tasks are cleared, by hand and by SciPy."""

import numpy as np
import pytest
from scipy import stats

from gpicljax.systems.gradual_learning.measures.criteria import (
    completion_times,
    curriculum_orders,
    efficiency,
    forgetting,
    hint_gain,
    learns_gradually,
    retention,
    transfer,
)
from gpicljax.systems.gradual_learning.measures.entrants import Entrant, ranking


def test_a_budget_censors_and_ends_the_run():
    steps = [[10, 50, 9], [10, 20, 30]]
    free = completion_times(steps, [3, 2])
    np.testing.assert_array_equal(free.steps, steps)
    np.testing.assert_array_equal(free.cleared, [[1, 1, 1], [1, 1, 0]])
    np.testing.assert_array_equal(free.is_begun, True)

    by_task = completion_times(steps, [3, 2], budget=[100, 20, 100])
    np.testing.assert_array_equal(by_task.steps, [[10, 20, 0], [10, 20, 30]])
    np.testing.assert_array_equal(by_task.cleared, [[1, 0, 0], [1, 1, 0]])
    np.testing.assert_array_equal(by_task.is_begun, [[1, 1, 0], [1, 1, 1]])

    in_all = completion_times(steps, [3, 2], total=60)
    np.testing.assert_array_equal(in_all.steps, [[10, 50, 0], [10, 20, 30]])
    np.testing.assert_array_equal(in_all.cleared, [[1, 1, 0], [1, 1, 0]])


def test_what_was_never_reached_has_no_steps():
    runs = completion_times([[10, 50, 0], [10, 0, 0]], [1, 0])
    np.testing.assert_array_equal(runs.is_begun, [[1, 1, 0], [1, 0, 0]])
    summed = efficiency(runs, reference=[5, 10, 10])
    np.testing.assert_array_equal(summed.steps, [10, 50, np.nan])
    np.testing.assert_array_equal(summed.cleared, [0.5, 0, 0])
    np.testing.assert_array_equal(summed.relative, [2, 5, np.nan])
    assert (summed.tasks.mean, summed.total.mean) == (0.5, 35)


def test_transfer_against_scipy():
    rng = np.random.default_rng(0)
    single, before, after = (rng.integers(low, 900, 12) for low in (300, 10, 100))
    measured = transfer(
        completion_times(single[:, None], np.ones(12, int)),
        completion_times(np.stack([before, after], 1), np.full(12, 2)),
    )
    faster = int((single > after).sum())
    slower = int((single < after).sum())
    assert measured.p == stats.binomtest(faster, faster + slower).pvalue
    assert measured.ratio == np.median(single) / np.median(after)
    np.testing.assert_allclose(measured.mean, stats.gmean(single / after))
    assert measured.low < measured.mean < measured.high
    assert measured.inclusive == np.median(single) / np.median(before + after)


def test_censored_pairs_are_bounds_or_ties():
    single = completion_times([[400], [400], [400], [100]], [1, 0, 0, 1])
    # Faster; faster by at least as much; neither; stuck on what comes before.
    after = completion_times([[10, 100], [10, 100], [10, 400], [500, 0]], [2, 2, 1, 0])
    measured = transfer(single, after)
    np.testing.assert_allclose(measured.mean, (4 * 4 / 5) ** (1 / 4))
    assert measured.censored == (2, 2)
    assert measured.p == 1
    assert not measured.gradual


def test_a_run_that_ends_before_or_within_the_task_is_slower_however_few_steps_were_left():
    single = completion_times([[400]] * 3, [1] * 3)
    # Thirty steps were left for the task; none; and a budget below what the run alone took.
    after = completion_times([[970, 30], [1000, 0], [100, 0]], [1, 0, 0])
    measured = transfer(single, after)
    assert (measured.censored, measured.p) == ((0, 3), 0.25)
    np.testing.assert_allclose(measured.mean, (0.4 * 0.4 * 400 / 401) ** (1 / 3))
    np.testing.assert_allclose(measured.inclusive, 0.4)
    assert measured.high < 1


def test_hints_are_worth_what_is_left_once_tasks_count_in_steps_of_one_who_knows_them():
    rng = np.random.default_rng(1)
    without, hinted = rng.integers(200, 900, (2, 12, 1))
    done = np.ones(12, int)
    gain = hint_gain(
        completion_times(without, done),
        completion_times(hinted, done),
        reference=(100, 200),
        confidence=0.8,
    )
    ratios = 2 * without / hinted
    np.testing.assert_allclose(gain.mean, stats.gmean(ratios[:, 0]))
    np.testing.assert_allclose(gain.ratio, 2 * np.median(without) / np.median(hinted))
    wins = int((ratios > 1).sum())
    assert gain.p == stats.binomtest(wins, 12).pvalue
    assert gain.low < gain.mean < gain.high and gain.inclusive == gain.ratio
    # Whoever knows both, and so is no learner, gains nothing however long the questions are.
    expert_gain = hint_gain(
        completion_times(without, done), completion_times(2 * without, done), reference=(1, 2)
    )
    assert (expert_gain.ratio, expert_gain.low, expert_gain.high, expert_gain.p) == (1, 1, 1, 1)


def test_hints_that_did_not_suffice_are_never_counted_as_faster():
    without = completion_times([[900], [900], [1000], [300]], [1, 1, 0, 1])
    # Not cleared, though few steps in those of the oracle; faster; neither; slower at least.
    hinted = completion_times([[1000], [500], [1000], [1000]], [0, 1, 0, 0])
    gain = hint_gain(without, hinted, reference=(1, 2))
    np.testing.assert_allclose(gain.mean, (900 / 901 * 900 / 250 * 1 * 300 / 500) ** (1 / 4))
    assert gain.censored == (1, 3)
    assert gain.p == 1


def test_no_difference_is_no_gradual_learning():
    same = transfer(completion_times([[50]] * 4, [1] * 4), completion_times([[5, 50]] * 4, [2] * 4))
    assert (same.ratio, same.low, same.high, same.p) == (1, 1, 1, 1)
    fast = transfer(completion_times([[90]] * 4, [1] * 4), completion_times([[5, 30]] * 4, [2] * 4))
    assert fast.gradual
    assert learns_gradually([fast, fast, same])
    assert not learns_gradually([fast, same])


def test_retention_against_scipy():
    rng = np.random.default_rng(2)
    first, second = rng.integers(300, 400, (2, 10, 1))
    cleared = np.ones(10, int)
    cleared[0] = 0  # no pair: it was not cleared the first time
    kept = retention(completion_times(first, cleared), completion_times(second, np.ones(10, int)))
    logs = np.log(first / second)[1:, 0]
    low, high = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    np.testing.assert_allclose([kept.ratio, kept.low, kept.high], np.exp([logs.mean(), low, high]))
    assert (kept.pairs, kept.lost, kept.margin) == (9, 0, 1.25)


def test_retention_is_shown_refuted_or_undecided():
    first = completion_times([[100], [104], [96], [100]], [1] * 4)
    same = retention(first, completion_times([[102], [99], [100], [98]], [1] * 4))
    assert same.is_retained and not same.is_forgotten
    twice = retention(first, completion_times([[204], [200], [199], [201]], [1] * 4))
    assert twice.is_forgotten and not twice.is_retained
    # Within the margin on average, but by chance; and the same with a stricter margin.
    noisy = retention(first, completion_times([[50], [200], [60], [170]], [1] * 4))
    assert not noisy.is_retained and not noisy.is_forgotten
    assert not retention(first, completion_times([[110]] * 4, [1] * 4), margin=1.05).is_retained
    # What is not cleared again took at least the margin longer, however early the run ended.
    lost = retention(first, completion_times([[5]] * 4, [0] * 4))
    assert (lost.lost, lost.is_retained) == (4, False)
    np.testing.assert_allclose(lost.ratio, 1 / 1.25)
    never = retention(
        completion_times([[9]] * 2, [0] * 2),
        first._replace(steps=first.steps[:2], cleared=first.cleared[:2]),
    )
    assert never.pairs == 0 and not never.is_retained and not never.is_forgotten


def test_an_agent_that_forgets_nothing_is_told_from_one_that_does():
    """Three targets, twelve runs, steps that spread by a seventh: points alone decide by chance."""
    rng = np.random.default_rng(3)
    done = np.ones(12, int)

    def verdicts(slower):
        draws = rng.lognormal(6.5, 0.14, (200, 3, 2, 12, 1)) * np.array([1, slower])[:, None, None]
        steps = draws.astype(int)
        by_target = [
            [retention(*(completion_times(x, done) for x in target)) for target in experiment]
            for experiment in steps
        ]
        return np.mean([all(retained.is_retained for retained in held) for held in by_target])

    assert verdicts(1) > 0.8
    assert verdicts(1.25) < 0.01


def test_forgetting_by_hand():
    skill = [[0.9, 0.1, 0.0], [0.8, 0.7, 0.2], [0.3, 0.6, 1.0]]
    measured = forgetting(skill, untaught=[0, 0, 0.1])
    np.testing.assert_allclose(measured, [(-0.6 - 0.1) / 2, (0.6 + 0.1) / 2, (0.1 + 0.1) / 2])


def test_the_ranking_passes_over_who_is_not_verified():
    order = ranking(
        [
            Entrant("quick but forgetful", 10, 100, gradual=True, remembers=False),
            Entrant("slow", 10, 900, gradual=True, remembers=True),
            Entrant("slower", 10, 1000, gradual=True, remembers=True),
            Entrant("half", 5, 50, gradual=True, remembers=True),
            Entrant("not looked at", 10, 200),
        ]
    )
    assert [who.name for who in order] == [
        "slow",
        "slower",
        "half",
        "quick but forgetful",
        "not looked at",
    ]
    with pytest.raises(ValueError, match=r"contestants: got \['a', 'a'\]"):
        ranking([Entrant("a", 1, 1), Entrant("a", 1, 1)])


REQUIRES = {"copy": [], "map": ["copy"], "say": ["copy"], "spell": ["say", "map"], "other": []}


def test_orders_respect_prerequisites():
    assert curriculum_orders(REQUIRES, 0) == ("copy", "map", "say", "spell", "other")
    orders = {curriculum_orders(REQUIRES, seed) for seed in range(1, 200)}
    assert len(orders) == 10  # two orders in the middle, five places for the task that stands alone
    for order in orders:
        assert all(order.index(a) < order.index(b) for b in REQUIRES for a in REQUIRES[b])


ONE = completion_times([[1]], [1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: curriculum_orders({"a": ["b"], "b": ["a"]}, 0), "requires: got '. -> . -> .'"),
        (lambda: curriculum_orders({"a": ["c"]}, 0), r"requires\['a'\]: got \['c'\]"),
        (lambda: completion_times([1, 2], [1]), "steps: got int64"),
        (lambda: completion_times([[1, 2]], [1, 2]), "cleared: got int64"),
        (lambda: completion_times([[-1, 2]], [1]), "steps: got -1"),
        (lambda: efficiency(completion_times([[1, 2]], [1]), [1]), "reference: got"),
        (
            lambda: transfer(completion_times([[1]], [1]), completion_times([[1, 2]], [2])),
            "after: got",
        ),
        (lambda: hint_gain(completion_times([[1, 2]], [2]), ONE), "synonyms: got"),
        (lambda: hint_gain(ONE, ONE), "at least two runs"),
        (lambda: hint_gain(ONE, ONE, reference=(1, 0)), r"reference: got \(1, 0\)"),
        (lambda: forgetting([[1.0]], [0.0]), "skill: got"),
        (lambda: retention(ONE, completion_times([[1, 2]], [2])), "second: got"),
        (lambda: retention(completion_times([[1, 2]], [2]), ONE), "first: got"),
        (lambda: retention(ONE, ONE, margin=0.9), "margin: got 0.9"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
