"""Learning histories: what is stored is what was lived, and it is imitated as it was."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.data.shards import ShardReader, ShardWriter
from gpicljax.systems.in_context_rl.data.histories import (
    History,
    Position,
    StoredHistories,
    load_histories,
)
from gpicljax.systems.in_context_rl.env import family_tasks, room_number
from gpicljax.systems.in_context_rl.studies.in_context_rl_histories import (
    program as in_context_rl_histories,
)
from gpicljax.systems.in_context_rl.studies.in_context_rl_train import (
    program as in_context_rl_train,
)
from gpicljax.testing import check_interface

SMALL = ["--family=dark-room", "--actions=50", "--histories=6", "--histories-per-shard=3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("histories") / "dark"
    reader = in_context_rl_histories.main([*SMALL, f"--out={path}", "--no-progress"])
    assert len(reader) == 6 and reader.about["algorithm"] == "Q-learning, tuned"
    return path


def test_histories_are_lives_in_their_tasks(folder):
    """Each is played again, step by step, in the room that is stored with it."""
    store_histories, about = load_histories(folder)
    assert about["family"] == "dark-room" and store_histories.now.shape == (6, 50)
    goals = ShardReader(folder).read(np.arange(6))["task"]["goal"]
    moves = np.array([(0, -1), (0, 1), (-1, 0), (1, 0), (0, 0)])
    for situation, reached, action, reward, truncated, goal in zip(
        *(
            np.asarray(x)
            for x in (
                store_histories.now,
                store_histories.reached,
                store_histories.action,
                store_histories.reward,
            )
        ),
        np.asarray(store_histories.truncated),
        goals,
        strict=True,
    ):
        cell = np.stack(np.divmod(situation, 9), -1)
        after = np.clip(cell + moves[action], 0, 8)
        np.testing.assert_array_equal(reached, after[:, 0] * 9 + after[:, 1])
        np.testing.assert_array_equal(reward, (after == goal).all(-1))
        # Episodes of 20 steps, from the centre.
        np.testing.assert_array_equal(np.flatnonzero(truncated), [19, 39])
        np.testing.assert_array_equal(situation[1:], np.where(truncated, 40, reached)[:-1])
    assert not store_histories.terminated.any() and len(np.unique(goals, axis=0)) > 1
    # None of the rooms that agents are tested in.
    task = family_tasks("dark-room", held_out=True).env.sample_task(
        jax.random.key(0), family_tasks("dark-room", held_out=True).env.default_params
    )
    numbers = [int(room_number(task.replace(goal=jnp.asarray(goal)))) for goal in goals]
    assert all(number % 4 for number in numbers) and int(room_number(task)) % 4 == 0


def test_what_is_there_already_is_not_made_again(folder, capsys):
    with pytest.raises(SystemExit):
        in_context_rl_histories.main([*SMALL, f"--out={folder}", "--seed=1"])
    assert "another configuration" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        in_context_rl_histories.main(["--family=mixture"])
    assert "--family: got 'mixture'" in capsys.readouterr().err


def test_a_part_of_a_history_is_gone_through_as_a_trial(folder):
    store_histories, _ = load_histories(folder)
    inner = family_tasks("dark-room", held_out=False).env.observation_space()
    env = StoredHistories(inner, choices=5, count=6, length=50, actions=30)
    check_interface(env)
    task = env.sample_task(jax.random.key(3), store_histories)
    starts = [
        (index, start)
        for index in range(6)
        for start in range(21)
        if (store_histories.now[index, start : start + 30] == task.now).all()
        and (store_histories.action[index, start : start + 30] == task.action).all()
    ]
    assert starts
    at = {n: env.observe(Position(jnp.int32(n)), task) for n in (0, 7, 30)}
    assert at[0]["now"] == at[0]["before"] == at[0]["reached"] == task.now[0]
    assert (at[7]["now"], at[7]["before"]) == (task.now[7], task.now[6])
    assert at[7]["reached"] == task.reached[6] and at[30]["elapsed"] == 1
    best = env.privileged(Position(jnp.int32(7)), task)["optimal"]
    assert best.sum() == 1 and best[task.action[7]]
    moved = env.move(Position(jnp.int32(7)), jnp.int32(0), (), task)
    assert moved.reward == task.reward[7]
    with pytest.raises(ValueError, match="actions: got 51"):
        StoredHistories(inner, choices=5, count=6, length=50, actions=51)


@pytest.mark.slow
def test_algorithm_distillation_learns_from_a_folder(folder, tmp_path, capsys):
    small = ["--learner=ad", f"--histories={folder}", "--actions=30", "--num-envs=16"]
    small += ["--observations=992", "--log-lines=1", "--replicas=8", "--no-progress"]
    small += [f"--runs-dir={tmp_path}"]
    outcome = in_context_rl_train.main(["--family=dark-room", *small])
    assert np.isfinite(outcome.curve("loss")).all()
    for wrong in ["--family=lakes"], ["--family=dark-room", "--actions=60"]:
        with pytest.raises(SystemExit):
            in_context_rl_train.main([*small, *wrong])
    with pytest.raises(SystemExit):
        in_context_rl_train.main([*small, "--family=dark-room", "--learner=dpt"])
    assert "--histories" in capsys.readouterr().err


def test_a_folder_of_something_else_is_refused(tmp_path):
    with ShardWriter(tmp_path) as writer:
        writer.append({"reward": np.zeros((2, 5))})
    with pytest.raises(ValueError, match="histories: got .*; accepted: a folder of in_context_rl"):
        load_histories(tmp_path)


N, T = 3, 6
ZEROS = np.zeros((N, T), np.int32)
WHOLE = History(ZEROS, ZEROS, ZEROS, ZEROS.astype(np.float32), ZEROS > 0, ZEROS > 0, ZEROS)
ABOUT = {"what": "learning histories", "family": "dark-room", "environment": "DarkRoom-v0"}
ABOUT |= {"static": {}, "params": {}, "actions": T, "seed": 0, "histories_per_shard": N}


def store_histories(folder, about=ABOUT, **arrays):
    with ShardWriter(folder, about) as writer:
        writer.append(WHOLE._replace(**arrays))
    return folder


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("action", ZEROS + 99, "action: got int32.3, 6.; accepted: within 0 .. 4"),
        ("action", ZEROS - 1, "action: got"),
        ("action", ZEROS + 0.5, "action: got float64"),
        ("action", np.full((N, T), 2**40), "action: got int64"),
        ("action", ZEROS[:, :4], "action: got"),
        ("action", ZEROS[:, 0], "action: got"),
        ("now", ZEROS + 10**6, "now: got int32.3, 6.; accepted: within 0 .. 80"),
        ("reached", ZEROS - 1, "reached: got"),
        ("reward", np.full((N, T), np.nan, np.float32), "reward: got .* finite"),
        ("reward", ZEROS, "reward: got int32"),
        ("terminated", ZEROS, "terminated: got int32"),
        ("truncated", np.zeros((N, T, 2), bool), "truncated: got"),
    ],
)
def test_histories_that_cannot_have_happened_are_refused(name, value, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        load_histories(store_histories(tmp_path / "odd", **{name: value}))


def test_histories_are_compared_with_the_environment_that_they_name(tmp_path):
    assert load_histories(store_histories(tmp_path / "whole"))[0].action.shape == (N, T)
    for env_id in ("os:getcwd", "Pendulum-v1", None):
        odd = store_histories(tmp_path / str(env_id), ABOUT | {"environment": env_id})
        with pytest.raises(ValueError, match=f"environment: got {env_id!r}"):
            load_histories(odd)


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_shard_that_does_not_fit_is_refused_before_anything_is_deleted(
    more, folder, capsys, monkeypatch
):
    monkeypatch.setattr("gpicljax.runtime.dry_run.free_bytes", lambda tree: 1)
    with pytest.raises(SystemExit, match="1"):
        in_context_rl_histories.main([*SMALL, f"--out={folder}", "--overwrite", *more])
    error = capsys.readouterr().err
    assert error.startswith("error: a shard of histories needs") and error.count("\n") == 1
    assert len(ShardReader(folder)) == 6
    # Nothing is compiled where all is there.
    if not more:
        assert len(in_context_rl_histories.main([*SMALL, f"--out={folder}"])) == 6


def test_overwriting_deletes_only_histories_that_nobody_holds(tmp_path, capsys):
    held, other_folder = (
        tmp_path / "held",
        store_histories(tmp_path / "other", ABOUT | {"what": "lives"}),
    )
    (tmp_path / "link").symlink_to(store_histories(tmp_path / "mine"))
    with ShardWriter(held, ABOUT) as writer:
        writer.append(WHOLE)
        for place, words in (
            (held, f"in use by another process (number {os.getpid()})"),
            (other_folder, "what: got 'lives'; accepted: learning histories"),
            (tmp_path / "link", "which is a link"),
        ):
            with pytest.raises(SystemExit, match="1"):
                in_context_rl_histories.main([*SMALL, f"--out={place}", "--overwrite"])
            error = capsys.readouterr().err
            assert words in error and error.count("\n") == 1 and len(ShardReader(place)) == N
