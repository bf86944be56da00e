"""How the study `in_context_rl_histories` is built and run."""

from __future__ import annotations

import dataclasses
import shutil
import time
from pathlib import Path
from typing import Annotated, Any

import jax

from gpicljax.checks import Count, Range
from gpicljax.data.shards import ShardError, ShardReader
from gpicljax.runs.distributed import log_once
from gpicljax.runs.progress import announce, duration
from gpicljax.runtime import RunConfig, check_config, enable_compilation_cache, parse
from gpicljax.runtime.dry_run import compile_within_memory, timed
from gpicljax.runtime.failures import failures_reported
from gpicljax.systems.in_context_rl.data.histories import (
    History,
    collect_histories,
    play_histories,
)
from gpicljax.systems.in_context_rl.studies.in_context_rl.playing import learning_source
from gpicljax.systems.in_context_rl.studies.in_context_rl.tasks import Family, tasks
from gpicljax.wrappers.trial import Trial


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """Collects histories of agents as they learn.

    Attributes:
      out: Folder to write to; by default `runs/in_context_rl_histories/<name>`.
      family: Tasks; those that are held out for tests are never among them.
      actions: Actions of a history.
      histories: How many there are to be.
      histories_per_shard: How many are made and written at once.
    """

    seeds: Count = 1
    out: Path | None = None
    family: Family = "dark-room"
    actions: Annotated[int, Range(2)] = 1_000
    histories: Count = 2_048
    histories_per_shard: Count = 512

    def validate(self) -> None:
        """Refuses what can be refused before anything is compiled."""
        super().validate()
        check_config(self.seeds == 1, "seeds", self.seeds, "1, for --seed names the data")
        check_config(self.family != "mixture", "family", self.family, "a single one")

    @property
    def folder(self) -> Path:
        """Where the histories go."""
        return self.out or self.runs_dir / "in_context_rl_histories" / self.run_name

    @property
    def shards(self) -> int:
        """How many there are to be."""
        return -(-self.histories // self.histories_per_shard)

    def default_name(self) -> str:
        """The preset and the family."""
        return f"{self.preset}-{self.family}"


PRESETS = {
    "quick": Config(histories=512),
    "full": Config(),
}


def build(config: Config) -> tuple[Any, dict[str, Any]]:
    """The program that makes a shard from its key, and what the folder says of itself."""
    each = tasks(config.family, held_out=False)
    env = Trial(each.env, config.actions)
    env_params = env.make_params(**dict(each.params))
    name, agent = learning_source(env)

    def make(key: jax.Array) -> History:
        return play_histories(key, env, env_params, agent, config.histories_per_shard)

    about = {
        "what": "learning histories",
        "family": config.family,
        "environment": each.env_id,
        "static": dict(each.static),
        "params": dict(each.params),
        "algorithm": name,
        "actions": config.actions,
        "seed": config.seed,
        "histories_per_shard": config.histories_per_shard,
    }
    return jax.jit(make), about


def dry_run(config: Config) -> None:
    """Prints measured speed, and the projected time."""
    make, about = build(config)
    key = jax.random.key(config.seed)
    program, cost = compile_within_memory(make, "a shard of histories", key)
    seconds = timed(program, key)
    announce(
        f"dry run of {config.run_name}",
        {
            "histories": f"{config.histories:,} of {about['algorithm']} on {config.family}",
            "compilation": f"{cost.compile_s:.1f} s",
            "projected time": duration(seconds * config.shards),
        },
    )


def main(argv: list[str] | None = None) -> ShardReader | None:
    """Collects; returns a reader of what there is (None after a dry run)."""
    config = parse(PRESETS, argv, prog="gpicljax run in_context_rl_histories")
    enable_compilation_cache()
    if config.dry_run:
        dry_run(config)
        return None
    folder, began = config.folder, time.monotonic()
    make, about = build(config)
    with failures_reported(ShardError):
        if config.overwrite and folder.exists():
            known = ShardReader(folder, skip_damaged=True).about.get("what") == about["what"]
            check_config(known, "overwrite", str(folder), "a folder of learning histories")
            shutil.rmtree(folder)
        announce(
            f"in_context_rl_histories {config.run_name}: {about['algorithm']} on {config.family}",
            {"actions": f"{config.actions:,} of a history", "folder": str(folder)},
        )

        def report(done: int, total: int) -> None:
            if config.progress:
                log_once(f"{time.monotonic() - began:6.0f} s: {done} of {total} shards")

        collect_histories(
            folder, about, make, seed=config.seed, shards=config.shards, report=report
        )
        reader = ShardReader(folder)
        size = sum(s for shard in reader.manifest.shards for s, _ in shard.files.values())
        took = duration(time.monotonic() - began)
        log_once(f"{len(reader):,} histories, {size / 1e6:,.1f} MB in {folder}; {took}")
        return reader
