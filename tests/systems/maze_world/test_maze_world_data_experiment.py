"""The collection of Maze World's demonstrations as a user runs it, at toy sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.data.shards import ShardReader, ShardWriter
from gpicljax.storage.lock import exclusive
from gpicljax.systems.maze_world.data import stored
from gpicljax.systems.maze_world.data.demonstrations import MazeTrajectory
from gpicljax.systems.maze_world.studies.maze_world_data import program as maze_world_data

TINY = ["--size=9", "--landmarks=3", "--demonstration.length=12", "--episodes=10",
        "--episodes-per-shard=4", "--densities", "0.2", "0.36", "--no-progress"]  # fmt: skip


@pytest.fixture
def sampler(monkeypatch):
    """Episodes that need no compilation."""

    def compile_sampler(env, choices, episodes, settings):
        assert env.size == 9 and len(choices) == 2 and int(choices[0].horizon) == 12

        def make(key):
            drawn = jax.random.randint(key, (episodes, 12), 0, 5).astype(jnp.uint8)
            column = jnp.zeros(episodes, jnp.float32)
            return MazeTrajectory(
                *[column] * 6, jnp.zeros((episodes, 3, 13), jnp.uint8), drawn, drawn, column
            )

        return make

    monkeypatch.setattr(stored, "_compile", compile_sampler)


def test_collects_and_goes_on(sampler, tmp_path, capsys):
    out = [f"--out={tmp_path / 'mazes'}"]
    reader = maze_world_data.main([*TINY, *out, "--episodes=3", "--progress"])
    assert len(reader) == 4 and "1/1 (100%)" in capsys.readouterr().out
    reader = maze_world_data.main([*TINY, *out])
    assert len(reader) == 12 and reader[0]["action"].shape == (12,)
    assert "1 of 3 shards are there already" in capsys.readouterr().out
    first = reader.read(np.arange(12))["action"]
    with pytest.raises(SystemExit):
        maze_world_data.main([*TINY, *out, "--seed=1"])
    assert "seed: 0 -> 1" in capsys.readouterr().err
    overwritten = maze_world_data.main([*TINY, *out, "--overwrite"])
    assert np.array_equal(overwritten.read(np.arange(12))["action"], first)


def test_overwrites_nothing_else(sampler, tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SystemExit):
        maze_world_data.main([*TINY, f"--out={tmp_path}", "--overwrite"])
    assert "no store" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").exists()
    assert [*tmp_path.iterdir()] == [tmp_path / "thesis.txt"]


def test_overwrites_no_data_that_is_held_linked_or_of_another_kind(sampler, tmp_path, capsys):
    mazes, other_store = tmp_path / "mazes", tmp_path / "other"
    maze_world_data.main([*TINY, f"--out={mazes}"])
    (tmp_path / "link").symlink_to(mazes)
    with ShardWriter(other_store, {"what": "learning histories"}) as writer:
        writer.append({"reward": np.zeros((2, 3))})
    capsys.readouterr()
    for place, held, words in (
        (mazes, mazes, "in use by another process"),
        (tmp_path / "link", other_store, "which is a link"),
        (other_store, mazes, "environment: got None"),
    ):
        lock = exclusive(held)
        with pytest.raises(SystemExit, match="1"):
            maze_world_data.main([*TINY, f"--out={place}", "--overwrite"])
        lock.close()
        error = capsys.readouterr().err
        assert words in error and error.count("\n") == 1
    assert len(ShardReader(mazes)) == 12 and len(ShardReader(other_store)) == 2


def test_a_shard_that_does_not_fit_is_refused_before_it_is_begun(sampler, tmp_path, monkeypatch):
    monkeypatch.setattr("gpicljax.runtime.dry_run.free_bytes", lambda tree: 1)
    for more in ([], ["--dry-run"]):
        with pytest.raises(SystemExit, match="1"):
            maze_world_data.main([*TINY, f"--out={tmp_path / 'mazes'}", *more])
        assert not [*tmp_path.rglob("shard-*")]


@pytest.mark.slow
def test_for_real(tmp_path, capsys):
    out = [f"--out={tmp_path / 'mazes'}"]
    maze_world_data.main([*TINY, *out, "--dry-run"])
    output = capsys.readouterr().out
    assert "projected size" in output and "steps/s" in output and not (tmp_path / "mazes").exists()
    reader = maze_world_data.main([*TINY, *out])
    env, params, settings = stored.from_metadata(reader.about)
    assert len(reader) == 12 and env.size == 9 and settings.length == 12
    assert [round(float(p.density), 2) for p in params] == [0.2, 0.36]
