"""The configuration of `mental_modelling.py` and its presets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from gpicljax.checks import Count, Range
from gpicljax.llm.options import LanguageModelOptions
from gpicljax.runtime import TrainingConfig, check_config
from gpicljax.systems.mental_modelling.measures.questions import HISTORY_SIZES, QUESTIONS
from gpicljax.systems.mental_modelling.measures.reader import ReaderSettings
from gpicljax.systems.mental_modelling.prompts.questions import QuestionSettings

_OWN_WORDING = {
    "indexed": QuestionSettings(),
    "lists": QuestionSettings(indexed=False),
    "no-dynamics": QuestionSettings(dynamics=False),
    "no-instructions": QuestionSettings(instructions=False),
}
PROMPTS: dict[str, QuestionSettings] = {
    **_OWN_WORDING,
    **{
        f"{name}-no-reasoning": dataclasses.replace(settings, reasons=False)
        for name, settings in _OWN_WORDING.items()
    },
    "paper": QuestionSettings(wording="paper"),
    "paper-lists": QuestionSettings(indexed=False, wording="paper"),
}
"""Settings of a language model's questions, by name; with the published wording: `paper`."""


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Asks about agents and compares the answers; only readers are trained.

    Attributes:
      seeds: Readers of each task; all are asked the same queries.
      data: Folder that `collect` or `load` wrote.
      tasks: Ids of environments; all that the data has, by default.
      questions: What is asked.
      histories: Sizes of history; those for which a task's episodes are too short are left out.
      unseen: What the names of the agents end in that are asked about; the reader never sees them.
      skill: A word in their names; all skills where no name has it.
      other_kinds: Whether each kind of agents, the first word of their names, is asked about with a
        reader that has seen none of its kind, too.
      amounts: Whether readers of fewer agents and kinds, without the kind that is asked about, are
        trained, too.
      queries: Queries of each question, at most.
      decimals: To which everything is rounded.
      reader: The transformer in weights; its updates.
      asked: How many queries of each question and history a language model is asked.
      llm: The language model that is asked.
    """

    seeds: Count = 3
    data: Path = Path("runs/mental_modelling_data/quick")
    tasks: tuple[str, ...] = ()
    questions: tuple[str, ...] = QUESTIONS
    histories: tuple[Annotated[int, Range(0, 40)], ...] = HISTORY_SIZES
    unseen: str = " 0"
    skill: str = "expert"
    other_kinds: bool = False
    amounts: bool = False
    queries: Count = 600
    decimals: Annotated[int, Range(0, 8)] = 4
    reader: ReaderSettings = ReaderSettings()
    asked: Count = 50
    llm: LanguageModelOptions = LanguageModelOptions(prompts=("indexed",))

    def validate(self) -> None:
        """Refuses unknown questions and prompts, and sizes of history that are none."""
        super().validate()
        self.llm.check_prompts(PROMPTS)
        fits = bool(self.questions) and set(self.questions) <= set(QUESTIONS)
        check_config(fits, "questions", self.questions, ", ".join(QUESTIONS))
        check_config(bool(self.histories), "histories", self.histories, "at least one")


PRESETS = {
    "quick": Config(),
    "full": Config(queries=5_000, reader=ReaderSettings(3, 96, 4, 3_000, 64)),
}
