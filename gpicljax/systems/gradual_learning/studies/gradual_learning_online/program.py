"""How the study `gradual_learning_online` is run."""

from __future__ import annotations

import contextlib
import shutil
import time

from gpicljax.runs.distributed import log_once
from gpicljax.runtime import check_config, enable_compilation_cache, parse
from gpicljax.runtime.failures import failures_reported
from gpicljax.storage.lock import LockedError, exclusive
from gpicljax.systems.gradual_learning.studies.gradual_learning_online.config import (
    PRESETS,
    Method,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning_online.lives import Lives, lives_of
from gpicljax.systems.gradual_learning.studies.gradual_learning_online.report import report


def main(argv: list[str] | None = None) -> dict[Method, Lives]:
    """Plays all streams, and writes and prints the tables; returns the lives by method.

    After a dry run there are none.
    """
    config = parse(PRESETS, argv, prog="gpicljax run gradual_learning_online")
    if config.dry_run:
        log_once(
            f"{config.seeds} streams of at most {config.budget:,} steps for each of "
            f"{', '.join(config.methods)}"
        )
        return {}
    enable_compilation_cache()
    folder = config.runs_dir / "gradual_learning_online" / config.run_name
    if config.overwrite and (folder / "summary.md").exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with failures_reported(LockedError, ValueError), contextlib.closing(exclusive(folder)):
        new = not (folder / "summary.md").exists()
        check_config(new, "name", str(folder), "a run that is new, another --name, or --overwrite")
        found: dict[Method, Lives] = {}
        for method in config.methods:
            began = time.monotonic()
            found[method] = lives_of(config, method)
            if config.progress:
                cleared = found[method].cleared(found[method].budget).mean()
                seconds = time.monotonic() - began
                log_once(f"{seconds:6.0f} s: {method}: {cleared:.2f} task sets cleared")
        log_once(report(folder, config, found))
    return found
