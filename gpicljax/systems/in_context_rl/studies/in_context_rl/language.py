"""Language models in the table: one behind an endpoint, and a tiny one trained on transcripts."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

import jax
import numpy as np

from gpicljax.data.transcripts import read_transcript
from gpicljax.environment import Environment
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.llm.budget import UNLIMITED, Budget, Ledger
from gpicljax.llm.chat import ChatModel, FakeModel, Message, Usage
from gpicljax.llm.local import ByteModel, conversation_text, train_byte_model
from gpicljax.llm.options import LanguageModelOptions
from gpicljax.llm.outcomes import ReplyTally, silence_notes
from gpicljax.llm.parsing import WORD
from gpicljax.llm.prompts import (
    PromptSettings,
    action_schema,
    explanation_of,
    schema_request,
    written,
)
from gpicljax.llm.scenarios import arm_names
from gpicljax.networks.language import LanguageModelSettings
from gpicljax.rollout import HostBatch
from gpicljax.runtime import named_key
from gpicljax.spaces import Discrete
from gpicljax.storage.reading import visible_files
from gpicljax.systems.in_context_rl.measures import TrialRecords, keep_trial_step
from gpicljax.systems.in_context_rl.prompts.demonstrations import expert_decisions
from gpicljax.systems.in_context_rl.prompts.session import Decision
from gpicljax.systems.in_context_rl.prompts.trials import LanguageTrials, play_trials
from gpicljax.systems.in_context_rl.studies.in_context_rl.playing import Contender, PlayedTrials
from gpicljax.systems.in_context_rl.studies.in_context_rl.tasks import (
    TEN_ARMS,
    Family,
    Tasks,
    is_bandit,
    tasks,
    trial_settings,
)
from gpicljax.vector import VectorEnv
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
"""How a language model is told of a trial, by name; the whole history unless it is a summary."""
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
        for path in visible_files(place, "*.jsonl"):
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


_DEMONSTRATED: Mapping[str, Family] = {
    "4x4": "lakes",
    "custom": "lakes",
    "CliffWalking": "cliffs",
}
"""The families of sets that have a single task; the other sets have the names of theirs."""


def demonstrations(
    where: str, each: Tasks, settings: PromptSettings, trials: int, seed: int
) -> list[list[Decision]]:
    """An expert's first decisions in other tasks of the same family, which no agent is tested on.

    Tasks of an environment of one's own are drawn from the same distribution.
    """
    if not settings.demonstrations:
        return []
    known = _DEMONSTRATED.get(where, where)
    source = tasks(known, held_out=False) if known in get_args(Family) else each  # type: ignore[arg-type]
    env, params = source.trials(settings.demonstrations)
    assert isinstance(env, Trial)
    return expert_decisions(named_key(seed, "demonstrations"), env, params, trials)


def language_batch(each: Tasks, actions: int, trials: int) -> HostBatch:
    """The first of the tasks that all agents play, for agents on the host."""
    env = trial_settings(actions, False).around(each.env)
    params = env.make_params(**dict(each.params))
    vec = VectorEnv(env, trials, resets="synchronous", params=params, steps_per_trial=actions + 1)
    return HostBatch(vec, keep_trial_step)


def language_row(
    model: ChatModel,
    folder: Path,
    batch: HostBatch,
    seed: int,
    best: object,
    settings: PromptSettings = TOLD,
    *,
    budget: Budget | Ledger = UNLIMITED,
    max_tokens: int = 16,
    at_once: int = 8,
    shown: Sequence[Sequence[Decision]] = (),
) -> tuple[PlayedTrials | None, LanguageTrials]:
    """What a language model comes to on the first of the tasks that all others play.

    Where the budget ends before all trials do, the row is made of the first trials that are whole;
    None if there are none.
    """
    result = play_trials(
        named_key(seed, "tasks"),
        batch,
        model,
        folder,
        settings,
        budget=budget,
        max_tokens=max_tokens,
        at_once=at_once,
        demonstrations=shown,
        check_model=False,
    )
    print(result.in_words(), flush=True)
    cut = [report.status in ("budget spent", "interrupted") for report in result.reports]
    whole = cut.index(True) if True in cut else len(cut)
    if whole == 0:
        return None, result
    trials = TrialRecords(*(None if x is None else x[:whole] for x in result.trials))
    reports = result.reports[:whole]
    usage = sum((report.usage for report in reports), Usage(0, 0, 0))
    tally = sum((report.tally for report in reports), ReplyTally())
    return PlayedTrials(trials, np.asarray(best)[:whole], usage=usage, tally=tally), result


def schema_of(each: Tasks, prompt: str) -> str:
    """What holds a model's answers to the actions of tasks."""
    space, settings = each.env.action_space(), PROMPTS[prompt]
    return schema_request(action_schema(space, names=_names(each.env, settings)), settings.reasons)


def _names(env: Environment, settings: PromptSettings) -> tuple[str, ...] | None:
    """The names of actions, where they have names."""
    space = env.action_space()
    return arm_names(settings.scenario, space.n) if isinstance(space, Discrete) else None


def unexplained(sets: Mapping[str, Tasks], prompts: Sequence[str]) -> str | None:
    """The first set of tasks that a prompt does not fit, by name; None if all do.

    An explanation may be missing, or guidance or a scenario be asked for where there is no bandit.
    """
    for where, each in sets.items():
        for settings in (PROMPTS[prompt] for prompt in prompts):
            if settings.explanations and explanation_of(each.env.name) is None:
                return where
            wants_arms = settings.guidance or settings.scenario != "none"
            if wants_arms and not is_bandit(each.env):
                return where
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
    """The model's trials on all sets of tasks with all prompts, until its budget is spent.

    Yields:
      The name of the tasks, the contender (None where no trial is whole), and a note or "".
    """
    for where, each in sets.items():
        batch = language_batch(each, actions, trials)
        for prompt in options.prompts:
            if ledger.exhausted:
                return
            settings = PROMPTS[prompt]
            tested, result = language_row(
                options.client(schema_of(each, prompt)),
                folder / f"{where}-{prompt}".replace(":", "-"),
                batch,
                seed,
                best[where],
                settings,
                budget=ledger,
                max_tokens=options.max_tokens,
                at_once=options.threads,
                shown=demonstrations(where, each, settings, trials, seed),
            )
            whole = 0 if tested is None else len(tested.trials.length)
            row = f"{where}, {prompt}"
            notes = [] if whole == trials else [_cut(row, whole, result)]
            note = "\n\n".join([*notes, *silence_notes({row: result.tally})]).strip()
            name = f"{options.name} ({prompt})"
            yield where, None if tested is None else Contender(name, "learner", [tested]), note


def _cut(what: str, whole: int, result: LanguageTrials) -> str:
    """What is said where not all trials are whole."""
    text = f"{what}: {whole} of {len(result.reports)} trials are whole"
    stopped = [report for report in result.reports if report.status == "interrupted"]
    return f"{text} ({stopped[-1].faults[-1]})" if stopped else text


def expected_usage(
    sets: Mapping[str, Tasks], prompts: Sequence[str], actions: int, trials: int, seed: int
) -> Usage:
    """Requests and tokens read, if every answer names an action.

    One trial of each kind is played with actions at random, and stands for all. Where reasons are
    asked for, an answer has a hundred tokens, which stay in the conversation.
    """
    total = Usage(0, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        for where, each in sets.items():
            batch = language_batch(each, actions, 1)
            for prompt in prompts:
                settings = PROMPTS[prompt]
                model = _at_random(each.env, settings)
                place = Path(folder) / f"{where}-{prompt}".replace(":", "-")
                key = named_key(seed, "tasks")
                shown = demonstrations(where, each, settings, 1, seed)
                played = play_trials(key, batch, model, place, settings, demonstrations=shown)
                usage = played.usage
                total += Usage(*(trials * count for count in usage))
    return total


def _at_random(env: Environment, settings: PromptSettings) -> FakeModel:
    """Names an action at random, after a text of a hundred tokens where reasons are asked for."""
    space, text = env.action_space(), "and " * 100 if settings.reasons else ""
    names = _names(env, settings)

    def answer(messages: Sequence[Message], seed: int) -> str:
        action = np.asarray(space.sample(jax.random.key(seed)))
        said = written(action, 3).strip("[]") if names is None else names[int(action)]
        return f"{text}[{WORD}: {said}]"

    return FakeModel(answer)
