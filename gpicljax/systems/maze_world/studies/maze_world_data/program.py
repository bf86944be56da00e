"""The program of the study `maze_world_data`."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, Literal

import gpicljax
from gpicljax.checks import BelowOne, Count
from gpicljax.data.shards import ShardReader
from gpicljax.runs.config import DataConfig
from gpicljax.runtime import Program, check_config, run_experiment
from gpicljax.runtime.collecting import report_collection
from gpicljax.systems.maze_world.data import stored
from gpicljax.systems.maze_world.data.demonstrations import Demonstration
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params


@dataclasses.dataclass(frozen=True)
class Config(DataConfig):
    """Collects demonstrations of privileged agents.

    Attributes:
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

    free: ClassVar[tuple[str, ...]] = ("preset", "name", "out", "episodes")

    seeds: Count = 1
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
    """Returns the environment and its distributions."""
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


def program_of(config: Config) -> Program:
    """Returns the episodes, shard by shard."""
    env, params = build(config)
    collection = stored.collection_of_episodes(
        config.seed,
        env,
        params,
        episodes=config.episodes,
        episodes_per_shard=config.episodes_per_shard,
        settings=config.demonstration,
    )
    length, frames = config.demonstration.length, 3 * math.prod(env.resolution)
    return Program(
        title=f"{config.episodes:,} episodes of {length:,} steps",
        details={
            "mazes": f"{env.size} x {env.size}, {env.mode}, {env.actions}",
            "size as frames": f"{config.episodes * length * frames / 1e12:.1f} TB",
        },
        collection=collection,
    )


def main(argv: list[str] | None = None) -> ShardReader | None:
    """Collects; returns a reader of what there is (None after a dry run)."""
    outcome = run_experiment("maze_world_data", PRESETS, program_of, report_collection, argv)
    return None if outcome is None else outcome.host_measured
