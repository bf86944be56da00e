"""Language models in trials of reinforcement learning, on the protocol of all other agents.

A `session.TrialSession` turns one trial into a conversation and replies into actions; `play_trials`
plays many of them at once through `rollout.host_play`, with every turn on disk before the next.
Trials are measured as those of any other agent (`in_context_rl.measures`); for one key, a language
model plays the same tasks with the same noise as they do.

Source: the in-context RL evaluation of `openai/evals`: its protocol, restated. Prompts are this
project's, or with `PromptSettings(wording="paper")` those of the evaluation.

Example:
  >>> import gpicljax, jax, tempfile
  >>> from gpicljax.systems.in_context_rl.measures.trials import measure_trials
  >>> from gpicljax.llm.chat import FakeModel
  >>> env = gpicljax.wrappers.Trial(gpicljax.make("BanditTwoArmedHighLowFixed-v0"), actions=5)
  >>> vec = gpicljax.VectorEnv(env, 2, resets="fresh")
  >>> model = FakeModel("The first arm pays more. [SELECT: 0]")
  >>> result = play_trials(jax.random.key(0), vec, model, tempfile.mkdtemp())
  >>> [report.status for report in result.reports], result.usage.requests
  (['finished', 'finished'], 10)
  >>> measure_trials(result.trials, num_actions=2).total_steps.tolist()
  [5, 5]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Unpack

import jax
import numpy as np

from gpicljax import spaces
from gpicljax.checks import check, check_at_least
from gpicljax.environment import NO_LIMIT
from gpicljax.interface import ActionRequest
from gpicljax.llm.asking import Conversation
from gpicljax.llm.budget import Stopped
from gpicljax.llm.chat import ChatModel, ModelError, Usage, usage_of
from gpicljax.llm.conversations import (
    AskingOptions,
    Conversations,
    changed_settings,
    summarise_run,
    trial_seeds,
)
from gpicljax.llm.outcomes import ReplyTally
from gpicljax.llm.prompts import DEFAULT, PromptSettings
from gpicljax.registration import id_without_version, make, registered
from gpicljax.rollout import GIVE_UP, HostBatch
from gpicljax.rollout.host import HostSimulator
from gpicljax.systems.in_context_rl.measures.trials import (
    TrialRecords,
    keep_trial_step,
    trial_records,
)
from gpicljax.systems.in_context_rl.prompts.session import Decision, Status, TrialSession
from gpicljax.vector import VectorEnv


class TrialReport(NamedTuple):
    """The outcome of one trial.

    Attributes:
      status: `"finished"`, or why it is not: too many replies in a row that are invalid, refused or
        cut off, a context that is full, a question that the server refuses for an unknown reason
        while it answers others (these are ends of a trial), or a budget that is spent or a model
        that does not answer: then `play_trials` goes on, if it is called again.
      replies: answers heard.
      invalid: number of replies that named no action.
      invalid_strict: number of replies that would name none, read strictly.
      usage: tokens.
      recalled: turns that earlier parts of the run had asked for.
      faults: messages of the faults.
      tally: replies by outcome.
    """

    status: Status
    replies: int
    invalid: int
    invalid_strict: int
    usage: Usage
    recalled: int
    faults: tuple[str, ...]
    tally: ReplyTally


_ENDINGS: Mapping[str, str] = {
    "invalid answers": "ended by invalid answers",
    "refused": "ended by refusals",
    "cut off": "ended by replies that were cut off at max_tokens",
}
"""Statuses of trials in words; others are their own."""


class LanguageTrials(NamedTuple):
    """Trials that a language model has played.

    Attributes:
      trials: N trials, for `systems.in_context_rl.measures.measure_trials`.
      reports: of each.
    """

    trials: TrialRecords
    reports: tuple[TrialReport, ...]

    @property
    def usage(self) -> Usage:
        """Returns the usage in all trials."""
        return sum((report.usage for report in self.reports), Usage(0, 0, 0))

    @property
    def tally(self) -> ReplyTally:
        """Returns the replies of all trials by outcome."""
        return sum((report.tally for report in self.reports), ReplyTally())

    @property
    def is_complete(self) -> bool:
        """Returns whether every trial has come to an end of its own; else play them again."""
        return not any(r.status in ("budget spent", "interrupted") for r in self.reports)

    def in_words(self) -> str:
        """Returns a summary in a few lines."""
        statuses = Counter(report.status for report in self.reports)
        counts = ", ".join(f"{n} {_ENDINGS.get(status, status)}" for status, n in statuses.items())
        strict = sum(report.invalid_strict for report in self.reports)
        faults = [fault for report in self.reports for fault in report.faults]
        text = (
            f"{len(self.reports)} trials: {counts}. {self.tally.in_words()}; {strict} name no "
            "action read strictly."
        )
        return summarise_run(text, self.usage, faults, self.is_complete)


class TrialSource(HostSimulator, Protocol):
    """Trials of another simulator, as `interop.from_gymnasium` makes them."""

    @property
    def name(self) -> str:
        """The name of the environment."""
        ...

    @property
    def actions(self) -> int:
        """Actions of a trial."""
        ...

    def observation_space(self) -> spaces.Space:
        """Returns the space of observations, as `wrappers.Trial` has it."""
        ...

    def action_space(self) -> spaces.Space:
        """Returns the space of actions."""
        ...


def play_trials(
    key: jax.Array,
    batch: VectorEnv | HostBatch | TrialSource,
    model: ChatModel,
    folder: str | Path,
    settings: PromptSettings = DEFAULT,
    *,
    context_tokens: int | None = None,
    explanation: str | None = None,
    demonstrations: Sequence[Sequence[Decision]] = (),
    check_model: bool = True,
    **options: Unpack[AskingOptions],
) -> LanguageTrials:
    """Plays a batch of trials with a language model, several at once, or goes on with earlier ones.

    The module's example plays trials. The batch in the example below is refused.

    Args:
      key: a typed key: tasks, noise and the model's seeds follow from it.
      batch: trials: a `VectorEnv` of `trials.Trial` (or a `HostBatch` of it, which compiles once
        for several calls), or `interop.from_gymnasium`.
      model: the model.
      folder: folder of the transcripts, one for each trial; made if it is not there. Turns in
        transcripts of the same run are not asked for again.
      settings: settings of the prompts.
      context_tokens: tokens of the longest conversation, replies included; None for the model's own
        limit. A trial whose conversation would be longer ends there.
      explanation: description of the task; by default the environment's own.
      demonstrations: for each trial, decisions of an expert in another task; see
        `demonstrations.expert_decisions`.
      check_model: whether to ask the model to `check` itself first.
      options: `budget`, `patience`, `max_tokens` (512 by default) and `at_once`; see
        `llm.conversations.AskingOptions`.

    Returns:
      What was recorded and reported.

    Raises:
      ValueError: before anything is asked: for environments without whole trials (they might never
        end), with spaces that cannot be written, or without an explanation or
        demonstrations where they are wanted; for tasks that the wording or the scenario does not
        fit; and for what `model.check` refuses.
      SavedError: if the folder has transcripts of another run, or damaged ones.
      LockedError: if another process uses the folder.

    Example:
      >>> import gpicljax, tempfile
      >>> from gpicljax.llm.chat import FakeModel
      >>> vec = gpicljax.VectorEnv(gpicljax.make("FrozenLake-v1"), 2, resets="fresh")
      >>> play_trials(jax.random.key(0), vec, FakeModel("[SELECT: 0]"), tempfile.mkdtemp())
      Traceback (most recent call last):
      ValueError: batch: got 'FrozenLake'; accepted: trials of so many actions: ...
    """
    check_at_least(1, context_tokens=context_tokens)
    run = Conversations(model, folder, **(AskingOptions(max_tokens=512) | options))
    seen_space, actions, limit, name, usual_explanation = _check_batch(batch)
    explanation_or_none = explanation or usual_explanation
    has_explanation = not settings.explanations or explanation_or_none is not None
    check(
        has_explanation,
        "explanation",
        f"None for {name}",
        "a text, where settings.explanations is set",
    )
    counts = [len(decisions) for decisions in demonstrations] or [0]
    expected = f"{settings.demonstrations} decisions or more for each of {batch.num_envs} trials"
    enough = len(demonstrations) == batch.num_envs and min(counts) >= settings.demonstrations
    check(enough or not settings.demonstrations, "demonstrations", counts, expected)
    if check_model:
        model.check()
    # One session for each trial, all of them before anything is written or asked.
    seeds = trial_seeds(key, batch.num_envs)
    sessions = [
        TrialSession(
            settings, seen_space, actions, limit, explanation_or_none, seed, name, decisions
        )
        for seed, decisions in zip(seeds, demonstrations or [()] * len(seeds), strict=True)
    ]
    about = {
        "what": "in-context reinforcement learning",
        "environment": name,
        "actions": limit,
        "context_tokens": context_tokens,
        "settings": changed_settings(settings),
        "explanation": explanation_or_none if settings.explanations else None,
    }
    players: list[_Player] = []

    def start_player(number: int, conversation: Conversation) -> _Player:
        players.append(_Player(sessions[number], conversation, context_tokens))
        return players[-1]

    played = run.play(
        key, batch, start_player, about, "trial", max_steps=limit, keep=keep_trial_step
    )
    # The last action of a trial is not answered by anything more to be asked.
    reports = tuple(
        player.report("finished" if player.session.taken + 1 >= limit else None)
        for player in players
    )
    replies = np.asarray([report.replies for report in reports], np.int32)
    invalid = np.asarray([report.invalid for report in reports], np.int32)
    return LanguageTrials(trial_records(played, replies, invalid), reports)


def _explanation_by_name(name: str) -> str | None:
    """Returns the explanation of the environment here whose name is a part of this one."""
    names = (env_id for env_id in registered() if id_without_version(env_id) in name)
    return next((make(env_id).explanation for env_id in names), None)


def _check_batch(
    batch: VectorEnv | HostBatch | TrialSource,
) -> tuple[spaces.Space, spaces.Space, int, str, str | None]:
    """Returns spaces, actions of a trial, name and explanation; refuses other environments."""
    expected = "trials of so many actions: VectorEnv(trials.Trial(env, 200), ...)"
    batch = batch.vec if isinstance(batch, HostBatch) else batch
    if isinstance(batch, VectorEnv):
        env = batch.env
        horizon = int(env.horizon(batch.params))
        finite = f"{env.name}, whose episodes may go on for ever"
        check(horizon < NO_LIMIT, "batch", finite, expected)
        check(env.num_agents is None, "batch", f"{env.name} with several agents", "one agent")
        observations, actions, name = env.observation_space(), env.action_space(), env.name
        explanation = env.explanation
    else:
        observations, actions = batch.observation_space(), batch.action_space()
        horizon, name = batch.actions, batch.name
        explanation = _explanation_by_name(name)
    is_trial = isinstance(observations, spaces.Dict) and "reached" in observations.spaces
    check(is_trial, "batch", name, expected)
    situations = observations["now"]  # type: ignore[index]
    kinds = (spaces.Discrete, spaces.MultiDiscrete, spaces.Box)
    for field, space in (("observations", situations), ("actions", actions)):
        check(
            isinstance(space, kinds), field, space, "Discrete, MultiDiscrete or Box, to be written"
        )
    return situations, actions, horizon, name, explanation


class _Player:
    """One trial: its session and its conversation."""

    def __init__(
        self, session: TrialSession, conversation: Conversation, context_tokens: int | None
    ) -> None:
        self.session, self.conversation = session, conversation
        self.context_tokens = context_tokens

    def __call__(self, request: ActionRequest) -> Any:
        """Asks until there is an action or an end; returns the action, or `GIVE_UP`."""
        session = self.session
        session.observe(request.timestep)
        while session.status == "playing":
            messages = session.messages()
            needed_tokens = usage_of(messages, "").prompt + self.conversation.max_tokens
            if self.context_tokens is not None and needed_tokens > self.context_tokens:
                session.status = "context full"
                break
            try:
                answer = self.conversation.answer(
                    messages,
                    lambda reply: session.read_reply(reply.text, reply.finish),
                    session.form,
                )
            except Stopped as reason:
                session.status = reason.status
            except ModelError as error:
                session.status = "context full" if error.fault == "context" else "unanswered"
            else:
                if answer.value is not None:
                    return answer.value
        return GIVE_UP

    def report(self, status_if_playing: Status | None) -> TrialReport:
        """Returns the report; its status is `status_if_playing` while the trial goes on."""
        session, conversation = self.session, self.conversation
        status = session.status
        if status == "playing" and status_if_playing is not None:
            status = status_if_playing
        return TrialReport(
            status,
            session.replies,
            session.invalid,
            session.invalid_strict,
            conversation.usage,
            conversation.recalled,
            tuple(conversation.faults),
            conversation.tally,
        )
