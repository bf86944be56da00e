"""Language models play Meta-Referential Games: as listener to a rule, or as speaker to a listener.

An episode is a conversation on disk, every turn before the next is asked for; what was played
before is not asked again. The listener's protocol is that of Table 4, whose accuracies below one
half, in a game of two answers, say that the answers were biased or not valid: so the confusion
matrix stands beside the accuracy, answers are bounded, and their order can be turned round.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from gpicljax.checks import check
from gpicljax.interface import ActionRequest, Agent
from gpicljax.llm.asking import PATIENT, Conversation, Interrupted, RetryPolicy
from gpicljax.llm.budget import UNLIMITED, Budget, BudgetSpent, Ledger
from gpicljax.llm.chat import ChatModel, Message, ModelError, Usage
from gpicljax.llm.conversations import Conversations, changed_settings
from gpicljax.llm.outcomes import ReplyTally
from gpicljax.rollout import GIVE_UP, HostAgent, host_play, play, start_rollout
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.measures.listening import Confusion, confusion
from gpicljax.systems.meta_rg.prompts.sessions import (
    DIFFERENT,
    ListenerSession,
    ListenerSettings,
    SpeakerSession,
    decision_in,
    message_in,
)
from gpicljax.vector import VectorEnv

SPEAKER, LISTENER = 0, 1


class PlayedGames(NamedTuple):
    """The games that a language model has played.

    Attributes:
      support: decisions in games of the first phase.
      query: those of the second: zero-shot compositional tests.
      invalid: replies that could not be read; of a listener, `Confusion` has them too.
      episodes: that came to their end.
      usage: tokens, earlier parts of the run included.
      faults: what went wrong, in words.
      tally: replies by outcome.
    """

    support: Confusion
    query: Confusion
    invalid: int
    episodes: int
    usage: Usage
    faults: tuple[str, ...]
    tally: ReplyTally


_Spent = tuple[Usage, tuple[str, ...], ReplyTally]
"""Tokens, faults and replies of a run."""


class _Reading(NamedTuple):
    """Tells which replies are answers, and the form that is asked for."""

    is_readable: Callable[[str], bool]
    form: str


def play_listener(
    key: jax.Array,
    vec: VectorEnv,
    model: ChatModel,
    folder: str | Path,
    settings: ListenerSettings | None = None,
    *,
    budget: Budget | Ledger = UNLIMITED,
    patience: RetryPolicy = PATIENT,
    max_tokens: int = 64,
    at_once: int = 8,
) -> PlayedGames:
    """Plays one episode on every instance, with the model as listener to the environment's speaker.

    Args:
      key: a typed key.
      vec: of `MetaRG` in the listener's view, with compact actions and no distractors.
      model: the model.
      folder: of the transcripts; made if it is not there.
      settings: how it is asked.
      budget: what all may cost, earlier parts of the run included; or a ledger that several calls
        share.
      patience: how often a request is tried.
      max_tokens: the longest reply.
      at_once: episodes that are asked about at the same time.

    Raises:
      ValueError: for another environment, and what `model.check` refuses.
      SavedError: if the folder has transcripts of another run, or damaged ones.

    Example:
      >>> def always_same(folder):
      ...     import gpicljax
      ...     from gpicljax.llm.chat import FakeModel
      ...
      ...     vec = VectorEnv(gpicljax.make("MetaRG-v1"), 64, resets="fresh")
      ...     model = FakeModel('{"meaning": "same"}')
      ...     return play_listener(jax.random.key(0), vec, model, folder).query.in_words()
    """
    settings = settings or ListenerSettings()
    env = _game(vec, "listener")
    sessions = [
        ListenerSession(settings, env.vocab_size, env.message_length, env.stimulus)
        for _ in range(vec.num_envs)
    ]
    wait = env.num_decisions

    def act(n: int, observation: Mapping[str, Any], ask: Callable[[list[Message]], str]) -> Any:
        if int(observation["round"]) < env.num_rounds:
            return np.int32(wait)
        if int(observation["round"]) > env.num_rounds:
            sessions[n].feedback(observation)
            return np.int32(wait)
        decision = sessions[n].hear(ask(sessions[n].question(observation)))
        decisions[n].append(decision)
        return np.int32(DIFFERENT if decision is None else decision)

    decisions: list[list[int | None]] = [[] for _ in sessions]
    about = {"what": "meta-referential games, listener", "settings": changed_settings(settings)}
    options = budget, patience, max_tokens, at_once
    reading = _Reading(lambda text: decision_in(text) is not None, '{"meaning": ...}')
    records, spent = _play(key, vec, model, folder, act, about, options, reading)
    valid = [[decision is not None for decision in of_episode] for of_episode in decisions]
    return _count_games(records, valid, *spent)


def play_rule(key: jax.Array, vec: VectorEnv, agent: Agent) -> PlayedGames:
    """The episodes of `play_listener` for the same key, with an untrained agent as listener.

    Args:
      key: a typed key.
      vec: as there.
      agent: takes no parameters, such as `experts.rule_listener` makes.
    """
    env = _game(vec, "listener")
    vec = VectorEnv(env, vec.num_envs, resets="fresh", params=vec.params, privileged=True)
    horizon = int(np.max(env.horizon(vec.params)))

    @jax.jit
    def play_all(key: jax.Array) -> Any:
        return play(vec, agent, (), start_rollout(key, vec, agent), max_steps=horizon, keep=_keep)

    return _count_games(play_all(key), None, Usage(0, 0, 0), (), ReplyTally())


def play_speaker(
    key: jax.Array,
    vec: VectorEnv,
    model: ChatModel,
    folder: str | Path,
    listener: HostAgent,
    *,
    budget: Budget | Ledger = UNLIMITED,
    patience: RetryPolicy = PATIENT,
    max_tokens: int = 256,
    at_once: int = 8,
) -> PlayedGames:
    """Plays one episode on every instance, with the model as speaker.

    Args:
      key: a typed key.
      vec: of `MetaRG` in the players' view, without distractors.
      model: the model.
      folder: of the transcripts; made if it is not there.
      listener: chooses for both players, of which the listener's row counts: `nearest_listener`, or
        `rollout.on_host` of agents that learnt to play together.
      budget: see `play_listener`, as for the rest.
      patience: likewise.
      max_tokens: likewise.
      at_once: likewise.

    Raises:
      ValueError: likewise.
      SavedError: likewise.

    Example:
      >>> def always_ones(folder):
      ...     import gpicljax
      ...     from gpicljax.llm.chat import FakeModel
      ...
      ...     env = gpicljax.make("MetaRG-v1", view="players")
      ...     vec, model = VectorEnv(env, 64, resets="fresh"), FakeModel("[MESSAGE: 1, 1, 1]")
      ...     return play_speaker(jax.random.key(0), vec, model, folder, nearest_listener(env))
    """
    env = _game(vec, "players")
    sessions = [
        SpeakerSession(env.vocab_size, env.message_length, env.stimulus)
        for _ in range(vec.num_envs)
    ]
    turn = threading.Lock()

    def act(n: int, observation: Mapping[str, Any], ask: Callable[[list[Message]], str]) -> Any:
        speaker_view = {
            name: values[SPEAKER] for name, values in observation.items() if name != "action_mask"
        }
        with turn:
            moment = moments[n]
            actions = np.array(listener({n: moment})[n])
        actions[SPEAKER] = [env.num_decisions, *[0] * env.message_length]
        if int(speaker_view["round"]) < env.num_rounds:
            actions[SPEAKER, 1:] = sessions[n].hear(ask(sessions[n].question(speaker_view)))
        elif int(speaker_view["round"]) > env.num_rounds:
            sessions[n].add_decision(speaker_view)
        return actions

    moments: dict[int, ActionRequest] = {}
    about = {"what": "meta-referential games, speaker"}
    options = budget, patience, max_tokens, at_once
    length, vocab_size = env.message_length, env.vocab_size
    reading = _Reading(
        lambda text: message_in(text, length, vocab_size) is not None, "[MESSAGE: ...]"
    )
    records, spent = _play(key, vec, model, folder, act, about, options, reading, moments)
    played = _count_games(records, None, *spent)
    return played._replace(invalid=sum(session.invalid for session in sessions))


def nearest_listener(env: MetaRG) -> HostAgent:
    """Returns a listener that decides by the nearest stimulus it was shown, dimension by dimension.

    "Same", if the symbol that it heard with it is the one that it hears now, in every place. Where
    stimuli are names, the nearest one has the same name.
    """
    shown: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    dims = env.num_dims

    def listen(moments: Mapping[int, ActionRequest]) -> dict[int, Any]:
        return {n: one(n, moment) for n, moment in moments.items()}

    def one(n: int, moment: ActionRequest) -> np.ndarray:
        observation = {k: np.asarray(v)[LISTENER] for k, v in moment.timestep.observation.items()}
        if bool(moment.timestep.trial_start):
            shown[n] = []
        stimulus = observation["stimulus"][: env.stimulus_size].reshape(dims, -1)
        message, round_ = observation["message"], int(observation["round"])
        decision = env.num_decisions
        if round_ > env.num_rounds:
            shown[n].append((stimulus, message))
        elif round_ == env.num_rounds:
            decision = DIFFERENT
            if shown[n]:
                stimuli = np.stack([x for x, _ in shown[n]])
                messages = np.stack([x for _, x in shown[n]])
                nearest = np.abs(stimuli - stimulus).sum(-1).argmin(0)
                same = messages[nearest, np.arange(dims)] == message[:dims]
                decision = int(not same.all())
        choice = np.zeros((2, 1 + env.message_length), np.int32)
        choice[:, 0] = env.num_decisions, decision
        return choice

    return listen


def _game(vec: VectorEnv, view: str) -> MetaRG:
    env = vec.env
    fits = isinstance(env, MetaRG) and env.view == view and env.num_distractors == 0
    fits = fits and env.descriptive and env.feedback and env.actions == "compact"  # type: ignore[union-attr]
    fits = fits and not env.announces  # type: ignore[union-attr]
    accepted_values = f'MetaRG with view="{view}", compact actions, feedback and no distractors'
    check(fits, "vec", env, accepted_values)
    assert isinstance(env, MetaRG)
    return env


def _keep(record: Any) -> dict[str, Any]:
    info = record.next_timestep.info
    return {name: info[name] for name in ("decided", "correct", "query")} | {
        "answer": record.timestep.privileged["answer"]
    }


def _play(
    key: jax.Array,
    vec: VectorEnv,
    model: ChatModel,
    folder: str | Path,
    act: Callable[..., Any],
    about: Mapping[str, Any],
    options: tuple[Budget | Ledger, RetryPolicy, int, int],
    reading: _Reading,
    moments_of: dict[int, ActionRequest] | None = None,
) -> tuple[Any, _Spent]:
    """Plays one episode on every instance; many are asked about at once, all step together."""
    budget, patience, max_tokens, at_once = options
    run = Conversations(model, folder, budget, patience, max_tokens=max_tokens, at_once=at_once)
    # Answers are recorded, not shown.
    vec = VectorEnv(vec.env, vec.num_envs, resets="fresh", params=vec.params, privileged=True)
    model.check()
    key_words = jax.random.key_data(key).tolist()
    conversations: list[Conversation] = []
    ended: set[int] = set()

    def one(n: int, moment: ActionRequest) -> Any:
        observation = jax.tree.map(np.asarray, moment.timestep.observation)
        conversation = conversations[n]

        def ask(messages: list[Message]) -> str:
            # Too long for the model, or refused for good: no answer. Questions only grow.
            try:
                if n in ended:
                    return ""
                text, _, finish = conversation.ask(messages)
            except ModelError as error:
                ended.add(n)
                text, finish = "", error.fault
            conversation.judge(text, finish, reading.is_readable(text), reading.form)
            return text

        try:
            return act(n, observation, ask)
        except BudgetSpent as error:
            conversation.faults.append(str(error))
        except Interrupted:
            pass
        return GIVE_UP

    def answer(moments: Mapping[int, ActionRequest]) -> dict[int, Any]:
        if moments_of is not None:
            moments_of.update(moments)
        running = {n: run.submit(one, n, moment) for n, moment in moments.items()}
        return {n: job.result() for n, job in running.items()}

    with run:
        for n in range(vec.num_envs):
            whole = {
                **about,
                "environment": repr(vec.env),
                "params": jax.tree.map(lambda x: np.asarray(x).tolist(), vars(vec.params)),
                "episode": n,
                "key": key_words,
            }
            seed = int(key_words[-1]) * 100_003 + n
            conversations.append(run.open(f"episode_{n:04d}", whole, seed))
        horizon = int(np.max(vec.env.horizon(vec.params)))
        played = host_play(key, vec, answer, max_steps=horizon, keep=_keep)
    return played, (run.usage, run.faults, run.tally)


def _count_games(
    played: Any,
    valid: list[list[bool]] | None,
    usage: Usage,
    faults: tuple[str, ...],
    tally: ReplyTally,
) -> PlayedGames:
    """Decisions by phase; `valid` has those that a reply has named, episode by episode."""
    if played.records is None:
        nothing = confusion(np.zeros(0, int), np.zeros(0, int), np.zeros(0, bool))
        return PlayedGames(nothing, nothing, 0, 0, usage, faults, tally)
    records = {name: np.asarray(x)[:, 0] for name, x in played.records.items()}
    decided, correct = records["decided"], records["correct"]
    answer = records["answer"]
    decision = np.where(correct, answer, 1 - answer)
    good = np.ones_like(decided)
    if valid is not None:
        for n, of_episode in enumerate(valid):
            places = np.flatnonzero(decided[n])
            good[n, places] = of_episode[: len(places)]
    parts = [
        confusion(*(x[decided & (records["query"] == phase)] for x in (answer, decision, good)))
        for phase in (False, True)
    ]
    ended = np.asarray(played.terminated)[:, 0]
    return PlayedGames(
        parts[0], parts[1], int((~good).sum()), int(ended.sum()), usage, faults, tally
    )
