"""A tiny language model for the table, trained in a minute on transcripts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from gpicljax.data.transcripts import read_transcript
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.llm.chat import ChatModel, FakeModel, Message
from gpicljax.llm.local import ByteModel, conversation_text, train_byte_model
from gpicljax.llm.prompts import PromptSettings
from gpicljax.networks.language import LanguageModelSettings
from gpicljax.runtime import named_key
from gpicljax.systems.in_context_rl.prompts.trials import play_trials
from gpicljax.systems.in_context_rl.studies.in_context_rl.playing import Tested
from gpicljax.systems.in_context_rl.studies.in_context_rl.tasks import (
    TEN_ARMS,
    Tasks,
    trial_settings,
)

TOLD = PromptSettings(reasons=False, tell_limit=False)
"""Told raw, with the whole history, of which the tiny model reads the end."""
NETWORK = LanguageModelSettings("transformer", layers=2, width=64, heads=4, hidden=128)
MEMORY, TEMPERATURE = 288, 0.3
_LAST = re.compile(r"Action (\d+) led to observation \d+ and paid (\d)")


def win_stay_lose_shift(arms: int) -> FakeModel:
    """Pulls the arm that has just paid again, and otherwise the next one.

    Source: Robbins (1952), "Some aspects of the sequential design of experiments", section 2.
    """

    def answer(messages: Sequence[Message], seed: int) -> str:
        told = _LAST.findall(messages[-1].content)
        if not told:
            return f"[SELECT: {seed % arms}]"
        arm, paid = map(int, told[-1])
        return f"[SELECT: {arm if paid else (arm + 1) % arms}]"

    return FakeModel(answer, name="win-stay, lose-shift")


def tiny_language_model(folder: Path, actions: int, seed: int, updates: int = 600) -> ByteModel:
    """A byte model trained on what a simple rule says in conversations about bandits.

    Args:
      folder: of the conversations.
      actions: of a trial.
      seed: of everything.
      updates: of its training.
    """
    key, conversations = named_key(seed, "language model"), []
    for arms in (2, 3, 10):
        each = Tasks(TEN_ARMS, (("num_arms", arms),))
        vec = single_trial_batch(trial_settings(actions, False).around(each.env), 8, actions)
        place = folder / f"{arms}_arms"
        play_trials(jax.random.fold_in(key, arms), vec, win_stay_lose_shift(arms), place, TOLD)
        for path in sorted(place.glob("*.jsonl")):
            said = []
            for turn in read_transcript(path)[1]:
                said += [*(Message(*m) for m in turn["asked"]), Message("assistant", turn["reply"])]
            conversations.append(conversation_text(said, answering=False))
    return train_byte_model(
        key,
        conversations,
        NETWORK,
        length=MEMORY,
        updates=updates,
        memory=MEMORY,
        temperature=TEMPERATURE,
    )


def language_row(
    model: ChatModel, folder: Path, each: Tasks, actions: int, trials: int, seed: int, best: object
) -> Tested:
    """What a language model comes to on the first of the tasks that all others play."""
    vec = single_trial_batch(trial_settings(actions, False).around(each.env), trials, actions)
    result = play_trials(named_key(seed, "tasks"), vec, model, folder, TOLD, max_tokens=16)
    print(result.in_words(), flush=True)
    return Tested(result.trials, np.asarray(best)[:trials])
