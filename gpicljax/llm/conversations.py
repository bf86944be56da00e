"""Many conversations of one run: their folder, what they may spend together, and their threads.

A system asks series of questions (`Conversations.ask_series`), or has a model act in an environment
(`Conversations.play`); the words of its questions and the reading of answers are its own.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, TypeVar

import jax

from gpicljax.checks import check_at_least
from gpicljax.interface import ActionRequest
from gpicljax.llm.asking import PATIENT, Answer, Conversation, RetryPolicy
from gpicljax.llm.budget import UNLIMITED, Budget, Ledger, Stopped
from gpicljax.llm.chat import ChatModel, Message, Reply, Usage
from gpicljax.llm.outcomes import ReplyTally
from gpicljax.rollout import GIVE_UP, PlayedEpisodes, host_play
from gpicljax.rollout.host import HostSimulator
from gpicljax.rollout.traced import Keep
from gpicljax.storage.lock import exclusive
from gpicljax.typing import JsonObject
from gpicljax.vector import VectorEnv

_GRACE = 1.0  # seconds in which replies that have come are still written after Ctrl-C
_Job = tuple[Future[Any], Callable[[], Any]]
Value = TypeVar("Value")


class AskingOptions(TypedDict, total=False):
    """Options of everything that asks a model; see `Conversations` for the usual values.

    Attributes:
      budget: the most that all conversations may cost, earlier parts of the run included; or a
        ledger that several calls share.
      patience: how often a request is tried.
      max_tokens: tokens of the longest reply.
      at_once: requests that are made at the same time.
    """

    budget: Budget | Ledger
    patience: RetryPolicy
    max_tokens: int
    at_once: int


class Series(NamedTuple):
    """Questions that are asked one after the other, with a transcript of their own.

    Attributes:
      name: of the transcript.
      about: its header; see `Conversations.open`.
      seed: of the model's choices.
      questions: each with all messages that the model is to see.
    """

    name: str
    about: JsonObject
    seed: int
    questions: Iterable[Sequence[Message]]


class Conversations:
    """Conversations with a model that share a folder and a budget; models are asked in threads.

    Use it in a `with` statement: while it lasts no other process uses the folder. At its end,
    waits between retries are cut short, threads are joined, and transcripts are closed. After
    Ctrl-C, requests under way are given up: their replies are not awaited.

    Args:
      model: the model.
      folder: of the transcripts; made if it is not there.
      budget: see `AskingOptions`, as for the rest.
      patience: likewise.
      max_tokens: likewise.
      at_once: likewise.

    Raises:
      ValueError: for numbers below 1.
      LockedError: if another process uses the folder.
    """

    def __init__(
        self,
        model: ChatModel,
        folder: str | Path,
        budget: Budget | Ledger = UNLIMITED,
        patience: RetryPolicy = PATIENT,
        *,
        max_tokens: int = 1024,
        at_once: int = 8,
    ) -> None:
        """Nothing is opened yet; see the class."""
        check_at_least(1, max_tokens=max_tokens, at_once=at_once)
        self._model, self._folder, self._patience = model, Path(folder), patience
        self._max_tokens, self._at_once = max_tokens, at_once
        self._ledger = budget if isinstance(budget, Ledger) else Ledger(budget)
        self._halted = threading.Event()
        self._all: list[Conversation] = []
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()

    def __enter__(self) -> Conversations:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._held = exclusive(self._folder)
        # Those of an executor would be joined when Python ends, however long a model takes.
        self._threads = [
            threading.Thread(target=self._work, name=f"language-model-{n}", daemon=True)
            for n in range(self._at_once)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def _work(self) -> None:
        """Does what is submitted, until it is told to end."""
        while (job := self._jobs.get()) is not None:
            future, call = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

    def open(self, name: str, about: JsonObject, seed: int) -> Conversation:
        """Returns a conversation whose transcript has this name, and was begun about the same.

        Raises:
          SavedError: if there is a transcript of another run, or a damaged one.
        """
        header = {
            **about,
            "model": self._model.name,
            "sampling": dict(self._model.sampling),
            "max_tokens": self._max_tokens,
        }
        conversation = Conversation(
            self._model,
            self._folder / f"{name}.jsonl",
            header,
            self._ledger,
            self._patience,
            max_tokens=self._max_tokens,
            seed=seed,
            sleep=self._halted.wait,
        )
        self._all.append(conversation)
        return conversation

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Calls a function in one of the threads."""
        future: Future[Any] = Future()
        # Harnesses keep limits and logs in the context they call from.
        call = functools.partial(contextvars.copy_context().run, function, *arguments)
        self._jobs.put((future, call))
        return future

    def ask_series(
        self, all_series: Sequence[Series], read: Callable[[Reply], Value | None], form: str
    ) -> list[list[Answer[Value]]]:
        """Returns the answers to all questions, for each series in its order.

        Series are asked at the same time. A series that is stopped has fewer answers.

        Args:
          all_series: the questions.
          read: returns the answer in a reply; None if it can read none.
          form: the form of the answer that was asked for, in words.
        """

        def ask(conversation: Conversation, questions: Iterable[Sequence[Message]]) -> list[Any]:
            answers = []
            with contextlib.suppress(Stopped):
                for messages in questions:
                    answers.append(conversation.answer_or_silence(messages, read, form))
            return answers

        with self:
            opened = [self.open(*series[:3]) for series in all_series]
            jobs = [
                self.submit(ask, conversation, series.questions)
                for conversation, series in zip(opened, all_series, strict=True)
            ]
            return [job.result() for job in jobs]

    def play(
        self,
        key: jax.Array,
        batch: VectorEnv | HostSimulator,
        start_player: Callable[[int, Conversation], Callable[[ActionRequest], Any]],
        about: JsonObject,
        label: str,
        *,
        max_steps: int,
        keep: Keep,
    ) -> PlayedEpisodes:
        """Plays one trial on every instance, each with a conversation of its own.

        Models are asked in threads, environments step in one.

        Args:
          key: a typed key.
          batch: the environments.
          start_player: returns the function from requests to actions for an instance, by its
            number and its conversation. A `Stopped` that it raises ends the instance's trial.
          about: the header of all transcripts, to which the number and the key are added.
          label: the name of a trial, in the names of transcripts and in their headers.
          max_steps: see `host_play`.
          keep: likewise.
        """
        running: dict[Future[Any], int] = {}

        def act(number: int, request: ActionRequest) -> Any:
            try:
                return players[number](request)
            except Stopped:
                return GIVE_UP

        def act_all(requests: Mapping[int, ActionRequest]) -> dict[int, Any]:
            busy = set(running.values())
            for number, request in requests.items():
                if number not in busy:
                    running[self.submit(act, number, request)] = number
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            return {running.pop(future): future.result() for future in done}

        with self:
            players = []
            for number, seed in enumerate(trial_seeds(key, batch.num_envs)):
                header = {**about, label: number, "key": jax.random.key_data(key).tolist()}
                conversation = self.open(f"{label}_{number:04d}", header, seed)
                players.append(start_player(number, conversation))
            return host_play(key, batch, act_all, max_steps=max_steps, keep=keep)

    @property
    def usage(self) -> Usage:
        """Usage of all conversations, earlier parts included."""
        return sum((conversation.usage for conversation in self._all), Usage(0, 0, 0))

    @property
    def tally(self) -> ReplyTally:
        """Replies by outcome, of all conversations."""
        return sum((conversation.tally for conversation in self._all), ReplyTally())

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of all conversations, in words."""
        return tuple(fault for conversation in self._all for fault in conversation.faults)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        with contextlib.ExitStack() as closing:
            closing.callback(self._held.close)
            for conversation in self._all:
                closing.callback(conversation.close)
            self._halted.set()
            with contextlib.suppress(queue.Empty):
                while job := self._jobs.get_nowait():
                    job[0].cancel()
            for _ in self._threads:
                self._jobs.put(None)
            stopped = kind is not None and not issubclass(kind, Exception)
            end = time.monotonic() + _GRACE
            for thread in self._threads:
                thread.join(max(end - time.monotonic(), 0) if stopped else None)


def conversation_seed(seed: int, number: int) -> int:
    """Returns the seed of one of many conversations of a run."""
    return seed * 100_003 + number


def trial_seeds(key: jax.Array, count: int) -> list[int]:
    """Returns the seeds of the conversations of `Conversations.play`."""
    return [conversation_seed(int(jax.random.key_data(key)[-1]), n) for n in range(count)]


def summarise_run(text: str, usage: Usage, faults: Sequence[str], is_complete: bool) -> str:
    """Returns a text with what a run has spent, its last fault, and whether it is to go on."""
    last = f"{len(faults)} faults, the last: {faults[-1]}" if faults else "No faults."
    note = "" if is_complete else "\nNot complete: the same call goes on where it was left."
    return f"{text} {usage.in_words}. {last}{note}"


def changed_settings(settings: Any) -> dict[str, Any]:
    """The fields of a frozen dataclass that differ from their defaults, for a transcript's header.

    A field that a later version adds, with what was usual as its default, does not make earlier
    transcripts those of another run.
    """
    values = dataclasses.asdict(settings)
    usual = {field.name: field.default for field in dataclasses.fields(settings)}
    return {name: value for name, value in values.items() if value != usual[name]}
