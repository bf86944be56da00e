"""Counts of explored cells, against sets of cells."""

import jax
import numpy as np
import pytest

from gpicljax.systems.maze_world.measures.exploration import cells_visited

LENGTH, SIZE = 200, 9


def test_different_cells_up_to_each_moment():
    rng = np.random.default_rng(0)
    steps = rng.integers(-1, 2, (3, LENGTH, 2))
    walks = np.clip(4 + steps.cumsum(1), 0, SIZE - 1).astype(np.uint8)
    walks[2] = walks[2, 0]  # one that stays where it is
    counts = jax.jit(jax.vmap(lambda walk: cells_visited(walk, SIZE)))(walks)
    assert counts.shape == (3, LENGTH) and counts.dtype == np.int32
    for walk, count in zip(walks, counts, strict=True):
        been, expected = set(), []
        for cell in walk:
            been.add(tuple(cell))
            expected.append(len(been))
        assert count.tolist() == expected
    assert counts[0, -1] > 20 and (counts[2] == 1).all()


@pytest.mark.parametrize(
    ("positions", "size", "message"),
    [
        (np.zeros((4, 3), int), 7, r"positions: got int\d*\[4, 3\]; accepted: integers \[T, 2\]"),
        (np.zeros((4, 2), np.float32), 7, r"positions: got float32\[4, 2\]"),
        (np.zeros(2, int), 7, "positions"),
        (np.zeros((4, 2), int), 0, "size: got 0"),
    ],
)
def test_bad_input_is_refused(positions, size, message):
    with pytest.raises(ValueError, match=message):
        cells_visited(positions, size)
