"""Counts of explored cells, against sets of cells."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.interface import Agent
from gpicljax.rollout import start_rollout
from gpicljax.systems.maze_world.figures.reconstructions import reconstruction_figure
from gpicljax.systems.maze_world.measures.exploration import cells_visited
from gpicljax.systems.maze_world.measures.world_model import open_loop_error
from gpicljax.viz import save_figure

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


# Errors of a model's open-loop pictures, beside those of guesses that need no model ---------------


def test_the_last_picture_and_the_mean_of_others_are_nulls():
    env = gpicljax.make("MazeWorld-v0", size=7, resolution=(8, 8))
    vec = gpicljax.VectorEnv(env, 3, resets="synchronous", steps_per_trial=16)
    wait, ahead = jnp.int32(0), jnp.full((3, 8, 8, 3), 0.5)

    def act(keys, params, carry, timestep):
        return jnp.broadcast_to(wait, (3,)), {"image": ahead}, carry

    agent = Agent(lambda batch: (), act)

    @jax.jit
    def measure(key):
        inputs = vec, agent, agent, (), start_rollout(key, vec, agent)
        everywhere = lambda state, task: jnp.int32(0)  # noqa: E731
        return open_loop_error(*inputs, 1, 3, place=everywhere, places=1)

    outcome = jax.tree.map(np.asarray, measure(jax.random.key(0)))
    pictures, last = outcome.observed / 255, outcome.last / 255

    def error(guess):
        return np.square(guess - pictures).mean((-3, -2, -1))

    np.testing.assert_allclose(outcome.error, error(0.5), rtol=1e-5)
    np.testing.assert_allclose(outcome.last_error, error(last[:, None]), atol=1e-6)
    other_means = np.stack([last[[1, 2]].mean(0), last[[0, 2]].mean(0), last[[0, 1]].mean(0)])
    np.testing.assert_allclose(outcome.mean_error, error(other_means[:, None]), rtol=1e-5)
    assert (outcome.mean_error > 0).all() and outcome.last_error.shape == (3, 3)
    # There is one picture so far, and one place.
    np.testing.assert_allclose(outcome.own_mean_error, outcome.last_error, atol=1e-6)
    np.testing.assert_allclose(outcome.map_error, outcome.last_error, atol=1e-6)


# Pictures and what an autoencoder makes of them ---------------------------------------------------


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
