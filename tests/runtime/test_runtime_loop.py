"""The loop and the devices, in this process where possible."""

import dataclasses
import io
import os
import signal
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.runs import read_metrics
from gpicljax.runs.checkpoints import Checkpointer
from gpicljax.runs.progress import Progress
from gpicljax.runs.run_directory import open_run
from gpicljax.runtime import RunConfig, enable_compilation_cache
from gpicljax.runtime.failures import failures_reported
from gpicljax.runtime.loop import run_chunks


@jax.jit
def count_up(state):
    return state + 1, {"value": state, "per_seed": jnp.arange(2) * state}


def test_loop_logs_saves_and_reports(tmp_path):
    stream, shown_lines = io.StringIO(), []
    with open_run("e", RunConfig(runs_dir=tmp_path)) as run:
        state, history = run_chunks(
            count_up, jnp.float32(0), num_chunks=5, run=run, checkpoint_every=2,
            on_metrics=lambda step, metrics: shown_lines.append((step, float(metrics["value"]))),
            progress=Progress(5, key_metric="value", stream=stream), observations_per_chunk=100,
        )  # fmt: skip
        assert Checkpointer(run.checkpoints).steps() == [4, 5]
    assert float(state) == 5
    assert shown_lines == [(i + 1, float(i)) for i in range(5)]
    assert history == read_metrics(run.metrics_file)
    assert [record["observations"] for record in history] == [100, 200, 300, 400, 500]
    assert history[2]["per_seed"] == [0.0, 2.0]
    assert "compile_s" in history[0]["time"] and "observations_per_s" not in history[0]["time"]
    assert "compile_s" not in history[1]["time"] and history[1]["time"]["observations_per_s"] > 0
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("first chunk, compilation included") and len(lines) == 6
    assert lines[-1].startswith("5/5 (100%)  value 4") and lines[-1].endswith("0 s left")

    with open_run("e", RunConfig(runs_dir=tmp_path, resume=True)) as run:  # nothing left to do
        repeated, same = run_chunks(count_up, jnp.float32(0), num_chunks=5, run=run)
    assert float(repeated) == 5 and same == history


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda lines: [], "it lacks 5 of its chunks, from chunk 1 on"),
        (lambda lines: lines[:3], "it lacks 2 of its chunks, from chunk 4 on"),
        (lambda lines: lines[:1] + lines[2:], "it lacks 1 of its chunks, from chunk 2 on"),
        (lambda lines: lines[:2] + lines[1:], "line 3 of 6 is of step 2, after step 2"),
        (lambda lines: lines[:2] + [b"}\n"] + lines[3:], "line 3 of 5 is damaged"),
    ],
)
def test_a_log_that_does_not_fit_the_checkpoint_is_refused_in_a_sentence(
    damage, words, tmp_path, capsys
):
    with open_run("e", RunConfig(runs_dir=tmp_path)) as run:
        run_chunks(count_up, jnp.float32(0), num_chunks=5, run=run)
    log = run.metrics_file
    log.write_bytes(b"".join(damage(log.read_bytes().splitlines(keepends=True))))
    with (
        pytest.raises(SystemExit, match="1"),
        failures_reported(),
        open_run("e", RunConfig(runs_dir=tmp_path, resume=True)) as run,
    ):
        run_chunks(count_up, jnp.float32(0), num_chunks=5, run=run)
    output = capsys.readouterr().err
    assert words in output and output.count("\n") == 1


def test_a_signal_during_the_exchange_of_signals_is_heard(tmp_path, monkeypatch):
    asked = 0

    def exchange(value):
        nonlocal asked
        asked += 1
        if asked == 2:  # the value has been read, its copies are under way
            os.kill(os.getpid(), signal.SIGTERM)
        return [value]

    monkeypatch.setattr("gpicljax.runtime.loop.exchange", exchange)
    with open_run("e", RunConfig(runs_dir=tmp_path)) as run:
        with pytest.raises(SystemExit, match="143"):
            run_chunks(count_up, jnp.float32(0), num_chunks=9, run=run)
        assert Checkpointer(run.checkpoints).steps()[-1] == 3


def test_training_goes_on_when_saving_fails(tmp_path, monkeypatch, capsys):
    save = Checkpointer.save
    monkeypatch.setattr(
        "gpicljax.runs.checkpoints.write_manifest",
        lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")),
    )
    monkeypatch.setattr(Checkpointer, "save", lambda self, step, state: save(self, step, state))
    with open_run("e", RunConfig(runs_dir=tmp_path)) as run:
        state, history = run_chunks(
            count_up, jnp.float32(0), num_chunks=4, run=run, checkpoint_every=2
        )
    assert float(state) == 4 and len(history) == 4
    assert capsys.readouterr().out.count("No space left") == 2


def test_no_checkpoint_is_ahead_of_the_log(tmp_path, monkeypatch):
    def full_disk(_):
        raise OSError(28, "No space left on device")

    def update(state):
        # The disk is full while chunks 2 and 3 are logged.
        monkeypatch.setattr(
            "gpicljax.runs.metrics.os.fsync", full_disk if state in (1, 2) else os.fsync
        )
        return count_up(state)

    fsync = os.fsync
    with open_run("e", RunConfig(runs_dir=tmp_path)) as run:

        def save_step(step, _):
            steps_before.append((step, Checkpointer(run.checkpoints).steps()))
            monkeypatch.setattr("gpicljax.runs.metrics.os.fsync", fsync)

        steps_before = []
        run_chunks(update, jnp.float32(0), num_chunks=4, run=run, on_metrics=save_step)
        assert steps_before == [(1, []), (2, [1]), (3, [1]), (4, [1])]
        assert Checkpointer(run.checkpoints).steps() == [1, 4]
        assert [record["step"] for record in read_metrics(run.metrics_file)] == [1, 2, 3, 4]


def test_a_signal_during_the_last_steps_of_a_chunk_still_saves_it(tmp_path, monkeypatch):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        for at in (2, 4):  # in the middle, and after the last chunk

            def update(self, done, at=at, number=number, **_):
                if done == at:
                    os.kill(os.getpid(), number)

            monkeypatch.setattr(Progress, "update", update)
            config = RunConfig(runs_dir=tmp_path, name=f"{code}-{at}")
            with open_run("e", config) as run, pytest.raises(SystemExit) as caught:
                run_chunks(
                    count_up,
                    jnp.float32(0),
                    num_chunks=4,
                    run=run,
                    checkpoint_every=3,
                    progress=Progress(4),
                )
            assert caught.value.code == code
            assert Checkpointer(run.checkpoints).steps()[-1] == at
    assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))


def test_a_signal_in_the_middle_of_a_chunk_is_heard_and_nothing_is_lost(tmp_path, monkeypatch):
    """The bits do not depend on how chunks are cut: here into single updates, there into whole."""
    steps_asked = []

    def advance(state, count):
        steps_asked.append(int(count))
        if len(steps_asked) == 12 and stop:
            os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(int(count)):
            state = {"x": state["x"] * jnp.float32(1.1) + 1, "sum": state["sum"] + state["x"]}
        return state, ()

    def finish(state):
        return {"x": state["x"], "sum": jnp.float32(0)}, {"mean": state["sum"] / 5}

    start = {"x": jnp.float32(0), "sum": jnp.float32(0)}
    plan = {"advance": advance, "updates": 5, "num_chunks": 4}
    finals, logs = [], []
    for name, stretch in (("whole", 100.0), ("single", 0.0)):
        monkeypatch.setattr("gpicljax.runtime.loop.STRETCH", stretch)
        stop = name == "single"
        steps_asked.clear()
        config = RunConfig(runs_dir=tmp_path, name=name)
        with open_run("e", config) as run:
            if stop:
                with pytest.raises(SystemExit, match="143"):
                    run_chunks(finish, start, run=run, **plan)
                assert Checkpointer(run.checkpoints).steps() == [10, 12]
                assert len(read_metrics(run.metrics_file)) == 2
            else:
                state, log = run_chunks(finish, start, run=run, **plan)
                assert steps_asked == [1, 4, 5, 5, 5]
        if stop:
            with open_run("e", dataclasses.replace(config, resume=True)) as run:
                state, log = run_chunks(finish, start, run=run, **plan)
            assert steps_asked == [1] * 20
        finals.append(state)
        logs.append([record["mean"] for record in log])
    assert finals[0] == finals[1] and logs[0] == logs[1] and len(logs[0]) == 4


@pytest.mark.parametrize(
    "name", ["num_chunks", "updates", "checkpoint_every", "observations_per_chunk"]
)
def test_counts_are_checked(tmp_path, name):
    arguments = {"num_chunks": 1} | {name: -1}
    with open_run("e", RunConfig(runs_dir=tmp_path)) as run:
        with pytest.raises(ValueError, match=f"{name}: got -1"):
            run_chunks(count_up, jnp.float32(0), run=run, **arguments)
        with pytest.raises(ValueError, match="metrics: got 'time'"):
            run_chunks(lambda s: (s, {"time": s}), jnp.float32(0), run=run, num_chunks=1)


def test_eight_devices(tmp_path, on_eight_devices):
    on_eight_devices(Path(__file__).with_name("eight_devices.py"), tmp_path)


@pytest.fixture
def jax_settings():
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_compilation_cache(tmp_path, monkeypatch, jax_settings):
    assert enable_compilation_cache(tmp_path / "a") == tmp_path / "a"
    jax.jit(lambda x: jnp.cos(x) * 1.234)(np.arange(7.0)).block_until_ready()
    assert list((tmp_path / "a").iterdir())
    monkeypatch.setenv("GPICLJAX_CACHE", str(tmp_path / "b"))
    assert enable_compilation_cache() == tmp_path / "b"
    (tmp_path / "file").touch()
    assert enable_compilation_cache(tmp_path / "file" / "c") is None
    monkeypatch.setenv("GPICLJAX_CACHE", "off")
    assert enable_compilation_cache() is None
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "b")
