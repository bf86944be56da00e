"""How the study `maze_world_data` is built and run."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from pathlib import Path
from typing import Literal

import jax

import gpicljax
from gpicljax.checks import BelowOne, Count
from gpicljax.data.shards import ShardError, ShardReader, ShardWriter
from gpicljax.runs.distributed import log_once
from gpicljax.runs.progress import Progress, announce, duration
from gpicljax.runtime import RunConfig, check_config, enable_compilation_cache, parse
from gpicljax.runtime.dry_run import compile_within_memory, timed
from gpicljax.runtime.failures import failures_reported
from gpicljax.systems.maze_world import data as maze_world
from gpicljax.systems.maze_world.data import stored
from gpicljax.systems.maze_world.data.demonstrations import Demonstration, MazeTrajectory
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """Collects demonstrations of privileged agents.

    Attributes:
      out: Folder to write to; by default `runs/maze_world_data/<name>`.
      size: Cells of a maze's side.
      mode: What there is to do.
      actions: What the agents can do.
      densities: Densities of walls; every episode has one of them.
      landmarks: Targets in a maze.
      commands: Targets of an episode.
      episodes: How many there are to be.
      episodes_per_shard: How many are made and written at once.
      demonstration: How they are made.
    """

    seeds: Count = 1
    out: Path | None = None
    size: Count = 15
    mode: Literal["navigation", "survival"] = "navigation"
    actions: Literal["discrete", "continuous", "moves"] = "discrete"
    densities: tuple[BelowOne, ...] = (0.36,)
    landmarks: Count = 10
    commands: Count = 10_000
    episodes: Count = 1_024
    episodes_per_shard: Count = 256
    demonstration: Demonstration = Demonstration()

    def validate(self) -> None:
        """Refuses what can be refused before anything is compiled."""
        super().validate()
        check_config(self.seeds == 1, "seeds", self.seeds, "1, for --seed names the data")
        check_config(len(self.densities) >= 1, "densities", self.densities, "at least one")
        build(self)

    @property
    def folder(self) -> Path:
        """Where the data goes."""
        return self.out or self.runs_dir / "maze_world_data" / self.run_name


PRESETS = {
    "quick": Config(),
    "paper": Config(episodes=120_000, episodes_per_shard=1_024),
    "paper-25": Config(size=25, episodes=120_000, episodes_per_shard=1_024),
    "paper-35": Config(size=35, episodes=120_000, episodes_per_shard=1_024),
    # The densities of the reference's scripts.
    "mixed": Config(
        densities=(0.20, 0.34, 0.36, 0.38, 0.45), episodes=120_000, episodes_per_shard=1_024
    ),
}


def build(config: Config) -> tuple[MazeWorld, list[Params]]:
    """The environment and its distributions."""
    env = gpicljax.make(
        "MazeWorld-v0",
        size=config.size,
        mode=config.mode,
        actions=config.actions,
        max_landmarks=config.landmarks,
    )
    assert isinstance(env, MazeWorld)
    common = {"num_commands": config.commands, "horizon": config.demonstration.length}
    return env, [env.make_params(density=density, **common) for density in config.densities]


def dry_run(config: Config) -> None:
    """Prints measured speed, and the projected hours and gigabytes."""
    env, params = build(config)
    batch = min(config.episodes_per_shard, 64)
    short = dataclasses.replace(config.demonstration, length=min(config.demonstration.length, 1024))

    def some(key: jax.Array) -> tuple[jax.Array, MazeTrajectory]:
        return key, maze_world.sample_trajectories(key, env, params, batch, short)[0]

    key = jax.random.key(config.seed)
    make, cost = compile_within_memory(jax.jit(some), "a batch of episodes", key)
    seconds = timed(make, key)
    steps = batch * short.length
    with tempfile.TemporaryDirectory() as folder, ShardWriter(folder) as writer:
        writer.append(make(key)[1])
        stored = sum(size for size, _ in writer.shards[0].files.values())
    total = config.episodes * config.demonstration.length
    announce(
        f"dry run of {config.run_name}",
        {
            "episodes": f"{config.episodes:,} of {config.demonstration.length:,} steps",
            "compilation": f"{cost.compile_s:.1f} s",
            "speed": f"{steps / seconds:,.0f} steps/s",
            "projected time": f"{total / steps * seconds / 3600:.2f} hours",
            "projected size": f"{total / steps * stored / 1e9:.2f} GB "
            f"({stored / steps:.2f} bytes per step; as frames {total * 49_152 / 1e12:.1f} TB)",
        },
    )


def main(argv: list[str] | None = None) -> ShardReader | None:
    """Collects; returns a reader of what there is (None after a dry run)."""
    config = parse(PRESETS, argv, prog="gpicljax run maze_world_data")
    enable_compilation_cache()
    if config.dry_run:
        dry_run(config)
        return None
    folder = config.folder
    env, params = build(config)
    with failures_reported(ShardError):
        if config.overwrite and folder.exists():
            stored.from_metadata(ShardReader(folder, skip_damaged=True).about)  # nothing else
            shutil.rmtree(folder)
        announce(
            f"maze_world_data {config.run_name}: {config.episodes:,} episodes of "
            f"{config.demonstration.length:,} steps",
            {
                "mazes": f"{env.size} x {env.size}, {env.mode}, {env.actions}",
                "folder": str(folder),
            },
        )
        progress = Progress(-(-config.episodes // config.episodes_per_shard))
        began, first = time.monotonic(), None
        per_shard = config.episodes_per_shard * config.demonstration.length

        def report(done: int, total: int) -> None:
            nonlocal first, began
            if first is None:
                first = done
                if done:
                    log_once(f"{done} of {total} shards are there already")
                return
            seconds = time.monotonic() - began
            left = seconds / (done - first) * (total - done)
            if config.progress:
                speed = per_shard * (done - first) / seconds
                progress.update(done, metrics={}, observations_per_second=speed, seconds_left=left)

        maze_world.collect_trajectories(
            folder,
            config.seed,
            env,
            params,
            episodes=config.episodes,
            episodes_per_shard=config.episodes_per_shard,
            settings=config.demonstration,
            report=report,
        )
        progress.close()
        reader = ShardReader(folder)
        size = sum(s for shard in reader.manifest.shards for s, _ in shard.files.values())
        took = duration(time.monotonic() - began)
        log_once(f"{len(reader):,} episodes, {size / 1e6:,.1f} MB in {folder}; {took}")
        return reader
