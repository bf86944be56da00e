"""Configuration and presets of the study `maze_world_autoencoder`."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

import gpicljax
from gpicljax.agents.autoencoder import Schedules
from gpicljax.agents.sequence import SequenceConfig, SequenceHParams
from gpicljax.checks import BelowOne, Count, Range
from gpicljax.networks.autoencoder import AutoencoderSettings
from gpicljax.runtime import TrainingConfig, check_config
from gpicljax.systems.maze_world.data.demonstrations import Demonstration
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Trains an autoencoder on what agents see in mazes, and measures it in unseen ones.

    Attributes:
      size: Cells of a maze's side.
      landmarks: Targets in a maze.
      density: Density of walls.
      mode: What there is to do: in survival, life is shown.
      actions: What the demonstrators can do.
      view: What is seen: a picture from within, or the cells around from above, a pixel each.
      resolution: Height and width of a frame from within.
      moments: That frames show: of a demonstrator's episodes, as in the paper, or anywhere in a
        maze, after a random action; a program without demonstrators compiles far faster.
      demonstration: How the episodes are made that frames are taken from.
      mazes: New ones for every key of a batch.
      frames: Frames of each maze; spread evenly over its episode.
      model: The autoencoder.
      agent: Keys per update (batch_size) and schedule of the learning rate.
      hparams: Hyper-parameters; decay_updates is set to the length of the run.
      schedules: Schedules of the divergence's weight and of the noise.
      part: Frames that are encoded at once where there is no gradient.
      evaluation_mazes: To measure on.
      evaluation_frames: Frames of each of them.
    """

    seeds: Count = 1
    size: Count = 15
    landmarks: Count = 10
    density: BelowOne = 0.36
    mode: Literal["navigation", "survival"] = "navigation"
    actions: Literal["discrete", "continuous"] = "discrete"
    view: Literal["first_person", "local"] = "first_person"
    resolution: tuple[Count, Count] = (128, 128)
    moments: Literal["episodes", "anywhere"] = "episodes"
    demonstration: Demonstration = Demonstration(length=64)
    mazes: Count = 16
    frames: Count = 16
    model: AutoencoderSettings = AutoencoderSettings()
    agent: SequenceConfig = SequenceConfig(batch_size=1)
    hparams: SequenceHParams = SequenceHParams()
    schedules: Schedules = Schedules()
    part: Count = 256
    evaluation_mazes: Annotated[int, Range(2)] = 64
    evaluation_frames: Count = 16

    def validate(self) -> None:
        """Refuses what can be refused before anything is compiled."""
        super().validate()
        most = self.demonstration.length
        for name in ("frames", "evaluation_frames"):
            fits = getattr(self, name) <= most
            check_config(fits, name, getattr(self, name), f"1 .. the length of an episode, {most}")
        simple = self.mode == "navigation" and self.actions == "discrete"
        accepted_values = "'episodes', except for navigation from cell to cell"
        check_config(simple or self.moments == "episodes", "moments", self.moments, accepted_values)
        self.mazes_and_params()

    @property
    def frames_per_key(self) -> int:
        """Frames that each key of a batch gives."""
        return self.mazes * self.frames

    def mazes_and_params(self) -> tuple[MazeWorld, Params]:
        """Returns the environment, and its distribution over tasks."""
        env = gpicljax.make(
            "MazeWorld-v0",
            size=self.size,
            mode=self.mode,
            actions=self.actions,
            max_landmarks=self.landmarks,
            view=self.view,
            resolution=self.resolution,
        )
        assert isinstance(env, MazeWorld)
        length = self.demonstration.length
        # More commands than can be fulfilled: episodes never end early.
        return env, env.make_params(density=self.density, horizon=length, num_commands=10_000)


# On a CPU, after a prototype: patches, and a constant weight of the divergence.
SHORT = Schedules((0, 50, 250), divergence=(1e-5,) * 3, noise=(0.0, 0.0, 1.0))
QUICK = Config(
    size=7,
    landmarks=4,
    moments="anywhere",
    resolution=(32, 32),
    model=AutoencoderSettings("patches", latent=64, width=64),
    agent=SequenceConfig(batch_size=1, schedule="cosine"),
    hparams=SequenceHParams(learning_rate=2e-3, warmup_updates=50),
    schedules=SHORT,
    observations=800 * 256,
    log_lines=20,
)
CPU_64 = dataclasses.replace(
    QUICK,
    size=9,
    resolution=(64, 64),
    model=AutoencoderSettings(latent=128, width=128, decoder_width=128, blocks=1),
    hparams=SequenceHParams(learning_rate=1e-3, warmup_updates=100),
    observations=2_000 * 256,
    log_lines=40,
)
CPU_PATCHES_64 = dataclasses.replace(
    QUICK,
    size=15,
    landmarks=10,
    resolution=(64, 64),
    model=AutoencoderSettings("patches", latent=128, width=64),
    observations=2_000 * 256,
)
PAPER = Config(
    mazes=4,
    frames=4,
    agent=SequenceConfig(batch_size=16, microbatches=4),
    observations=40_000 * 256,
    log_lines=200,
    evaluation_mazes=256,
)
PRESETS = {"quick": QUICK, "cpu-64": CPU_64, "cpu-patches-64": CPU_PATCHES_64, "paper": PAPER}
