"""Language models: from messages to a reply; their faults; models that are fakes.

A `ChatModel` is called from several threads at once. What it cannot answer it raises as a
`ModelError`, which says what is to be done about it; the caller (`asking.Conversation`) tries
again, gives up or goes on.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from gpicljax.checks import check

Role = Literal["system", "user", "assistant"]
Fault = Literal["transient", "context", "useless", "refused", "unknown", "broken"]


class Message(NamedTuple):
    """One message of a conversation.

    Example:
      >>> Message("user", "Which arm?").role
      'user'
    """

    role: Role
    content: str


class Usage(NamedTuple):
    """Tokens of one request, or of many.

    Attributes:
      prompt: tokens read.
      completion: tokens written.
      requests: how many.

    Example:
      >>> Usage(10, 2) + Usage(30, 4)
      Usage(prompt=40, completion=6, requests=2)
    """

    prompt: int = 0
    completion: int = 0
    requests: int = 1

    def __add__(self, added: Any) -> Usage:
        return Usage(*(a + b for a, b in zip(self, added, strict=True)))

    @property
    def total(self) -> int:
        """Tokens read and written."""
        return self.prompt + self.completion

    @property
    def in_words(self) -> str:
        """Requests and tokens."""
        return (
            f"{self.requests:,} requests, {self.prompt:,} tokens read, {self.completion:,} written"
        )


_ONE_REQUEST = Usage()


class Reply(NamedTuple):
    """A model's answer.

    Attributes:
      text: the answer.
      usage: tokens of the request.
      finish: why the answer ends there, as the model reports it: `"stop"`, `"length"`, `"refusal"`
        (the text is then the words of the refusal) and so on; see `outcomes.outcome_of`.

    Example:
      >>> reply = Reply("The first arm. [SELECT: 0]", Usage(prompt=40, completion=9))
      >>> reply.finish, reply.usage.total
      ('stop', 49)
    """

    text: str
    usage: Usage
    finish: str = "stop"


def sound_text(text: str) -> str:
    r"""A text that can be encoded: halves of surrogate pairs become U+FFFD, whole pairs are joined.

    Decoders that work token by token write such halves.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class ModelError(RuntimeError):
    """A request that brought no reply.

    Attributes:
      fault: `"transient"`: it may be asked again (busy, broken or silent servers); `"context"`: the
        conversation is too long for the model; `"useless"`: the answer cannot be used and would not
        be another (far too long): it counts as a reply that says nothing; `"refused"`: asking again
        is of no use (key, model, request); `"unknown"`: a refusal for a reason that is not
        understood; `"broken"`: an answer that is cut off or malformed, or an internal error of the
        server, which may pass or come of this very question.
      wait: seconds that the server asks to wait; None if it does not say.
      usage: what the request has cost all the same; one request by default.

    Example:
      >>> ModelError("the server is busy (429)", "transient", wait=2.0).wait
      2.0
    """

    def __init__(
        self, message: str, fault: Fault, wait: float | None = None, usage: Usage = _ONE_REQUEST
    ) -> None:
        super().__init__(sound_text(message))
        self.fault: Fault = fault
        self.wait, self.usage = wait, usage


class ChatModel(Protocol):
    """A language model: messages in, a reply out; see the module.

    Example:
      >>> def ask(model: ChatModel) -> str:
      ...     return model([Message("user", "Which arm?")], max_tokens=8, seed=0).text
      >>> ask(FakeModel("[SELECT: 1]"))
      '[SELECT: 1]'
    """

    @property
    def name(self) -> str:
        """The model's name in tables and transcripts."""
        ...

    @property
    def sampling(self) -> Mapping[str, Any]:
        """Settings on which replies depend beside the name, for JSON; a run never goes on with
        others.
        """
        ...

    def __call__(self, messages: Sequence[Message], *, max_tokens: int, seed: int) -> Reply:
        """Returns the reply to a conversation whose last message is the user's.

        Args:
          messages: the conversation.
          max_tokens: the longest reply.
          seed: of its choices, where the model has a use for one; different for every turn.
        """
        ...

    def check(self) -> None:
        """Refuses, before anything is spent, what can be known to fail."""
        ...


def estimated_tokens(text: str) -> int:
    """Returns an estimate of the tokens of a text: a quarter of its bytes, rounded up."""
    return -(-len(text.encode(errors="replace")) // 4)


def usage_of(messages: Sequence[Message], text: str) -> Usage:
    """Returns an estimate of the tokens of a request, a few for every message's role included."""
    prompt = sum(4 + estimated_tokens(message.content) for message in messages)
    return Usage(prompt, estimated_tokens(text))


def believed_usage(counted: tuple[object, object], measured: Usage, max_tokens: int) -> Usage:
    """Tokens as a server counts them, or as they are measured where its count cannot be right.

    A count below an eighth of the estimate is not believed, so that a budget is spent in any case.
    Templates add to prompts, and reasoning that is not shown adds to replies, within limits.

    Args:
      counted: tokens read and written, as the server gives them.
      measured: the estimate; see `usage_of`.
      max_tokens: the longest reply.
    """

    def one(count: object, estimate: int, extra: int) -> int:
        if not isinstance(count, int) or isinstance(count, bool):
            return estimate
        return count if estimate <= 8 * count <= 8 * (4 * estimate + extra) else estimate

    prompt = one(counted[0], measured.prompt, 10_000)
    completion = one(counted[1], measured.completion, max(max_tokens, 100_000))
    return Usage(prompt, completion, measured.requests)


@dataclasses.dataclass
class FakeModel:
    """A model that is a function of the conversation: deterministic, and costs nothing.

    Attributes:
      answer: `(messages, seed) -> text`, or a text that is always given.
      name: of the model.
      faults: errors to be raised instead, by the number of the request, counted from 0 over all
        conversations.
      context_tokens: beyond which a conversation is too long; None for never.
      requests: how many there have been.

    Example:
      >>> model = FakeModel(lambda messages, seed: f"[SELECT: {len(messages) % 2}]")
      >>> model([Message("user", "Which arm?")], max_tokens=8, seed=0).text
      '[SELECT: 1]'
    """

    answer: Callable[[Sequence[Message], int], str] | str
    name: str = "fake"
    faults: Mapping[int, Exception] = dataclasses.field(default_factory=dict)
    context_tokens: int | None = None
    requests: int = 0

    def __post_init__(self) -> None:
        fits = callable(self.answer) or isinstance(self.answer, str)
        check(fits, "answer", self.answer, "a function of messages and seed, or a text")
        self._lock = threading.Lock()

    @property
    def sampling(self) -> Mapping[str, Any]:
        """Returns nothing: a function has no settings that could be compared."""
        return {}

    def check(self) -> None:
        """Nothing can fail."""

    def __call__(self, messages: Sequence[Message], *, max_tokens: int, seed: int) -> Reply:
        """Returns the function's answer, cut at `max_tokens`."""
        with self._lock:
            number = self.requests
            self.requests += 1
        if number in self.faults:
            raise self.faults[number]
        text = self.answer if isinstance(self.answer, str) else self.answer(messages, seed)
        text = sound_text(text)
        usage = usage_of(messages, text)
        if self.context_tokens is not None and usage.prompt > self.context_tokens:
            raise ModelError(f"more than {self.context_tokens} tokens", "context")
        if usage.completion <= max_tokens:
            return Reply(text, usage)
        text = text.encode()[: 4 * max_tokens].decode(errors="ignore")
        return Reply(text, usage_of(messages, text), "length")
