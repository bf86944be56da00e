"""The run folder, the metrics log, atomic files and the summary."""

import dataclasses
import errno
import io
import json
import os
import re
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

from gpicljax.runs import read_metrics, run_directory
from gpicljax.runs.metrics import MetricsError, MetricsLog
from gpicljax.runs.progress import Progress, announce, count, duration
from gpicljax.runs.provenance import provenance
from gpicljax.runs.run_directory import (
    ConfigMismatchError,
    RunError,
    RunExistsError,
    RunLockedError,
    open_run,
    write_summary,
)
from gpicljax.runtime import RunConfig
from gpicljax.storage import atomic, manifest
from gpicljax.storage.atomic import write_atomically
from gpicljax.storage.patience import Patience
from gpicljax.studies.train_agent import program as train_agent
from gpicljax.viz.style import save_figure


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_atomic_write_keeps_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_atomically(path, "old")
    for place in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(atomic.os, place, full_disk)
            with pytest.raises(OSError, match="No space"):
                write_atomically(path, "new")
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["a.txt"]
    write_atomically(path, b"new")
    assert path.read_text() == "new"


def test_open_run_refuses_continues_and_replaces(tmp_path):
    config = RunConfig(runs_dir=tmp_path, seeds=2)
    resume = RunConfig(runs_dir=tmp_path, seeds=2, resume=True, progress=False, name="quick")
    with pytest.raises(RunError, match="--resume: got 'quick'; accepted: .* where there is none"):
        open_run("e", resume)
    assert not list(tmp_path.iterdir())
    with open_run("e", dataclasses.replace(resume, resume=False, requeue=True)) as run:
        assert run.path == tmp_path / "e" / "quick" and not run.resumed
        assert json.loads(run.config_file.read_text())["seeds"] == 2
        with pytest.raises(RunLockedError, match=f"another process .number {os.getpid()}"):
            open_run("e", resume)
    with pytest.raises(RunExistsError, match="--resume .* --overwrite"):
        open_run("e", config)
    run.metrics_file.write_text("kept")
    for way in ("resume", "requeue"):
        repeated = dataclasses.replace(config, **{way: True})
        with open_run("e", repeated) as run:
            assert run.resumed and run.metrics_file.read_text() == "kept"
    with pytest.raises(RunError, match=r"--resume: got 'quik' .did you mean 'quick'.*: quick"):
        open_run("e", dataclasses.replace(resume, name="quik"))
    resuming = RunConfig(runs_dir=tmp_path, seeds=3, seed=1, resume=True)
    with pytest.raises(ConfigMismatchError, match=r"seeds: 2 -> 3\n  seed: 0 -> 1"):
        open_run("e", resuming)
    assert run.metrics_file.read_text() == "kept"
    with open_run("e", RunConfig(runs_dir=tmp_path, seeds=3, overwrite=True)) as run:
        assert not run.resumed and not run.metrics_file.exists()


def test_a_run_without_its_config_is_not_resumed(tmp_path):
    resume = RunConfig(runs_dir=tmp_path, resume=True)
    with open_run("e", RunConfig(runs_dir=tmp_path)) as run:
        run.config_file.write_text('{"seeds"')
    with pytest.raises(RunError, match=r"config\.json is missing or damaged"):
        open_run("e", resume)
    run.config_file.unlink()
    with pytest.raises(RunError, match=r"config\.json is missing or damaged"):
        open_run("e", resume)
    with pytest.raises(ValueError, match="seeds: got 0"):
        open_run("e", RunConfig(runs_dir=tmp_path, seeds=0))


@pytest.mark.parametrize(
    "files", [{"thesis.tex": "My thesis"}, {"config.json": "{}"}, {"config.json": "[" * 100_000}]
)
@pytest.mark.parametrize("linked", [False, True])
def test_what_is_no_run_is_never_deleted(files, linked, tmp_path):
    config = RunConfig(runs_dir=tmp_path / "runs", overwrite=True)
    folder = tmp_path / "elsewhere" if linked else tmp_path / "runs" / "e" / "quick"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    if linked:
        (tmp_path / "runs" / "e").mkdir(parents=True)
        (tmp_path / "runs" / "e" / "quick").symlink_to(folder)
    with pytest.raises(
        RunError, match="does not delete .*, which is a link" if linked else "no run"
    ):
        open_run("e", config)
    assert {entry.name: entry.read_text() for entry in folder.iterdir()} == files


def test_a_run_behind_a_link_is_not_deleted_and_links_within_one_are_not_followed(tmp_path):
    config = RunConfig(runs_dir=tmp_path / "runs", overwrite=True)
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "thesis.tex").write_text("My thesis")
    with open_run("e", config) as run:
        (run.path / "notes").symlink_to(kept)
    with open_run("e", config) as run:
        assert [*kept.iterdir()] == [kept / "thesis.tex"] and not (run.path / "notes").exists()
    run.path.rename(tmp_path / "moved")
    run.path.symlink_to(tmp_path / "moved")
    with pytest.raises(RunError, match="which is a link"):
        open_run("e", config)
    assert (tmp_path / "moved" / "config.json").exists()


def test_a_deletion_that_was_interrupted_is_finished(tmp_path, monkeypatch):
    config = RunConfig(runs_dir=tmp_path, overwrite=True)
    with open_run("e", config) as run:
        (run.checkpoints / "1").mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(run_directory.shutil, "rmtree", full_disk)
        with pytest.raises(OSError, match="No space"):
            open_run("e", config)
    with pytest.raises(RunError, match=r"config\.json is missing or damaged"):
        open_run("e", dataclasses.replace(config, overwrite=False, requeue=True))
    with open_run("e", config) as run:
        assert not run.checkpoints.exists()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("{1}\n{1}\n{2}", "line 2 of 3 is of step 1, after step 1"),
        ("{2}\n{1}", "line 2 of 2 is of step 1, after step 2"),
        ('{"step": true}\n{2}', "line 1 of 2 is damaged"),
        ('{"step": 1, "time": 5}\n{2}', "line 1 of 2 is damaged"),
        ('{"step": 1, "time": {"elapsed_s": "long"}}\n{2}', "line 1 of 2 is damaged"),
        ("[" * 100_000 + "\n{2}", "line 1 of 2 is damaged"),
    ],
)
def test_a_log_with_steps_out_of_order_or_damaged_lines_is_refused(lines, words, tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text(re.sub(r"\{(\d)\}", r'{"step": \1}', lines) + "\n")
    with pytest.raises(MetricsError, match=words):
        read_metrics(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_and_devices_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            read_metrics(path)
        assert (
            "is not a regular file" in manifest.find_problems(path.parent, {path.name: (0, "")})[0]
        )


def test_metrics_round_trip(tmp_path):
    log = MetricsLog(tmp_path / "m.jsonl")
    log.append(1, {"a": 0.1, "b": np.float32(0.1), "c": jnp.arange(3), "d": {"e": np.eye(2)}})
    log.append(
        2, {"a": float("nan"), "b": np.array([1.0, np.inf]), "c": jnp.bfloat16(1.5), "d": "x"}
    )
    text = log.path.read_text()
    assert "NaN" not in text and "Infinity" not in text
    first, second = log.read()
    assert first == {"step": 1, "a": 0.1, "b": float(np.float32(0.1)), "c": [0, 1, 2],
                     "d": {"e": [[1.0, 0.0], [0.0, 1.0]]}}  # fmt: skip
    assert second == {"step": 2, "a": None, "b": [1.0, None], "c": 1.5, "d": "x"}
    with pytest.raises(ValueError, match="'step'"):
        log.append(3, {"step": 3})
    with pytest.raises(ValueError, match=r"values\['big'\]: got float64\[300, 300\]"):
        log.append(3, {"big": np.zeros((300, 300))})
    assert read_metrics(tmp_path / "absent.jsonl") == []


def test_metrics_are_cut_back(tmp_path):
    path = tmp_path / "m.jsonl"
    log = MetricsLog(path)
    for step in range(1, 6):
        log.append(step, {"x": step})
    with open(path, "ab") as file:
        file.write(b'{"step": 6, "x"')
    assert [record["step"] for record in read_metrics(path)] == [1, 2, 3, 4, 5]
    MetricsLog(path).append(6, {"x": 6})  # opening removes the torn line
    assert [record["x"] for record in read_metrics(path)] == [1, 2, 3, 4, 5, 6]
    log.truncate_after(3)
    assert [record["step"] for record in read_metrics(path)] == [1, 2, 3]
    log.truncate_after(0)
    assert path.read_bytes() == b""
    path.write_bytes(b'{"step": 1}\nrubbish\n{"step": 3}\n')
    with pytest.raises(MetricsError, match="line 2 of 3"):
        read_metrics(path)


def test_metrics_survive_a_full_disk(tmp_path, monkeypatch, capsys):
    log = MetricsLog(tmp_path / "m.jsonl", patience=Patience(3, 0.0))
    log.append(1, {})
    with monkeypatch.context() as patch:
        patch.setattr("gpicljax.runs.metrics.os.fsync", full_disk)
        log.append(2, {})
        assert not log.complete and [r["step"] for r in log.read()] == [1]
        assert "No space left" in capsys.readouterr().out
    log.append(3, {})
    assert log.complete and [r["step"] for r in log.read()] == [1, 2, 3]
    monkeypatch.setattr("gpicljax.runs.metrics.os.fsync", full_disk)
    log.append(4, {})
    log.append(5, {})
    with pytest.raises(OSError, match="No space"):
        log.append(6, {})
    assert [r["step"] for r in log.read()] == [1, 2, 3]


def test_summary(tmp_path):
    with open_run("e", RunConfig(runs_dir=tmp_path)) as run:
        MetricsLog(run.metrics_file).append(1, {"time": {"elapsed_s": 12.5}})
        write_summary(run, {"reward": np.array([1.0, np.nan]), "note": "x"}, "# Result\n\ntext\n")
        summary = json.loads((run.path / "summary.json").read_text())
        text = (run.path / "summary.md").read_text()
    assert summary["results"] == {"reward": [1.0, None], "note": "x"}
    assert summary["training_time_s"] == 12.5 and summary["wall_time_s"] >= 0
    assert {"jax", "flax", "optax", "python"} <= summary["versions"].keys()
    assert summary["hardware"]["cores"] >= 1 and summary["hardware"]["cpu"]
    assert text.startswith("# Result\n\ntext\n\n## ") and summary["versions"]["jax"] in text
    assert {"date", "command", "git", "hardware"} <= provenance().keys()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_and_announcement():
    plain, terminal = io.StringIO(), Terminal()
    for stream in (plain, terminal):
        progress = Progress(4, key_metric="loss", stream=stream)
        metrics = {"loss": np.array([1.0, 2.0, np.nan])}
        progress.update(1, metrics=metrics, observations_per_second=None, seconds_left=None)
        progress.update(2, metrics=metrics, observations_per_second=12345.0, seconds_left=90)
        progress.note("a message")
        progress.close()
    assert plain.getvalue() == (
        "1/4 (25%)  loss 1.5\n"
        "2/4 (50%)  loss 1.5  12.3k observations/s  1 min 30 s left\n"
        "a message\n"
    )
    drawn = terminal.getvalue()
    assert "2/4 (50%)  loss 1.5  12.3k observations/s  1 min 30 s left" in drawn
    assert drawn.endswith("a message\n") and "\x1b[?25h" in drawn  # the cursor is back
    out = io.StringIO()
    announce("mazes: quick", {"seeds": 6}, expected_seconds=200, stream=out)
    expected = "  expected: about 3 min 20 s, compilation included\n"
    assert out.getvalue() == "mazes: quick\n  seeds: 6\n" + expected
    assert [duration(s) for s in (0.2, 59.6, 18420)] == ["0 s", "1 min 00 s", "5 h 07 min"]
    assert [count(n) for n in (0.5, 999.0, 1000, 2.5e6, 3e9)] == ["0.5", "999", "1k", "2.5M", "3G"]


@pytest.mark.skipif(os.name != "posix", reason="needs a umask")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_files_are_as_private_as_the_umask_says(mask, tmp_path):
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "summary.md", "# Done")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert (tmp_path / "summary.md").stat().st_mode & 0o777 == 0o666 & ~mask


def test_files_are_written_where_modes_and_flushing_are_unknown(tmp_path, monkeypatch):
    """As on file systems of the network; and the umask, which other threads use, is left alone."""

    def refuse(number):
        def refuse_access(*arguments, **options):
            raise OSError(number, os.strerror(number))

        return refuse_access

    monkeypatch.setattr(os, "chmod", refuse(errno.EPERM))
    monkeypatch.setattr(os, "umask", refuse(errno.EPERM))
    monkeypatch.setattr(os, "fsync", refuse(errno.EINVAL))
    write_atomically(tmp_path / "summary.md", "# Done")
    save_figure(plt.figure(), tmp_path / "empty.png")
    assert (tmp_path / "summary.md").read_text() == "# Done"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.png", "summary.md"]
    monkeypatch.setattr(os, "fsync", refuse(errno.ENOSPC))
    with pytest.raises(OSError, match=r"summary.md"):
        write_atomically(tmp_path / "summary.md", "# Lost")
    assert (tmp_path / "summary.md").read_text() == "# Done"


@pytest.mark.parametrize("name", ["a:b", "a/b", "a\\b", ".a", "", "a?", "a\nb", 'a"b', "<a>"])
def test_names_that_some_system_does_not_take_are_refused(name, tmp_path):
    with pytest.raises(ValueError, match="name: got .*accepted: a folder name of every system"):
        open_run("e", RunConfig(runs_dir=tmp_path, name=name))


def test_a_module_in_an_id_makes_no_colon_in_a_name():
    config = train_agent.Config(env="mypackage.envs:Pond-v0")
    assert config.run_name == "quick-ppo-mypackage.envs-Pond-v0"
