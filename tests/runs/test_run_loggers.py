"""TensorBoard and W&B show what the log holds and never stop a run; profiles; compilation."""

import importlib.util
import json
import math
import struct
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.runs import loggers as loggers_module
from gpicljax.runs import read_metrics
from gpicljax.runs.config import LOG_PACKAGES, validate
from gpicljax.runs.loggers import MAX_SEEDS, scalars
from gpicljax.runs.run_directory import open_run
from gpicljax.runtime import ConfigError, RunConfig
from gpicljax.runtime.loop import run_chunks
from gpicljax.runtime.profiling import CompileClock, profile

needs_packages = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in LOG_PACKAGES.values()),
    reason="needs gpicljax[log]",
)


@jax.jit
def chunk(state):
    return state + 1, {"loss": jnp.arange(3) * state, "net": {"norm": state}}


def train(runs_dir, chunks, update=chunk, **options):
    config = RunConfig(runs_dir=runs_dir, seeds=3, **options)
    with open_run("e", config) as run:
        run_chunks(
            update,
            jnp.float32(0),
            num_chunks=chunks,
            run=run,
            checkpoint_every=2,
            observations_per_chunk=300,
        )
    return run


def dying(at):
    """Stands for a process that is killed in its chunk number `at` + 1."""

    def update(state):
        if state == at:
            raise ZeroDivisionError
        return chunk(state)

    return update


def events(run):
    """Returns steps and values by tag as TensorBoard shows them, without what starts discard."""
    from tensorboardX.proto import event_pb2

    shown = {}
    for file in sorted((run.path / "tensorboard").iterdir()):
        data, at = file.read_bytes(), 0
        while at < len(data):
            (size,) = struct.unpack_from("<Q", data, at)
            event = event_pb2.Event.FromString(data[at + 12 : at + 12 + size])
            at += 16 + size
            if event.session_log.status == event_pb2.SessionLog.START:
                for values in shown.values():
                    for step in [step for step in values if step >= event.step]:
                        del values[step]
            for value in event.summary.value:
                values = shown.setdefault(value.tag, {})
                assert event.step not in values, "the same step twice"
                values[event.step] = value.simple_value
    return shown


def assert_shows(shown, run):
    """The event files say what the log says, no more and no less."""
    expected = {}
    for record in read_metrics(run.metrics_file):
        for tag, value in scalars(record).items():
            expected.setdefault(tag, {})[record["step"]] = value
    del expected["step"]
    assert shown.keys() == expected.keys()
    for tag, values in expected.items():
        assert shown[tag].keys() == values.keys(), tag
        np.testing.assert_allclose(list(shown[tag].values()), list(values.values()), rtol=1e-6)


def test_scalars():
    flat = scalars(
        {
            "loss": np.array([1.0, np.nan, 3.0]),
            "none": None,
            "inf": jnp.float32(jnp.inf),
            "text": "1.5",
            "texts": ["a", "b"],
            "done": True,
            "net": {"norm": jnp.bfloat16(2), "deep": {"x": 4}},
            "table": np.ones((2, 3)),
            "all nan": [None, None],
            "many": np.arange(MAX_SEEDS + 1),
            "empty": {},
        }
    )
    for name in ("none", "inf", "loss/seed_1", "all nan", "all nan/seed_0", "all nan/seed_1"):
        assert math.isnan(flat.pop(name)), name
    assert flat == {
        "loss": 2.0, "loss/seed_0": 1.0, "loss/seed_2": 3.0, "done": 1.0, "net/norm": 2.0,
        "net/deep/x": 4.0, "table": 1.0, "many": MAX_SEEDS / 2,
    }  # fmt: skip


@needs_packages
def test_tensorboard_shows_the_log(tmp_path):
    run = train(tmp_path, 4, log_to=("tensorboard",))
    shown = events(run)
    assert_shows(shown, run)
    assert shown["loss"] == {1: 0.0, 2: 1.0, 3: 2.0, 4: 3.0}
    assert shown["loss/seed_2"] == {1: 0.0, 2: 2.0, 3: 4.0, 4: 6.0}
    assert shown["observations"] == {1: 300, 2: 600, 3: 900, 4: 1200}
    assert {"net/norm", "time/observations_per_s", "time/compile_s"} <= shown.keys()


@needs_packages
def test_tensorboard_after_a_resume(tmp_path):
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, 6, dying(3), log_to=("tensorboard",))  # saved after 2, shown after 3
    first = tmp_path / "e" / "quick" / "tensorboard"
    (old,) = first.iterdir()
    early = old.read_bytes()
    run = train(tmp_path, 6, log_to=("tensorboard",), resume=True)
    assert len(list(first.iterdir())) == 1
    assert_shows(events(run), run)
    old.write_bytes(early)  # as a TensorBoard that has been watching knows them
    assert_shows(events(run), run)


@needs_packages
@needs_packages
def test_records_of_earlier_processes_keep_their_times(tmp_path):
    from tensorboardX.proto import event_pb2

    records = [{"step": n, "loss": 1 / n, "time": {"elapsed_s": 3600.0 * n}} for n in (1, 2, 3)]
    with open_run("e", RunConfig(runs_dir=tmp_path)) as run:
        loggers_module.TensorBoardLogger(run, records).close()
    (file,) = (run.path / "tensorboard").glob("events.*")
    data, times = file.read_bytes(), []
    while data:
        (size,) = struct.unpack_from("<Q", data)
        event = event_pb2.Event.FromString(data[12 : 12 + size])
        times += [event.wall_time] * bool(event.summary.value)
        data = data[16 + size :]
    np.testing.assert_allclose(np.diff(times), 3600, atol=1)
    assert times[-1] <= time.time()


def test_a_logger_added_on_resume_shows_everything(tmp_path):
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, 6, dying(3))
    run = train(tmp_path, 6, log_to=("tensorboard",), resume=True)
    assert_shows(events(run), run)


@needs_packages
@pytest.mark.parametrize("place", ["open", "log", "close"])
def test_a_failing_logger_is_dropped(tmp_path, monkeypatch, capsys, place):
    class Failing:
        def __init__(self, *_):
            self.fail("open")

        def fail(self, logger):
            if logger == place:
                raise OSError(28, "No space left on device")

        def log(self, step, values):
            self.fail("log")

        def close(self):
            self.fail("close")

    monkeypatch.setitem(loggers_module.LOGGERS, "wandb", Failing)
    run = train(tmp_path, 3, log_to=("wandb", "tensorboard"))
    assert [record["step"] for record in read_metrics(run.metrics_file)] == [1, 2, 3]
    assert_shows(events(run), run)
    output = capsys.readouterr().out
    assert output.count("warning: wandb dropped (OSError: [Errno 28]") == 1


@needs_packages
def test_interrupts_are_no_failures(tmp_path, monkeypatch):
    class Interrupted:
        def __init__(self, *_):
            pass

        def log(self, step, values):
            raise KeyboardInterrupt

        def close(self):
            pass

    monkeypatch.setitem(loggers_module.LOGGERS, "tensorboard", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, 3, log_to=("tensorboard",))


@needs_packages
def test_a_full_disk_does_not_stop_tensorboard_runs(tmp_path, monkeypatch, capsys):
    from tensorboardX.record_writer import RecordWriter

    write = RecordWriter.write

    def full(self, data):
        if len(data) > 100:  # the first records pass
            raise OSError(28, "No space left on device")
        write(self, data)

    monkeypatch.setattr(RecordWriter, "write", full)
    run = train(tmp_path, 14, log_to=("tensorboard",))
    assert len(read_metrics(run.metrics_file)) == 14
    assert capsys.readouterr().out.count("tensorboard dropped") == 1


def test_missing_packages_and_unknown_names_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"log_to: got 'wandb'; .*gpicljax\[log\]"):
        validate(RunConfig(runs_dir=tmp_path, log_to=("wandb",)))
    with pytest.raises(ConfigError, match="log_to: got .*'comet'.*; accepted: .*tensorboard"):
        open_run("e", RunConfig(runs_dir=tmp_path, log_to=("comet",)))
    assert not list(tmp_path.iterdir())


def test_a_folder_called_wandb_is_not_the_package(tmp_path, monkeypatch):
    (tmp_path / "wandb").mkdir()
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(ConfigError, match="log_to: got 'wandb'"):
        validate(RunConfig(log_to=("wandb",)))


WANDB = """
import os, sys
from pathlib import Path
import jax.numpy as jnp
from gpicljax.runtime import RunConfig
from gpicljax.runtime.loop import run_chunks
from gpicljax.runs.run_directory import open_run

def chunk(state):
    if state == 3 and sys.argv[2] == "die":
        os.kill(os.getpid(), 9)
    return state + 1, {"loss": jnp.arange(2) * state}

config = RunConfig(runs_dir=Path(sys.argv[1]), log_to=("wandb",), resume=sys.argv[2] == "resume")
with open_run("mazes", config) as run:
    run_chunks(chunk, jnp.float32(0), num_chunks=5, run=run, checkpoint_every=2)
"""


def wandb_records(file):
    """The records of W&B's transaction log, which has the format of LevelDB's logs."""
    from wandb.proto import wandb_internal_pb2

    data, at, parts = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        parts += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(parts)
            parts = b""


@pytest.mark.slow
@needs_packages
def test_wandb_offline_goes_on_after_a_kill(tmp_path, child_environment):
    quiet = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_CONFIG_DIR": str(tmp_path)}

    def play(action):
        return subprocess.run(
            [sys.executable, "-c", WANDB, str(tmp_path), action],
            env=child_environment | quiet, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip

    assert play("die").returncode == -9
    folder = tmp_path / "mazes" / "quick"
    identity = json.loads((folder / "wandb.json").read_text())["id"]
    done = play("resume")
    assert done.returncode == 0 and "dropped" not in done.stdout, done.stdout + done.stderr
    assert json.loads((folder / "wandb.json").read_text())["id"] == identity

    (file,) = (folder / "wandb").glob("offline-run-*/*.wandb")  # the killed one's is replaced
    records = list(wandb_records(file))
    (started,) = [r.run for r in records if r.WhichOneof("record_type") == "run"]
    assert (started.run_id, started.project, started.display_name) == (identity, "mazes", "quick")
    assert "preset" in {item.key for item in started.config.update}
    shown = {}
    for record in records:
        if record.WhichOneof("record_type") == "history":
            assert record.history.step.num not in shown
            shown[record.history.step.num] = {
                item.key or item.nested_key[0]: json.loads(item.value_json)
                for item in record.history.item
            }
    assert list(shown) == [1, 2, 3, 4, 5]
    for stored in read_metrics(folder / "metrics.jsonl"):
        for name, value in scalars({k: v for k, v in stored.items() if k != "step"}).items():
            assert shown[stored["step"]][name] == pytest.approx(value), name


def test_the_log_tells_compilation_from_work(tmp_path):
    class Recompiles:
        def __init__(self):
            self.calls = 0

        def __call__(self, state):
            self.calls += 1
            if self.calls in (1, 3):  # a new function, and so a compilation
                self.function = jax.jit(self.compute)
            return self.function(state)

        def compute(self, x):
            # So much to compile that nothing else in a chunk takes as long; in no cache yet.
            result = x
            for i in range(60):
                result = jnp.sin(result + i * self.calls * time.time())
            return result, {"v": x}

    run = train(tmp_path, 4, Recompiles())
    times = [record["time"] for record in read_metrics(run.metrics_file)]
    assert ["compile_s" in spent for spent in times] == [True, False, True, False]
    assert ["observations_per_s" in spent for spent in times] == [False, True, True, True]
    for spent in times:
        assert 0 <= spent.get("compile_s", 0.0) <= spent["chunk_s"]
    assert times[0]["compile_s"] > 0.5 * times[0]["chunk_s"]
    rate = 300 / (times[2]["chunk_s"] - times[2]["compile_s"])
    assert times[2]["observations_per_s"] == pytest.approx(rate)


def test_spans_that_overlap_count_once():
    clock = CompileClock()
    for start, end in ((10.0, 14.0), (11.0, 12.0), (13.0, 15.0), (20.0, 20.5)):
        clock._hear("/jax/core/compile/some_duration", start, end)
    clock._hear("/jax/something/else", 0.0, 100.0)
    assert clock.take() == 5.5
    assert clock.take() == 0.0


def traces(folder):
    return sorted(folder.rglob("*.trace.json.gz"))


def test_profile_of_the_second_chunk(tmp_path, capsys):
    run = train(tmp_path, 3, profile=True)
    assert len(traces(run.path / "profile")) == 1
    times = [record["time"] for record in read_metrics(run.metrics_file)]
    assert ["observations_per_s" in spent for spent in times] == [False, False, True]
    output = capsys.readouterr().out
    assert f"profile: {run.path / 'profile'}" in output and "perfetto" in output
    run = train(tmp_path, 3, profile=True, resume=True)
    assert "nothing profiled" in capsys.readouterr().out


@pytest.mark.slow
def test_a_profile_is_cut_and_its_failure_is_no_error(tmp_path, capsys):
    messages = []
    with profile(tmp_path / "a", seconds=0.05, report=messages.append):
        until = time.monotonic() + 30
        while not traces(tmp_path / "a") and time.monotonic() < until:
            time.sleep(0.02)
        assert traces(tmp_path / "a")  # before the context is left
    assert len(traces(tmp_path / "a")) == 1 and messages[0].startswith("profile: ")
    jax.profiler.start_trace(tmp_path / "mine")  # there can only be one
    try:
        with profile(tmp_path / "b", report=messages.append):
            pass
    finally:
        jax.profiler.stop_trace()
    assert (
        messages[1].startswith("warning: could not profile") and len(traces(tmp_path / "mine")) == 1
    )
