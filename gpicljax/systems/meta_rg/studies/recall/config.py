"""Configuration and presets of the study `recall`."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from gpicljax.agents import r2d2
from gpicljax.checks import Range
from gpicljax.networks.q_network import RecurrentQSettings
from gpicljax.runtime import TrainingConfig, check_config
from gpicljax.systems.meta_rg.studies.game_config import also
from gpicljax.systems.meta_rg.studies.meta_rg.config import MANY_STEPS, NEXT_REWARD


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Trains agents in the Recall task and measures what they recall in its second shot.

    Attributes:
      stimulus: Continuous values, whose sections have to be found out, or one-hot ones.
      rules: Which stimuli are shown, and what answers earn: the paper's text or its code.
      min_values: Smallest number of values per latent dimension. With as many as max_values,
        continuous values name themselves: their sections are always the same.
      max_values: Largest number, and the number of answers: the "ways" of the paper.
      network: Kind and sizes of the network.
      agent: Sizes and switches of R2D2.
      hparams: Hyper-parameters of R2D2; decay_updates is set to the length of the run.
      probe_episodes: Greedy episodes per log line, played together.
      evaluation_episodes: Episodes per seed and condition at the end, rounded up to such groups.
    """

    stimulus: Literal["scs", "ohe"] = "scs"
    rules: Literal["paper", "reference"] = "paper"
    min_values: Annotated[int, Range(2), also("--vmin")] = 2
    max_values: Annotated[int, Range(2, 25), also("--vmax")] = 5
    network: RecurrentQSettings = RecurrentQSettings()
    agent: r2d2.R2D2Config = r2d2.R2D2Config()
    hparams: r2d2.R2D2HParams = r2d2.R2D2HParams()
    probe_episodes: Annotated[int, Range(1)] = 64
    evaluation_episodes: Annotated[int, Range(1)] = 1024

    def default_name(self) -> str:
        """Returns the preset, the stimuli and the memory."""
        return f"{self.preset}-{self.stimulus}-{self.network.memory}"

    @property
    def env_options(self) -> dict[str, Any]:
        """Static options of the task."""
        return {"stimulus": self.stimulus, "rules": self.rules, "max_values": self.max_values}

    def validate(self) -> None:
        """Refuses empty ranges of values, and memories that a replay buffer cannot hold."""
        super().validate()
        accepted_values = f"up to max_values = {self.max_values}"
        fits = self.min_values <= self.max_values
        check_config(fits, "min_values", self.min_values, accepted_values)
        check_config(not self.network.predictions, "network.predictions", "names", "none")
        self.network.check_carries(self.agent.carries)


QUICK = Config(
    seeds=2,
    observations=256_000,
    log_lines=10,
    evaluation_episodes=256,
    network=RecurrentQSettings(encoded="stimulus", encoder=(128,), mixer=(128,), residual=True),
    agent=NEXT_REWARD,
    hparams=MANY_STEPS,
)
CPU_FIGURE8 = dataclasses.replace(QUICK, seeds=3, observations=384_000, log_lines=15)
PAPER_FIGURE8 = Config(
    seeds=10,
    observations=10_000_000,
    log_lines=313,
    # The reference's network for referential games around its simplified computer: 128 rows of 32.
    network=RecurrentQSettings(
        encoded="stimulus", mixer=(512, 256, 256), memory="dnc-unlinked", core=(128,), slots=128
    ),
    agent=r2d2.R2D2Config(
        unroll=40,
        overlap=0,
        burn_in=0,
        replay_capacity=1_250,
        min_replay=250,
        updates_per_collect=40,
    ),
)
"""Sizes of the reference's scripts. Budget, and what they do not say, as in the paper's Table 5."""
PRESETS = {"quick": QUICK, "cpu-figure8": CPU_FIGURE8, "paper-figure8": PAPER_FIGURE8}
