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
from typing import Annotated, Any

from gpicljax.checks import Count, Range, check_fields
from gpicljax.data.transcripts import Transcript
from gpicljax.llm.budget import Ledger
from gpicljax.llm.chat import ChatModel, Message, ModelError, Reply, Usage, usage_of
from gpicljax.storage.array_folder import SavedError

Seconds = Annotated[float, Range(0)]


class Interrupted(RuntimeError):
    """No reply, and no sense in asking on; the conversation can be gone on with later."""


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """How often and how long a request is tried.

    The n-th wait is `first * 2**n`, at most `most`, of which a random half is left out, so that
    many conversations do not come back at once; or what the server asks for, if that is longer.

    Attributes:
      attempts: of each request.
      first: seconds to wait after the first.
      most: the longest wait, the server's wishes included.

    Example:
      >>> RetryPolicy(first=1.0, most=5.0).wait(3, asked=None, share=1.0)
      5.0
      >>> RetryPolicy().wait(0, asked=30.0, share=0.0)
      30.0
    """

    attempts: Count = 6
    first: Seconds = 1.0
    most: Seconds = 60.0

    def __post_init__(self) -> None:
        check_fields(self)

    def wait(self, number: int, asked: float | None, share: float) -> float:
        """Seconds before trying again after so many waits; `share` in [0, 1] is drawn."""
        own = min(self.first * 2**number, self.most) * (0.5 + 0.5 * share)
        return min(max(own, asked or 0.0), self.most)


PATIENT = RetryPolicy()
"""What is usual."""


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

    Raises:
      SavedError: see `Transcript`.

    Example:
      >>> import tempfile
      >>> from gpicljax.llm.budget import Budget
      >>> from gpicljax.llm.chat import FakeModel
      >>> path, ledger = Path(tempfile.mkdtemp()) / "talk.jsonl", Ledger(Budget())
      >>> busy = {0: ModelError("busy (503)", "transient")}
      >>> model = FakeModel("Yes.", faults=busy)
      >>> question = [Message("user", "Is it cold?")]
      >>> with Conversation(model, path, {}, ledger, RetryPolicy(first=0.0)) as conversation:
      ...     conversation.ask(question).text, conversation.faults
      ('Yes.', ['turn 0, attempt 1: busy (503)'])
      >>> with Conversation(FakeModel("No."), path, {}, ledger) as conversation:
      ...     conversation.ask(question).text, conversation.recalled
      ('Yes.', 1)
    """

    def __init__(
        self,
        model: ChatModel,
        path: str | Path,
        about: Mapping[str, Any],
        ledger: Ledger,
        patience: RetryPolicy = PATIENT,
        max_tokens: int = 1024,
        seed: int = 0,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        """Opens the transcript; see the class."""
        self.model, self.ledger, self.patience = model, ledger, patience
        self.max_tokens, self.seed, self._sleep = max_tokens, seed, sleep
        self.transcript = Transcript(path, about)
        self.faults: list[str] = []
        self.usage = Usage(0, 0, 0)
        self.recalled = 0
        self._number = self._said = 0
        self._known: list[Mapping[str, Any]] = list(self.transcript.turns)

    def ask(self, messages: Sequence[Message]) -> Reply:
        """The reply to a conversation, from the transcript or from the model.

        Raises:
          BudgetSpent: if the request could cost more than is left.
          Interrupted: if there is none, however often it is tried.
          ModelError: with the fault `"context"`, if the conversation is too long.
          SavedError: if the transcript has another question in this place.
        """
        digest = _digest(messages)
        while self._known:
            turn = self._known.pop(0)
            self.faults.extend(turn["faults"])
            if "reply" not in turn:  # an earlier part was interrupted here
                continue
            return self._recall(turn, digest)
        return self._request(messages, digest)

    def _recall(self, turn: Mapping[str, Any], digest: str) -> Reply:
        if turn["question"] != digest:
            where = f"{self.transcript.path}, turn {self._number}"
            raise SavedError(f"{where}: the question was another one; it is of another run")
        usage = Usage(*turn["usage"])
        self.ledger.book(usage)
        self._number += 1
        self._said = turn["messages"]
        self.recalled += 1
        self.usage = self.usage + usage
        if turn["finish"] == "context":
            raise ModelError("the conversation is too long for the model", "context")
        return Reply(turn["reply"], usage, turn["finish"])

    def _request(self, messages: Sequence[Message], digest: str) -> Reply:
        most = usage_of(messages, "")._replace(completion=self.max_tokens)
        chance = random.Random(f"{self.seed} {self._number}")
        seed = chance.randrange(2**31)
        faults: list[str] = []
        self.ledger.reserve(most)
        reply, begun = None, time.monotonic()
        try:
            for attempt in range(self.patience.attempts):
                try:
                    reply = self.model(messages, max_tokens=self.max_tokens, seed=seed)
                    break
                except ModelError as error:
                    faults.append(f"turn {self._number}, attempt {attempt + 1}: {error}")
                    if error.fault in ("context", "useless"):
                        reply = Reply("", Usage(0, 0), error.fault)
                        break
                    if error.fault == "refused":
                        break
                    if attempt + 1 < self.patience.attempts:
                        wait = self.patience.wait(attempt, error.wait, chance.random())
                        if self._sleep(wait) is True:
                            break
        finally:
            self.ledger.settle(most, Usage(0, 0, 0) if reply is None else reply.usage)
        self.faults.extend(faults)
        if reply is None:
            self.transcript.append({"number": self._number, "faults": faults})
            raise Interrupted(faults[-1])
        # The part of the question that no earlier turn has shown.
        new = messages[self._said :] if len(messages) > self._said else messages
        self.transcript.append(
            {
                "number": self._number,
                "question": digest,
                "messages": len(messages) + 1,
                "asked": [list(message) for message in new],
                "reply": reply.text,
                "finish": reply.finish,
                "usage": list(reply.usage),
                "seconds": round(time.monotonic() - begun, 3),
                "faults": faults,
            }
        )
        self._number += 1
        self._said = len(messages) + 1
        self.usage = self.usage + reply.usage
        if reply.finish == "context":
            raise ModelError(faults[-1], "context")
        return reply

    def close(self) -> None:
        """Closes the transcript."""
        self.transcript.close()

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _digest(messages: Sequence[Message]) -> str:
    text = json.dumps([list(message) for message in messages], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
