"""Learning curves, in-context curves and bars: what is drawn, labelled and refused."""

import itertools

import numpy as np
import pytest

from gpicljax.evaluation import icl_curve, icl_profile
from gpicljax.viz import icl_figure, learning_curves, results_bars, save_figure

RNG = np.random.default_rng(0)
STEPS = np.linspace(0, 2e6, 30)
SEEDS = 0.5 + 0.4 / (1 + np.exp(-(STEPS - 7e5) / 1e5)) + 0.02 * RNG.standard_normal((6, 30))
APPROACH = 0.5 + 0.4 * (1 - np.exp(-np.arange(60) / 8)) + 0.1 * RNG.standard_normal((200, 60))
LINE = np.linspace(0, 1, 60) + 0.1 * RNG.standard_normal((200, 60))
FLAT = np.full((10, 60), 0.5)


def written(figure, path):
    return save_figure(figure, path).stat().st_size


def texts(figure):
    return [t for axes in figure.axes for t in axes.texts if t.get_text() and t.get_text().strip()]


def assert_apart(labels, figure):
    figure.draw_without_rendering()
    boxes = [t.get_window_extent() for t in labels]
    for a, b in itertools.combinations(boxes, 2):
        assert not (a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 - 1 and b.y0 < a.y1 - 1)


def test_learning_curves(tmp_path):
    figure = learning_curves(
        STEPS,
        SEEDS,
        baselines={"chance": 0.5, "leak rule": 0.72, "token equality": 0.725, "oracle": 0.73},
        ylabel="query accuracy",
        title="Meta-RG",
        percent=True,
    )
    assert written(figure, tmp_path / "a.png") > 20_000
    (axes,) = figure.axes
    widths = [line.get_linewidth() for line in axes.lines]
    assert widths.count(0.8) == 6  # seeds
    assert widths.count(2.2) == 1  # mean
    labels = texts(figure)
    assert {t.get_text() for t in labels} == {"chance", "leak rule", "token equality", "oracle"}
    assert_apart(labels, figure)
    np.testing.assert_allclose(axes.lines[6].get_ydata(), SEEDS.mean(0))


def test_labels_stay_inside_the_picture():
    figure = learning_curves(STEPS, {"a rather long name of an agent": SEEDS})
    figure.draw_without_rendering()
    (label,) = texts(figure)
    assert label.get_window_extent().x1 <= figure.bbox.x1


def test_several_agents_missing_values_and_a_single_seed(tmp_path):
    gaps = SEEDS.copy()
    gaps[:, 5] = np.nan
    gaps[2, 20:] = np.nan
    figure = learning_curves(STEPS, {"with gaps": gaps, "one seed": SEEDS[:1] - 0.001})
    assert written(figure, tmp_path / "a.png") > 20_000
    assert_apart(texts(figure), figure)


def test_agents_with_steps_of_their_own():
    steps = {"long": STEPS, "short": STEPS[:10] / 2}
    figure = learning_curves(steps, {"long": SEEDS, "short": SEEDS[:2, :10]})
    (axes,) = figure.axes
    means = [line for line in axes.lines if line.get_linewidth() == 2.2]
    for mean, x in zip(means, steps.values(), strict=True):
        np.testing.assert_array_equal(mean.get_xdata(), x)
    assert axes.get_xlim() == (0, STEPS[-1])
    with pytest.raises(ValueError, match=r"steps: got \['long'\]; accepted: .*'short'"):
        learning_curves({"long": STEPS}, {"long": SEEDS, "short": SEEDS})


def test_a_baseline_outside_the_limits_is_not_labelled():
    figure = learning_curves(STEPS, SEEDS, baselines={"far": 3.0, "near": 0.6}, ylim=(0.4, 1.0))
    assert [t.get_text() for t in texts(figure)] == ["near"]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("values", "horizon"), [(APPROACH, "horizon "), (LINE, "horizon beyond 60"), (FLAT, None)]
)
def test_icl_figure_marks_the_profile(tmp_path, values, horizon, sign, log):
    v = sign * values
    profile = icl_profile(v, higher_is_better=sign > 0, bootstrap=200)
    figure = icl_figure(icl_curve(v), profile=profile, log=log, ylabel="score")
    assert written(figure, tmp_path / "a.png") > 15_000
    words = [t.get_text() for t in texts(figure)]
    assert len(figure.axes) == 1
    assert sum(w.startswith("asymptote") for w in words) == 1
    assert sum(w.startswith("zero-shot") for w in words) == 1
    assert sum(w.startswith("potential") for w in words) == (horizon is not None)
    assert any(horizon and w.startswith(horizon) for w in words) == (horizon is not None)


def test_icl_figure_without_a_profile_and_with_bins(tmp_path):
    figure = icl_figure(
        icl_curve(APPROACH, bins=12), baselines={"chance": 0.5, "leak rule": 0.72}, percent=True
    )
    assert written(figure, tmp_path / "a.png") > 15_000
    assert {t.get_text() for t in texts(figure)} == {"chance", "leak rule"}


def test_icl_figure_of_several_curves(tmp_path):
    mask = np.arange(60) < RNG.integers(30, 61, (200, 1))
    figure = icl_figure(
        {"a": icl_curve(APPROACH, mask), "b": icl_curve(LINE), "c": icl_curve(FLAT)},
        profile={"a": icl_profile(APPROACH, mask), "b": icl_profile(LINE)},
    )
    assert written(figure, tmp_path / "a.png") > 20_000
    (axes,) = figure.axes
    marks = [line.get_marker() for line in axes.lines]
    assert (marks.count("D"), marks.count(">")) == (1, 1)
    legend = axes.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == ["horizon", "horizon beyond the end"]


def test_results_bars(tmp_path):
    names = ["oracle", "agent", "random"]
    seeds = [0.99 + 0.001 * RNG.standard_normal(6), 0.8 + 0.02 * RNG.standard_normal(6), [0.5]]
    figure = results_bars(
        names,
        [0.99, 0.8, 0.5],
        [0.98, 0.78, np.nan],
        [1.0, 0.82, np.nan],
        samples=seeds,
        highlight=["agent"],
        xlabel="query accuracy",
        title="Agents",
    )
    assert written(figure, tmp_path / "a.png") > 10_000
    (axes,) = figure.axes
    assert len(axes.patches) == 3
    assert [t.get_text() for t in axes.get_yticklabels()] == names
    assert axes.yaxis_inverted()
    assert {t.get_text() for t in texts(figure)} == {"99.0 %", "80.0 %", "50.0 %", "chance"}
    assert axes.patches[0].get_facecolor() != axes.patches[1].get_facecolor()


def test_results_bars_in_other_units():
    figure = results_bars(["a", "b"], [-3.0, 2.0], [-4, 1], [-2, 3], reference=None, percent=False)
    (axes,) = figure.axes
    assert axes.get_xlim()[0] <= -4
    assert {t.get_text() for t in texts(figure)} == {"\N{MINUS SIGN}3.00", "2.00"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: learning_curves(STEPS[::-1], SEEDS), r"steps: got float64\[30\]"),
        (lambda: learning_curves(STEPS, SEEDS[0]), r"values: got float64\[30\]"),
        (
            lambda: learning_curves(STEPS, {"x": SEEDS[:, :5]}),
            r"values of 'x': got float64\[6, 5\]",
        ),
        (lambda: learning_curves(STEPS, {}), "values: got {}"),
        (lambda: learning_curves(STEPS, np.full((2, 30), np.nan)), "no data"),
        (lambda: icl_figure({}), "curves: got {}"),
        (
            lambda: icl_figure({"a": icl_curve(LINE)}, profile={"b": icl_profile(LINE)}),
            r"profile: got \['b'\]",
        ),
        (lambda: results_bars([], [], [], []), "for N = 0 names"),
        (
            lambda: results_bars(["a"], [0.5], [0.4, 0.5], [0.6]),
            r"lows: got \[2\]; accepted: shape \[N\]",
        ),
        (
            lambda: results_bars(["a"], [0.5], [0.4], [0.6], samples=[]),
            r"samples: got \[0\]",
        ),
        (lambda: results_bars(["a"], [0.5], [0.4], [0.6], highlight=["b"]), r"got \['b'\]"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
