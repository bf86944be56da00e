"""The autoencoder experiment as a user runs it, at a toy size; and what it refuses.

Its runs are slow; where frames are of episodes, demonstrators are compiled twice, for the training
and for the measures.
"""

import dataclasses
import json

import jax
import numpy as np
import pytest
from small_studies import small_flags
from variants import daily

from gpicljax.networks.autoencoder import AutoencoderSettings
from gpicljax.runs import load_autoencoder
from gpicljax.systems.maze_world.studies.maze_world_autoencoder import (
    program as maze_world_autoencoder,
)
from gpicljax.systems.maze_world.studies.maze_world_autoencoder.config import PRESETS
from gpicljax.systems.maze_world.studies.maze_world_autoencoder.report import UNSEEN

TINY = small_flags("maze_world_autoencoder", "--seeds=2 --log-lines=2")


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    outcome = maze_world_autoencoder.main([*TINY, f"--runs-dir={folder}"])
    return folder / "maze_world_autoencoder" / "quick", outcome


@pytest.mark.slow
def test_writes_everything(finished_run):
    run, outcome = finished_run
    for name in ("reconstruction", "divergence", "reconstructions"):
        assert (run / "figures" / f"{name}.png").stat().st_size > 5_000
    results = json.loads((run / "summary.json").read_text())["results"]
    assert len(results["error"]) == 2 and results["parameters"] == outcome.parameters
    text = (run / "summary.md").read_text()
    assert "**autoencoder**, seed 1" in text and "frame before" in text and "mean image" in text
    assert len(outcome.history) == 2 and outcome.observations == 72


@pytest.mark.slow
def test_errors_are_those_of_the_frames(tmp_path):
    arguments = [*TINY, "--moments=episodes", f"--runs-dir={tmp_path}"]
    views = maze_world_autoencoder.main(arguments).measured[UNSEEN]
    assert views.error.shape == views.mean_image.shape == views.frame_before.shape == (2, 3, 5)
    assert views.frames.shape == views.again.shape == (2, 3, 5, 16, 16, 3)
    frames = views.frames / 255
    np.testing.assert_allclose(
        views.error, np.square(frames - views.again).mean((-3, -2, -1)), rtol=1e-4
    )
    mean = frames.mean((1, 2), keepdims=True)
    expected = np.square(frames - mean).mean((-3, -2, -1))
    np.testing.assert_allclose(views.mean_image, expected, rtol=1e-4)
    # Here the frames of a maze are of consecutive steps.
    before = np.square(frames[:, :, 1:] - frames[:, :, :-1]).mean((-3, -2, -1))
    np.testing.assert_allclose(views.frame_before[:, :, 1:], before, rtol=1e-4, atol=1e-7)
    # Some moves change what is seen, and mazes differ.
    assert views.frame_before.max() > 1e-3 and np.abs(frames[:, 0, 0] - frames[:, 1, 0]).max() > 0.1


@pytest.mark.slow
def test_the_saved_autoencoder_standardises(finished_run):
    run, outcome = finished_run
    result = outcome.measured[UNSEEN]
    for seed in range(2):
        loaded = load_autoencoder(run / "agents" / f"seed_{seed}", (16, 16))
        np.testing.assert_array_equal(loaded.params.shift, result.shift[seed])
        np.testing.assert_array_equal(loaded.params.scale, result.scale[seed])
        assert set(loaded.info["evaluation"]) == {"error"}
        assert loaded.info["training"]["seed_index"] == seed
        seed_params = jax.tree.map(lambda x, seed=seed: x[seed], outcome.params)
        jax.tree.map(np.testing.assert_array_equal, loaded.params.network, seed_params)
    mean, _ = loaded.autoencoder.encode(loaded.params, result.frames[1])
    decoded = loaded.autoencoder.decode(loaded.params, mean)
    np.testing.assert_allclose(decoded, result.again[1], atol=1e-4)
    assert (result.scale > 1e-3).all()
    np.testing.assert_allclose(mean.reshape(-1, 4).std(0), 1, rtol=1e-2)


def test_presets_fit():
    # What they come to is the same: 256 frames an update, of sixteen mazes or more.
    for config in PRESETS.values():
        config.validate()
        assert maze_world_autoencoder.build(config).observations == 256
        assert config.agent.batch_size * config.mazes >= 16
    assert PRESETS["paper"].model == AutoencoderSettings()


@pytest.mark.parametrize("actions", daily(["discrete"], ["discrete", "continuous"]))
@pytest.mark.parametrize("mode", daily(["survival"], ["navigation", "survival"]))
def test_frames_of_demonstrations_in_every_mode(mode, actions):
    config = dataclasses.replace(
        PRESETS["quick"], moments="episodes", mode=mode, actions=actions, mazes=2, frames=2
    )
    env, params = config.mazes_and_params()
    views = jax.eval_shape(
        lambda key: maze_world_autoencoder.sample_views(key, env, params, config, 2, 2),
        jax.random.key(0),
    )
    assert views.after.shape == views.before.shape == (2, 2, *config.resolution, 3)
