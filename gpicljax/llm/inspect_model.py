"""Adapters to Inspect AI: its model as a `ChatModel`, and the parts that all tasks share.

The tasks are in `prompts.inspect_tasks` of the systems.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax

from gpicljax.checks import missing
from gpicljax.llm.chat import Message, ModelError, Reply, believed_usage, sound_text, usage_of

# pyright: reportMissingImports=false
try:
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        GenerateConfig,
        Model,
        get_model,
    )
    from inspect_ai.scorer import (
        Metric,
        SampleScore,
        Score,
        Target,
        Value,
        grouped,
        mean,
        metric,
        stderr,
    )
    from inspect_ai.solver import Generate, Solver, TaskState
except ModuleNotFoundError as error:
    raise missing("inspect_ai", "llm") from error


_MESSAGES = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


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


def play_samples(
    play: Callable[[Mapping[str, Any], jax.Array, InspectModel, Path], Mapping[str, Any]],
) -> Solver:
    """Returns a solver that plays a sample with Inspect's model, beside Inspect's own loop.

    Args:
      play: `(metadata, key, model, folder) -> entries` of the sample's store, among them `measures`
        and `report` for `score_stored`. The key follows from the sample's seed, which its metadata
        has, and from the epoch. The folder, of transcripts, is gone in the end: the log of Inspect
        has it all.

    Example:
      >>> def has_asked(metadata, key, model, folder):
      ...     reply = model([Message("user", "Is it cold?")], max_tokens=9, seed=0)
      ...     return {"measures": {"length": len(reply.text)}, "report": reply.text}
      >>> solver = play_samples(has_asked)
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        del generate
        model = InspectModel(get_model(), asyncio.get_running_loop())
        key = jax.random.fold_in(jax.random.key(state.metadata["seed"]), state.epoch)

        def run() -> Mapping[str, Any]:
            with TemporaryDirectory() as folder:
                return play(state.metadata, key, model, Path(folder))

        for name, value in (await asyncio.to_thread(run)).items():
            state.store.set(name, value)
        state.messages = as_messages(model.said)
        return state

    return solve


def score_stored(names: Sequence[str]) -> Any:
    """Returns a scorer of what `play_samples` stored: measures by name, NaN where there is none."""

    async def score(state: TaskState, target: Target) -> Score:
        del target
        measures = state.store.get("measures", {})
        values: Any = {name: float(measures.get(name, float("nan"))) for name in names}
        about = state.store.get("about", {})
        return Score(value=values, explanation=state.store.get("report", ""), metadata=about)

    return score
