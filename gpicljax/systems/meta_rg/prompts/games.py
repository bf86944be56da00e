"""Language models play Meta-Referential Games: as listener to a rule, or as speaker to a listener.

An episode is a conversation on disk, every turn before the next is asked for; what was played
before is not asked again. The listener's protocol is that of Table 4, whose accuracies below one
half, in a game of two answers, say that the answers were biased or not valid: so the confusion
matrix stands beside the accuracy, answers are bounded, and their order can be turned round.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import jax
import numpy as np

from gpicljax.checks import check
from gpicljax.interface import ActionRequest, Agent
from gpicljax.llm.asking import Conversation
from gpicljax.llm.chat import ChatModel, Usage
from gpicljax.llm.conversations import AskingOptions, Conversations, changed_settings
from gpicljax.llm.outcomes import ReplyTally
from gpicljax.rollout import HostAgent, PlayedEpisodes, play, start_rollout
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.measures.listening import Confusion, confusion
from gpicljax.systems.meta_rg.prompts.sessions import (
    DIFFERENT,
    ListenerSession,
    ListenerSettings,
    SpeakerSession,
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


class _Player:
    """One episode of a model: its session and its conversation."""

    def __init__(
        self, session: ListenerSession | SpeakerSession, conversation: Conversation
    ) -> None:
        self.session, self._conversation = session, conversation
        self._is_over = False

    def ask(self, observation: Mapping[str, Any]) -> Any:
        """Returns the decision, or the message, after an observation."""
        session, value = self.session, None
        # A question that is too long, or refused for good, is not asked again: they only grow.
        if not self._is_over:
            answer = self._conversation.answer_or_silence(
                session.question(observation),
                lambda reply: session.answer_in(reply.text),
                session.form,
            )
            self._is_over, value = not answer.has_reply, answer.value
        return session.hear(value)  # pyright: ignore[reportArgumentType]


def play_listener(
    key: jax.Array,
    vec: VectorEnv,
    model: ChatModel,
    folder: str | Path,
    settings: ListenerSettings | None = None,
    **options: Unpack[AskingOptions],
) -> PlayedGames:
    """Plays one episode on every instance, with the model as listener to the environment's speaker.

    Args:
      key: a typed key.
      vec: of `MetaRG` in the listener's view, with compact actions and no distractors.
      model: the model.
      folder: of the transcripts; made if it is not there.
      settings: how it is asked.
      options: `budget`, `patience`, `max_tokens` (64 by default) and `at_once`; see
        `llm.conversations.AskingOptions`.

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

    def act(number: int, player: _Player, request: ActionRequest) -> Any:
        del number
        observation = _observation(request)
        if int(observation["round"]) == env.num_rounds:
            return np.int32(player.ask(observation))
        if int(observation["round"]) > env.num_rounds:
            player.session.add_outcome(observation)
        return np.int32(env.num_decisions)

    sessions = [
        ListenerSession(settings, env.vocab_size, env.message_length, env.stimulus)
        for _ in range(vec.num_envs)
    ]
    run = Conversations(model, folder, **(AskingOptions(max_tokens=64) | options))
    about = {"what": "meta-referential games, listener", "settings": changed_settings(settings)}
    played = _play(key, vec, model, run, sessions, act, about)
    return _count_games(played, run, [session.is_valid for session in sessions])


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

    return _count_games(play_all(key))


def play_speaker(
    key: jax.Array,
    vec: VectorEnv,
    model: ChatModel,
    folder: str | Path,
    listener: HostAgent,
    **options: Unpack[AskingOptions],
) -> PlayedGames:
    """Plays one episode on every instance, with the model as speaker.

    Args:
      key: a typed key.
      vec: of `MetaRG` in the players' view, without distractors.
      model: the model.
      folder: of the transcripts; made if it is not there.
      listener: chooses for both players, of which the listener's row counts: `nearest_listener`, or
        `rollout.on_host` of agents that learnt to play together.
      options: see `play_listener`; `max_tokens` is 256 by default.

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
    turn = threading.Lock()

    def act(number: int, player: _Player, request: ActionRequest) -> Any:
        observation = _observation(request)
        view = {name: x[SPEAKER] for name, x in observation.items() if name != "action_mask"}
        with turn:
            actions = np.array(listener({number: request})[number])
        actions[SPEAKER] = [env.num_decisions, *[0] * env.message_length]
        if int(view["round"]) < env.num_rounds:
            actions[SPEAKER, 1:] = player.ask(view)
        elif int(view["round"]) > env.num_rounds:
            player.session.add_outcome(view)
        return actions

    sessions = [
        SpeakerSession(env.vocab_size, env.message_length, env.stimulus)
        for _ in range(vec.num_envs)
    ]
    run = Conversations(model, folder, **(AskingOptions(max_tokens=256) | options))
    about = {"what": "meta-referential games, speaker"}
    played = _play(key, vec, model, run, sessions, act, about)
    invalid = sum(not valid for session in sessions for valid in session.is_valid)
    return _count_games(played, run)._replace(invalid=invalid)


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


def _observation(request: ActionRequest) -> dict[str, np.ndarray]:
    return jax.tree.map(np.asarray, request.timestep.observation)


_LATER_OPTIONS = (
    "descriptive_ratio",
    "samples",
    "withheld",
    "positions",
    "query_feedback",
    "minimal_pairs",
)
"""Options of the game and its rules that the first transcripts were written without."""


def _describe_options(options: Any) -> str:
    """Returns the `repr` of a dataclass, without later options that have their default.

    Transcripts name their environment by it, and those from before an option stay readable.
    """
    if not dataclasses.is_dataclass(options):
        return repr(options)
    shown = {
        field.name: _describe_options(getattr(options, field.name))
        for field in dataclasses.fields(options)
        if field.name not in _LATER_OPTIONS or getattr(options, field.name) != field.default
    }
    words = ", ".join(f"{name}={value}" for name, value in shown.items())
    return f"{type(options).__qualname__}({words})"


def _play(
    key: jax.Array,
    vec: VectorEnv,
    model: ChatModel,
    run: Conversations,
    sessions: Sequence[ListenerSession | SpeakerSession],
    act: Callable[[int, _Player, ActionRequest], Any],
    about: Mapping[str, Any],
) -> PlayedEpisodes:
    """Plays one episode on every instance; `act` returns an instance's next action."""
    # Answers are recorded, not shown.
    vec = VectorEnv(vec.env, vec.num_envs, resets="fresh", params=vec.params, privileged=True)
    model.check()
    header = {
        **about,
        "environment": _describe_options(vec.env),
        "params": jax.tree.map(lambda x: np.asarray(x).tolist(), vars(vec.params)),
    }

    def start_player(number: int, conversation: Conversation) -> Callable[[ActionRequest], Any]:
        return functools.partial(act, number, _Player(sessions[number], conversation))

    horizon = int(np.max(vec.env.horizon(vec.params)))
    return run.play(key, vec, start_player, header, "episode", max_steps=horizon, keep=_keep)


def _count_games(
    played: PlayedEpisodes,
    run: Conversations | None = None,
    valid: Sequence[Sequence[bool]] = (),
) -> PlayedGames:
    """Decisions by phase, and what a run has spent.

    Args:
      played: the episodes.
      run: the conversations of a language model, if one has played.
      valid: of a listener, which replies named a decision, episode by episode.
    """
    spent = (Usage(0, 0, 0), (), ReplyTally())
    if run is not None:
        spent = run.usage, run.faults, run.tally
    if played.records is None:
        nothing = confusion(np.zeros(0, int), np.zeros(0, int), np.zeros(0, bool))
        return PlayedGames(nothing, nothing, 0, 0, *spent)
    records = {name: np.asarray(x)[:, 0] for name, x in played.records.items()}
    decided, correct = records["decided"], records["correct"]
    answer = records["answer"]
    decision = np.where(correct, answer, 1 - answer)
    good = np.ones_like(decided)
    for number, episode_valid in enumerate(valid):
        places = np.flatnonzero(decided[number])
        good[number, places] = episode_valid[: len(places)]
    parts = [
        confusion(*(x[decided & (records["query"] == phase)] for x in (answer, decision, good)))
        for phase in (False, True)
    ]
    ended = np.asarray(played.terminated)[:, 0]
    return PlayedGames(parts[0], parts[1], int((~good).sum()), int(ended.sum()), *spent)
