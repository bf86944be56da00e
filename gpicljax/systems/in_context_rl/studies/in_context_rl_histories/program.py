"""Building and running the study `in_context_rl_histories`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import jax

from gpicljax.checks import Count, Range
from gpicljax.data.collection import Collection
from gpicljax.data.shards import ShardReader
from gpicljax.runs.config import DataConfig
from gpicljax.runtime import Program, check_config, run_experiment
from gpicljax.runtime.collecting import report_collection
from gpicljax.systems.in_context_rl.data.histories import CONTENT, History, play_histories
from gpicljax.systems.in_context_rl.env import Family, family_tasks
from gpicljax.systems.in_context_rl.measures.playing import learning_source
from gpicljax.wrappers.trial import Trial


@dataclasses.dataclass(frozen=True)
class Config(DataConfig):
    """Collects histories of agents as they learn.

    Attributes:
      family: Tasks; those that are held out for tests are never among them.
      actions: Actions of a history.
      histories: How many there are to be.
      histories_per_shard: How many are made and written at once.
    """

    free: ClassVar[tuple[str, ...]] = ("preset", "name", "out", "histories")

    seeds: Count = 1
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
    def shards(self) -> int:
        """Returns the number of shards."""
        return -(-self.histories // self.histories_per_shard)

    def default_name(self) -> str:
        """Returns the preset and the family."""
        return f"{self.preset}-{self.family}"


PRESETS = {
    "quick": Config(histories=512),
    "full": Config(),
}


def build(config: Config) -> tuple[Callable[[jax.Array], History], dict[str, Any]]:
    """Returns the program that makes a shard from its key, and the folder's description."""
    task_set = family_tasks(config.family, held_out=False)
    env = Trial(task_set.env, config.actions)
    env_params = env.make_params(**dict(task_set.params))
    name, agent = learning_source(env)

    def make(key: jax.Array) -> History:
        return play_histories(key, env, env_params, agent, config.histories_per_shard)

    about = {
        "what": CONTENT,
        "family": config.family,
        "environment": task_set.env_id,
        "static": dict(task_set.static),
        "params": dict(task_set.params),
        "algorithm": name,
        "actions": config.actions,
        "seed": config.seed,
        "histories_per_shard": config.histories_per_shard,
    }
    return make, about


def program_of(config: Config) -> Program:
    """Returns the program that makes the histories, shard by shard."""
    make, about = build(config)
    return Program(
        title=f"{about['algorithm']} on {config.family}",
        details={"histories": f"{config.histories:,} of {config.actions:,} actions"},
        collection=Collection(
            record_name="histories",
            about=about,
            kind="what",
            make=make,
            seed=config.seed,
            shards=config.shards,
            steps=config.histories_per_shard * config.actions,
        ),
    )


def main(argv: list[str] | None = None) -> ShardReader | None:
    """Collects; returns a reader of what there is (None after a dry run)."""
    experiment = "in_context_rl_histories"
    outcome = run_experiment(experiment, PRESETS, program_of, report_collection, argv)
    return None if outcome is None else outcome.host_measured
