"""The configuration of `gradual_learning_online.py` and its presets."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from gpicljax.checks import Count, Range
from gpicljax.runtime import RunConfig, check_config
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.learners.online import LearnerConfig

Method = Literal[
    "online", "no-replay", "frozen", "fixed", "suffix-predictor", "recurrent-ppo", "r2d2"
]
METHODS: tuple[Method, ...] = ("online", "no-replay", "frozen", "fixed", "suffix-predictor")
DEEP: tuple[Method, ...] = ("recurrent-ppo", "r2d2")
"""Learners of the catalogue, each with one environment."""


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """Streams of the ordered curriculum, each played by every agent.

    Attributes:
      seeds: Streams; they are the same for all methods but the learners of the catalogue.
      curriculum: Task sets, in order.
      methods: online learns as it plays. no-replay learns from each step once. frozen has its
        weights of zero all along. fixed has weights that are given, and never change: 1 for what
        was rewarded in a similar situation, and -1 for what was punished. suffix-predictor is the
        null without weights. recurrent-ppo and r2d2 are learners of the catalogue with one
        environment.
      budget: Most steps of a stream.
      deep_budget: Most steps of a stream of the learners of the catalogue.
      deep_seeds: Streams of them.
      threshold: So many instances solved in a row clear a task set.
      checkpoints: Steps at which cleared task sets are counted.
      learner: The learner's sizes and rates.
    """

    seeds: Annotated[int, Range(2)] = 20
    curriculum: tuple[str, ...] = (
        *("micro1", "micro2", "micro3", "micro4", "micro5.1", "micro5.2"),
        *("micro5.3", "micro5.4", "micro5.5", "micro5.6", "micro5.7", "micro5.8"),
    )
    methods: tuple[Method, ...] = METHODS
    budget: Count = 50_000
    deep_budget: Count = 20_000
    deep_seeds: Annotated[int, Range(2)] = 4
    threshold: Count = 5
    checkpoints: tuple[Count, ...] = (500, 1_000, 1_500, 2_000, 5_000, 10_000, 20_000, 50_000)
    learner: LearnerConfig = LearnerConfig()

    def validate(self) -> None:
        """Refuses unknown task sets and methods that are named twice."""
        super().validate()
        try:
            Curriculum(self.curriculum)
        except ValueError as error:
            check_config(False, "curriculum", self.curriculum, str(error))
        once = 0 < len(self.methods) == len(set(self.methods))
        check_config(once, "methods", self.methods, "at least one, and none twice")


PRESETS = {
    "quick": Config(
        seeds=4,
        curriculum=("micro1", "micro2", "micro3", "micro4"),
        methods=("online", "frozen", "suffix-predictor"),
        budget=3_000,
        checkpoints=(500, 1_000, 2_000, 3_000),
    ),
    "lives": Config(),
    "lives-and-networks": Config(methods=(*METHODS, *DEEP)),
}
