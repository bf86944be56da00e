"""Opening the folder of a run: what is gone on with, and what is never deleted."""

import dataclasses
import errno
import json
import os
from typing import ClassVar

import pytest

from gpicljax.runs import run_directory
from gpicljax.runs.config import DataConfig
from gpicljax.runs.run_directory import (
    ConfigMismatchError,
    RunError,
    RunLockedError,
    open_run,
)
from gpicljax.runtime import RunConfig
from gpicljax.storage.lock import exclusive


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_run_of_another_experiment_is_not_deleted(tmp_path):
    config = RunConfig(runs_dir=tmp_path)
    with open_run("e", config) as run:
        run.metrics_file.write_text("kept")
    (tmp_path / "f").mkdir()
    run.path.rename(tmp_path / "f" / "quick")
    with pytest.raises(RunError, match="no run of f: it is one of e"):
        open_run("f", dataclasses.replace(config, overwrite=True))
    assert (tmp_path / "f" / "quick" / "metrics.jsonl").read_text() == "kept"


@pytest.mark.parametrize("files", [{"thesis.tex": "My thesis"}, {"config.json": "{}"}])
def test_what_another_process_holds_is_not_deleted(files, tmp_path):
    """The lock goes first, of a run or not."""
    folder = tmp_path / "e" / "quick"
    folder.mkdir(parents=True)
    held = exclusive(folder)
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.raises(RunLockedError, match=f"in use by another process .number {os.getpid()}"):
        open_run("e", RunConfig(runs_dir=tmp_path, overwrite=True))
    held.close()
    with pytest.raises(RunError, match="no run of e"):
        open_run("e", RunConfig(runs_dir=tmp_path, overwrite=True))
    assert {name: (folder / name).read_text() for name in files} == files


@dataclasses.dataclass(frozen=True)
class Growing(DataConfig):
    """More seeds extend its runs."""

    free: ClassVar[tuple[str, ...]] = ("seeds",)


def test_a_run_that_may_grow_goes_on_and_nothing_else_changes(tmp_path):
    config = Growing(runs_dir=tmp_path, seeds=1)
    with open_run("e", config) as run:
        assert not run.resumed
    with open_run("e", dataclasses.replace(config, seeds=3)) as run:
        assert run.resumed and json.loads(run.config_file.read_text())["seeds"] == 3
    with pytest.raises(ConfigMismatchError, match=r"another configuration.*\n  seed: 0 -> 1"):
        open_run("e", dataclasses.replace(config, seed=1))
    run.config_file.write_text("[1]")
    with pytest.raises(RunError, match=r"config\.json is missing or damaged \(no JSON object\)"):
        open_run("e", config)


@pytest.mark.parametrize("made_by_us", [True, False])
def test_the_rest_of_a_deletion_is_not_gone_on_with(made_by_us, tmp_path, monkeypatch):
    config = Growing(runs_dir=tmp_path)
    with open_run("e", config) as run:
        (run.path / "shards").mkdir()
    if not made_by_us:
        run.config_file.unlink()
    overwriting = dataclasses.replace(config, overwrite=True)
    with monkeypatch.context() as patch:
        patch.setattr(run_directory.shutil, "rmtree", full_disk)
        with pytest.raises(OSError, match="No space"):
            open_run("e", overwriting, recognise=lambda folder: None)
    with pytest.raises(RunError, match=r"config\.json is missing or damaged"):
        open_run("e", config)
    with open_run("e", overwriting) as run:
        assert not (run.path / "shards").exists()


def test_a_folder_that_a_user_names_is_opened_as_any_other(tmp_path):
    """Its own kind is replaced; links and other runs are not. What is refused deletes nothing."""
    out = tmp_path / "mine"
    config = Growing(runs_dir=tmp_path, out=out, overwrite=True)
    with open_run("e", config) as run:
        assert run.path == out
        (out / ".shard-000001.tmp").mkdir()  # of a writer that was killed
        run.metrics_file.write_text("kept")

    def refuse():
        raise RunError("too large")

    with pytest.raises(RunError, match="too large"):
        open_run("e", config, before=refuse)
    with pytest.raises(RunError, match="no run of f: it is one of e"):
        open_run("f", config)
    (tmp_path / "link").symlink_to(out)
    with pytest.raises(RunError, match="which is a link"):
        open_run("e", dataclasses.replace(config, out=tmp_path / "link"))
    assert run.metrics_file.read_text() == "kept"
    with open_run("e", config) as run:
        assert not run.metrics_file.exists() and not (out / ".shard-000001.tmp").exists()


def test_what_a_library_function_made_is_deleted_if_it_is_recognised(tmp_path):
    config = Growing(runs_dir=tmp_path, out=tmp_path / "mine", overwrite=True)
    config.out.mkdir()
    (config.out / "manifest.json").write_text("{}")

    def refuse(folder):
        raise ValueError(f"{folder.name} holds no store")

    with pytest.raises(RunError, match="no run of e: mine holds no store"):
        open_run("e", config, recognise=refuse)
    with open_run("e", config, recognise=lambda folder: None):
        assert not (config.out / "manifest.json").exists()
