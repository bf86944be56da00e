"""Figures of learning task by task show what they are given."""

import numpy as np
import pytest

from gpicljax.systems.gradual_learning.figures.learning import (
    efficiency_figure,
    prerequisites_figure,
    transfer_figure,
)
from gpicljax.systems.gradual_learning.measures.criteria import (
    completion_times,
    efficiency,
    transfer,
)
from gpicljax.viz import save_figure


def test_every_task_has_its_row(tmp_path):
    runs = efficiency(completion_times([[10, 30], [20, 50], [20, 50]], [2, 1, 0]))
    figure = efficiency_figure({"table": runs}, ["copy", "spell"], reference=[5, 9])
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["copy", "spell"]
    filled, hollow = (points.get_offsets() for points in axes.collections)
    np.testing.assert_array_equal(filled, [[20, 0]])
    np.testing.assert_array_equal(hollow, [[40, 1]])
    assert save_figure(figure, tmp_path / "a.png").stat().st_size > 1000


def test_ratios_are_geometric_means():
    single, after = completion_times([[9], [8]], [1, 1]), completion_times([[1, 3], [1, 4]], [2, 2])
    figure = transfer_figure({"spell": transfer(single, after)}, title="Gradual learning")
    assert figure.axes[0].collections[0].get_offsets()[0][0] == pytest.approx(6**0.5)


def test_a_task_stands_below_what_it_builds_on():
    figure = prerequisites_figure({"copy": [], "spell": ["say", "copy"], "say": ["copy"]})
    depth = {text.get_text(): text.get_position()[1] for text in figure.axes[0].texts}
    assert depth["copy"] < depth["say"] < depth["spell"]
