"""Building and running the study `gradual_learning_lifelong`."""

from __future__ import annotations

import functools
import time

import jax

from gpicljax.runs.distributed import log_once
from gpicljax.runs.pieces import complete_pieces
from gpicljax.runs.run_directory import RunDirectory
from gpicljax.runtime import Program, named_key, run_experiment
from gpicljax.systems.gradual_learning.learners.life import (
    Life,
    build_programs,
    read_life,
    teach_life,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning_lifelong.config import (
    PRESETS,
    Config,
    Method,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning_lifelong.report import report


def build(config: Config) -> Program:
    """Returns the program; lives that are complete are not lived again."""
    count, most = config.seeds * len(config.methods), config.updates * config.steps
    sets = len(config.task_sets)
    return Program(
        title=f"{count} lives of {sets} task sets, at most {most:,} steps of training each",
        host_measures=lambda run: complete_lives(run, config),
    )


def complete_lives(run: RunDirectory, config: Config) -> dict[Method, list[Life]]:
    """Returns lives by method, seed by seed; complete ones come from their files."""
    began, programs = (
        time.monotonic(),
        functools.cache(lambda: build_programs(config, config.task_sets)),
    )

    def make(piece: tuple[int, Method]) -> dict[str, object]:
        seed, method = piece
        key = jax.random.fold_in(named_key(config.seed, "life"), seed)
        life = teach_life(key, config, programs(), config.order(seed), method)
        if config.progress:
            log_once(
                f"{time.monotonic() - began:6.0f} s: seed {seed}, {method}: {life.cleared.sum()} "
                f"of {len(life.order)} task sets cleared in {life.steps.sum():,} steps"
            )
        return life.to_content()

    def read(piece: tuple[int, Method], content: object) -> Life:
        return read_life(config.order(piece[0]), config.streams, content)

    seeds, pieces = range(config.seeds), dict[str, tuple[int, Method]]()
    for seed in seeds:
        pieces |= {f"lives/{method}_{seed}": (seed, method) for method in config.methods}
    lives = complete_pieces(run, pieces, make, read)
    return {m: [lives[f"lives/{m}_{seed}"] for seed in seeds] for m in config.methods}


def main(argv: list[str] | None = None) -> dict[Method, list[Life]]:
    """Runs all lives, and writes and prints the tables; returns the lives by method.

    Each life is stored once it is whole: a run that is started again with the same flags, or with
    more seeds or methods, goes on with those that are missing. After a dry run there are none.
    """
    outcome = run_experiment("gradual_learning_lifelong", PRESETS, build, report, argv)
    return {} if outcome is None else outcome.host_measured
