"""The configuration of `gradual_learning_lifelong.py`, its presets, and its orders."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from gpicljax.checks import Count
from gpicljax.networks.recurrent_settings import RecurrentSettings
from gpicljax.runtime import RunConfig, check_config
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.learners.life import METHODS, LifeConfig, Method
from gpicljax.systems.gradual_learning.studies.gradual_learning.config import MEMORY


@dataclasses.dataclass(frozen=True)
class Config(LifeConfig, RunConfig):
    """Lives of agents that are taught one task set after the other.

    Beside these there are the settings of a life, see `LifeConfig`.

    Attributes:
      first: Task sets that come first, in this order.
      permuted: Task sets that come then, in an order of each seed's own.
      last: Task sets that come last.
      targets: Those of which it is asked what the sets before them are worth.
      methods: plain goes on with the same weights. replay mixes streams of earlier sets with those
        of the new one. rehearsal does, too, and goes on until the earlier ones are cleared as well.
        elastic pulls weights back to what they were, the more an earlier set depends on them
        (elastic weight consolidation). anew begins at each set with new weights.
    """

    free: ClassVar[tuple[str, ...]] = ("preset", "seeds", "methods")

    seeds: Count = 6
    first: tuple[str, ...] = ("micro5.3", "micro5.4", "micro5.5")
    permuted: tuple[str, ...] = ("micro5.6", "micro5.7", "micro5.8", "micro5.10")
    last: tuple[str, ...] = ("micro5.13", "micro5.17")
    targets: tuple[str, ...] = (
        *("micro5.6", "micro5.7", "micro5.8", "micro5.10"),
        *("micro5.13", "micro5.17"),
    )
    methods: tuple[Method, ...] = METHODS
    network: RecurrentSettings = MEMORY

    @property
    def task_sets(self) -> tuple[str, ...]:
        """Returns all task sets, in the order of the first seed."""
        return (*self.first, *self.permuted, *self.last)

    def order(self, seed: int) -> tuple[str, ...]:
        """Returns the order of a seed: the permuted sets follow one another as Latin squares do.

        Over as many seeds as there are permuted sets, each of them comes at every place once.
        """
        count = max(len(self.permuted), 1)
        rows = np.random.default_rng(self.seed).permutation(len(self.permuted))
        turn, square = seed % count, seed // count
        names = [self.permuted[place] for place in rows]
        names = names[turn:] + names[:turn]
        return (*self.first, *(names[::-1] if square % 2 else names), *self.last)

    def validate(self) -> None:
        """Refuses unknown, repeated and missing task sets."""
        super().validate()
        names = self.task_sets
        try:
            Curriculum(names)
        except ValueError as error:
            check_config(False, "permuted", names, str(error))
        check_config(len(names) > 1, "permuted", names, "at least two task sets in all")
        check_config(len(set(names)) == len(names), "permuted", names, "no task set twice")
        inside = set(self.targets) <= set(names[1:])
        check_config(inside, "targets", self.targets, "task sets that others come before")
        check_config(bool(self.methods), "methods", self.methods, ", ".join(METHODS))
        fits = self.parallel % self.agent.minibatches == 0
        expected = f"a multiple of agent.minibatches = {self.agent.minibatches}"
        check_config(fits, "parallel", self.parallel, expected)


PRESETS = {
    "quick": Config(
        seeds=2,
        first=("micro5.3",),
        permuted=("micro5.6", "micro5.7"),
        last=(),
        targets=("micro5.6", "micro5.7"),
        methods=("plain", "anew"),
        updates=8,
    ),
    "lifelong": Config(),
}
