"""Maze World's study as a user runs it, at a toy size; and what it refuses.

Its runs are slow: demonstrators, models that act and models that dream are compiled.
"""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest
from small_studies import small_flags

from gpicljax.data.shards import ShardWriter
from gpicljax.networks.autoencoder import AutoencoderSettings, autoencoder, standardise
from gpicljax.networks.causal_model import AUTOENCODER, MODEL, WINDOW
from gpicljax.runs import load_agent
from gpicljax.runs.config_json import to_json
from gpicljax.runs.saved_autoencoders import save_autoencoder
from gpicljax.runtime import parse
from gpicljax.systems.maze_world.data.demonstrations import Demonstration
from gpicljax.systems.maze_world.data.stored import collect_trajectories, metadata
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.studies.maze_world import program as maze_world
from gpicljax.systems.maze_world.studies.maze_world import start
from gpicljax.systems.maze_world.studies.maze_world.config import PRESETS
from gpicljax.systems.maze_world.studies.maze_world_autoencoder import (
    program as maze_world_autoencoder,
)

TINY = small_flags("maze_world")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    settings = AutoencoderSettings("patches", latent=4, width=8)
    params = standardise(autoencoder(settings, (16, 16))).init(jax.random.key(0))
    save_autoencoder(folder, settings, (16, 16), jax.device_get(params))
    return folder


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory, pictures):
    folder = tmp_path_factory.mktemp("runs")
    arguments = [*TINY, f"--autoencoder={pictures}", f"--runs-dir={folder}"]
    return folder / "maze_world" / "cpu-7x7", maze_world.main(arguments), arguments


@pytest.mark.slow
def test_writes_everything(finished_run):
    run, outcome, _ = finished_run
    for name in (
        "training",
        "shown_policy",
        "shown_image",
        "acted_7",
        "ahead_1",
        "ahead_4",
        "ahead_frames",
        "trajectories",
    ):
        assert (run / "figures" / f"{name}.png").stat().st_size > 5_000
    results = json.loads((run / "summary.json").read_text())["results"]
    page = (run / "figures" / "episode.html").read_text()
    assert "7 x 7" in page and "turn left" in page
    assert set(results["shown"]["noise of 1"]) == {"full context", "context-free"}
    assert len(results["ahead"]["4"]["full context"]) == 4
    text = (run / "summary.md").read_text()
    for word in ("privileged, p = 25 %", "| random |", "| greedy |", "k = 4, after 1"):
        assert word in text
    shown = outcome.measured.shown["noise as in training"]
    assert shown.policy.shape == (2, 4, 16) and np.isfinite(shown.image).all()


@pytest.mark.slow
def test_survival_has_no_programs_without_a_map_and_is_drawn(pictures, tmp_path):
    arguments = [*TINY, "--mode=survival", f"--autoencoder={pictures}", f"--runs-dir={tmp_path}"]
    run = maze_world.main(arguments).run
    text = (run.path / "summary.md").read_text()
    assert "wall follower" not in text and "over context-free" in text
    assert (run.figures / "acted_7.png").stat().st_size > 5_000


@pytest.mark.slow
def test_models_are_saved_and_trained_on(finished_run, pictures):
    run, outcome, arguments = finished_run
    loaded = load_agent(run / "agents" / "context_free" / "seed_0")
    np.testing.assert_array_equal(loaded.params[WINDOW], 1)
    whole = jax.tree.leaves(load_agent(run / "agents" / "full_context" / "seed_0").params[MODEL])
    np.testing.assert_array_equal(whole[0], jax.tree.leaves(outcome.params[MODEL])[0][0])
    for leaf in jax.tree.leaves(outcome.params[AUTOENCODER]):
        np.testing.assert_array_equal(leaf[0], leaf[1])
    # A shorter context goes on from the whole one's model.
    config = maze_world.parse(PRESETS, [*arguments, "--contexts", "2", f"--start-from={run}"])
    (cell,) = maze_world.build(config).cells.values()
    np.testing.assert_array_equal(jax.tree.leaves(cell.model)[0], whole[0])
    assert cell.window == 2
    # So does one that has a model of its own there, if it is told to.
    for given_start, same in (([], False), (["--start-context=0"], True)):
        flags = [*arguments, "--contexts", "1", f"--start-from={run}", *given_start]
        (cell,) = maze_world.build(parse(PRESETS, flags)).cells.values()
        assert np.array_equal(jax.tree.leaves(cell.model)[0], whole[0]) == same


@pytest.mark.slow
def test_models_are_measured_as_they_are_in_mazes_of_other_densities(finished_run, capsys):
    run, outcome, arguments = finished_run
    more = ["--no-train", f"--start-from={run}", "--name=sweep", "--evaluation-densities", "0.2"]
    swept = maze_world.main([*arguments, *more])
    for a, b in zip(*map(jax.tree.leaves, (swept.params, outcome.params)), strict=True):
        np.testing.assert_array_equal(a, b)
    name = "noise as in training"
    swept_losses, saved_losses = (result.measured.shown[name].policy for result in (swept, outcome))
    np.testing.assert_allclose(swept_losses, saved_losses, rtol=1e-4)
    assert (swept.measured.densities[0.2].policy != swept_losses).any()
    assert "| density | full context | context-free |" in capsys.readouterr().out


@pytest.mark.slow
def test_models_that_plan_act_and_look_ahead_in_mazes_of_the_training(pictures, tmp_path):
    flags = ["--preset=quick", "--size=7", "--model.map-memory=4", "--model.plan-sweeps=4"]
    flags += ["--contexts", "0", "--tasks", "1", "2", f"--runs-dir={tmp_path}"]
    outcome = maze_world.main([*TINY, *flags, f"--autoencoder={pictures}"])
    assert set(outcome.history[-1]) >= {"policy_loss", "sight_loss", "move_loss"}
    sets = {"the 1 mazes of training", "the 2 mazes of training"}
    for measured in (outcome.measured.acted_in_seen, outcome.measured.ahead_in_seen):
        assert set(measured) == sets
    acted = outcome.measured.acted_in_seen["the 1 mazes of training"]
    assert (acted.pose[..., 0] == acted.pose[:, :1, :, 0]).all()  # one maze, one start
    assert acted.reward.shape == (2, 4, 16)
    text = (outcome.run.path / "summary.md").read_text()
    assert "| model | unseen mazes | the 1 mazes of training | the 2 mazes" in text


@pytest.mark.slow
def test_a_model_is_taught_in_states_that_it_brings_about(finished_run):
    run, _, arguments = finished_run
    own_flags = ["--contexts", "0", "--own-groups=1", f"--start-from={run}", "--name=own"]
    outcome = maze_world.main([*arguments, *own_flags])
    assert np.isfinite(outcome.history[-1]["policy_loss"]).all()
    # The actor is the model of the log line before: between the start's and the last one.
    config = parse(PRESETS, [*arguments, *own_flags], prog="maze_world.py")
    program = maze_world.build(config)
    (cell,) = program.cells.values()
    state = program.init(jax.random.key(0), cell)
    learnt, _ = jax.jit(program.update)(state)
    same = jax.tree.map(np.array_equal, state.data.actor, learnt.data.actor)
    assert all(jax.tree.leaves(same))
    renewed = jax.tree.map(np.array_equal, program.between(learnt).data.actor, learnt.params)
    assert all(jax.tree.leaves(renewed))


MAZES = MazeWorld(size=7, max_landmarks=4)
SHORT = Demonstration(length=16)


@pytest.mark.slow
def test_models_learn_from_stored_episodes(pictures, tmp_path):
    params = MAZES.make_params(size=7, horizon=17)
    collect_trajectories(
        tmp_path, 0, MAZES, params, episodes=4, episodes_per_shard=4, settings=SHORT
    )
    flags = [*TINY, f"--autoencoder={pictures}", f"--data={tmp_path}", "--contexts", "0"]
    program = maze_world.build(parse(PRESETS, flags))
    (cell,) = program.cells.values()
    assert cell.episodes.action.shape == (4, 16)
    state = program.init(jax.random.key(0), cell)
    _, metrics = jax.jit(program.update)(state)
    assert np.isfinite(metrics["policy_loss"]).all()
    assert program.details["mazes"] == "7 x 7, 4 stored episodes"


@pytest.fixture(scope="module")
def mazes(tmp_path_factory):
    """A folder of stored episodes in which nobody moves."""
    folder = tmp_path_factory.mktemp("mazes") / "of_7"
    steps = np.zeros((4, 16), np.uint8)
    episodes = {
        "task": np.zeros((4, 2), np.uint32),
        "distribution": np.zeros(4, np.uint8),
        "length": np.full(4, 16, np.int32),
        "pose": np.ones((4, 3, 17), np.uint8),
        "action": steps,
        "label": steps,
        "reward": steps.astype(np.float32),
        "command": np.zeros((4, 17), np.uint8),
    }
    with ShardWriter(folder, metadata(MAZES, MAZES.make_params(size=7), SHORT)) as writer:
        writer.append(episodes)
    return folder


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--demonstration.length=32"], "length: got 32; accepted: 16, as in the stored episodes"),
        (["--size=9"], "env.size: got 9; accepted: 7, as in the stored episodes"),
        (["--actions=continuous"], "env.actions: got 'continuous'; accepted: 'discrete'"),
        (["--tasks", "10"], "data: got '"),
    ],
)
def test_stored_episodes_of_another_kind_are_refused(flags, message, pictures, mazes, capsys):
    arguments = [*TINY, f"--autoencoder={pictures}", f"--data={mazes}", "--dry-run"]
    with pytest.raises(SystemExit):
        maze_world.main([*arguments, *flags])
    assert message in capsys.readouterr().err


def test_damaged_episodes_are_refused(pictures, mazes, tmp_path, capsys):
    copy = shutil.copytree(mazes, tmp_path / "copy")
    min(path for path in copy.glob("shard-*/**/*") if path.is_file()).unlink()
    with pytest.raises(SystemExit):
        maze_world.main([*TINY, f"--autoencoder={pictures}", f"--data={copy}", "--dry-run"])
    assert f"error: {copy}" in capsys.readouterr().err


def test_an_autoencoder_of_other_pictures_is_refused(pictures, capsys):
    with pytest.raises(SystemExit):
        maze_world.main([f"--autoencoder={pictures}", "--dry-run"])
    assert "16 x 16, not 32 x 32" in capsys.readouterr().err


def test_the_autoencoder_of_a_run_is_used_again_if_it_is_what_is_wanted(
    tmp_path, monkeypatch, capsys
):
    trained = []

    def train(config):
        trained.append(config)
        run = tmp_path / "maze_world_autoencoder" / config.run_name
        (run / "agents" / "seed_0").mkdir(parents=True, exist_ok=True)
        (run / "config.json").write_text(json.dumps(to_json(config)))

    monkeypatch.setattr(maze_world_autoencoder, "run", train)
    quick = dataclasses.replace(PRESETS["quick"], runs_dir=tmp_path)
    folder = start.trained_autoencoder(quick)
    assert folder == start.trained_autoencoder(quick) and len(trained) == 1
    denser = dataclasses.replace(quick, density=0.4)
    with pytest.raises(SystemExit):
        start.trained_autoencoder(denser)
    assert "density: 0.36 -> 0.4" in capsys.readouterr().err and len(trained) == 1
    assert start.trained_autoencoder(dataclasses.replace(denser, overwrite=True)) == folder
    assert [config.overwrite for config in trained] == [False, True]
