"""Configuration and presets of the study `maze_world`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from gpicljax.agents.causal_model import Cooling
from gpicljax.agents.sequence import SequenceConfig, SequenceHParams
from gpicljax.checks import BelowOne, Count, Natural, Range
from gpicljax.networks.causal_model import CausalModelSettings
from gpicljax.runtime import TrainingConfig, check_config
from gpicljax.systems.maze_world.data.demonstrations import Demonstration
from gpicljax.systems.maze_world.data.training import Weights
from gpicljax.systems.maze_world.experts.privileged import Rule

Acting = Literal["drawn", "cooled", "temperature .4", "greedy"]
ACTING: dict[Acting, Cooling] = {
    "drawn": Cooling(),
    "cooled": Cooling(1.0, 0.995, 0.01),
    "temperature .4": Cooling(0.4),
    "greedy": Cooling(1e-6),
}
"""How models act in evaluations; "cooled" is the reference code's way."""


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Trains models of mazes and of a teacher's way through them, with and without context.

    Attributes:
      autoencoder: Folder of a saved autoencoder; by default one is trained first.
      autoencoder_preset: Of `maze_world_autoencoder.py`, for that.
      start_from: Folder of a run whose models are trained on, each by its context or, where that is
        missing, from the one with the longest; or of a saved model, with its own autoencoder.
      start_context: Context of the model there that all start from; None for each its own.
      train: Whether there is training; else the models of `start_from` are measured as they are.
      contexts: Steps that each model attends to; 0 for all.
      growth: Share of the updates over which contexts double from 2 steps to what they are to be;
        0 for contexts that are so from the start, as those of models that are trained on are.
        Checked between log lines.
      model: The models.
      mode: What there is to do.
      actions: What the agents can do.
      size: Cells of a maze's side.
      landmarks: Targets in a maze.
      density: Density of walls.
      view: What is seen: a picture from within, or the cells around from above, a pixel each.
      resolution: Pixels of the side of a picture from within.
      tasks: Number of different mazes that each model is trained on; 0 for a new one in every
        episode. Every number is combined with every context.
      data: Folder of episodes to learn from (`maze_world_data.py`), of the same size, mode,
        actions, landmarks and length; new ones are made by default. All are held in memory, about
        10 bytes a step and model.
      demonstration: How episodes are made, and how long they are.
      weights: Weights of the losses.
      first_weights: Weights of the losses in the first part of the training.
      first_share: That part's share of the updates.
      group: Episodes that are made at once, from one key; devices share a batch in whole groups.
      own_groups: Groups of a batch whose episodes the model plays itself, as it was at the last log
        line, while the teacher says what it would have done there: rounds of DAgger.
      agent: Batch and schedule.
      hparams: Hyper-parameters; decay_updates is set to the length of the run.
      part: Pictures that are encoded or decoded at a time, where they do not fit; 0 for all.
      sequences: Demonstrators' episodes that models are shown in evaluations.
      evaluation_tasks: Mazes that they act in.
      evaluation_length: Steps of an episode there; 0 for those of the training.
      evaluation_sizes: Sizes of mazes to act in; the models' own by default.
      evaluation_densities: Densities of walls in further mazes, in which models are shown episodes.
      acting: Names of the ways in which models act in evaluations.
      rules: Rules of the privileged agents that act beside the models.
      marks: Pictures after which the model looks ahead.
      horizon: How far it does.
      probes: Whether linear probes read walls and landmarks from the models' activations.
    """

    seeds: Count = 1
    autoencoder: Path | None = None
    autoencoder_preset: str = "quick"
    start_from: Path | None = None
    start_context: Natural | None = None
    train: bool = True
    contexts: tuple[Natural, ...] = (0,)
    growth: BelowOne = 0.0
    model: CausalModelSettings = CausalModelSettings(layers=8, width=512, heads=8)
    mode: Literal["navigation", "survival"] = "navigation"
    actions: Literal["discrete", "continuous"] = "discrete"
    size: Count = 15
    landmarks: Count = 10
    density: BelowOne = 0.36
    view: Literal["first_person", "local"] = "first_person"
    resolution: Count = 128
    tasks: tuple[Natural, ...] = (0,)
    data: Path | None = None
    demonstration: Demonstration = Demonstration()
    weights: Weights = Weights()
    first_weights: Weights = Weights(0.05, 0.90, 0.05)
    first_share: BelowOne = 0.0
    group: Count = 1
    own_groups: Natural = 0
    agent: SequenceConfig = SequenceConfig(batch_size=8)
    hparams: SequenceHParams = SequenceHParams()
    part: Natural = 0
    sequences: Annotated[int, Range(2)] = 64
    evaluation_tasks: Annotated[int, Range(2)] = 1024
    evaluation_length: Natural = 0
    evaluation_sizes: tuple[Count, ...] = ()
    evaluation_densities: tuple[BelowOne, ...] = ()
    acting: tuple[Acting, ...] = ("drawn", "cooled", "temperature .4", "greedy")
    rules: tuple[Rule, ...] = ("default", "reference")
    marks: tuple[Count, ...] = (1, 100, 1000, 2000)
    horizon: Count = 10
    probes: bool = False

    def validate(self) -> None:
        """Refuses what can be refused before anything is compiled."""
        super().validate()
        several = "contexts", "tasks", "marks", "acting", "rules"
        for name in (*several, "evaluation_sizes", "evaluation_densities"):
            values = getattr(self, name)
            check_config(bool(values) or name not in several, name, values, "at least one")
            check_config(len(set(values)) == len(values), name, values, "different ones")
        least = "evaluation_length" if self.evaluation_length else "demonstration.length"
        check_config(self.steps >= 4, least, self.steps, "4 or more: results are by quarter")
        most = self.agent.batch_size // self.agent.microbatches
        fits = most % self.group == 0
        check_config(fits, "group", self.group, f"a divisor of batch_size / microbatches = {most}")
        accepted_values = f"0 .. {most // self.group}, the groups of a batch"
        fits = self.own_groups <= most // self.group
        check_config(fits, "own_groups", self.own_groups, accepted_values)
        has_one_model = not self.own_groups or len(self.contexts) == len(self.tasks) == 1
        check_config(
            has_one_model,
            "own_groups",
            self.own_groups,
            "0, for several models: they learn from the same",
        )
        predicted = self.model.rewards == bool(self.weights.reward)
        accepted_values = "a weight above 0 with --model.rewards, and 0 without"
        check_config(predicted, "weights.reward", self.weights.reward, accepted_values)
        seen = self.view == "first_person" or not self.model.has_map
        accepted_values = "'first_person', with a map: from above, moves may change nothing"
        check_config(seen, "view", self.view, accepted_values)
        fits = not self.model.plan_sweeps or self.landmarks <= self.model.landmarks
        check_config(fits, "model.landmarks", self.model.landmarks, f"at least {self.landmarks}")
        has_models = self.train or self.start_from is not None
        check_config(has_models, "train", self.train, "True, without start_from")
        longest = self.steps - self.horizon
        fits = all(1 <= mark <= longest for mark in self.marks)
        check_config(fits, "marks", self.marks, f"1 .. {longest}, the steps less the horizon")
        new = self.data is None or (not self.own_groups and self.tasks == (0,))
        check_config(new, "data", str(self.data), "None, with own_groups or numbers of tasks")
        for name in ("autoencoder", "start_from", "data"):
            path = getattr(self, name)
            check_config(path is None or path.is_dir(), name, str(path), "an existing folder")

    @property
    def steps(self) -> int:
        """Steps of an episode in evaluations."""
        return self.evaluation_length or self.demonstration.length

    @property
    def longest(self) -> int:
        """Steps of the longest episode, of training and evaluations."""
        return max(self.demonstration.length, self.steps)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of mazes to act in."""
        return self.evaluation_sizes or (self.size,)

    @property
    def env_options(self) -> dict[str, object]:
        """Static options of the environment; its cap admits all sizes."""
        return {
            "size": max(self.size, *self.sizes),
            "mode": self.mode,
            "actions": self.actions,
            "max_landmarks": self.landmarks,
            "view": self.view,
            "resolution": (self.resolution, self.resolution),
        }

    @property
    def observations_per_update(self) -> int:
        """Steps of one update."""
        return self.agent.batch_size * self.demonstration.length


# What is small and short learns a little faster without disturbed inputs.
SMALL = CausalModelSettings(layers=3, width=64, heads=4, masked=0.0, noisy=0.0)
SEVEN = Config(
    contexts=(0, 2, 1),
    growth=0.4,
    model=SMALL,
    size=7,
    landmarks=4,
    resolution=32,
    part=128,
    demonstration=Demonstration(length=128),
    weights=Weights(policy=1.0, image=0.0, latent=0.5),
    group=8,
    agent=SequenceConfig(batch_size=16, schedule="cosine"),
    hparams=SequenceHParams(learning_rate=5e-3, warmup_updates=50, final_share=0.05),
    observations=1_536 * 16 * 128,
    log_lines=16,
    evaluation_tasks=64,
    acting=("drawn", "greedy"),
    rules=("default",),
    marks=(1, 32, 112),
)
# Mazes with loops, too large for programs without a map; the policy plans on one.
QUICK = dataclasses.replace(
    SEVEN,
    contexts=(0, 2),
    growth=0.0,
    model=dataclasses.replace(SMALL, layers=1, map_memory=8, plan_sweeps=24),
    size=11,
    demonstration=Demonstration(length=256),
    agent=SequenceConfig(batch_size=8, schedule="cosine"),
    hparams=SequenceHParams(1e-2, warmup_updates=50, final_share=0.05),
    observations=320 * 8 * 256,
    sequences=16,
    evaluation_tasks=1024,
    acting=("drawn",),
    marks=(224,),
)
# The paper's mazes, in larger pictures and longer episodes.
FIFTEEN = dataclasses.replace(
    QUICK,
    autoencoder_preset="cpu-patches-64",
    model=dataclasses.replace(QUICK.model, map_memory=12, plan_sweeps=40, landmarks=10),
    size=15,
    landmarks=10,
    resolution=64,
    demonstration=Demonstration(length=512),
    agent=SequenceConfig(batch_size=4, schedule="cosine"),
    group=4,
    observations=640 * 4 * 512,
    evaluation_tasks=256,
    marks=(480,),
)
PAPER_SMALL = Config(
    contexts=(0,),
    autoencoder_preset="paper",
    agent=SequenceConfig(batch_size=8, schedule="noam", ramp=512),
    first_share=0.3,
    observations=120_000 * 2048,
    part=256,
    sequences=1_275,
    evaluation_tasks=64,  # a maze takes .13 GB of cache
    evaluation_sizes=(15, 25, 35),
)
PRESETS = {
    "quick": QUICK,
    "cpu-7x7": SEVEN,
    "cpu-15x15": FIFTEEN,
    "cpu-finetune": dataclasses.replace(
        SEVEN,
        contexts=(2, 1),
        start_context=0,
        observations=256 * 16 * 128,
        hparams=SequenceHParams(1e-3, 50),
    ),
    # Goes on with a model, in states that it brings about itself: half of all episodes.
    "cpu-dagger": dataclasses.replace(
        SEVEN,
        contexts=(0,),
        own_groups=1,
        observations=512 * 16 * 128,
        hparams=SequenceHParams(1e-3, warmup_updates=50, final_share=0.05),
    ),
    # The other mode and the other kind of action.
    "cpu-survival": dataclasses.replace(
        SEVEN,
        contexts=(0, 1),
        mode="survival",
        model=dataclasses.replace(SMALL, rewards=True),
        weights=Weights(policy=1.0, image=0.0, latent=0.5, reward=1.0),
        observations=256 * 16 * 128,
    ),
    "cpu-continuous": dataclasses.replace(
        SEVEN, contexts=(0, 1), actions="continuous", observations=256 * 16 * 128
    ),
    # A model that reads what it saw where it is going, and is to see ahead.
    "cpu-map": dataclasses.replace(
        SEVEN,
        contexts=(0,),
        model=dataclasses.replace(SMALL, map_memory=5, hidden_span=12),
        observations=768 * 16 * 128,
        sequences=256,
        probes=True,
    ),
    # The same where addresses are learnt, too.
    "cpu-learnt-map": dataclasses.replace(
        SEVEN,
        contexts=(0,),
        model=dataclasses.replace(SMALL, learnt_map=16, hidden_span=12),
        observations=768 * 16 * 128,
        sequences=64,
    ),
    # Figures 11, 14 and 15: one program for all numbers of mazes.
    "cpu-task-diversity": dataclasses.replace(SEVEN, contexts=(0,), tasks=(1, 10, 100, 10_000)),
    "paper-small": PAPER_SMALL,
    "paper-variants": dataclasses.replace(PAPER_SMALL, contexts=(2, 1), start_context=0),
    "paper-standard": dataclasses.replace(
        PAPER_SMALL, model=CausalModelSettings(layers=12, width=1280, heads=16)
    ),
    # 64 K episodes.
    "task-diversity": dataclasses.replace(
        PAPER_SMALL, tasks=(1, 10, 100, 10_000), observations=64_000 * 2048, evaluation_sizes=()
    ),
}
