"""Prompts of a trial of reinforcement learning, in this project's own words.

A trial is told in three ways. With explanations, the model is told what the task is; raw, it sees
numbers alone, as agents without language do. Its history is the whole conversation, or what it has
learnt so far is summed up in a table, with a question of its own for every action: literature has
it that this decides whether language models explore (Krishnamurthy et al., 2024).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np

from gpicljax import spaces
from gpicljax.checks import Count, Natural, Range, check, check_fields
from gpicljax.llm.parsing import WORD, Parsing
from gpicljax.llm.scenarios import ScenarioName
from gpicljax.typing import JsonObject

History = Literal["full", "summary"]
Wording = Literal["own", "paper"]
"""This project's own words, or those of the publication that a system is about."""


@dataclasses.dataclass(frozen=True)
class PromptSettings:
    """Settings of the prompts of a trial, and of the reading of replies.

    Attributes:
      explanations: whether the model is told what the task is.
      history: the whole conversation, or a summary for every question; see the module.
      tell_limit: whether it is told how many actions a trial has. The reference's description says
        so, its code does not.
      reasons: whether it is asked to think before it answers.
      parsing: what counts as an answer, see `parsing`.
      max_invalid: answers in a row that name no action after which the trial ends.
      decimals: of numbers that are written out.
      recent: the last steps that a summary tells one by one.
      permute_arms: whether a bandit's arms are numbered anew in every trial, so that a preference
        for a number is worth nothing.
      wording: this project's own, or that of the publication that a system is about. The latter
        has the whole history; of the other settings `explanations`, `parsing`, `max_invalid` and
        `permute_arms` apply to it.
      demonstrations: example decisions of an expert in another task of the same kind, which are
        told before the trial.
      scenario: what a bandit is told as; its arms have names there. See `llm.scenarios`.
      guidance: whether the summary tells each arm of a bandit as UCB1 sees it: the value of
        exploiting it and the bonus for exploring it.

    Raises:
      ValueError: for a value that is not accepted, the published wording of a summary or of a
        scenario, or guidance without a summary.

    Example:
      >>> PromptSettings(history="summary").max_invalid
      4
    """

    explanations: bool = False
    history: History = "full"
    tell_limit: bool = True
    reasons: bool = True
    parsing: Parsing = "lenient"
    max_invalid: Count = 4
    decimals: Annotated[int, Range(0, 12)] = 3
    recent: Count = 5
    permute_arms: bool = True
    wording: Wording = "own"
    demonstrations: Natural = 0
    scenario: ScenarioName = "none"
    guidance: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        whole = self.wording == "own" or self.history == "full"
        check(whole, "wording", self.wording, "own, where the history is a summary")
        plain = self.scenario == "none" and not self.demonstrations
        accepted_values = "own, with a scenario or demonstrations"
        check(self.wording == "own" or plain, "wording", self.wording, accepted_values)
        summed = not self.guidance or self.history == "summary"
        check(summed, "guidance", self.guidance, "False, unless the history is a summary")


DEFAULT = PromptSettings()
"""A trial told raw, with its whole history."""


def format_value(value: Any, decimals: int) -> str:
    """Returns an observation or an action in figures; the same on every machine."""
    array = np.asarray(value)
    if array.ndim > 0:
        return f"[{', '.join(format_value(x, decimals) for x in array)}]"
    if array.dtype.kind in "iub":
        return str(int(array))
    text = f"{float(array):.{decimals}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


def pay(value: float) -> str:
    """Returns a reward in as few figures as it needs."""
    return f"{round(float(value), 4):g}"


def answer_form(actions: spaces.Space) -> str:
    """Returns the form of an answer."""
    if isinstance(actions, spaces.Discrete):
        return f"[{WORD}: number]"
    count = int(np.prod(actions.shape))  # type: ignore[attr-defined]
    return f"[{WORD}: {', '.join(['number'] * count)}]"


def schema_request(answer: JsonObject, reasons: bool = False, field: str = "answer") -> str:
    """Returns the part of a request, as JSON, that holds a server to a form of answer.

    For `client.OpenAICompatible(..., options=schema_request(...))`. Replies are then JSON objects
    with the answer in a field, where `parsing.chosen` finds it.
    """
    first = {"reasons": {"type": "string"}} if reasons else {}
    properties = {**first, field: dict(answer)}
    schema = {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
    named = {"name": field, "strict": True, "schema": schema}
    return json.dumps({"response_format": {"type": "json_schema", "json_schema": named}})


NUMBER_PATTERN = r"-?[0-9]{1,6}(\.[0-9]{1,6})?"
"""A number in figures, in the regular expressions that servers know."""


def entries_schema(entries: Sequence[str], word: str = WORD) -> dict[str, Any]:
    r"""The JSON schema of an answer in brackets, from a regular expression for each entry."""
    return {"type": "string", "pattern": rf"^\[{word}: {', '.join(entries)}\]$"}


def action_schema(actions: spaces.Space, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Returns the JSON schema of the answers that name an action of a space.

    Numbers of a box have a form, but no bounds: one outside the box is an invalid answer.

    Args:
      actions: Discrete, MultiDiscrete or Box.
      names: of the actions, where they have names and not numbers.
    """
    if isinstance(actions, spaces.Discrete):
        choices = range(actions.n) if names is None else names
        return {"type": "string", "enum": [f"[{WORD}: {choice}]" for choice in choices]}
    if isinstance(actions, spaces.MultiDiscrete):
        patterns = [f"({'|'.join(map(str, range(n)))})" for n in actions.sizes]
        return entries_schema(patterns)
    count = int(np.prod(actions.shape))  # type: ignore[attr-defined]
    return entries_schema([NUMBER_PATTERN] * count)


def actions_in_words(actions: spaces.Space) -> str:
    """Describes the actions of a space."""
    if isinstance(actions, spaces.Discrete):
        return f"There are {actions.n} actions: {', '.join(map(str, range(actions.n)))}."
    if isinstance(actions, spaces.MultiDiscrete):
        ranges = "; ".join(f"0 to {n - 1}" for n in actions.sizes)
        return f"An action is {len(actions.sizes)} whole numbers, in this order: {ranges}."
    if isinstance(actions, spaces.UnevenBox):
        ranges = "; ".join(f"{low:g} to {high:g}" for low, high in actions.bounds)
        return f"An action is {len(actions.bounds)} numbers, in this order: {ranges}."
    low, high = actions.low, actions.high  # type: ignore[attr-defined]
    count = int(np.prod(actions.shape))  # type: ignore[attr-defined]
    numbers = "a number" if count == 1 else f"{count} numbers, each"
    return f"An action is {numbers} from {low:g} to {high:g}."


def observations_in_words(observations: spaces.Space) -> str:
    """Describes the observations of a space."""
    if isinstance(observations, spaces.Discrete):
        if observations.n == 1:
            return "What you observe is always 0."
        return f"What you observe is a number from 0 to {observations.n - 1}."
    count = spaces.flat_size(observations)
    return f"What you observe is {'a number' if count == 1 else f'{count} numbers'}."


def introduction(
    settings: PromptSettings,
    observations: spaces.Space,
    actions: spaces.Space,
    limit: int,
    explanation: str | None,
) -> str:
    """Returns the first message to the model.

    Args:
      settings: how the trial is told.
      observations: the space of what is seen.
      actions: the space of actions.
      limit: actions of the trial.
      explanation: what the task is, where it is to be explained.
    """
    task = explanation or (
        "You are playing an unknown game. Its rules stay the same throughout; find out by playing "
        "what is worth doing."
    )
    length = f" There are {limit} actions in all." if settings.tell_limit else ""
    thinking = "Think briefly first, then end" if settings.reasons else "Answer"
    return "\n\n".join(
        [
            task,
            f"{actions_in_words(actions)} {observations_in_words(observations)}",
            "After every action you are told its reward, which may be negative, and what you "
            "observe then. When an episode is over the next one begins at once, in the same game. "
            f"What counts is the sum of the rewards of all your actions, over all episodes."
            f"{length}",
            f"{thinking} with your choice in this form, exactly once: {answer_form(actions)}",
        ]
    )


def corrective(actions: spaces.Space, max_invalid: int) -> str:
    """Returns the message after an answer that names no action."""
    return (
        f"No action could be read from that. {actions_in_words(actions)} Name one of them, once, "
        f"in this form: {answer_form(actions)} (After {max_invalid} such answers in a row the game "
        "is over.)"
    )
