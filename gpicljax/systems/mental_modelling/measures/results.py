"""Scores of many answerers as rows of one file, and what tables and figures read from it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpicljax.checks import check
from gpicljax.storage.array_folder import SavedError
from gpicljax.storage.atomic import to_json_text, write_atomically
from gpicljax.systems.mental_modelling.data.episodes import Episodes, take_episodes
from gpicljax.systems.mental_modelling.measures.baselines import BASELINES
from gpicljax.systems.mental_modelling.measures.published import best_language_model
from gpicljax.systems.mental_modelling.measures.questions import (
    Queries,
    Question,
    build_queries,
    pick_queries,
)
from gpicljax.systems.mental_modelling.measures.scoring import (
    Answers,
    accuracy_interval,
    score_answers,
)

TRIVIAL = ("always agree", *BASELINES)
"""Rules that know nothing but the history."""
FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Row:
    """What one answerer came to on one question with one size of history.

    Attributes:
      task: the environment's id.
      question: see `questions`.
      form: of the answers.
      answerer: a rule's name, `reader`, or a language model's.
      prompt: how the question was put, where it was put in words; empty for rules.
      history: H.
      queries: Q.
      parsed: share of usable answers.
      accuracy: of all queries.
      low: lower end of its interval over episodes; NaN with one episode.
      high: upper end.
      accuracy_of_parsed: of usable answers.
      elements: accuracy of each element.
    """

    task: str
    question: str
    form: str
    answerer: str
    prompt: str
    history: int
    queries: int
    parsed: float
    accuracy: float
    low: float
    high: float
    accuracy_of_parsed: float
    elements: tuple[float, ...]

    @property
    def question_and_form(self) -> str:
        """`next_action`, or `next_action (absolute)` where there is more than one form."""
        return f"{self.question} (absolute)" if self.form == "absolute" else self.question


def result_row(queries: Queries, answerer: str, answers: Answers, prompt: str = "") -> Row:
    """Scores answers.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import copy_last
      >>> asked = build_queries(episode_from_actions([1, 1, 0, 1, 1, 1]), "next_action", history=1)
      >>> row = result_row(asked, "copy last", copy_last(asked))
      >>> row.queries, row.accuracy
      (5, 0.6)
    """
    found = score_answers(queries, answers)
    low = high = float("nan")
    if len(np.unique(queries.episode)) > 1:
        interval = accuracy_interval(queries, found, resamples=500)
        low, high = interval.low, interval.high
    return Row(
        task=queries.environment,
        question=queries.question,
        form=queries.form,
        answerer=answerer,
        prompt=prompt,
        history=queries.history,
        queries=found.queries,
        parsed=found.parsed / found.queries,
        accuracy=found.accuracy,
        low=float(low),
        high=float(high),
        accuracy_of_parsed=found.accuracy_of_parsed,
        elements=tuple(float(x) for x in found.elements),
    )


def right_by_history(
    answer: Callable[[Queries], Answers],
    episodes: Episodes,
    question: Question,
    *,
    length: int = 41,
    most: int = 200,
    decimals: int = 4,
) -> np.ndarray:
    """Right or wrong in every size of history: what `evaluation.icl_profile` reads.

    The same steps are asked about in all of them, so that what is seen is the history's and not the
    time's in the episode.

    Args:
      answer: `Queries -> Answers`, the method that answers.
      episodes: those that are too short are left out.
      question: what is asked.
      length: L; histories have 0 to L - 1 steps.
      most: queries, at most; drawn.
      decimals: see `build_queries`.

    Returns:
      float `[N, L]`.

    Raises:
      ValueError: if no episode is so long.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import copy_last
      >>> walk = episode_from_actions([1, 1, 0, 1, 1, 1])
      >>> right_by_history(copy_last, walk, "next_action", length=2).tolist()
      [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """
    check(1 <= length <= 41, "length", length, "integers from 1 to 41")
    ends = episodes.length - (question not in ("next_action", "argue"))
    long = ends >= length
    check(bool(long.any()), "length", length, f"up to {ends.max()}, of the longest episode")
    some, columns = take_episodes(episodes, long), []
    for history in range(length):
        asked = build_queries(some, question, history=history, first=length - 1, decimals=decimals)
        asked = pick_queries(asked, most)
        columns.append(score_answers(asked, answer(asked)).right)
    return np.stack(columns, 1).astype(float)


def save_rows(path: str | Path, rows: Sequence[Row], **about: Any) -> None:
    """Writes rows, and what else a reader should know, as one JSON file."""
    body = {"format": FORMAT, "about": about, "rows": [dataclasses.asdict(row) for row in rows]}
    write_atomically(Path(path), to_json_text(body) + "\n")


def load_rows(path: str | Path) -> tuple[list[Row], dict[str, Any]]:
    """Reads what `save_rows` wrote: the rows, and what was said about them.

    Raises:
      SavedError: for a file that is missing, damaged or of something else.

    Example: see `save_rows`.
    """
    path = Path(path)
    try:
        body = json.loads(path.read_text())
        if body["format"] != FORMAT:
            raise SavedError(f"{path} is of format {body['format']}, not {FORMAT}")
        number = {"low", "high", "accuracy", "accuracy_of_parsed", "parsed"}
        rows = []
        for entry in body["rows"]:
            entry |= {name: _number(entry[name]) for name in number}
            rows.append(Row(**entry | {"elements": tuple(map(_number, entry["elements"]))}))
        return rows, body["about"]
    except OSError as error:
        raise SavedError(f"{path} cannot be read ({error.strerror or error})") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SavedError(f"{path} is damaged or has no results ({error})") from error


def _number(value: Any) -> float:
    """JSON has no word for what is no number."""
    return float("nan") if value is None else float(value)


def mean_accuracy(rows: Iterable[Row]) -> dict[str, float]:
    """Accuracy by answerer, over sizes of history, as in Table 6: whose smallest is one step.

    Example:
      >>> from types import SimpleNamespace as Some
      >>> rows = [Some(answerer="a", accuracy=x / 4, history=x) for x in range(4)]
      >>> mean_accuracy(rows)
      {'a': 0.5}
    """
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.history > 0:
            found.setdefault(row.answerer, []).append(row.accuracy)
    return {name: float(np.mean(values)) for name, values in found.items()}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One task and question, over all sizes of history but none.

    Attributes:
      task: the environment's id.
      question: with its form.
      accuracy: of every answerer.
      trivial: name of the best rule that knows nothing but the history.
      published: the paper's best language model and its accuracy; None where it has none.

    Example:
      >>> Comparison("MountainCar-v0", "next_action", {"ridge": 0.9}, "ridge", None).best_trivial
      0.9
    """

    task: str
    question: str
    accuracy: Mapping[str, float]
    trivial: str
    published: tuple[str, float] | None

    @property
    def best_trivial(self) -> float:
        """Accuracy of the best such rule."""
        return self.accuracy[self.trivial]


def comparisons(rows: Sequence[Row]) -> list[Comparison]:
    """Every task and question of the rows, with the paper's best language model beside it.

    Raises:
      ValueError: if a question was not asked of any rule.
    """
    found = []
    for task, question in dict.fromkeys((row.task, row.question_and_form) for row in rows):
        mine = [r for r in rows if (r.task, r.question_and_form) == (task, question)]
        mine = [r for r in mine if r.history > 0]
        # Those that were asked in every size of history; others would be compared unfairly.
        sizes = {row.history for row in mine}
        counts = {row.answerer: 0 for row in mine}
        for row in mine:
            counts[row.answerer] += 1
        whole = [row for row in mine if counts[row.answerer] >= len(sizes)]
        accuracy = mean_accuracy(whole)
        rules = [name for name in accuracy if name in TRIVIAL]
        check(len(rules) > 0, "rows", f"{task}, {question}", f"one of {', '.join(TRIVIAL)}")
        best = max(rules, key=lambda name: accuracy[name])
        published = best_language_model(task, question.partition(" ")[0])
        if question.endswith(")"):
            published = None
        found.append(Comparison(task, question, accuracy, best, published))
    return found
