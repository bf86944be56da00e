"""The configuration of `gradual_learning.py` and its presets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from gpicljax.agents.cloning import CloningConfig, CloningHParams
from gpicljax.agents.ppo import PPOConfig, PPOHParams
from gpicljax.agents.r2d2 import R2D2Config, R2D2HParams
from gpicljax.checks import Range, Rate
from gpicljax.networks.q_network import RecurrentQSettings
from gpicljax.networks.recurrent_settings import RecurrentSettings
from gpicljax.runtime import TrainingConfig, check_config
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream
from gpicljax.systems.gradual_learning.env.conversation import SPACE
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.env.permutation import PERMUTATIONS
from gpicljax.systems.gradual_learning.env.tasks import (
    ALL_NAMES,
    ARITHMETIC_NAMES,
    BLOCKS_NAMES,
    CODE_NAMES,
    MAPPING,
    NAMES,
    TASK_SETS,
)
from gpicljax.systems.gradual_learning.measures.played_studies import REQUIRES, Plan

LOOKUP = {task.name for task in TASK_SETS if task.lookup}
MEMORY = RecurrentSettings(
    "continuations", core=(64,), heads=4, context=6, slots=256, sizes=(256,), silence=SPACE
)

POINTERS = RecurrentSettings("pointers", core=(64, 64, 64), heads=4, window=128)


@dataclasses.dataclass(frozen=True)
class StreamConfig:
    """The streams, of the training and of the evaluation.

    Attributes:
      rules: The challenge's published environment with its slips, or without.
      permutation: How often a stream permutes the bytes, in proportion: not at all; digits and
        letters each among themselves; digits and letters together; all printable bytes.
      composition: all lets operations of micro11, micro12 and micro16 meet any operands. split
        holds a third of the operands of each operation out of the training, and tests on these.
    """

    rules: Annotated[Literal["corrected", "reference"], tyro.conf.arg(aliases=("--rules",))] = (
        "corrected"
    )
    permutation: tuple[Rate, Rate, Rate, Rate] = (1.0, 0.0, 0.0, 0.0)
    composition: Literal["all", "split"] = "all"

    def validate(self) -> None:
        """Refuses chances of permutations that are all 0."""
        expected = f"a number for each of {PERMUTATIONS}, not all 0"
        check_config(sum(self.permutation) > 0, "permutation", self.permutation, expected)

    @property
    def static(self) -> dict[str, Any]:
        """Returns options of the training's environment."""
        options: dict[str, Any] = {"composition": "train"} if self.split else {}
        return {"rules": self.rules, "permuted": sum(self.permutation[1:]) > 0, **options}

    @property
    def split(self) -> bool:
        """Returns whether operands are held out."""
        return self.composition == "split"

    @property
    def params(self) -> dict[str, Any]:
        """Returns params of the environment."""
        return {"permutation": self.permutation} if self.static["permuted"] else {}

    def make(self, curriculum: Curriculum, *, test: bool = False, **static: Any) -> ByteStream:
        """Returns an environment for a curriculum; a `test` has the operands that are held out."""
        test_options: dict[str, Any] = {"composition": "test"} if test and self.split else {}
        return ByteStream(families=curriculum.families, **{**self.static, **test_options, **static})


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Meta-trains agents on streams of bytes, then measures how they learn with frozen weights.

    Attributes:
      env: The streams.
      taught: Task sets that streams of the training mix; one that is named twice is drawn twice as
        often.
      repeats: So many instances in a row are of the task set that was drawn, as in a curriculum.
      curriculum: Task sets of the evaluation, in order.
      elsewhere: Task sets that are never taught, each played alone besides; arithmetic and blocks
        stand for all task sets of these ladders.
      targets: Task sets of which it is asked what those before them are worth, and whether they are
        kept to the end; all of the curriculum if empty.
      threshold: So many instances solved in a row pass a task set.
      runs: Streams of every study.
      budget: Steps of a stream in the evaluation.
      parallel: Streams that are learnt from at once.
      stretch: Steps of a stream of the training, after which another one begins: no learner is
        stuck in one instance, and hard task sets do not crowd out the others.
      learner: What learns: an imitator, or PPO or R2D2, which know nothing but rewards.
      teacher: The agent to imitate: a guide, which answers what the stream has told; or an oracle.
      start_from: Folder of a saved agent with such a network, to go on from.
      network: Kind and sizes of the network.
      agent: Sizes of the imitation.
      hparams: Its hyper-parameters; decay_updates is set to the length of the run, here and below.
      ppo: Sizes of PPO.
      ppo_hparams: Its hyper-parameters.
      q_network: The network of R2D2.
      r2d2: Sizes of R2D2; it has its own number of streams.
      r2d2_hparams: Its hyper-parameters.
    """

    env: StreamConfig = StreamConfig()
    taught: tuple[str, ...] = ()
    repeats: Annotated[int, Range(1)] = 3
    curriculum: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    threshold: Annotated[int, Range(1)] = 5
    runs: Annotated[int, Range(2)] = 4
    budget: Annotated[int, Range(1)] = 10_000
    parallel: Annotated[int, Range(1)] = 32
    stretch: Annotated[int, Range(1)] = 1_500
    learner: Literal["cloning", "recurrent-ppo", "r2d2"] = "cloning"
    teacher: Literal["guide", "oracle"] = "guide"
    start_from: Path | None = None
    network: RecurrentSettings = MEMORY
    # Many small updates: what a memory is found by has far to go from where it begins.
    agent: CloningConfig = CloningConfig(unroll=64, minibatches=8, temperature=0.3)
    hparams: CloningHParams = CloningHParams(
        learning_rate=4e-3, final_share=0.05, teacher_instances=0.25
    )
    ppo: PPOConfig = PPOConfig(unroll=64, epochs=2, minibatches=4, temperature=0.3)
    ppo_hparams: PPOHParams = PPOHParams(final_share=0.1, discount=0.9, entropy_coefficient=0.003)
    q_network: RecurrentQSettings = RecurrentQSettings(encoder=(128,), mixer=(), core=(128,))
    r2d2: R2D2Config = R2D2Config(
        unroll=40, overlap=20, burn_in=10, replay_capacity=4_096, updates_per_collect=4
    )
    r2d2_hparams: R2D2HParams = R2D2HParams(learning_rate=5e-4, discount=0.9, target_period=400)

    def default_name(self) -> str:
        """Returns the preset and the learner."""
        return f"{self.preset}-{self.learner_name}"

    @property
    def learner_name(self) -> str:
        """Returns the memory's name, with the learner's unless it imitates."""
        memory = self.learners_network.memory
        return memory if self.learner == "cloning" else f"{memory}-{self.learner}"

    @property
    def learners_network(self) -> RecurrentSettings | RecurrentQSettings:
        """Returns settings of the learner's network."""
        return self.q_network if self.learner == "r2d2" else self.network

    @property
    def temperature(self) -> float:
        """Returns the temperature of actions in the evaluation; 0 is greedy."""
        temperatures = {"cloning": self.agent.temperature, "recurrent-ppo": self.ppo.temperature}
        return temperatures.get(self.learner, 0.0)

    @property
    def plan(self) -> Plan:
        """Returns the studies of the evaluation."""
        targets = self.targets or self.curriculum
        sizes = self.runs, self.threshold, self.budget
        return Plan(self.curriculum, targets, *sizes, self.env.params)

    @property
    def streams(self) -> int:
        """Returns the number of streams that are learnt from at once."""
        return self.r2d2.num_envs if self.learner == "r2d2" else self.parallel

    @property
    def never_taught(self) -> tuple[str, ...]:
        """Returns the task sets of `elsewhere`, one by one."""
        ladders = {"arithmetic": ARITHMETIC_NAMES, "blocks": BLOCKS_NAMES}
        return tuple(
            name for set_name in self.elsewhere for name in ladders.get(set_name, (set_name,))
        )

    @property
    def nulls(self) -> tuple[str, ...]:
        """Returns the names of the nulls: one more where answers come from questions."""
        spoken = any(TASK_SETS[ALL_NAMES.index(n)].family != MAPPING for n in self.curriculum)
        return (NULL, COPIER) if spoken else (NULL,)

    @property
    def held_out(self) -> tuple[str, ...]:
        """Returns the task sets of the evaluation that are not taught."""
        return tuple(name for name in self.curriculum if name not in self.taught)

    def describe_neighbours(self, task: str) -> str:
        """Returns a task set with the taught ones that it builds on, or that build on it."""
        neighbours = [n for n in NAMES if n in REQUIRES[task] or task in REQUIRES[n]]
        taught = [name for name in neighbours if name in self.taught]
        return f"{task} (taught beside it: {', '.join(taught) or 'none'})"

    def validate(self) -> None:
        """Refuses unknown task sets, repeated ones to be cleared, and other targets."""
        super().validate()
        fits = self.learner != "cloning" or self.parallel % self.agent.minibatches == 0
        expected = f"a multiple of agent.minibatches = {self.agent.minibatches}"
        check_config(fits, "parallel", self.parallel, expected)
        path = self.start_from
        check_config(path is None or path.is_dir(), "start_from", str(path), "an existing folder")
        can_start = path is None or self.learner != "r2d2"
        check_config(can_start, "start_from", str(path), "None, for r2d2")
        inside = set(self.targets) <= set(self.curriculum)
        check_config(inside, "targets", self.targets, f"some of the curriculum, {self.curriculum}")
        named = {"taught": self.taught, "curriculum": self.curriculum}
        if self.elsewhere:
            named["elsewhere"] = self.never_taught
        for field, names in named.items():
            try:
                Curriculum(names)
            except ValueError as error:
                check_config(False, field, getattr(self, field), str(error))
        taught = set(self.never_taught) & set(self.taught)
        check_config(not taught, "elsewhere", self.elsewhere, "task sets that are not taught")
        twice = len(set(self.curriculum)) < len(self.curriculum)
        check_config(not twice, "curriculum", self.curriculum, "no task set twice")


NULL, COPIER = "suffix predictor", "copier"
"""Names of the nulls that need no training; only the first one plays all studies."""

MICRO_1_TO_4 = NAMES[:4]
MAPPINGS = NAMES[4:22]
QUICK = Config(
    seeds=1,
    observations=1_200_000,
    log_lines=10,
    # Task sets that are solved by trial and error take most practice.
    taught=(*MICRO_1_TO_4 * 3, *MAPPINGS[:6]),
    curriculum=(*MICRO_1_TO_4, *MAPPINGS[:6]),
    targets=("micro3", "micro5.3", "micro5.6"),
    budget=10_000,
)
# Sets that feedback teaches, without those of trial and error. The first mapping has no mark
# between questions, answers and feedback: it is learnt last.
MAPPED = dataclasses.replace(
    QUICK,
    seeds=3,
    observations=800_000,
    targets=("micro5.5", "micro5.12"),
    taught=(*MAPPINGS[:1] * 3, *MAPPINGS[1:12]),
    curriculum=MAPPINGS[:12],
    budget=20_000,
)
CURRICULUM = dataclasses.replace(
    QUICK,
    seeds=3,
    observations=2_500_000,
    log_lines=30,
    # Only micro5.17 can be come to in several orders: the others build on one another in a row.
    targets=("micro3", "micro5.5", "micro5.9", "micro5.12", "micro5.17"),
    taught=(*MICRO_1_TO_4 * 3, *MAPPINGS),
    curriculum=(*MICRO_1_TO_4, *MAPPINGS),
    budget=20_000,
)
HELD_OUT = dataclasses.replace(
    CURRICULUM,
    taught=tuple(n for n in CURRICULUM.taught if n not in ("micro5.5", "micro5.9", "micro5.11")),
)
WORDS = (
    "micro7.1",
    "micro7.2",
    "micro7.3",
    "micro8.1",
    "micro8",
    "micro9.1",
    "micro9.2",
    "micro9.3",
)
# Answers come from the question, not from feedback. What the test asks is not taught: a third of
# the operands of each operation, relations between operands of micro12, and a quarter of the pairs.
BEYOND = dataclasses.replace(
    QUICK,
    seeds=3,
    observations=4_000_000,
    log_lines=16,
    env=StreamConfig(composition="split"),
    network=POINTERS,
    agent=dataclasses.replace(QUICK.agent, unroll=128, minibatches=16),
    hparams=dataclasses.replace(QUICK.hparams, learning_rate=1e-3),
    taught=(
        *(*WORDS, "micro10", "micro11"),
        *("micro12.letters", "micro11.single", "micro11.pairs") * 2,
    ),
    curriculum=(*WORDS, "micro10", "micro11", "micro12", "micro16"),
    elsewhere=("micro11.unseen", "micro11.chained", "micro9.4.3", "micro9.4.4"),
    targets=("micro11",),
    runs=8,
    budget=6_000,
)
# Mappings with long answers and with much that is of no importance. An instance of micro5.18 is
# some 690 bytes long: what was told has to be there still.
LONG = dataclasses.replace(
    BEYOND,
    observations=400_000,
    log_lines=10,
    env=StreamConfig(),
    network=dataclasses.replace(POINTERS, window=768),
    taught=("micro5.7", "micro5.11", *("micro5.14", "micro5.18") * 2),
    curriculum=("micro5.7", "micro5.11", "micro5.14", "micro5.18"),
    elsewhere=(),
    targets=("micro5.18",),
    runs=4,
)
# The letters' order is that of all streams; the context holds a question and its feedback. Alone,
# the code of 12 shifts is not learnt: this question, the last and its answer tell nothing singly.
CODE = dataclasses.replace(
    QUICK,
    seeds=3,
    observations=4_000_000,
    network=dataclasses.replace(
        MEMORY, core=(16,), heads=1, context=20, following=2, vectors=16, sizes=(256, 256)
    ),
    hparams=dataclasses.replace(QUICK.hparams, teacher_instances=0.5),
    taught=(*CODE_NAMES, CODE_NAMES[-1]),
    curriculum=CODE_NAMES[-1:],
    targets=(),
    runs=8,
    budget=6_000,
)
PRESETS = {
    "quick": QUICK,
    "mappings": MAPPED,
    "curriculum": CURRICULUM,
    "held-out": HELD_OUT,
    "beyond": BEYOND,
    "long": LONG,
    "code": CODE,
}
