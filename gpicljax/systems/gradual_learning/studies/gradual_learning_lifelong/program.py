"""How the study `gradual_learning_lifelong` is run."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from gpicljax.runs.config_json import to_json
from gpicljax.runs.distributed import log_once
from gpicljax.runtime import check_config, enable_compilation_cache, parse
from gpicljax.runtime.failures import failures_reported
from gpicljax.storage.atomic import to_json_text, write_atomically
from gpicljax.storage.lock import LockedError, exclusive
from gpicljax.systems.gradual_learning.studies.gradual_learning_lifelong.config import (
    PRESETS,
    Config,
    Method,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning_lifelong.lives import (
    Life,
    live,
    programs_of,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning_lifelong.report import report

_FREE = (
    *("resume", "requeue", "overwrite", "dry_run", "progress", "runs_dir", "name", "preset"),
    *("seeds", "methods"),
)
"""What may differ between two parts of a run: no life depends on it."""


def main(argv: list[str] | None = None) -> dict[Method, list[Life]]:
    """Runs all lives, and writes and prints the tables; returns the lives by method.

    Each life is written once it is whole: a run that is started again with the same flags, or with
    more seeds or methods, goes on with those that are missing. After a dry run there are none.
    """
    config = parse(PRESETS, argv, prog="gpicljax run gradual_learning_lifelong")
    if config.dry_run:
        sets, most = len(config.task_sets), config.updates * config.steps
        lives = config.seeds * len(config.methods)
        log_once(f"{lives} lives of {sets} task sets, at most {most:,} steps of training each")
        return {}
    enable_compilation_cache()
    folder = config.runs_dir / "gradual_learning_lifelong" / config.run_name
    if config.overwrite and (folder / "config.json").exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with failures_reported(LockedError, ValueError), contextlib.closing(exclusive(folder)):
        _same_run(config, folder)
        found: dict[Method, list[Life]] = {method: [] for method in config.methods}
        for method, life in _lives(config, folder):
            found[method].append(life)
        log_once(report(folder, config, found))
    return found


def _same_run(config: Config, folder: Path) -> None:
    """Notes what the run is, or refuses another one in its folder."""
    told = {name: value for name, value in to_json(config).items() if name not in _FREE}
    path = folder / "config.json"
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        known = {name: value for name, value in known.items() if name not in _FREE}
        accepted = "a run with the same flags, another --name, or --overwrite"
        check_config(known == told, "name", str(folder), accepted)
    write_atomically(path, to_json_text(told))


def _lives(config: Config, folder: Path) -> Iterator[tuple[Method, Life]]:
    """All lives, those of earlier parts of the run from their files."""
    programs, began = programs_of(config), time.monotonic()
    for seed in range(config.seeds):
        for method in config.methods:
            path = folder / "lives" / f"{method}_{seed}.json"
            if path.exists():
                yield method, Life.of(json.loads(path.read_text(encoding="utf-8")))
                continue
            life = live(config, programs, seed, method)
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, to_json_text(life.told()))
            if config.progress:
                seconds = time.monotonic() - began
                log_once(
                    f"{seconds:6.0f} s: seed {seed}, {method}: {life.cleared.sum()} of "
                    f"{len(life.order)} task sets cleared in {life.steps.sum():,} steps"
                )
            yield method, life
