"""Figures of one Meta-Referential episode."""

import numpy as np
import pytest

from gpicljax.systems.meta_rg.figures.messages import messages_figure, stimuli_figure
from gpicljax.viz import save_figure


def episode(num_values, games, seed=0):
    """Stimuli of an episode by the paper's rules, with tables padded to five values."""
    rng = np.random.default_rng(seed)
    dims = len(num_values)
    means, sigmas = np.zeros((dims, 5)), np.zeros((dims, 5))
    for i, count in enumerate(num_values):
        width = 2 / count
        sigmas[i, :count] = rng.uniform(width / 12, width / 6, count)
        free = width - 6 * sigmas[i, :count]
        start = -1 + width * np.arange(count) + 3 * sigmas[i, :count]
        means[i, :count] = start + free * rng.random(count)
    latents = np.stack([rng.integers(0, count, games) for count in num_values], 1)
    at = np.arange(dims), latents
    stimuli = means[at] + sigmas[at] * rng.standard_normal((games, dims))
    return stimuli, latents, means, sigmas, np.array(num_values)


@pytest.mark.parametrize(
    ("num_values", "games", "support"),
    [((5, 5, 3), 31, 19), ((2, 4), 90, 40), ((3,), 4, 4), ((5, 2, 2, 3), 12, 0)],
)
def test_stimuli_figure(tmp_path, num_values, games, support):
    data = episode(num_values, games)
    figure = stimuli_figure(*data, support, title="An episode")
    assert save_figure(figure, tmp_path / "a.png").stat().st_size > 10_000
    assert len(figure.axes) == 2 * len(num_values)
    for i, axes in enumerate(figure.axes[::2]):
        (dots,) = [c for c in axes.collections if len(c.get_offsets()) == games]
        np.testing.assert_allclose(dots.get_offsets()[:, 1], data[0][:, i])
        assert len(np.unique(dots.get_facecolor(), axis=0)) == len(np.unique(data[1][:, i]))
    for count, axes in zip(num_values, figure.axes[1::2], strict=True):
        assert [t.get_text() for t in axes.texts] == [str(v) for v in range(count)]
    names = [t.get_text() for t in figure.axes[0].texts]
    expected = [f"support, {support} games", f"query, {games - support} games"]
    assert names == [n for n in expected if ", 0 " not in n]


@pytest.mark.parametrize(("games", "printed"), [(31, True), (200, False)])
def test_messages_figure(tmp_path, games, printed):
    messages = np.random.default_rng(0).integers(0, 7, (games, 4))
    figure = messages_figure(messages, 19, 6, title="What the speaker said")
    assert save_figure(figure, tmp_path / "a.png").stat().st_size > 8_000
    (axes,) = figure.axes
    assert axes.yaxis_inverted()
    np.testing.assert_array_equal(axes.collections[0].get_array().ravel(), messages.T.ravel())
    tokens = [t.get_text() for t in axes.texts if t.get_text().isdigit()]
    assert tokens == ([str(t) for t in messages.ravel()] if printed else [])
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 7


def test_large_vocabulary(tmp_path):
    messages = np.random.default_rng(0).integers(0, 25, (20, 3))
    figure = messages_figure(messages, 10, 24)
    assert save_figure(figure, tmp_path / "a.png").stat().st_size > 8_000


GOOD = episode((5, 3), 10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: GOOD[0][:, 0]}, r"stimuli: got float64\[10\]"),
        ({1: GOOD[1][:5]}, r"latents: got int64\[5, 2\]"),
        ({1: GOOD[1] + 3}, r"latents: got .* accepted: 0 to \[4, 2\]"),
        ({1: GOOD[0]}, "latents: got float64"),
        ({2: GOOD[2][:1]}, r"means: got float64\[1, 5\]"),
        ({3: np.zeros((2, 5))}, r"sigmas\[0\]: got \[0.0"),
        ({4: np.array([5, 6])}, r"means: got float64\[2, 5\]; .* V >= 6"),
        ({4: np.array([5])}, r"num_values: got int64\[1\]"),
        ({5: 11}, "num_support: got 11"),
    ],
)
def test_bad_stimuli_are_named(change, message):
    arguments = [change.get(i, value) for i, value in enumerate((*GOOD, 5))]
    with pytest.raises(ValueError, match=message):
        stimuli_figure(*arguments)


@pytest.mark.parametrize(
    ("messages", "support", "vocabulary", "message"),
    [
        (np.zeros(4, int), 0, 6, r"messages: got int64\[4\]"),
        (np.zeros((4, 3)), 0, 6, r"messages: got float64\[4, 3\]"),
        (np.full((4, 3), 7), 0, 6, "messages: got 7 to 7"),
        (np.zeros((4, 3), int), 5, 6, "num_support: got 5"),
    ],
)
def test_bad_messages_are_named(messages, support, vocabulary, message):
    with pytest.raises(ValueError, match=message):
        messages_figure(messages, support, vocabulary)
