"""Pictures side by side."""

import numpy as np
import pytest

from gpicljax.viz import save_figure
from gpicljax.viz.pictures import picture_grid


def picture(level, height=8, width=8):
    return np.full((height, width, 3), level, np.uint8)


def test_every_picture_is_shown_with_its_caption(tmp_path):
    rows = [("size", [("7", picture(0)), ("15", picture(90))]), ("fog", [("on", picture(200))])]
    figure = picture_grid(rows, title="Mazes")
    assert [axes.get_title() for axes in figure.axes] == ["7", "15", "on"]
    levels = [axes.images[0].get_array()[0, 0, 0] for axes in figure.axes]
    assert levels == [0, 90, 200]
    texts = [text.get_text() for text in figure.texts]
    assert texts == ["size", "fog", "Mazes"]
    save_figure(figure, tmp_path / "grid.png")
    assert (tmp_path / "grid.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "at least one row"),
        ([("size", [])], "at least one picture"),
        ([("size", [("7", picture(0).astype(float))])], r"'7': got float64\[8, 8, 3\]"),
        ([("size", [("7", picture(0)[..., 0])])], r"'7': got uint8\[8, 8\]"),
    ],
)
def test_what_is_not_a_picture_is_refused(rows, said):
    with pytest.raises(ValueError, match=said):
        picture_grid(rows)
