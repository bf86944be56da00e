"""An agent that learns while it plays: what it learns, its controls, and the study's tables."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.agents.combinators import by_block
from gpicljax.interface import TimeStep
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.learners.online import (
    LearnerConfig,
    online_learner,
)
from gpicljax.systems.gradual_learning.measures.streams import play_streams, streams_of
from gpicljax.systems.gradual_learning.studies.gradual_learning_online import program
from gpicljax.systems.gradual_learning.studies.gradual_learning_online.config import Config
from gpicljax.systems.gradual_learning.studies.gradual_learning_online.lives import (
    Lives,
    read_lives,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning_online.report import report

SMALL = ["--seeds=2", "--budget=60", "--checkpoints=60", "--curriculum", "micro1"]
SMALL += ["--methods", "frozen", "--learner.memory=32"]


def test_it_clears_task_sets_and_with_frozen_weights_none():
    curriculum, learner = Curriculum(("micro1", "micro4")), LearnerConfig(memory=128)
    frozen = dataclasses.replace(learner, learning_rate=0.0)
    agent = by_block([online_learner(learner), online_learner(frozen)], [4, 4])
    env = ByteStream(max_tasks=2, families=curriculum.families)
    keys = jnp.tile(jax.random.split(jax.random.key(5), 4), 2)
    tasks = streams_of(keys, env, [curriculum] * 8, 1_200)
    play = jax.jit(lambda key, tasks: play_streams(key, env, agent, (), tasks, 1_200))
    assert play(jax.random.key(6), tasks).cleared.tolist() == [2] * 4 + [0] * 4


def test_a_new_stream_begins_anew_and_streams_do_not_depend_on_one_another():
    agent = online_learner(LearnerConfig(memory=32, replay=2))
    act = jax.jit(agent.act)
    keys = jax.random.split(jax.random.key(7), 2)

    def heard(byte, reward, starts):
        false, starts = np.zeros(2, bool), np.array(starts)
        byte, reward = np.full(2, byte, np.int32), np.full(2, reward, np.float32)
        return TimeStep(byte, reward, false, false, starts, starts, {})

    carry = agent.initial_carry(2)
    for step in range(6):
        _, _, carry = act(keys, (), carry, heard(65 + step, -1.0, [step == 0] * 2))
    assert np.asarray(carry.weights).any(axis=(1, 2)).all()
    say, _, after = act(keys, (), carry, heard(80, 0.0, [True, False]))
    fresh_say, _, fresh = act(keys, (), agent.initial_carry(2), heard(80, 0.0, [True, True]))
    gone_on_say, _, gone_on = act(keys, (), carry, heard(80, 0.0, [False, False]))
    assert say.tolist() == [int(fresh_say[0]), int(gone_on_say[1])]
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[0], b[0]), after, fresh)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[1], b[1]), after, gone_on)


def test_the_tables_count_what_streams_cleared():
    config = Config(seeds=2, curriculum=("micro1", "micro4"), checkpoints=(100, 200), budget=200)
    own_lives = Lives(np.array([[50.0, 150.0], [90.0, np.inf]]), 200)
    null = Lives(np.array([[150.0, np.inf], [90.0, 190.0]]), 200)
    assert own_lives.count_cleared(100).tolist() == [1, 1] and own_lives.count_cleared(
        200
    ).tolist() == [2, 1]
    lives = {"online": own_lives, "suffix-predictor": null}
    text, numbers, *_ = report(SimpleNamespace(config=config, host_measured=lives))
    assert "| online | 1.00 [1.00, 1.00] | 1.50" in text and "(1 of 2)" in text
    np.testing.assert_array_equal(numbers["finished"]["online"], [[50, 150], [90, np.inf]])


def test_a_run_is_written_gone_on_with_and_not_written_over(tmp_path, capsys, monkeypatch):
    flags = [*SMALL, f"--runs-dir={tmp_path}"]
    assert program.main([*flags, "--dry-run"]) == {}
    lives_by_method = program.main(flags)
    assert lives_by_method["frozen"].finished.shape == (2, 1)
    with pytest.raises(SystemExit):
        program.main(flags)
    assert "--overwrite" in capsys.readouterr().err
    run = tmp_path / "gradual_learning_online" / "quick"
    assert (run / "summary.json").exists() and "| frozen |" in (run / "summary.md").read_text()
    monkeypatch.setattr(program, "play_lives", None)  # what is there is not played again
    resumed = program.main([*flags, "--resume"])["frozen"]
    np.testing.assert_array_equal(resumed.finished, lives_by_method["frozen"].finished)
    piece = run / "streams" / "frozen.json"
    piece.write_text(piece.read_text().replace("null", "1.0", 1))
    with pytest.raises(SystemExit, match="1"):
        program.main([*flags, "--resume"])
    assert "frozen.json has changed" in capsys.readouterr().err


def test_streams_of_other_numbers_are_refused():
    config = Config(seeds=2, curriculum=("micro1", "micro4"), budget=200)
    whole = {"finished": [[50.0, None], [90.0, 120.0]], "budget": 200}
    assert read_lives(config, "online", whole).count_cleared(200).tolist() == [1, 2]
    for odd in ([], {}, whole | {"budget": 100}, whole | {"finished": [[50.0, None]]},
                whole | {"finished": [[50.0, None], [-1.0, 120.0]]}):  # fmt: skip
        with pytest.raises(ValueError, match="accepted: "):
            read_lives(config, "online", odd)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"curriculum": ("micro99",)}, "curriculum"), ({"methods": ("online", "online")}, "methods")],
)
def test_what_cannot_be_played_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(Config(), **fields).validate()


def test_what_does_not_fit_into_memory_is_refused_before_it_begins(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gpicljax.runtime.dry_run.free_bytes", lambda tree: 1)
    with pytest.raises(SystemExit, match="1"):
        program.main([*SMALL, f"--runs-dir={tmp_path}"])
    error = capsys.readouterr().err
    assert "GiB of the 0.00 GiB free" in error and error.count("\n") == 1
    assert not [*tmp_path.rglob("*_0.json"), *tmp_path.rglob("streams")]
