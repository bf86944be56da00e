"""Questions in the published wording, and what replies to them say.

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
from gpicljax.registration import unversioned
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
"""What answers in words mean, by form, in small letters."""
_AROUND = " \t\n'\"*`"
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
    """The first parts of the ids of environments that there is a published text about."""
    return tuple(_wording()["tasks"])


def is_published(environment: str) -> bool:
    """Whether there is a published text about an environment."""
    return unversioned(environment) in task_names()


def paper_system_text(queries: Queries, dynamics: bool = True) -> str:
    """What is told about the task, in seven parts.

    Raises:
      ValueError: for a task that has no published text.
    """
    known = f"one of {', '.join(task_names())}, for the published wording"
    check(is_published(queries.environment), "queries.environment", queries.environment, known)
    parts = dict(_wording()["tasks"][unversioned(queries.environment)])
    if not dynamics:
        parts["transition_dynamics"] = ""
    return _wording()["scene"].format(**parts).strip()


def paper_question_text(queries: Queries, number: int, indexed: bool = True) -> str:
    """One query in words.

    Raises:
      ValueError: for actions whose range has no published question.
    """
    i = int(queries.step[number])
    given: dict[str, Any] = {"i": i, "j": i - 1, "k": i + 1, "action_dim": queries.truth.shape[1]}
    for name in ("state", "action", "next_state"):
        values = getattr(queries, name)
        given[name] = None if values is None else _numbers(queries, values[number])
    if queries.question == "next_state":
        assert queries.reward is not None
        given |= {"i": i + 1, "j": i, "reward": float(queries.reward[number])}
    question = _template(queries).format(**given).strip()
    steps = _steps(queries, number)
    if not len(steps[0]):
        return question
    return _wording()["user"].format(
        history=_history(queries, i, steps, indexed), question=question
    )


def _template(queries: Queries) -> str:
    """The question before it is filled in."""
    name: str = queries.question
    if queries.question.endswith("action"):
        name = f"{name}_{queries.form}"
        if isinstance(queries.action_space, Box):
            bounds = queries.action_space.low, queries.action_space.high
            known = (-1.0, 1.0), (-2.0, 2.0)
            accepted = "from -1 to 1 or from -2 to 2, for the published wording"
            check(bounds in known, "queries.action_space", bounds, accepted)
            name = f"{name}_{bounds[1]:g}"
    return _wording()["questions"][name]


def _steps(queries: Queries, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States, actions and rewards that are shown."""
    steps = (
        queries.past_states[number],
        queries.past_actions[number],
        queries.past_rewards[number],
    )
    if queries.question != "next_state" or queries.history == 0:
        return steps
    now = queries.state, queries.action, queries.reward
    return tuple(  # type: ignore[return-value]
        np.concatenate([past, each[number][None]])
        for past, each in zip(steps, now, strict=True)
        if each is not None
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
    """The entries of a reply's last answer, in small letters; None if there is none."""
    text = plain_text(text)
    if queries.form == "vote":
        votes = _VOTE.findall(_BOTH_VOTES.sub("", text))
        return [votes[-1].lower()] if votes else None
    if queries.form == "discrete":
        found = _ACTION.findall(text)
        numbers = set(re.findall(r"-?\d+(?:\.\d+)?", found[-1])) if found else set()
        return [*numbers] if len(numbers) == 1 else None
    lists = _LIST.findall(text)
    if not lists:
        return None
    lines = [line.partition("#")[0] for line in lists[-1].split("\n")]
    entries = [part.strip(_AROUND).lower() for part in re.split(r"[,;]", "\n".join(lines))]
    return [entry for entry in entries if entry]


def is_paper_echo(text: str, queries: Queries) -> bool:
    """Whether a reply's answer is the form that was shown.

    Votes have no form but the two answers, so that nothing is said about them.
    """
    if queries.form == "vote":
        return False
    if queries.form == "discrete":
        found = _ACTION.findall(plain_text(text))
        return bool(found) and re.fullmatch(r"\[\s*\]", found[-1]) is not None
    said, shown = paper_entries(text, queries), paper_entries(_template(queries), queries)
    return said == shown and said is not None and len(said) != queries.truth.shape[1]


def paper_answer_schema(queries: Queries) -> dict[str, Any]:
    """The JSON schema of answers, as text in the form that is asked for."""
    if queries.form == "discrete":
        assert isinstance(queries.action_space, Discrete)
        choices = [f"Final action choice: [{n}]" for n in range(queries.action_space.n)]
        return {"type": "string", "enum": choices}
    if queries.form == "vote":
        return {"type": "string", "enum": ["final_vote = [True]", "final_vote = [False]"]}
    each = {"bins": "[0-9]", "absolute": NUMBER_PATTERN, "change": "(INC|DEC|UNCH)"}[queries.form]
    entries = ", ".join([each] * queries.truth.shape[1])
    return {"type": "string", "pattern": rf"^predictions = \[{entries}\]$"}
