"""Configuration and presets of the study `one_learner`."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Annotated, Any, Literal

from gpicljax.agents.sequence import SequenceConfig, SequenceHParams
from gpicljax.agents.symbol_model import StreamTask
from gpicljax.checks import Count, Range, Rate
from gpicljax.networks.language_model import LanguageModelSettings
from gpicljax.networks.online_memory import OnlineMemorySettings
from gpicljax.runtime import TrainingConfig, check_config

System = Literal[
    "meta_language",
    "byte_streams",
    "meta_rg",
    "bandits",
    "lakes",
    "dark_rooms",
    "keys_to_doors",
    "random_processes",
]
_IN_CONTEXT_RL = "gpicljax.systems.in_context_rl.learners", "stream_task"
_SOURCES: dict[System, tuple[Any, ...]] = {
    "meta_language": ("gpicljax.systems.meta_language.data.streams", "languages"),
    "byte_streams": ("gpicljax.systems.gradual_learning.learners.streams", "mappings"),
    "meta_rg": ("gpicljax.systems.meta_rg.learners.streams", "listening"),
    "bandits": (*_IN_CONTEXT_RL, "ten-arms", 200),
    "lakes": (*_IN_CONTEXT_RL, "lakes", 200),
    "dark_rooms": (*_IN_CONTEXT_RL, "dark-room", 160),
    "keys_to_doors": (*_IN_CONTEXT_RL, "key-to-door", 200),
    "random_processes": (*_IN_CONTEXT_RL, "any-mdp", 160),
}
TITLES: dict[System, tuple[str, str]] = {
    "meta_language": ("Meta-Language", "n in 3 .. 6"),
    "byte_streams": ("Byte streams", "11 mappings, mixed"),
    "meta_rg": ("Meta-Referential Games", "MetaRG-v1, O = 4"),
    "bandits": ("In-context RL", "ten-arms"),
    "lakes": ("In-context RL", "lakes"),
    "dark_rooms": ("In-context RL", "dark-room"),
    "keys_to_doors": ("In-context RL", "key-to-door"),
    "random_processes": ("In-context RL", "any-mdp"),
}
"""System and task of each kind of trials, as in other records of in-context learning."""


def load_task(system: System) -> StreamTask:
    """Returns the trials of a system; only then is it imported."""
    module, function, *arguments = _SOURCES[system]
    return getattr(importlib.import_module(module), function)(*arguments)


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Trains one model of symbols on trials of several systems at once.

    Attributes:
      systems: Systems whose trials are learnt from, each as often as the others.
      leave_out: System of these that is not learnt from; "" for none.
      tested: Systems whose trials are played in the end; by default those of `systems`.
      start_from: Folders of saved models to go on from, each apart; several are compared with a new
        one, which learns from the same streams.
      train: Whether there is training; else the models of `start_from` are tested as they are.
      plays: Whether trials are played in the end; else the log has what there is to know.
      length: Symbols of a stream.
      network: The model.
      agent: Batch and schedule; streams are shared among the systems.
      hparams: Hyper-parameters; decay_updates is set to the length of the run.
      trials: Trials that each agent plays in each system.
      temperature: Temperature of the model's choices; 0 takes the most probable action.
    """

    systems: tuple[System, ...] = tuple(_SOURCES)
    leave_out: System | Literal[""] = ""
    tested: tuple[System, ...] = ()
    start_from: tuple[Path, ...] = ()
    train: bool = True
    plays: bool = True
    length: Annotated[int, Range(64)] = 1024
    network: LanguageModelSettings = LanguageModelSettings(
        layers=4, features="latest", online=OnlineMemorySettings(ages=6, orders=1)
    )
    agent: SequenceConfig = SequenceConfig(batch_size=8, schedule="cosine", optimiser="muon")
    hparams: SequenceHParams = SequenceHParams(
        learning_rate=2.5e-2, warmup_updates=20, final_share=0.02
    )
    trials: Count = 128
    temperature: Rate = 1.0

    def validate(self) -> None:
        """Refuses systems named twice, batches that they cannot share, and absent folders."""
        super().validate()
        for name in ("systems", "tested"):
            names = getattr(self, name)
            fits = len(set(names)) == len(names) and (bool(names) or name == "tested")
            check_config(fits, name, names, "different ones, at least one")
        is_rest = not self.leave_out or (self.leave_out in self.systems and bool(self.taught))
        accepted_values = f"one of several systems: {self.systems}"
        check_config(is_rest, "leave_out", self.leave_out, accepted_values)
        divides = self.agent.batch_size % (len(self.taught) * self.agent.microbatches) == 0
        accepted_values = f"a multiple of {len(self.taught)} systems and of the microbatches"
        check_config(divides, "agent.batch_size", self.agent.batch_size, accepted_values)
        for folder in self.start_from:
            check_config(folder.is_dir(), "start_from", str(folder), "an existing folder")
        has_model = self.train or bool(self.start_from)
        check_config(has_model, "train", self.train, "True, without start_from")

    @property
    def taught(self) -> tuple[System, ...]:
        """Returns the systems that are learnt from."""
        return tuple(name for name in self.systems if name != self.leave_out)

    @property
    def capacity(self) -> int:
        """Returns the symbols of the longest trial that is played; some are longer than streams."""
        return self.length + self.length // 8

    @property
    def played(self) -> tuple[System, ...]:
        """Returns the systems that are played in the end."""
        return (self.tested or self.systems) if self.plays else ()

    @property
    def observations_per_update(self) -> int:
        """Returns the symbols of an update."""
        return self.agent.batch_size * self.length


QUICK = Config(seeds=1, observations=500 * 8 * 1024, log_lines=20, trials=64)
PRESETS = {
    "quick": QUICK,
    "cpu": dataclasses.replace(QUICK, observations=1_250 * 8 * 1024, log_lines=50),
}
