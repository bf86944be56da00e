"""Building and running the study `gradual_learning_online`."""

from __future__ import annotations

import functools
import time

from gpicljax.runs.distributed import log_once
from gpicljax.runs.pieces import complete_pieces
from gpicljax.runs.run_directory import RunDirectory
from gpicljax.runtime import Program, run_experiment
from gpicljax.systems.gradual_learning.studies.gradual_learning_online.config import (
    PRESETS,
    Config,
    Method,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning_online.lives import (
    Lives,
    play_lives,
    read_lives,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning_online.report import report


def build(config: Config) -> Program:
    """Returns the program; the streams of each method are a piece of work."""
    return Program(
        title=f"{config.seeds} streams of at most {config.budget:,} steps for each of "
        f"{', '.join(config.methods)}",
        host_measures=lambda run: complete_lives(run, config),
    )


def complete_lives(run: RunDirectory, config: Config) -> dict[Method, Lives]:
    """Returns the streams of all methods; complete ones come from their files."""

    def make(method: Method) -> dict[str, object]:
        began, lives = time.monotonic(), play_lives(config, method)
        if config.progress:
            cleared = lives.count_cleared(lives.budget).mean()
            seconds = time.monotonic() - began
            log_once(f"{seconds:6.0f} s: {method}: {cleared:.2f} task sets cleared")
        return lives._asdict()

    pieces: dict[str, Method] = {f"streams/{method}": method for method in config.methods}
    lives_by_piece = complete_pieces(run, pieces, make, functools.partial(read_lives, config))
    return {method: lives_by_piece[name] for name, method in pieces.items()}


def main(argv: list[str] | None = None) -> dict[Method, Lives]:
    """Plays all streams, and writes and prints the tables; returns the lives by method.

    After a dry run there are none.
    """
    outcome = run_experiment("gradual_learning_online", PRESETS, build, report, argv)
    return {} if outcome is None else outcome.host_measured
