"""A conversation on disk: asks, tries again, counts, and goes on where it was left.

Whatever is built of model calls (trials of reinforcement learning, questions about an agent's mind)
asks through a `Conversation`. What was answered before is read from its transcript, without a
request: so a run that is started again is the same program run again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from gpicljax.checks import Count, Range, check_fields
from gpicljax.data.transcripts import Transcript
from gpicljax.llm.budget import BudgetSpent, Ledger, Stopped
from gpicljax.llm.chat import (
    ChatModel,
    Fault,
    Message,
    ModelError,
    Reply,
    Usage,
    sound_text,
    usage_of,
)
from gpicljax.llm.outcomes import Outcome, ReplyTally, outcome_of
from gpicljax.storage.array_folder import SavedError
from gpicljax.typing import JsonObject

Seconds = Annotated[float, Range(0)]
Value = TypeVar("Value")

_ENDS: Mapping[str, tuple[str, Fault]] = {
    "context": ("the conversation is too long for the model", "context"),
    "unanswered": (
        "the server refuses or spoils this question, however often it is asked",
        "refused",
    ),
}
"""Finish reasons on record that end a conversation: what is said of them, and their fault."""


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """The number and length of the attempts of a request.

    The n-th wait is `first * 2**n`, at most `most`, of which a random half is left out, so that
    many conversations do not come back at once; or what the server asks for, if that is longer.

    Attributes:
      attempts: of each request.
      first: seconds to wait after the first.
      most: the longest wait, the server's wishes included.

    Example:
      >>> RetryPolicy(first=1.0, most=5.0).wait(3, server_wait=None, share=1.0)
      5.0
      >>> RetryPolicy().wait(0, server_wait=30.0, share=0.0)
      30.0
    """

    attempts: Count = 6
    first: Seconds = 1.0
    most: Seconds = 60.0

    def __post_init__(self) -> None:
        check_fields(self)

    def wait(self, number: int, server_wait: float | None, share: float) -> float:
        """Seconds before trying again after so many waits; `share` in [0, 1] is drawn."""
        backoff = min(self.first * 2**number, self.most) * (0.5 + 0.5 * share)
        return min(max(backoff, server_wait or 0.0), self.most)


PATIENT = RetryPolicy()
"""What is usual."""


class Answer(NamedTuple, Generic[Value]):
    """The answer to a question.

    Attributes:
      text: the whole reply.
      value: the answer in it; None if none can be read.
      outcome: see `outcomes.Outcome`.
      has_reply: whether the text is a reply, not silence for want of one.
    """

    text: str
    value: Value | None
    outcome: Outcome
    has_reply: bool = True


class Conversation:
    """One conversation with a model, every turn of which is on disk before the next is asked for.

    Args:
      model: the model.
      path: of the transcript.
      about: what it is about; see `Transcript`.
      ledger: what all conversations of the run have spent.
      patience: how often a request is tried.
      max_tokens: the longest reply.
      seed: of the conversation; every turn's is made of it.
      sleep: waits so many seconds; if it returns True, it is not tried again.

    Attributes:
      faults: what went wrong, in words, in the order in which it did; of earlier parts too.
      usage: of this conversation, earlier parts included.
      recalled: turns that came from the transcript.
      tally: replies by outcome, as `answer` counted them.
    """

    def __init__(
        self,
        model: ChatModel,
        path: str | Path,
        about: JsonObject,
        ledger: Ledger,
        patience: RetryPolicy = PATIENT,
        max_tokens: int = 1024,
        seed: int = 0,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Opens the transcript; see the class."""
        self.model, self.ledger, self.patience = model, ledger, patience
        self.max_tokens, self.seed, self._sleep = max_tokens, seed, sleep
        self.transcript = Transcript(path, about)
        self.faults: list[str] = []
        self.usage = Usage(0, 0, 0)
        self.recalled = 0
        self.tally = ReplyTally()
        self._number = self._said = 0
        self._odd_before = False
        self._known: list[Mapping[str, Any]] = list(self.transcript.turns)
        for turn in self._known:
            spent = Usage(*turn.get("usage", (0, 0, 0)))
            self.usage = self.usage + spent
            ledger.book(spent)
            if turn.get("finish", "unanswered") not in _ENDS:
                ledger.note_answer(turn.get("prompt", spent.prompt))

    def ask(self, messages: Sequence[Message]) -> Reply:
        """Returns the reply to a conversation, from the transcript or from the model.

        Raises:
          BudgetSpent: a `Stopped`; if the request could cost more than is left.
          Stopped: if there is none, however often it is tried.
          ModelError: with the fault `"context"`, if the conversation is too long; with `"refused"`,
            if the server refuses or spoils this question for an unknown reason, while it answers
            others. Neither is asked again.
          SavedError: if the transcript has another question in this place.
        """
        digest = _digest(messages)
        while self._known:
            turn = self._known.pop(0)
            self.faults.extend(turn["faults"])
            if "reply" not in turn:  # an earlier part was interrupted here
                self._odd_before = self._odd_before or turn.get("odd", False)
                continue
            return self._recall(turn, digest)
        return self._request(messages, digest)

    def answer(
        self, messages: Sequence[Message], read: Callable[[Reply], Value | None], form: str
    ) -> Answer[Value]:
        """Returns the answer to a question, counted by its outcome here and in the ledger.

        Args:
          messages: the conversation, with the question at its end.
          read: returns the answer in a reply; None if it can read none.
          form: the form of the answer that was asked for, in words.

        Raises:
          Stopped: see `ask`.
          ModelError: likewise; it is not counted.
          SavedError: likewise.
        """
        return self._count_reply(self.ask(messages), read, form)

    def answer_or_silence(
        self, messages: Sequence[Message], read: Callable[[Reply], Value | None], form: str
    ) -> Answer[Value]:
        """Returns `answer`, or an empty reply to a question that is never going to have one."""
        try:
            return self.answer(messages, read, form)
        except ModelError as error:  # too long, or refused for good
            silence = Reply("", Usage(0, 0, 0), error.fault)
            return self._count_reply(silence, read, form)._replace(has_reply=False)

    def _count_reply(
        self, reply: Reply, read: Callable[[Reply], Value | None], form: str
    ) -> Answer[Value]:
        value = read(reply)
        outcome = outcome_of(reply.finish, value is not None)
        self.tally.add(outcome, reply.text, form)
        self.ledger.judge(outcome, reply.text, form)
        return Answer(reply.text, value, outcome)

    def _recall(self, turn: JsonObject, digest: str) -> Reply:
        if turn["question"] != digest:
            place = f"{self.transcript.path}, turn {self._number}"
            raise SavedError(f"{place}: the question was another one; it is of another run")
        self.recalled += 1
        return self._recorded_reply(turn)

    def _recorded_reply(self, turn: JsonObject) -> Reply:
        """Returns the reply of a turn that is on record."""
        self._number += 1
        self._said, self._odd_before = turn["messages"], False
        if turn["finish"] in _ENDS:
            raise ModelError(*_ENDS[turn["finish"]])
        return Reply(turn["reply"], Usage(*turn["usage"]), turn["finish"])

    def _request(self, messages: Sequence[Message], digest: str) -> Reply:
        chance, begun = random.Random(f"{self.seed} {self._number}"), time.monotonic()
        seed = chance.randrange(2**31)
        most = usage_of(messages, "")._replace(completion=self.max_tokens)
        reply, error = None, None
        faults: list[str] = []
        spent, tried = Usage(0, 0, 0), 0
        try:
            while reply is None and tried < self.patience.attempts:
                if error is not None:
                    wait = self.patience.wait(tried - 1, error.wait, chance.random())
                    if self._sleep(wait) is True:
                        break
                tried += 1
                reply, error, cost = self._attempt(messages, seed, most)
                spent = spent + cost
                if error is not None:
                    faults.append(f"turn {self._number}, attempt {tried}: {error}")
                    if error.fault == "refused":
                        break
        except BudgetSpent as error:
            if faults:
                self._interrupt(faults, spent, odd=False)
            self.faults.append(str(error))
            raise
        last = None if error is None or tried < self.patience.attempts else error.fault
        odd = reply is None and last in ("unknown", "broken")
        # A server that answers other questions refuses this one; or another run met the same.
        if odd and (self._odd_before or (last == "unknown" and self.ledger.longest > 0)):
            longer = last == "unknown" and most.prompt > self.ledger.longest > 0
            reply = Reply("", spent, "context" if longer else "unanswered")
        if reply is None:
            self._interrupt(faults, spent, odd)
            raise Stopped(faults[-1])
        # The part of the question that no earlier turn has shown.
        new = messages[self._said :] if len(messages) > self._said else messages
        turn = {
            "number": self._number,
            "question": digest,
            "messages": len(messages) + 1,
            "asked": [list(message) for message in new],
            "reply": reply.text,
            "finish": reply.finish,
            "prompt": most.prompt,
            "usage": list(spent),
            "seconds": round(time.monotonic() - begun, 3),
            "faults": faults,
        }
        self._keep(turn, spent)
        if reply.finish not in _ENDS:
            self.ledger.note_answer(most.prompt)
        return self._recorded_reply(turn)

    def _attempt(
        self, messages: Sequence[Message], seed: int, most: Usage
    ) -> tuple[Reply | None, ModelError | None, Usage]:
        """A reply, what is wrong, and the cost; a fault that ends the turn gives an empty reply."""
        self.ledger.reserve(most)
        spent, error = Usage(0, 0, 1), None
        try:
            reply = self.model(messages, max_tokens=self.max_tokens, seed=seed)
            reply = reply._replace(text=sound_text(reply.text))
            if reply.finish in (*_ENDS, "useless"):  # words of this module, not of a model
                reply = reply._replace(finish="other")
            spent = reply.usage
        except ModelError as fault:
            error, spent = fault, fault.usage
            ends = fault.fault in ("context", "useless")
            reply = Reply("", spent, fault.fault) if ends else None
        finally:
            self.ledger.settle(most, spent)
        return reply, error, spent

    def _interrupt(self, faults: list[str], spent: Usage, odd: bool) -> None:
        turn = {"number": self._number, "faults": faults, "usage": list(spent), "odd": odd}
        self._keep(turn, spent)

    def _keep(self, turn: JsonObject, spent: Usage) -> None:
        """Writes a turn and counts it."""
        self.transcript.append(turn)
        self.faults.extend(turn["faults"])
        self.usage = self.usage + spent

    def close(self) -> None:
        """Closes the transcript."""
        self.transcript.close()

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _digest(messages: Sequence[Message]) -> str:
    text = json.dumps([list(message) for message in messages], ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()
