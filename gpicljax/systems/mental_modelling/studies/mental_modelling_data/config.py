"""The configuration of `mental_modelling.py collect`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, ClassVar

from gpicljax.checks import Count, Range
from gpicljax.runs.config import DataConfig
from gpicljax.runtime import check_config
from gpicljax.systems.mental_modelling.experts.kinds import FETCH, TASKS


@dataclasses.dataclass(frozen=True)
class CollectConfig(DataConfig):
    """Trains agents of several kinds and skills, or loads them, and writes down what they do.

    Attributes:
      tasks: Ids of environments; by default all but Fetch's, whose agents take an hour.
      kinds: Kinds of agents, of those that a task has; all by default.
      agents: Folders of saved agents, whose episodes are written instead.
      modules: Modules to import, which register the environments or algorithms of those agents.
      share: Share of every kind's budget of environment steps.
      episodes: Episodes of each agent.
      max_steps: At which they are cut; by default what each task has.
    """

    free: ClassVar[tuple[str, ...]] = (
        *("preset", "name", "out"),
        *("tasks", "kinds", "agents", "modules"),
    )

    seeds: Count = 3
    tasks: tuple[str, ...] = tuple(name for name in TASKS if name not in FETCH)
    kinds: tuple[str, ...] = ()
    agents: tuple[Path, ...] = ()
    modules: tuple[str, ...] = ()
    share: Annotated[float, Range(above=0)] = 1.0
    episodes: Count = 8
    max_steps: Count | None = None

    def validate(self) -> None:
        """Refuses unknown tasks and kinds."""
        super().validate()
        fits = set(self.tasks) <= set(TASKS) and bool(self.tasks)
        check_config(fits, "tasks", self.tasks, ", ".join(TASKS))
        kinds = {kind for name in self.tasks for kind in TASKS[name].kinds}
        check_config(set(self.kinds) <= kinds, "kinds", self.kinds, ", ".join(sorted(kinds)))


COLLECT = {
    "quick": CollectConfig(),
    # The budgets that reach the goals of train_agent.py.
    "full": CollectConfig(seeds=6, share=2.0, episodes=16),
}
