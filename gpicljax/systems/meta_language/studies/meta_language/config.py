"""Configuration and presets of the study `meta_language`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from gpicljax.agents.sequence import SequenceConfig, SequenceHParams
from gpicljax.checks import BelowOne, Count, Natural, Range, Share
from gpicljax.networks.language_model import LanguageModelSettings
from gpicljax.runtime import TrainingConfig, check_config
from gpicljax.systems.meta_language.env.meta_language import Calibration
from gpicljax.systems.meta_language.env.ngram_language import SlotWeights

Order = Annotated[int, Range(1, 8)]


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Trains a model on random languages, and measures what it learns of new ones in context.

    Attributes:
      model: The model.
      context: Tokens of a training sequence.
      orders: Smallest and largest n of the languages.
      slot_weights: How much the n latest tokens weigh: "reference", by their place, so that the
        oldest has no influence; or all the same.
      calibration: How languages are brought to 0.5 .. 1.0 nats per token, if at all.
      warmup_orders: Those of the first part of the training (appendix A.2: n = 2, 3, for the
        standard size).
      warmup_share: That part's share of the updates; there is none with a number of tasks.
      other_languages: Share of the training's languages that are of other kinds: lambda anywhere
        in 1 .. 6, and half of them with equal weights of the latest tokens, whatever slot_weights.
      lexicons: Share of the training's texts that are made of random words instead.
      tasks: Number of different languages to train on; 0 for a new one in every sequence.
      agent: Batch and schedule.
      hparams: Hyper-parameters; decay_updates is set to the length of the run.
      evaluation_orders: Smallest and largest n of the languages to evaluate on.
      evaluation_context: Tokens of a sequence there.
      evaluation_sequences: Sequences for every n.
      text_dir: Folder of plain text files (such as the PG-19 test set), to be learnt as a language;
        none takes Python's language reference, which needs no file.
      text_windows: Most windows of it, spread evenly, each with letters in a code of its own; 0 for
        none.
      demonstrations: Continuations to draw of each of the demonstrations (words, sums).
      start_from: Folder of a saved language model of these settings, or of a run with one or more
        seeds, to go on from.
      train: Whether there is training; else the models of `start_from` are measured as they are.
    """

    seeds: Count = 1
    model: LanguageModelSettings = LanguageModelSettings()
    context: Count = 4096
    orders: tuple[Order, Order] = (3, 6)
    slot_weights: SlotWeights = "reference"
    calibration: Calibration = "none"
    warmup_orders: tuple[Order, Order] = (2, 3)
    warmup_share: BelowOne = 0.0
    other_languages: Share = 0.0
    lexicons: Share = 0.0
    tasks: Natural = 0
    agent: SequenceConfig = SequenceConfig(batch_size=8, ramp=512)
    hparams: SequenceHParams = SequenceHParams()
    observations: Count = 61_035 * 8 * 4096
    log_lines: Count = 100
    evaluation_orders: tuple[Order, Order] = (2, 8)
    evaluation_context: Annotated[int, Range(16)] = 4096
    evaluation_sequences: Annotated[int, Range(2)] = 4096
    text_dir: Path | None = None
    text_windows: Natural = 64
    demonstrations: Natural = 16
    start_from: Path | None = None
    train: bool = True

    def validate(self) -> None:
        """Refuses what can be refused before anything is compiled."""
        super().validate()
        for name in ("orders", "warmup_orders", "evaluation_orders"):
            low, high = getattr(self, name)
            check_config(low <= high, name, (low, high), "two of 1 .. 8 in order")
        text = self.text_dir
        check_config(text is None or text.is_dir(), "text_dir", str(text), "an existing folder")
        start = self.start_from
        exists = start is None or start.is_dir()
        check_config(exists, "start_from", str(start), "an existing folder")
        check_config(self.train or start is not None, "train", False, "True, without start_from")
        plain = not (self.tasks and (self.other_languages or self.lexicons))
        check_config(plain, "tasks", self.tasks, "0, with other_languages or lexicons")
        check_config(self.text_windows != 1, "text_windows", 1, "0, or 2 and more, for an interval")
        several = self.demonstrations != 1
        check_config(several, "demonstrations", 1, "0, or 2 and more, for an interval")

    @property
    def observations_per_update(self) -> int:
        """Tokens of one update."""
        return self.agent.batch_size * self.context


TINY = LanguageModelSettings(layers=6, width=64, heads=4)
SMALL = LanguageModelSettings(layers=12, width=256, heads=8, precision="bfloat16")
STANDARD = LanguageModelSettings(layers=12, width=1024, heads=16, precision="bfloat16")
BIG_BATCH = SequenceConfig(batch_size=16, ramp=512)
QUICK = Config(
    model=LanguageModelSettings(layers=4),
    context=512,
    orders=(2, 4),
    warmup_share=0.3,
    agent=SequenceConfig(batch_size=16, schedule="cosine"),
    hparams=SequenceHParams(learning_rate=3e-3, warmup_updates=100),
    observations=1_200 * 16 * 512,
    log_lines=30,
    evaluation_context=512,
    evaluation_sequences=64,
)
CPU_TINY = dataclasses.replace(
    QUICK,
    model=TINY,
    orders=(2, 5),
    warmup_orders=(2, 3),
    observations=3_000 * 16 * 512,
    log_lines=60,
    evaluation_sequences=256,
)
CPU_SMALL = dataclasses.replace(
    QUICK,
    model=TINY,
    context=1024,
    orders=(3, 6),
    warmup_share=0.2,
    observations=20_000 * 16 * 1024,
    log_lines=200,
    evaluation_context=1024,
    evaluation_sequences=256,
)
# Rates and the gate need few sequences: what is learnt of a language is learnt in the sequence.
CPU_ONLINE = dataclasses.replace(
    QUICK,
    model=LanguageModelSettings("online"),
    orders=(3, 6),
    warmup_share=0.0,
    agent=SequenceConfig(batch_size=8, schedule="cosine"),
    hparams=SequenceHParams(learning_rate=4e-3, warmup_updates=20, final_share=0.05, adam_b2=0.99),
    observations=260 * 8 * 512,
    log_lines=26,
    evaluation_sequences=256,
)
CPU_ONLINE_WIDE = dataclasses.replace(
    CPU_ONLINE,
    orders=(2, 8),
    other_languages=0.2,
    lexicons=0.17,
    agent=SequenceConfig(batch_size=12, schedule="cosine"),
    observations=260 * 12 * 512,
)
DIVERSITY = Config(model=SMALL)
PRESETS = {
    "quick": QUICK,
    "cpu-tiny": CPU_TINY,
    "cpu-small": CPU_SMALL,
    "cpu-online": CPU_ONLINE,
    "cpu-online-wide": CPU_ONLINE_WIDE,
    "cpu-task-diversity": dataclasses.replace(
        CPU_SMALL, tasks=1_000, observations=5_000 * 16 * 1024
    ),
    "task-diversity": dataclasses.replace(DIVERSITY, tasks=1_000),
    # 2 B tokens: 500K sequences of 4,096 in batches of 32K, 32K and 64K tokens.
    "paper-tiny": Config(model=TINY),
    "paper-small": Config(model=SMALL),
    # Preceded by simpler languages, as the paper does for this size alone.
    "paper-standard": Config(
        model=STANDARD, agent=BIG_BATCH, observations=30_518 * 16 * 4096, warmup_share=0.1
    ),
}
