"""Questions about an agent as messages, and the answers in replies to them.

Source: appendix B of Lu et al. (2024), "Mental modelling of reinforcement learning agents by
language models", for what is told and asked; the words are this project's. So are the answers'
form, `[ANSWER: ...]`, of which the last one in a reply counts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpicljax.checks import check, check_fields
from gpicljax.llm.chat import Message
from gpicljax.llm.parsing import bracketed_answer
from gpicljax.llm.prompts import (
    NUMBER_PATTERN,
    Wording,
    entries_schema,
    format_value,
    pay,
    schema_request,
)
from gpicljax.spaces import Box, Discrete
from gpicljax.systems.mental_modelling.measures.questions import (
    DECREASE,
    INCREASE,
    UNCHANGED,
    Queries,
)
from gpicljax.systems.mental_modelling.prompts.paper import (
    WORDS,
    is_paper_echo,
    paper_answer_schema,
    paper_entries,
    paper_question_text,
    paper_system_text,
)
from gpicljax.systems.mental_modelling.prompts.tasks import TASKS, task_text

WORD = "ANSWER"
CHANGES = {DECREASE: "decrease", INCREASE: "increase", UNCHANGED: "unchanged"}
"""Words for classes of change."""
_VOTES = {"yes": 1, "no": 0}
_WORDS: Mapping[str, Mapping[str, int]] = {
    "vote": _VOTES,
    "change": {word: number for number, word in CHANGES.items()},
}
_NUMBERED = ("discrete", "bins")
_SHOWN: Mapping[str, str] = {
    "next_action": "At step {i} the state is {state}.",
    "last_action": "At step {i} the state was {state}, at step {k} it is {next_state}.",
    "argue": (
        "At step {i} the state is {state}. It is said that the agent then takes action {action}."
    ),
    "next_state": (
        "At step {i} the state is {state}; the agent takes action {action} and is paid {reward}."
    ),
    "last_state": (
        "At step {i} the agent took action {action}; at step {k} the state is {next_state}."
    ),
}
"""Facts of a state, told before a question. Steps are `i` and `k`, the one after it."""
_ASKED: Mapping[str, str] = {
    "next_action": "Which action does the agent take at step {i}?",
    "last_action": "Which action did the agent take at step {i}?",
    "argue": "Argue for it or against it: is it what the agent does?",
    "next_state": "What is the state at step {k}?",
    "last_state": "What was the state at step {i}?",
}
_ASKED_CHANGES: Mapping[str, str] = {
    "next_state": "How does each element of the state change at step {k}?",
    "last_state": "How did each element of the state change from step {i} to step {k}?",
}
"""Questions about states of several elements."""


@dataclasses.dataclass(frozen=True)
class QuestionSettings:
    """The form of a question: the conditions of sections 5.2 to 5.4.

    Attributes:
      indexed: whether the history is told step by step, each with its number; else in three lists.
      dynamics: whether the equations of motion are told, where there are any.
      instructions: whether anything is told about the task at all.
      reasons: whether the model is asked to think before it answers, as in the paper.
      wording: this project's own, or the published one; see `prompts.paper`. The latter tells the
        task and asks for reasons.

    Raises:
      ValueError: for the published wording without instructions or reasons.

    Example:
      >>> QuestionSettings(dynamics=False).in_words
      'indexed, no dynamics'
    """

    indexed: bool = True
    dynamics: bool = True
    instructions: bool = True
    reasons: bool = True
    wording: Wording = "own"

    def __post_init__(self) -> None:
        check_fields(self)
        whole = self.wording == "own" or (self.instructions and self.reasons)
        check(whole, "wording", self.wording, "own, without instructions or without reasons")

    @property
    def in_words(self) -> str:
        """Returns the settings in words, as results have them."""
        words = ["indexed" if self.indexed else "lists"]
        words += [] if self.dynamics or not self.instructions else ["no dynamics"]
        words += [] if self.instructions else ["no instructions"]
        words += [] if self.reasons else ["no reasoning"]
        words += [] if self.wording == "own" else ["published wording"]
        return ", ".join(words)


DEFAULT = QuestionSettings()
"""The paper's condition, with an indexed history."""


def system_text(queries: Queries, settings: QuestionSettings = DEFAULT) -> str:
    """Returns the description of the task; without instructions only that an agent is watched.

    Raises:
      ValueError: if instructions are wanted for a task that has no text.
    """
    if settings.wording == "paper":
        return paper_system_text(queries, settings.dynamics)
    watching = (
        "You watch an agent that was trained by reinforcement learning, and are asked about what "
        "it does and what follows from it."
    )
    if not settings.instructions:
        return watching
    text = task_text(queries.environment)
    expected = f"one of {', '.join(TASKS)}, or settings without instructions"
    check(text is not None, "queries.environment", queries.environment, expected)
    assert text is not None
    parts = {
        "Task": text.task,
        "States": text.states,
        "Actions": text.actions,
        "Rewards": text.rewards,
        "Dynamics": text.dynamics if settings.dynamics else "",
        "Start": text.start,
        "End": text.end,
    }
    lines = [f"{name}: {words}" for name, words in parts.items() if words]
    return "\n".join([watching, "", *lines])


def question_text(queries: Queries, number: int, settings: QuestionSettings = DEFAULT) -> str:
    """Returns one query in words."""
    if settings.wording == "paper":
        return paper_question_text(queries, number, settings.indexed)
    history = _history(queries, number, settings)
    if queries.goal is not None:
        history = [f"The goal is {_numbers(queries, queries.goal[number])}.", *history]
    thinking = (
        "Think step by step and briefly, then end with your answer in this form:"
        if settings.reasons
        else "Give nothing but your answer, in this form:"
    )
    question = f"{_question(queries, number)}\n{_answer_instructions(queries)}"
    return "\n\n".join([*history, f"{question}\n{thinking} [{WORD}: {placeholder(queries)}]"])


def placeholder(queries: Queries) -> str:
    """Returns the placeholder of an answer in the form that is asked for.

    It is no answer itself: models repeat an answer that they are shown.
    """
    kind = "word" if queries.form in ("vote", "change") else "number"
    return ", ".join([kind] * queries.truth.shape[1])


def is_echo(text: str, queries: Queries, settings: QuestionSettings = DEFAULT) -> bool:
    """Returns whether a reply's answer is the placeholder itself."""
    if settings.wording == "paper":
        return is_paper_echo(text, queries)
    inside = bracketed_answer(text, "lenient", WORD)
    return inside is not None and inside.strip().lower() == placeholder(queries)


def question_messages(
    queries: Queries, number: int, settings: QuestionSettings = DEFAULT
) -> list[Message]:
    """Returns one query as a conversation.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import build_queries
      >>> asked = build_queries(episode_from_actions([0, 1, 1]), "next_action", history=2)
      >>> settings = QuestionSettings(instructions=False)
      >>> [message.role for message in question_messages(asked, 0, settings)]
      ['system', 'user']
    """
    system = Message("system", system_text(queries, settings))
    return [system, Message("user", question_text(queries, number, settings))]


def answer_schema(queries: Queries, settings: QuestionSettings = DEFAULT) -> str:
    """Returns additions to a request that hold a server to the form that is asked for.

    See `llm.prompts.schema_request`; `answer_in` reads the replies.
    """
    if settings.wording == "paper":
        return schema_request(paper_answer_schema(queries), settings.reasons)
    if queries.form == "absolute":
        entry = NUMBER_PATTERN
    else:
        words = (
            [str(n) for n in range(_count_choices(queries))] if queries.form in _NUMBERED else []
        )
        words += CHANGES.values() if queries.form == "change" else []
        words += _VOTES if queries.form == "vote" else []
        entry = f"({'|'.join(words)})"
    return schema_request(entries_schema([entry] * queries.truth.shape[1], WORD), settings.reasons)


def answer_in(
    text: str, queries: Queries, settings: QuestionSettings = DEFAULT
) -> list[float] | None:
    """Returns the answer in a reply, in the form of `Queries.truth`; None if none can be read.

    What is read is the last answer: in brackets, or in the published form. A number of another
    count, outside its range, or another word is none.
    """
    published = settings.wording == "paper"
    entries = paper_entries(text, queries) if published else _entries(text)
    if entries is None or len(entries) != queries.truth.shape[1]:
        return None
    if queries.form in ("vote", "change"):
        words = (WORDS if published else _WORDS)[queries.form]
        values_or_none = [words.get(entry) for entry in entries]
        return (
            None if None in values_or_none else [float(x) for x in values_or_none if x is not None]
        )
    if queries.form == "absolute":
        space = queries.action_space
        assert isinstance(space, Box)
        low, high = space.low, space.high
        pattern = r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?"
    else:
        low, high = 0, _count_choices(queries) - 1
        pattern = r"\+?\d{1,9}(?:\.0*)?"
    if not all(re.fullmatch(pattern, entry) for entry in entries):
        return None
    values = [float(entry) for entry in entries]
    return values if all(low <= value <= high for value in values) else None


def _entries(text: str) -> list[str] | None:
    """Returns the entries of a reply's last answer in brackets, in small letters, or None."""
    inside = bracketed_answer(text, "lenient", WORD)
    if inside is None:
        return None
    return [part.strip(" '\"").lower() for part in re.split(r"[,;\n]", inside)]


def _count_choices(queries: Queries) -> int:
    """Returns the number of answers to choose from."""
    if queries.form == "bins":
        return 10
    if queries.question.endswith("state"):
        assert queries.num_states is not None
        return queries.num_states
    assert isinstance(queries.action_space, Discrete)
    return queries.action_space.n


def _numbers(queries: Queries, value: Any) -> str:
    array = np.asarray(value)
    return format_value(
        array if array.dtype.kind in "iu" else array.astype(float), queries.decimals
    )


def _history(queries: Queries, number: int, settings: QuestionSettings) -> list[str]:
    if queries.history == 0:
        return []
    first = int(queries.step[number]) - queries.history
    steps = [
        (_numbers(queries, state), _numbers(queries, action), pay(reward))
        for state, action, reward in zip(
            queries.past_states[number],
            queries.past_actions[number],
            queries.past_rewards[number],
            strict=True,
        )
    ]
    if settings.indexed:
        lines = [
            f"step {first + n}: state {state}, action {action}, reward {reward}"
            for n, (state, action, reward) in enumerate(steps)
        ]
        return ["\n".join(["What happened before:", *lines])]
    names = ("states", "actions", "rewards")
    columns = zip(*steps, strict=True)
    lists = [f"{name}: {', '.join(x)}" for name, x in zip(names, columns, strict=True)]
    return ["\n".join(["What happened before, in order:", *lists])]


def _question(queries: Queries, number: int) -> str:
    i = int(queries.step[number])
    fields: dict[str, Any] = {"i": i, "k": i + 1}
    for name in ("state", "action", "next_state"):
        values = getattr(queries, name)
        fields[name] = None if values is None else _numbers(queries, values[number])
    if queries.reward is not None:
        fields["reward"] = pay(queries.reward[number])
    elements = queries.question.endswith("state") and queries.num_states is None
    ask = (_ASKED_CHANGES if elements else _ASKED)[queries.question]
    return f"{_SHOWN[queries.question]} {ask}".format(**fields)


def _answer_instructions(queries: Queries) -> str:
    """Returns instructions for the form of an answer."""
    count = queries.truth.shape[1]
    for_each = "" if count == 1 else f" {count} of them, one for each entry, in order."
    if queries.form == "vote":
        return "Answer yes or no."
    if queries.form == "change":
        words = ", ".join(CHANGES.values())
        return f"Answer with one of the words {words} for each of the {count} elements, in order."
    if queries.form == "discrete":
        object_name = "an action" if queries.question.endswith("action") else "a state"
        return f"Answer with the number of {object_name}, from 0 to {_count_choices(queries) - 1}."
    space = queries.action_space
    assert isinstance(space, Box)
    if queries.form == "absolute":
        return f"Answer with a number from {space.low:g} to {space.high:g}.{for_each}"
    edges = np.linspace(space.low, space.high, 11)
    parts = "; ".join(
        f"{n}: {low:g} <= action {'<=' if n == 9 else '<'} {high:g}"
        for n, (low, high) in enumerate(zip(edges[:-1], edges[1:], strict=True))
    )
    return f"Answer with the number of the part of the range that it lies in ({parts}).{for_each}"
