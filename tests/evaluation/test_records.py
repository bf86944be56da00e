"""Records of in-context learning against numbers by hand."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import stats

from gpicljax.evaluation import ICLRecord, icl_record
from gpicljax.evaluation.records import icl_summary

ABOUT = {
    "system": "games",
    "task": "easy",
    "agent": "LSTM",
    "measure": "accuracy",
    "context": "games",
    "oracle": "told",
}


def learning(seeds, trials, length, end=0.9):
    rng = np.random.default_rng(0)
    curve = end - (end - 0.5) * np.exp(-np.arange(length) / 5)
    return curve + rng.normal(0, 0.05, (seeds, trials, length))


def record(seeds=4, trials=30, length=60, **changes):
    agent = learning(seeds, trials, length)
    constant = np.ones((trials, length))
    curves = {"agent": agent, "oracle": constant, "memory wiped": 0.5 * constant}
    nulls = {"poor": 0.1 * constant, "strong": 0.6 * constant, "fair": 0.4 * constant}
    return icl_record(curves, nulls, **{**ABOUT, **changes}), agent


def test_the_strongest_null_is_chosen_at_the_end():
    assert record()[0].null == "strong"
    assert record(higher_is_better=False)[0].null == "poor"
    late = {"late": np.tile(np.arange(10.0), (3, 1)), "early": np.tile(9.0 - np.arange(10), (3, 1))}
    curves = {"agent": np.zeros((3, 10)), "oracle": np.full((3, 10), 20.0)}
    assert icl_record(curves, late, **ABOUT).null == "late"


def test_numbers_over_seeds_are_those_of_their_means():
    made, agent = record()
    found = icl_summary(made)
    ends = agent[..., -6:].mean((1, 2))
    half = stats.sem(ends) * stats.t.ppf(0.975, 3)
    np.testing.assert_allclose(
        found.asymptote, [ends.mean(), ends.mean() - half, ends.mean() + half]
    )
    np.testing.assert_allclose(found.zero_shot.value, agent[..., 0].mean())
    np.testing.assert_allclose(found.share.value, (ends.mean() - 0.6) / 0.4)
    # The null and the oracle are constant, so that the share is linear in the agent's end.
    np.testing.assert_allclose(found.share.high - found.share.low, 2 * half / 0.4)
    np.testing.assert_allclose(found.wiped.value, -0.25)
    assert made.rows == "seeds" and 8 <= found.horizon.value <= 20
    assert found.horizon.low <= found.horizon.value <= found.horizon.high


def test_the_whole_context_counts_how_fast_an_agent_learns():
    trials, length = 10, 100
    steps = np.arange(length)

    def learnt_at(step):
        return np.tile(np.where(steps < step, 0.0, 1.0), (trials, 1))

    curves = {"agent": learnt_at(20), "oracle": learnt_at(0)}
    nulls = {"slow": learnt_at(60), "early, and poor": np.full((trials, length), 0.5)}
    for bins in (None, 10):
        made = icl_record(curves, nulls, **ABOUT, bins=bins)
        found = icl_summary(made)
        # At the end the null is at the oracle; over the whole context the other one is stronger.
        assert made.null == "slow" and np.isnan(found.share.value)
        np.testing.assert_allclose(found.overall.value, (0.8 - 0.5) / (1 - 0.5))


def test_an_end_of_several_episodes_does_not_depend_on_where_they_stand():
    steps = np.arange(200)
    oracle, null = (np.tile((steps % k == k - 1) * 1.0, (5, 1)) for k in (6, 7))
    curves = {"agent": oracle, "oracle": oracle}
    assert np.isnan(icl_summary(icl_record(curves, {"x": null}, **ABOUT)).share.value)
    found = icl_summary(icl_record(curves, {"x": null}, **ABOUT, end=0.5))
    np.testing.assert_allclose(found.share.value, 1)
    np.testing.assert_allclose(found.oracle.value, 1 / 6, atol=0.01)


def test_an_agent_of_one_seed_has_rows_of_trials():
    one, agent = record(seeds=1, trials=200)
    assert one.rows == "trials" and one.curves["agent"].shape == (64, 60)
    # Groups of three or four trials.
    np.testing.assert_allclose(one.curves["agent"][0], agent[0, ::64].mean(0))
    assert icl_summary(one).share.low < icl_summary(one).share.value


def test_bins_keep_the_last_tenth_apart():
    plain, agent = record(length=200)
    binned, _ = record(length=200, bins=12)
    assert binned.curves["agent"].shape[1] < 16
    for found in (icl_summary(plain), icl_summary(binned)):
        np.testing.assert_allclose(found.asymptote.value, agent[..., -20:].mean())
    np.testing.assert_allclose(icl_summary(binned).share, icl_summary(plain).share)


def test_losses_and_paired_nulls():
    rng = np.random.default_rng(1)
    difficulty = rng.normal(0, 1, (1, 100, 1))
    time = np.linspace(1, 0, 20)
    agent, null, floor = (3 + difficulty + x * time + y for x, y in ((2, 0), (1, 0.5), (0, -1)))
    made = icl_record(
        {"agent": agent, "oracle": floor}, {"n-gram": null}, **ABOUT, higher_is_better=False
    )
    found = icl_summary(made)
    np.testing.assert_allclose(found.potential.value, 2 * (1 - time[-2:].mean()))
    assert found.potential.high - found.potential.low < 1e-9  # the difficulty cancels
    assert 0 < found.share.value < 1 and found.share.high - found.share.low < 1e-9
    np.testing.assert_allclose(found.null.value, made.ends("null").mean())
    assert np.isnan(found.wiped.value)


def test_what_does_not_exist_is_left_out():
    agent = learning(3, 20, 30)
    agent[:, ::2, 10:] = np.nan
    curves = {"agent": agent, "oracle": np.ones((20, 30))}
    made = icl_record(curves, {"x": np.full((20, 30), 0.5)}, **ABOUT)
    np.testing.assert_allclose(icl_summary(made).asymptote.value, np.nanmean(agent[..., -3:]))
    assert np.isfinite(icl_summary(made).share.low)


def test_positions_of_their_own():
    sizes = [0, 1, 5, 40]
    curves = {"agent": learning(1, 50, 4)[0], "oracle": np.ones((50, 4))}
    made = icl_record(curves, {"x": np.zeros((50, 4))}, **ABOUT, positions=sizes)
    assert made.position.tolist() == sizes and made.length == 41
    np.testing.assert_allclose(icl_summary(made).asymptote.value, curves["agent"][:, -1].mean())


def test_an_oracle_that_is_no_better_gives_no_share():
    curves = {"agent": np.ones((3, 4)), "oracle": np.full((3, 4), 0.5)}
    assert np.isnan(icl_summary(icl_record(curves, {"x": np.ones((3, 4))}, **ABOUT)).share.value)


def test_a_gap_within_noise_gives_no_share():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, (2, 40, 20))
    curves = {"agent": noise[0] + 0.5, "oracle": noise[0]}
    far, near = (icl_record(curves, {"rule": noise[1] - d}, **ABOUT) for d in (1.0, 0.0))
    assert far.least_gap["overall"] > 0 and np.isfinite(icl_summary(far).overall.value)
    assert near.least_gap["overall"] < 0 and np.isnan(icl_summary(near).overall.value)
    # What was stored before has none, and keeps its share.
    entries = near.to_json()
    del entries["least_gap"]
    assert np.isfinite(icl_summary(ICLRecord.from_json(entries)).overall.value) or (
        noise[0].mean() <= noise[1].mean()
    )


def test_an_end_without_data_gives_no_share_and_no_warning():
    made = np.ones((3, 4))
    made[:, 2:] = np.nan
    curves = {"agent": made, "oracle": 2 * made}
    record = icl_record(curves, {"rule": 0.5 * made}, **ABOUT)
    assert record.least_gap["end"] == 0.0 and np.isnan(icl_summary(record).share.value)
    assert record.least_gap["overall"] > 0


def test_records_survive_json():
    made, _ = record()
    made.curves["agent"][0, 3] = np.nan
    again = ICLRecord.from_json(json.loads(json.dumps(made.to_json())))
    for name in (x.name for x in dataclasses.fields(made)):
        if name == "curves":
            for role, curve in made.curves.items():
                np.testing.assert_allclose(again.curves[role], curve, rtol=1e-5)
        else:
            np.testing.assert_array_equal(getattr(again, name), getattr(made, name))


@pytest.mark.parametrize(
    "change",
    [
        {"system": 3},
        {"curves": []},
        {"curves": {"agent": [[1.0]]}},
        {"position": [0, 1]},
        {"position": "many"},
        {"higher_is_better": 1},
        {"length": "9"},
        {"end": None},
        {"weight": [1.0]},
        {"more": 1},
    ],
    ids=str,
)
def test_what_is_no_record_is_refused(change):
    told = {**record()[0].to_json(), **change}
    with pytest.raises(ValueError, match="no record of in-context learning"):
        ICLRecord.from_json(told)
    for other in (None, [], "x", {}):
        with pytest.raises(ValueError, match="no record"):
            ICLRecord.from_json(other)


def test_curves_that_do_not_fit_are_refused():
    agent, oracle = np.ones((3, 5, 6)), np.ones((5, 6))
    with pytest.raises(ValueError, match="nulls"):
        icl_record({"agent": agent, "oracle": oracle}, {}, **ABOUT)
    with pytest.raises(ValueError, match="oracle: got float64"):
        icl_record({"agent": agent, "oracle": np.ones((4, 6))}, {"x": oracle}, **ABOUT)
    with pytest.raises(ValueError, match="x: got float64"):
        icl_record({"agent": agent, "oracle": oracle}, {"x": np.ones(6)}, **ABOUT)
    with pytest.raises(ValueError, match="positions"):
        changed = {"agent": agent, "oracle": oracle}, {"x": oracle}
        icl_record(*changed, **ABOUT, positions=[0, 1, 1, 2, 3, 4])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("length", value) for value in (-5, 0, True, 2.5)),
        *(("end", value) for value in (5.0, -1.0, float("nan"), 1, "0.1")),
        *(("position", value) for value in ([1.0, 0.0], [0.0, 0.0], [0.0], [], [0.0, "1"], None)),
        *(("position", value) for value in ([-1.0, 0.0], [float("nan"), 1.0], [0.0, True])),
        *(("weight", value) for value in ([-1.0, 1.0], [0.0, 1.0], [float("inf"), 1.0], [1.0])),
        *(("rows", value) for value in ("nonsense", 3, None)),
        *(("curves", value) for value in ({}, [], {"agent": [["1", "2"]]}, {"agent": 1})),
        *(("higher_is_better", value) for value in (1, "yes")),
        ("task", 3),
    ],
)
def test_numbers_that_cannot_be_are_refused(field, value):
    told = record(length=2)[0].to_json()
    with pytest.raises(ValueError, match="no record of in-context learning"):
        ICLRecord.from_json(told | {field: value})


@pytest.mark.parametrize("value", ["1.0", True, float("inf"), [1.0]])
def test_curves_of_other_values_are_refused(value):
    told = record(length=2)[0].to_json()
    told["curves"]["agent"][0][0] = value
    with pytest.raises(ValueError, match="no record of in-context learning"):
        ICLRecord.from_json(told)
