"""ICL curve and profile on curves whose answers are known."""

import numpy as np
import pytest
from scipy import stats

from gpicljax.evaluation import icl_curve, icl_profile


def trials(curve, n, noise, seed=0):
    """`float[n, T]`: the curve plus independent Gaussian noise."""
    rng = np.random.default_rng(seed)
    return curve + noise * rng.standard_normal((n, len(curve)))


def approach(length, tau):
    """Exponential approach from 0 to 1; its 95 % horizon is tau ln 20."""
    return 1 - np.exp(-np.arange(length) / tau)


def fields(curve):
    return np.stack([curve.position, curve.mean, curve.std, curve.low, curve.high, curve.count])


class TestCurve:
    def test_interval_agrees_with_scipy(self):
        x = trials(np.arange(5.0), 7, 2.0)
        curve = icl_curve(x, confidence=0.9)
        low, high = stats.ttest_1samp(x, 0.0, axis=0).confidence_interval(0.9)
        np.testing.assert_allclose(curve.low, low)
        np.testing.assert_allclose(curve.high, high)
        np.testing.assert_allclose(curve.std, x.std(0, ddof=1))
        np.testing.assert_array_equal(curve.position, np.arange(5))
        assert curve.count.tolist() == [7] * 5

    def test_ragged_equals_each_column_alone(self):
        x = trials(np.zeros(4), 6, 1.0)
        mask = np.arange(4) < np.array([4, 4, 3, 2, 1, 1])[:, None]
        mask[:, 3] = False
        mask[0, 3] = True
        curve = icl_curve(np.where(mask, x, np.nan), mask)
        for t in range(3):
            column = x[mask[:, t], t]
            np.testing.assert_allclose(curve.mean[t], column.mean())
            interval = stats.ttest_1samp(column, 0.0).confidence_interval()
            np.testing.assert_allclose((curve.low[t], curve.high[t]), interval)
        assert curve.count.tolist() == [6, 4, 3, 1]
        assert curve.mean[3] == x[0, 3]
        assert np.isnan([curve.std[3], curve.low[3], curve.high[3]]).all()

    def test_no_data_is_nan_never_zero(self):
        mask = np.ones((3, 4), bool)
        mask[:, 2] = False
        curve = icl_curve(np.ones((3, 4)), mask)
        assert np.isnan([curve.mean[2], curve.std[2], curve.low[2], curve.high[2]]).all()
        assert curve.count[2] == 0
        np.testing.assert_array_equal(curve.mean[[0, 1, 3]], 1.0)

    def test_scale_of_weights_does_not_matter(self):
        x, w = trials(np.zeros(3), 5, 1.0), np.random.default_rng(0).uniform(0.5, 2, (5, 3))
        np.testing.assert_allclose(fields(icl_curve(x, w)), fields(icl_curve(x, 10 * w)))
        ones = np.full((5, 3), 3.0)
        np.testing.assert_allclose(fields(icl_curve(x, ones)), fields(icl_curve(x)))

    def test_unequal_weights_widen_the_interval_to_the_effective_number(self):
        x = trials(np.zeros(2), 4, 1.0)
        w = np.tile(np.array([1.0, 1.0, 1e-9, 1e-9])[:, None], (1, 2))
        pair = icl_curve(x[:2])
        np.testing.assert_allclose(icl_curve(x, w).low, pair.low, rtol=1e-5)

    def test_bins_average_within_a_trial_first(self):
        x = trials(np.arange(6.0), 5, 1.0)
        curve = icl_curve(x, bins=3)
        np.testing.assert_allclose(curve.position, [0.5, 2.5, 4.5])
        pairs = x.reshape(5, 3, 2).mean(2)
        np.testing.assert_allclose(fields(curve)[1:], fields(icl_curve(pairs))[1:])
        np.testing.assert_allclose(icl_curve(x, bins=[0, 1, 3]).position, [0, 1.5, 4])


class TestHorizon:
    @pytest.mark.parametrize("tau", [5, 10, 20, 30])
    def test_exponential_without_noise(self, tau):
        profile = icl_profile(np.tile(approach(200, tau), (3, 1)), bootstrap=100)
        # Five per cent for the moving average, one position for the grid, and the finite T.
        assert profile.horizon.value == pytest.approx(tau * np.log(20), rel=0.06, abs=1.5)
        assert profile.potential.value == pytest.approx(1, abs=0.01)
        assert profile.zero_shot.value == 0
        assert profile.trend == "settled"
        assert profile.beyond == 0

    def test_exponential_with_noise(self):
        profile = icl_profile(trials(approach(200, 20), 200, 0.3, seed=1))
        assert profile.horizon.low <= 60 <= profile.horizon.high
        assert profile.horizon.value == pytest.approx(60, abs=8)
        assert profile.horizon.high - profile.horizon.low < 30

    def test_horizon_is_found_in_the_direction_of_better(self):
        up = trials(approach(100, 8), 50, 0.1)
        better = icl_profile(up)
        loss = icl_profile(5 - up, higher_is_better=False)
        np.testing.assert_allclose(better.potential, loss.potential)
        assert better.horizon == loss.horizon
        assert loss.zero_shot.value == pytest.approx(5, abs=0.1)

    def test_jump_is_found_where_the_docstring_says(self):
        step = (np.arange(200) >= 60).astype(float)
        for smoothing in (0.0, 0.1, 0.2):
            found = icl_profile(np.tile(step, (2, 1)), smoothing=smoothing).horizon.value
            assert found == pytest.approx(60 / (1 - 0.9 * smoothing), abs=2)

    def test_rising_line_is_beyond(self):
        profile = icl_profile(trials(np.linspace(0, 1, 512), 64, 0.2))
        assert np.isinf(profile.horizon.value)
        assert profile.trend == "improving"
        assert profile.beyond > 0.99
        assert "beyond 512" in str(profile)
        assert "| horizon | beyond 512 |" in profile.table()

    @pytest.mark.parametrize(("share", "beyond"), [(0.3, False), (0.34, False), (0.4, True)])
    def test_slow_exponentials_are_beyond_from_the_stated_time_constant(self, share, beyond):
        profile = icl_profile(np.tile(approach(400, share * 400), (2, 1)))
        assert np.isinf(profile.horizon.value) == beyond

    def test_last_moment_jump_is_beyond(self):
        step = (np.arange(200) >= 192).astype(float)
        assert np.isinf(icl_profile(np.tile(step, (2, 1))).horizon.value)

    def test_flat_has_no_horizon(self):
        profile = icl_profile(np.full((4, 20), 0.5))
        assert np.isnan(profile.horizon).all()
        assert profile.potential.value == 0
        assert profile.trend == "settled"
        assert "none" in str(profile)

    def test_noise_alone_has_no_horizon_at_the_stated_rate(self):
        known = [
            not np.isnan(icl_profile(trials(np.zeros(50), 60, 1.0, s), seed=s).horizon.value)
            for s in range(60)
        ]
        assert sum(known) <= 6  # 2.5 % expected: an interval of 95 % errs on one side

    def test_context_that_hurts(self):
        profile = icl_profile(trials(1 - 0.5 * approach(100, 8), 50, 0.05))
        assert profile.potential.high < 0
        assert np.isnan(profile.horizon.value)

    def test_decline_at_the_end_is_named_and_not_taken_for_convergence(self):
        curve = np.concatenate([approach(150, 10), np.linspace(1, 0.5, 50)])
        profile = icl_profile(trials(curve, 50, 0.05))
        assert profile.trend == "declining"
        assert np.isinf(profile.horizon.value)


class TestProfile:
    def test_ragged_trials(self):
        full = trials(approach(120, 10), 300, 0.1)
        lengths = np.random.default_rng(0).integers(80, 121, 300)
        mask = np.arange(120) < lengths[:, None]
        ragged = icl_profile(np.where(mask, full, np.nan), mask)
        assert ragged.horizon.value == pytest.approx(30, abs=4)
        assert ragged.asymptote.value == pytest.approx(1, abs=0.01)
        assert ragged.trials == 300

    def test_positions_after_the_last_data_do_not_count(self):
        x = trials(approach(60, 5), 20, 0.05)
        padded = np.full((22, 90), np.nan)
        padded[:20, :60] = x
        profile = icl_profile(padded, np.isfinite(padded))
        assert profile == icl_profile(x)
        assert (profile.length, profile.trials) == (60, 20)

    def test_intervals_cover(self):
        curve = approach(40, 4)
        truth = (0.0, curve[-4:].mean())
        inside = np.zeros(3)
        repeats = 200
        for s in range(repeats):
            # A shared offset per trial: the bootstrap has to take whole trials to cover.
            offset = 0.3 * np.random.default_rng(10_000 + s).standard_normal((40, 1))
            p = icl_profile(trials(curve, 40, 0.5, s) + offset, bootstrap=200, seed=s)
            exact = (*truth, truth[1] - truth[0])
            for i, (e, t) in enumerate(
                zip((p.zero_shot, p.asymptote, p.potential), exact, strict=True)
            ):
                inside[i] += e.low <= t <= e.high
        # Nominal 95 %; percentile intervals of 40 trials lose about 2 %, binomial s.e. 1.5 %.
        assert (inside / repeats >= 0.88).all()
        assert (inside / repeats <= 0.99).all()

    def test_horizon_interval_covers(self):
        # Truth: the horizon of the noiseless curve under the same smoothing.
        truth = icl_profile(np.tile(approach(100, 10), (2, 1)), bootstrap=100).horizon.value
        inside = 0
        for s in range(60):
            found = icl_profile(trials(approach(100, 10), 80, 0.2, s), bootstrap=200, seed=s)
            inside += found.horizon.low <= truth <= found.horizon.high
        assert inside >= 50

    def test_bins(self):
        x = trials(approach(400, 40), 100, 0.3)
        profile = icl_profile(x, bins=[0, 1, 2, 4, 8, 16, *range(32, 400, 16)])
        assert profile.zero_shot.value == pytest.approx(x[:, 0].mean())
        assert profile.horizon.value == pytest.approx(120, abs=24)
        assert profile.length == 400

    def test_one_trial_has_no_intervals(self):
        profile = icl_profile(approach(100, 5)[None])
        assert profile.horizon.value == pytest.approx(15, abs=2)
        assert np.isnan([profile.horizon.low, profile.potential.low, profile.beyond]).all()
        assert "1 trial of 100 positions" in str(profile)
        assert "nan" not in str(profile)

    def test_without_bootstrap_the_values_are_the_same(self):
        x = trials(approach(100, 5), 30, 0.05)
        assert icl_profile(x, bootstrap=0).horizon.value == icl_profile(x).horizon.value

    def test_same_seed_same_profile(self):
        x = trials(approach(50, 5), 20, 0.2)
        assert icl_profile(x, seed=3) == icl_profile(x, seed=3)
        assert icl_profile(x, seed=3) != icl_profile(x, seed=4)

    def test_two_positions(self):
        profile = icl_profile(trials(np.array([0.0, 1.0]), 20, 0.1))
        assert profile.potential.value == pytest.approx(1, abs=0.1)
        assert np.isinf(profile.horizon.value)

    def test_text(self):
        text = str(icl_profile(trials(approach(100, 5), 30, 0.05), higher_is_better=False))
        assert text.startswith("ICL profile: 30 trials of 100 positions, lower is better, 95 %")
        assert [line.split()[0] for line in text.splitlines()[1:]] == [
            "zero-shot",
            "asymptote",
            "potential",
            "horizon",
            "at",
        ]


GOOD = np.ones((3, 4))


@pytest.mark.parametrize("measure", [icl_curve, icl_profile])
@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((np.ones(4),), {}, r"values: got float64\[4\]; accepted: float\[N, T\]"),
        ((np.ones((3, 1)),), {}, r"values: got float64\[3, 1\]"),
        ((np.ones((0, 4)),), {}, r"values: got float64\[0, 4\]"),
        ((GOOD, np.zeros((3, 4), bool)), {}, "no data"),
        (
            (GOOD, np.ones((3, 5), bool)),
            {},
            r"got bool\[3, 5\]; accepted: the shape of values, \[3, 4\]",
        ),
        ((np.full((3, 4), np.nan),), {}, "12 entries that are not finite"),
        ((GOOD,), {"confidence": 1.0}, "confidence: got 1.0"),
        ((GOOD,), {"bins": 5}, "bins: got 5"),
        ((GOOD,), {"bins": 1}, "bins: got 1"),
        ((GOOD,), {"bins": [1, 2]}, r"bins: got \[1, 2\]"),
        ((GOOD,), {"bins": [0, 4]}, r"bins: got \[0, 4\]"),
    ],
)
def test_bad_input_is_named(measure, args, options, message):
    with pytest.raises(ValueError, match=message):
        measure(*args, **options)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((GOOD, np.ones((3, 4))), {}, r"mask: got float64\[3, 4\]"),
        ((GOOD,), {"smoothing": 1.0}, "smoothing: got 1.0"),
        ((GOOD,), {"tolerance": 0.0}, "tolerance: got 0.0"),
        ((GOOD,), {"bootstrap": 5}, "bootstrap: got 5"),
        ((GOOD, np.arange(4) > np.zeros((3, 1))), {}, "no data at the first position"),
        ((GOOD, np.arange(4) < np.ones((3, 1))), {}, "values: got data at 1 positions"),
    ],
)
def test_bad_input_of_the_profile_is_named(args, options, message):
    with pytest.raises(ValueError, match=message):
        icl_profile(*args, **options)


def test_bad_weights_are_named():
    with pytest.raises(ValueError, match="weights: got negative or non-finite"):
        icl_curve(GOOD, -np.ones((3, 4)))
