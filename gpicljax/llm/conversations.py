"""Many conversations of one run: their folder, what they may spend together, and their threads."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from gpicljax.checks import check_at_least
from gpicljax.llm.asking import PATIENT, Conversation, RetryPolicy
from gpicljax.llm.budget import UNLIMITED, Budget, Ledger
from gpicljax.llm.chat import ChatModel, Usage
from gpicljax.llm.outcomes import ReplyTally
from gpicljax.storage.lock import exclusive
from gpicljax.typing import JsonObject

_GRACE = 1.0  # seconds in which replies that have come are still written after Ctrl-C
_Job = tuple[Future[Any], Callable[[], Any]]


class Conversations:
    """Conversations with a model that share a folder and a budget; models are asked in threads.

    Use it in a `with` statement: while it lasts no other process uses the folder. At its end,
    waits between retries are cut short, threads are joined, and transcripts are closed. After
    Ctrl-C, requests under way are given up: their replies are not awaited.

    Args:
      model: the model.
      folder: of the transcripts; made if it is not there.
      budget: what all may cost, earlier parts of the run included; or the ledger of several
        folders that share a budget.
      patience: how often a request is tried.
      max_tokens: the longest reply.
      at_once: requests that are made at the same time.

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


def changed_settings(settings: Any) -> dict[str, Any]:
    """The fields of a frozen dataclass that differ from their defaults, for a transcript's header.

    A field that a later version adds, with what was usual as its default, does not make earlier
    transcripts those of another run.
    """
    values = dataclasses.asdict(settings)
    usual = {field.name: field.default for field in dataclasses.fields(settings)}
    return {name: value for name, value in values.items() if value != usual[name]}
