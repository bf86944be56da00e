"""Language models in the table: one behind an endpoint, and a tiny one trained on transcripts."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Unpack, get_args

import jax
import numpy as np

from gpicljax.data.transcripts import read_transcript
from gpicljax.environment import Environment
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.llm.budget import Ledger
from gpicljax.llm.chat import ChatModel, FakeModel, Message, Usage
from gpicljax.llm.conversations import AskingOptions
from gpicljax.llm.local import ByteModel, conversation_text, train_byte_model
from gpicljax.llm.options import LanguageModelOptions
from gpicljax.llm.outcomes import ReplyTally, silence_notes
from gpicljax.llm.parsing import WORD
from gpicljax.llm.prompts import (
    PromptSettings,
    action_schema,
    format_value,
    schema_request,
)
from gpicljax.llm.scenarios import arm_names
from gpicljax.networks.language_model import LanguageModelSettings
from gpicljax.rollout import HostBatch
from gpicljax.runtime import named_key
from gpicljax.spaces import Discrete
from gpicljax.storage.reading import visible_files
from gpicljax.systems.in_context_rl.env import (
    TEN_ARMS,
    Family,
    Tasks,
    family_tasks,
    is_bandit,
    trial_settings,
)
from gpicljax.systems.in_context_rl.measures.playing import Contender, PlayedTrials
from gpicljax.systems.in_context_rl.measures.trials import TrialRecords, keep_trial_step
from gpicljax.systems.in_context_rl.prompts.demonstrations import expert_decisions
from gpicljax.systems.in_context_rl.prompts.session import Decision
from gpicljax.systems.in_context_rl.prompts.trials import LanguageTrials, play_trials
from gpicljax.wrappers.trial import Trial

PROMPTS: dict[str, PromptSettings] = {
    "raw": PromptSettings(reasons=False),
    "explained": PromptSettings(explanations=True, reasons=False),
    "summary": PromptSettings(history="summary", reasons=False),
    "explained-summary": PromptSettings(explanations=True, history="summary", reasons=False),
    "explained-reasons": PromptSettings(explanations=True),
    # As the reference tells and reads a trial; explanations are this project's.
    "paper": PromptSettings(wording="paper", parsing="strict", permute_arms=False),
    "paper-explained": PromptSettings(
        explanations=True, wording="paper", parsing="strict", permute_arms=False
    ),
    "demonstrated": PromptSettings(reasons=False, demonstrations=20),
    # For bandits only.
    "guided": PromptSettings(history="summary", reasons=False, guidance=True),
    "scenario": PromptSettings(reasons=False, scenario="buttons"),
}
"""Settings of prompts, by name; with the whole history unless it is a summary."""
TINY_MODEL_PROMPT = PromptSettings(reasons=False, tell_limit=False)
"""Told raw, with the whole history, of which the tiny model reads the end."""
TINY_MODEL_NETWORK = LanguageModelSettings("transformer", layers=2, width=64, heads=4, hidden=128)
TINY_MODEL_CONTEXT, TINY_MODEL_TEMPERATURE = 288, 0.3
_LAST_OUTCOME = re.compile(r"Action (\d+) led to observation \d+ and paid (\d)")


def win_stay_lose_shift(arms: int) -> FakeModel:
    """Returns a rule that pulls the arm that has just paid again, and otherwise the next one.

    Source: Robbins (1952), "Some aspects of the sequential design of experiments", section 2.
    """

    def answer(messages: Sequence[Message], seed: int) -> str:
        outcomes = _LAST_OUTCOME.findall(messages[-1].content)
        if not outcomes:
            return f"[SELECT: {seed % arms}]"
        arm, paid = map(int, outcomes[-1])
        return f"[SELECT: {arm if paid else (arm + 1) % arms}]"

    return FakeModel(answer, name="win-stay, lose-shift")


def tiny_language_model(folder: Path, actions: int, seed: int, updates: int = 600) -> ByteModel:
    """Returns a byte model trained on a simple rule's replies in conversations about bandits."""
    key, conversations = named_key(seed, "language model"), []
    for arms in (2, 3, 10):
        task_set = Tasks(TEN_ARMS, (("num_arms", arms),))
        vec = single_trial_batch(trial_settings(actions, False).wrap(task_set.env), 8, actions)
        place = folder / f"{arms}_arms"
        play_trials(
            jax.random.fold_in(key, arms), vec, win_stay_lose_shift(arms), place, TINY_MODEL_PROMPT
        )
        for path in visible_files(place, "*.jsonl"):
            messages = []
            for turn in read_transcript(path)[1]:
                messages += [
                    *(Message(*m) for m in turn["asked"]),
                    Message("assistant", turn["reply"]),
                ]
            conversations.append(conversation_text(messages, answering=False))
    return train_byte_model(
        key,
        conversations,
        TINY_MODEL_NETWORK,
        length=TINY_MODEL_CONTEXT,
        updates=updates,
        memory=TINY_MODEL_CONTEXT,
        temperature=TINY_MODEL_TEMPERATURE,
    )


_DEMONSTRATED_FAMILIES: Mapping[str, Family] = {
    "4x4": "lakes",
    "custom": "lakes",
    "CliffWalking": "cliffs",
}
"""The families of sets that have a single task; the other sets have the names of theirs."""


def demonstrations(
    test_name: str, task_set: Tasks, settings: PromptSettings, trials: int, seed: int
) -> list[list[Decision]]:
    """Returns an expert's first decisions in other tasks of the same family.

    Tasks of an environment of one's own are drawn from the same distribution.
    """
    if not settings.demonstrations:
        return []
    family = _DEMONSTRATED_FAMILIES.get(test_name, test_name)
    source = family_tasks(family, held_out=False) if family in get_args(Family) else task_set  # type: ignore[arg-type]
    env, params = source.trials(settings.demonstrations)
    assert isinstance(env, Trial)
    return expert_decisions(named_key(seed, "demonstrations"), env, params, trials)


def language_batch(task_set: Tasks, actions: int, trials: int) -> HostBatch:
    """Returns the first of the tasks that all agents play, for agents on the host."""
    env = trial_settings(actions, False).wrap(task_set.env)
    params = env.make_params(**dict(task_set.params))
    return HostBatch(single_trial_batch(env, trials, actions, params=params), keep_trial_step)


def language_row(
    model: ChatModel,
    folder: Path,
    batch: HostBatch,
    seed: int,
    best: object,
    settings: PromptSettings = TINY_MODEL_PROMPT,
    *,
    decisions: Sequence[Sequence[Decision]] = (),
    **options: Unpack[AskingOptions],
) -> tuple[PlayedTrials | None, LanguageTrials]:
    """Returns the trials of a language model on the first of the tasks that all others play.

    Where the budget ends before all trials do, the row is made of the first trials that are whole;
    None if there are none.
    """
    result = play_trials(
        named_key(seed, "tasks"),
        batch,
        model,
        folder,
        settings,
        demonstrations=decisions,
        check_model=False,
        **(AskingOptions(max_tokens=16) | options),
    )
    print(result.in_words(), flush=True)
    is_cut = [report.status in ("budget spent", "interrupted") for report in result.reports]
    complete_count = is_cut.index(True) if True in is_cut else len(is_cut)
    if complete_count == 0:
        return None, result
    trials = TrialRecords(*(None if x is None else x[:complete_count] for x in result.trials))
    reports = result.reports[:complete_count]
    usage = sum((report.usage for report in reports), Usage(0, 0, 0))
    tally = sum((report.tally for report in reports), ReplyTally())
    return PlayedTrials(trials, np.asarray(best)[:complete_count], usage=usage, tally=tally), result


def schema_of(task_set: Tasks, prompt: str) -> str:
    """Returns the schema of a model's answers, which names the actions of tasks."""
    space, settings = task_set.env.action_space(), PROMPTS[prompt]
    return schema_request(
        action_schema(space, names=_action_names(task_set.env, settings)), settings.reasons
    )


def _action_names(env: Environment, settings: PromptSettings) -> tuple[str, ...] | None:
    """Returns the names of actions, where they have names."""
    space = env.action_space()
    return arm_names(settings.scenario, space.n) if isinstance(space, Discrete) else None


def first_unexplained(sets: Mapping[str, Tasks], prompts: Sequence[str]) -> str | None:
    """Returns the first set of tasks that a prompt does not fit, by name; None if all do.

    An explanation may be missing, or guidance or a scenario be asked for where there is no bandit.
    """
    for test_name, task_set in sets.items():
        for settings in (PROMPTS[prompt] for prompt in prompts):
            if settings.explanations and task_set.env.explanation is None:
                return test_name
            wants_arms = settings.guidance or settings.scenario != "none"
            if wants_arms and not is_bandit(task_set.env):
                return test_name
    return None


def language_rows(
    options: LanguageModelOptions,
    ledger: Ledger,
    folder: Path,
    sets: Mapping[str, Tasks],
    best: Mapping[str, object],
    actions: int,
    trials: int,
    seed: int,
) -> Iterator[tuple[str, Contender | None, str]]:
    """Yields the model's trials on all sets of tasks with all prompts, until its budget is spent.

    Yields:
      The name of the tasks, the contender (None where no trial is whole), and a note or "".
    """
    for test_name, task_set in sets.items():
        batch = language_batch(task_set, actions, trials)
        for prompt in options.prompts:
            if ledger.exhausted:
                return
            settings = PROMPTS[prompt]
            tested, result = language_row(
                options.client(schema_of(task_set, prompt)),
                folder / f"{test_name}-{prompt}".replace(":", "-"),
                batch,
                seed,
                best[test_name],
                settings,
                decisions=demonstrations(test_name, task_set, settings, trials, seed),
                **options.asking(ledger),
            )
            complete_count = 0 if tested is None else len(tested.trials.length)
            row = f"{test_name}, {prompt}"
            notes = (
                [] if complete_count == trials else [_incomplete_note(row, complete_count, result)]
            )
            note = "\n\n".join([*notes, *silence_notes({row: result.tally})]).strip()
            name = f"{options.name} ({prompt})"
            yield test_name, None if tested is None else Contender(name, "learner", [tested]), note


def _incomplete_note(row_name: str, complete_count: int, result: LanguageTrials) -> str:
    """Returns a note on trials that are not complete."""
    text = f"{row_name}: {complete_count} of {len(result.reports)} trials are whole"
    stopped = [report for report in result.reports if report.status == "interrupted"]
    return f"{text} ({stopped[-1].faults[-1]})" if stopped else text


def expected_usage(
    sets: Mapping[str, Tasks], prompts: Sequence[str], actions: int, trials: int, seed: int
) -> Usage:
    """Returns the number of requests and tokens read, if every answer names an action.

    One trial of each kind is played with actions at random, and stands for all. Where reasons are
    asked for, an answer has a hundred tokens, which stay in the conversation.
    """
    total = Usage(0, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        for test_name, task_set in sets.items():
            batch = language_batch(task_set, actions, 1)
            for prompt in prompts:
                settings = PROMPTS[prompt]
                model = _random_model(task_set.env, settings)
                place = Path(folder) / f"{test_name}-{prompt}".replace(":", "-")
                key = named_key(seed, "tasks")
                decisions = demonstrations(test_name, task_set, settings, 1, seed)
                played = play_trials(key, batch, model, place, settings, demonstrations=decisions)
                usage = played.usage
                total += Usage(*(trials * count for count in usage))
    return total


def _random_model(env: Environment, settings: PromptSettings) -> FakeModel:
    """Returns a model that names an action at random, after a text where reasons are asked for."""
    space, text = env.action_space(), "and " * 100 if settings.reasons else ""
    names = _action_names(env, settings)

    def answer(messages: Sequence[Message], seed: int) -> str:
        action = np.asarray(space.sample(jax.random.key(seed)))
        action_text = format_value(action, 3).strip("[]") if names is None else names[int(action)]
        return f"{text}[{WORD}: {action_text}]"

    return FakeModel(answer)
