"""Configuration and presets of the study `one_learner`."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from gpicljax.agents.sequence import SequenceConfig, SequenceHParams
from gpicljax.agents.symbol_lessons import StreamTask
from gpicljax.checks import Count, Natural, Range, Rate, check_choice
from gpicljax.networks.language_model import LanguageModelSettings
from gpicljax.networks.online_memory import OnlineMemorySettings
from gpicljax.runtime import TrainingConfig, check_config


class Source(NamedTuple):
    """The source of a system's trials: a function, its arguments, and their titles."""

    function: str
    arguments: tuple[Any, ...]
    system: str
    task: str


_RL, _LEARNERS = "In-context RL", "gpicljax.systems.in_context_rl.learners:stream_task"
_LANGUAGES = "gpicljax.systems.meta_language.data.streams:languages"
_BYTES = "gpicljax.systems.gradual_learning.learners.streams:mappings"
_GAMES = "gpicljax.systems.meta_rg.learners.streams:listening"
SOURCES: dict[str, Source] = {
    "meta_language": Source(_LANGUAGES, (), "Meta-Language", "n in 3 .. 6"),
    "byte_streams": Source(_BYTES, (), "Byte streams", "11 mappings, mixed"),
    "meta_rg": Source(_GAMES, (), "Meta-Referential Games", "MetaRG-v1, O = 4"),
    "bandits": Source(_LEARNERS, ("ten-arms", 200), _RL, "ten-arms"),
    "lakes": Source(_LEARNERS, ("lakes", 200), _RL, "lakes"),
    "dark_rooms": Source(_LEARNERS, ("dark-room", 160), _RL, "dark-room"),
    "keys_to_doors": Source(_LEARNERS, ("key-to-door", 200), _RL, "key-to-door"),
    "random_processes": Source(_LEARNERS, ("any-mdp", 160), _RL, "any-mdp"),
}


def load_task(system: str) -> StreamTask:
    """Returns the trials of a system; only then is it imported."""
    module, _, function = SOURCES[system].function.partition(":")
    return getattr(importlib.import_module(module), function)(*SOURCES[system].arguments)


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Trains one model of symbols on trials of several systems at once.

    Attributes:
      systems: Systems whose trials are learnt from, each as often as the others.
      start_from: Folders of runs or of saved models to go on from, each model apart; several runs
        are compared with a new model, which learns from the same streams.
      train: Whether there is training; else the models of `start_from` are tested as they are.
      plays: Whether trials are played in the end; else models are compared by their nats alone.
      length: Symbols of a stream.
      network: The model.
      agent: Batch and schedule; streams are shared among the systems.
      hparams: Hyper-parameters; decay_updates is set to the length of the run.
      own_trials: Trials that the model plays itself between two lines of the log, of each system
        that has `plays_own`; half of what it then learns there is of these. 0 for none.
      streams: Streams of each system that nats are measured on, beside those that are learnt from.
      trials: Trials that each agent plays in each system.
      temperature: Temperature of the model's choices; 0 takes the most probable action.
    """

    systems: tuple[str, ...] = tuple(SOURCES)
    start_from: tuple[Path, ...] = ()
    train: bool = True
    plays: bool = True
    length: Annotated[int, Range(64)] = 1024
    network: LanguageModelSettings = LanguageModelSettings(
        layers=4, features="followers", online=OnlineMemorySettings(ages=6, slots=1024)
    )
    agent: SequenceConfig = SequenceConfig(batch_size=8, schedule="cosine", optimiser="muon")
    hparams: SequenceHParams = SequenceHParams(
        learning_rate=2.5e-2, warmup_updates=20, final_share=0.02
    )
    own_trials: Natural = 0
    streams: Count = 16
    trials: Count = 128
    temperature: Rate = 1.0

    def validate(self) -> None:
        """Refuses systems named twice, batches that they cannot share, and absent folders."""
        super().validate()
        fits = len(set(self.systems)) == len(self.systems) > 0
        check_config(fits, "systems", self.systems, "different ones, at least one")
        for name in self.systems:
            check_choice("systems", name, SOURCES)
        divides = self.agent.batch_size % (len(self.systems) * self.agent.microbatches) == 0
        accepted_values = f"a multiple of {len(self.systems)} systems and of the microbatches"
        check_config(divides, "agent.batch_size", self.agent.batch_size, accepted_values)
        for folder in self.start_from:
            check_config(folder.is_dir(), "start_from", str(folder), "an existing folder")
        has_model = self.train or bool(self.start_from)
        check_config(has_model, "train", self.train, "True, without start_from")

    @property
    def capacity(self) -> int:
        """Returns the symbols of the longest trial that is played; some are longer than streams."""
        return self.length + self.length // 8

    @property
    def observations_per_update(self) -> int:
        """Returns the symbols of an update."""
        return self.agent.batch_size * self.length


QUICK = Config(seeds=1, observations=500 * 8 * 1024, log_lines=20, trials=64)
PRESETS = {
    "quick": QUICK,
    "cpu": dataclasses.replace(QUICK, observations=1_250 * 8 * 1024, log_lines=50),
    "cpu-long": dataclasses.replace(QUICK, observations=7_500 * 8 * 1024, own_trials=32),
}
