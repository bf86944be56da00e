"""What `gradual_learning.py` is told: its configuration, its presets, and what it has to study."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal, NamedTuple

from gpicljax.agents import cloning
from gpicljax.agents.catalogue import RecurrentSettings
from gpicljax.checks import Range
from gpicljax.envs.byte_stream import NAMES, TASKS, Curriculum, predecessors
from gpicljax.evaluation.gradual_learning import orders
from gpicljax.runtime import TrainingConfig, check

REQUIRES = {task.name: task.requires for task in TASKS}
LOOKUP = {task.name for task in TASKS if task.lookup}
MEMORY = RecurrentSettings("continuations", core=(64,), heads=4, slots=192, sizes=(128,))


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Meta-trains agents on streams of bytes, then measures how they learn with frozen weights.

    Attributes:
      rules: The challenge's published environment with its slips, or without.
      taught: Task sets that streams of the training mix; one that is named twice is drawn twice as
        often.
      repeats: So many instances in a row are of the task set that was drawn, as in a curriculum.
      curriculum: Task sets of the evaluation, in order.
      targets: Task sets of which it is asked what those before them are worth, and whether they are
        kept to the end; all of the curriculum if empty.
      threshold: So many instances solved in a row pass a task set.
      runs: Streams of every study.
      budget: Steps of a stream in the evaluation.
      parallel: Streams that are learnt from at once.
      stretch: Steps of a stream of the training, after which another one begins: nobody is stuck in
        one instance, and hard task sets do not crowd out the others.
      network: Kind and sizes of the network.
      agent: Sizes of the imitation of an agent that knows the answers.
      hparams: Its hyper-parameters.
    """

    rules: Literal["mended", "reference"] = "mended"
    taught: tuple[str, ...] = ()
    repeats: Annotated[int, Range(1)] = 3
    curriculum: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    threshold: Annotated[int, Range(1)] = 5
    runs: Annotated[int, Range(2)] = 4
    budget: Annotated[int, Range(1)] = 10_000
    parallel: Annotated[int, Range(1)] = 32
    stretch: Annotated[int, Range(1)] = 1_500
    network: RecurrentSettings = MEMORY
    agent: cloning.CloningConfig = cloning.CloningConfig(unroll=64, temperature=0.3)
    hparams: cloning.CloningHParams = cloning.CloningHParams(
        learning_rate=3e-3, final_share=0.1, decay_updates=600
    )

    def default_name(self) -> str:
        """The preset and the memory."""
        return f"{self.preset}-{self.network.memory}"

    @property
    def held_out(self) -> tuple[str, ...]:
        """Task sets of the evaluation that are not taught."""
        return tuple(name for name in self.curriculum if name not in self.taught)

    def validate(self) -> None:
        """Refuses unknown task sets, repeated ones to be cleared, and other targets."""
        super().validate()
        inside = set(self.targets) <= set(self.curriculum)
        check(inside, "targets", self.targets, f"some of the curriculum, {self.curriculum}")
        for field in ("taught", "curriculum"):
            names = getattr(self, field)
            try:
                Curriculum(names)
            except ValueError as error:
                check(False, field, names, str(error))
        twice = len(set(self.curriculum)) < len(self.curriculum)
        check(not twice, "curriculum", self.curriculum, "no task set twice")


class Study(NamedTuple):
    """A stream to be played.

    Attributes:
      kind: `"order"`, the curriculum; `"alone"`, one task set; `"after"`, one after those of the
        curriculum that it builds on, in an order of the run's own; `"again"`, one once more after
        the curriculum.
      task: the task set; none of `"order"`.
      run: its number. Those of one number meet the same instances wherever the order is the same.
      curriculum: what it is played on.
    """

    kind: str
    task: str
    run: int
    curriculum: Curriculum


ALL = ("order", "alone", "after", "again")
"""All kinds of studies."""


def studies_of(config: Config, *kinds: str) -> list[Study]:
    """All streams of some kinds of studies."""
    known = set(config.curriculum)
    targets = config.targets or config.curriculum
    tasks = {"order": ("",), "alone": config.curriculum, "after": targets, "again": targets}
    found = []
    for run in range(config.runs):
        for kind in kinds:
            for task in tasks[kind]:
                names: tuple[str, ...] = {
                    "order": config.curriculum,
                    "alone": (task,),
                    "again": (*config.curriculum, task),
                }.get(kind, ())
                if kind == "after":
                    # The graph's own order in the first run, another one in each of the others.
                    needed = set(predecessors(task)) & known
                    if not needed:
                        continue
                    names = (*(n for n in orders(REQUIRES, run) if n in needed), task)
                found.append(Study(kind, task, run, Curriculum(names, threshold=config.threshold)))
    return found


MICRO_1_TO_4 = NAMES[:4]
MAPPINGS = NAMES[4:22]
QUICK = Config(
    seeds=1,
    observations=1_200_000,
    log_lines=10,
    # What is found by trying takes most practice.
    taught=(*MICRO_1_TO_4, *MICRO_1_TO_4, *MAPPINGS[:6]),
    curriculum=(*MICRO_1_TO_4, *MAPPINGS[:6]),
    targets=("micro3", "micro5.3", "micro5.6"),
    budget=6_000,
)
CURRICULUM = dataclasses.replace(
    QUICK,
    seeds=3,
    observations=1_500_000,
    log_lines=30,
    targets=("micro3", "micro5.5", "micro5.9", "micro5.12"),
    taught=(*MICRO_1_TO_4, *MAPPINGS),
    curriculum=(*MICRO_1_TO_4, *MAPPINGS),
    network=dataclasses.replace(MEMORY, following=12, slots=256),
    budget=40_000,
)
HELD_OUT = dataclasses.replace(
    CURRICULUM,
    taught=tuple(n for n in CURRICULUM.taught if n not in ("micro5.5", "micro5.9", "micro5.11")),
    budget=30_000,
)
PRESETS = {"quick": QUICK, "curriculum": CURRICULUM, "held-out": HELD_OUT}
