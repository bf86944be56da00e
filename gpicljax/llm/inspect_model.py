"""Adapters to Inspect AI: its model as a `ChatModel`, and messages in its form.

The tasks are in `systems.in_context_rl.prompts.inspect_tasks` and in the systems' own folders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from gpicljax.checks import missing
from gpicljax.llm.chat import Message, ModelError, Reply, believed_usage, sound_text, usage_of

try:
    from inspect_ai.model import (  # pyright: ignore[reportMissingImports]
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        GenerateConfig,
        Model,
        get_model,
    )
    from inspect_ai.scorer import (  # pyright: ignore[reportMissingImports]
        Metric,
        SampleScore,
        Value,
        grouped,
        mean,
        metric,
        stderr,
    )
except ModuleNotFoundError as error:
    raise missing("inspect_ai", "llm") from error


_MESSAGES = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}
Result = TypeVar("Result")


def as_messages(messages: Sequence[Message]) -> list[Any]:
    """Messages as Inspect has them."""
    return [_MESSAGES[role](content=content) for role, content in messages]


@metric
def grouped_error(key: str) -> Metric:
    """Standard error of the samples with one entry of their metadata, for each entry."""
    inner: Any = grouped(stderr(), key, all=False)

    def errors(scores: list[SampleScore]) -> Value:
        return inner(scores)

    return errors


def by_group(key: str) -> list[Metric]:
    """Mean and standard error of the samples with one entry of their metadata, for each entry."""
    # Inspect keeps the first of two metrics of one name, so that the other needs its own.
    return [grouped(mean(), key, all=False), grouped_error(key)]


class InspectModel:
    """Inspect's model as a `chat.ChatModel`, asked from a thread of its own.

    Args:
      model: Inspect's.
      loop: where Inspect runs.

    Attributes:
      said: the last conversation, its reply included.
    """

    def __init__(self, model: Model, loop: asyncio.AbstractEventLoop) -> None:
        """See the class."""
        self.name, self._model, self._loop = str(model), model, loop
        self.sampling: dict[str, Any] = {}
        self.said: list[Message] = []

    def check(self) -> None:
        """Inspect has done so."""

    def __call__(self, messages: Sequence[Message], *, max_tokens: int, seed: int) -> Reply:
        """Returns a reply; Inspect tries again by itself."""
        config = GenerateConfig(max_tokens=max_tokens, seed=seed)
        pending = asyncio.run_coroutine_threadsafe(
            self._model.generate(as_messages(messages), config=config), self._loop
        )
        output = pending.result()
        if output.stop_reason == "model_length":
            raise ModelError("the conversation is too long for the model", "context")
        text = sound_text(output.completion)
        usage = usage_of(messages, text)
        if output.usage is not None:
            counted = output.usage.input_tokens, output.usage.output_tokens
            usage = believed_usage(counted, usage, max_tokens)
        self.said = [*messages, Message("assistant", text)]
        return Reply(text, usage, str(output.stop_reason))


async def with_model(
    play: Callable[[InspectModel, Path], Result],
) -> tuple[Result, list[Any]]:
    """Runs a session with Inspect's model, beside Inspect's own loop.

    Args:
      play: `(model, folder) -> result`; the folder, of transcripts, is gone in the end: the log of
        Inspect has it all.

    Returns:
      Its result, and the last conversation as Inspect has messages.

    Example:
      >>> async def replied():
      ...     question = [Message("user", "Is it cold?")]
      ...     return await with_model(lambda model, _: model(question, max_tokens=9, seed=0).text)
    """
    model = InspectModel(get_model(), asyncio.get_running_loop())

    def run() -> Result:
        with TemporaryDirectory() as folder:
            return play(model, Path(folder))

    result = await asyncio.to_thread(run)
    return result, as_messages(model.said)
