"""Pictures and what an autoencoder makes of them."""

import numpy as np
import pytest

from gpicljax.systems.maze_world.figures.reconstructions import reconstruction_figure
from gpicljax.viz import save_figure


def test_every_picture_stands_above_its_reconstruction(tmp_path):
    pictures = np.full((3, 8, 8, 3), 51, np.uint8)
    decoded = np.stack([np.full((8, 8, 3), level) for level in (0.2, 0.3, 1.2)])
    figure = reconstruction_figure([("maze 1", pictures, decoded), ("maze 2", pictures, decoded)])
    assert [axes.get_title() for axes in figure.axes[:3]] == [""] * 3
    assert [axes.get_title() for axes in figure.axes[3:6]] == ["0.0000", "0.0100", "1.0000"]
    levels = [axes.images[0].get_array()[0, 0, 0] for axes in figure.axes]
    assert levels == [51, 51, 51, 51, 76, 255] * 2
    rows = [text.get_text() for text in figure.texts]
    assert rows == ["maze 1", "reconstructed", "maze 2", "reconstructed"]
    save_figure(figure, tmp_path / "reconstructions.png")
    assert (tmp_path / "reconstructions.png").stat().st_size > 1000


def test_what_is_no_reconstruction_is_refused():
    pictures, decoded = np.zeros((3, 8, 8, 3), np.uint8), np.zeros((3, 8, 8, 3))
    for sources, message in (
        ([], "sources: got"),
        ([("maze", decoded, decoded)], r"'maze': got float64\[3, 8, 8, 3\]"),
        ([("maze", pictures, pictures)], r"reconstructions: got uint8\[3, 8, 8, 3\]"),
        ([("maze", pictures, decoded[:2])], r"got float64\[2, 8, 8, 3\]"),
    ):
        with pytest.raises(ValueError, match=message):
            reconstruction_figure(sources)
