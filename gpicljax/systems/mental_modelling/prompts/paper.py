"""Questions in the published wording, and the answers in replies to them.

The words are in `paper.toml`, with their source and licence. What is asked, and what counts as
right, is the same as in this project's own wording: `systems.mental_modelling.measures`. So what is
published is not followed where prompt and score contradict each other:

- A history has H steps; the reference's H is one less. For the next state, both have the step that
  is asked about as well. Without any history, the question stands alone.
- Numbers are written as NumPy writes them, but never in scientific notation nor over several lines.
- Ranges and their ten parts are those of the task. A part has its lower edge, as the prompt says.
- The last answer in a reply counts: a reply may repeat the form that it was shown.
- Goals of Fetch's tasks are described and not shown, as in the reference.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpicljax.checks import check
from gpicljax.llm.parsing import plain_text
from gpicljax.llm.prompts import NUMBER_PATTERN
from gpicljax.registration import id_without_version
from gpicljax.spaces import Box, Discrete
from gpicljax.systems.mental_modelling.measures.questions import (
    DECREASE,
    INCREASE,
    UNCHANGED,
    Queries,
)

WORDS: Mapping[str, Mapping[str, int]] = {
    "vote": {"true": 1, "false": 0},
    "change": {"inc": INCREASE, "dec": DECREASE, "unch": UNCHANGED},
}
"""Numbers of answers in words, by form, in small letters."""
_TRIMMED = " \t\n'\"*`"
_LIST = re.compile(r"predictions\s*[=:]\s*\[([^\[\]]*)\]", re.IGNORECASE)
_ACTION = re.compile(
    r"final action choice[\s*_`:]*(?:is\b)?[\s*_`:]*(\[[^\[\]\n]*\]|-?\d+)", re.IGNORECASE
)
_VOTE = re.compile(r"final[_ ]vote\s*(?:=|:|is)\s*\[?[\s'\"*`]*(true|false)", re.IGNORECASE)
# The line of the template that explains both votes.
_BOTH_VOTES = re.compile(r"final vote is \[true\][^\n]{0,80}\bor \[false\]", re.IGNORECASE)


@functools.cache
def _wording() -> Mapping[str, Any]:
    with Path(__file__).with_suffix(".toml").open("rb") as file:
        return tomllib.load(file)


def task_names() -> tuple[str, ...]:
    """Returns the first parts of the ids of environments with a published text."""
    return tuple(_wording()["tasks"])


def is_published(environment: str) -> bool:
    """Returns whether there is a published text about an environment."""
    return id_without_version(environment) in task_names()


def paper_system_text(queries: Queries, dynamics: bool = True) -> str:
    """Returns the description of the task, in seven parts.

    Raises:
      ValueError: for a task that has no published text.
    """
    expected = f"one of {', '.join(task_names())}, for the published wording"
    check(is_published(queries.environment), "queries.environment", queries.environment, expected)
    parts = dict(_wording()["tasks"][id_without_version(queries.environment)])
    if not dynamics:
        parts["transition_dynamics"] = ""
    return _wording()["scene"].format(**parts).strip()


def paper_question_text(queries: Queries, number: int, indexed: bool = True) -> str:
    """Returns one query in words.

    Raises:
      ValueError: for actions whose range has no published question.
    """
    i = int(queries.step[number])
    fields: dict[str, Any] = {"i": i, "j": i - 1, "k": i + 1, "action_dim": queries.truth.shape[1]}
    for name in ("state", "action", "next_state"):
        values = getattr(queries, name)
        fields[name] = None if values is None else _numbers(queries, values[number])
    if queries.question == "next_state":
        assert queries.reward is not None
        fields |= {"i": i + 1, "j": i, "reward": float(queries.reward[number])}
    question = _template(queries).format(**fields).strip()
    steps = _shown_steps(queries, number)
    if not len(steps[0]):
        return question
    return _wording()["user"].format(
        history=_history(queries, i, steps, indexed), question=question
    )


def _template(queries: Queries) -> str:
    """Returns the question before its fields are filled in."""
    name: str = queries.question
    if queries.question.endswith("action"):
        name = f"{name}_{queries.form}"
        if isinstance(queries.action_space, Box):
            bounds = queries.action_space.low, queries.action_space.high
            known_bounds = (-1.0, 1.0), (-2.0, 2.0)
            expected = "from -1 to 1 or from -2 to 2, for the published wording"
            check(bounds in known_bounds, "queries.action_space", bounds, expected)
            name = f"{name}_{bounds[1]:g}"
    return _wording()["questions"][name]


def _shown_steps(queries: Queries, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns states, actions and rewards that are shown."""
    steps = (
        queries.past_states[number],
        queries.past_actions[number],
        queries.past_rewards[number],
    )
    if queries.question != "next_state" or queries.history == 0:
        return steps
    last_step = queries.state, queries.action, queries.reward
    return tuple(  # type: ignore[return-value]
        np.concatenate([past, values[number][None]])
        for past, values in zip(steps, last_step, strict=True)
        if values is not None
    )


def _history(queries: Queries, i: int, steps: tuple[np.ndarray, ...], indexed: bool) -> str:
    names = ("state", "action", "reward")
    if not indexed:
        return "\n".join(
            f"{name}s:\n{_numbers(queries, values)}"
            for name, values in zip(names, steps, strict=True)
        )
    first = i - queries.history
    return "\n\n".join(
        "\n".join(
            [
                f"Step {first + n}:",
                *(
                    f"  {name}: {_numbers(queries, values[n])}"
                    for name, values in zip(names, steps, strict=True)
                ),
            ]
        )
        for n in range(len(steps[0]))
    )


def _numbers(queries: Queries, values: Any) -> str:
    array = np.asarray(values)
    array = array if array.dtype.kind in "iu" else array.astype(float)
    return np.array2string(
        array,
        precision=queries.decimals,
        separator=", ",
        suppress_small=True,
        max_line_width=10**9,
        threshold=10**9,
    )


# Replies -----------------------------------------------------------------------------------------


def paper_entries(text: str, queries: Queries) -> list[str] | None:
    """Returns the entries of a reply's last answer, in small letters; None if there is none."""
    text = plain_text(text)
    if queries.form == "vote":
        votes = _VOTE.findall(_BOTH_VOTES.sub("", text))
        return [votes[-1].lower()] if votes else None
    if queries.form == "discrete":
        matches = _ACTION.findall(text)
        numbers = set(re.findall(r"-?\d+(?:\.\d+)?", matches[-1])) if matches else set()
        return [*numbers] if len(numbers) == 1 else None
    lists = _LIST.findall(text)
    if not lists:
        return None
    lines = [line.partition("#")[0] for line in lists[-1].split("\n")]
    entries = [part.strip(_TRIMMED).lower() for part in re.split(r"[,;]", "\n".join(lines))]
    return [entry for entry in entries if entry]


def is_paper_echo(text: str, queries: Queries) -> bool:
    """Returns whether a reply's answer is the form that was shown.

    Votes have no form but the two answers, so that nothing is said about them.
    """
    if queries.form == "vote":
        return False
    if queries.form == "discrete":
        matches = _ACTION.findall(plain_text(text))
        return bool(matches) and re.fullmatch(r"\[\s*\]", matches[-1]) is not None
    reply_entries, template_entries = (
        paper_entries(text, queries),
        paper_entries(_template(queries), queries),
    )
    return (
        reply_entries == template_entries
        and reply_entries is not None
        and len(reply_entries) != queries.truth.shape[1]
    )


def paper_answer_schema(queries: Queries) -> dict[str, Any]:
    """Returns the JSON schema of answers, as text in the form that is asked for."""
    if queries.form == "discrete":
        assert isinstance(queries.action_space, Discrete)
        choices = [f"Final action choice: [{n}]" for n in range(queries.action_space.n)]
        return {"type": "string", "enum": choices}
    if queries.form == "vote":
        return {"type": "string", "enum": ["final_vote = [True]", "final_vote = [False]"]}
    entry = {"bins": "[0-9]", "absolute": NUMBER_PATTERN, "change": "(INC|DEC|UNCH)"}[queries.form]
    entries = ", ".join([entry] * queries.truth.shape[1])
    return {"type": "string", "pattern": rf"^predictions = \[{entries}\]$"}
