"""Scores of many answerers as rows of one file, for tables and figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpicljax.checks import check
from gpicljax.evaluation.statistics import Interval, mean_interval, ratio_interval
from gpicljax.storage.array_folder import SavedError
from gpicljax.storage.atomic import to_json_text, write_atomically
from gpicljax.storage.reading import read_json
from gpicljax.systems.mental_modelling.data.episodes import Episodes, take_episodes
from gpicljax.systems.mental_modelling.measures.baselines import BASELINES
from gpicljax.systems.mental_modelling.measures.questions import (
    Queries,
    Question,
    build_queries,
    pick_queries,
    take_queries,
)
from gpicljax.systems.mental_modelling.measures.scoring import (
    Answers,
    accuracy_interval,
    score_answers,
)

TRIVIAL = ("always agree", *BASELINES)
"""Rules that know nothing but the history."""
OTHER_KINDS = "reader of other kinds"
READERS = ("reader", OTHER_KINDS)
NULL = "null"
FORMAT = 1


@dataclasses.dataclass(frozen=True)
class QuestionResult:
    """The score of one answerer on one question with one size of history.

    Attributes:
      task: the environment's id.
      question: see `questions`.
      form: of the answers.
      answerer: a rule's name, `reader`, or a language model's.
      prompt: name of the question's prompt; empty for rules.
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
        """Returns the question with its form, see the function of that name."""
        return question_and_form(self.question, self.form)


ABSOLUTE = " (absolute)"
"""End of a question's name where numbers are asked for."""


def question_and_form(question: str, form: str) -> str:
    """Returns `next_action`, or `next_action (absolute)` where there is more than one form."""
    return question + ABSOLUTE if form == "absolute" else question


def result_row(
    queries: Queries, answerer: str, answers: Answers, prompt: str = ""
) -> QuestionResult:
    """Scores answers.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import copy_last
      >>> asked = build_queries(episode_from_actions([1, 1, 0, 1, 1, 1]), "next_action", history=1)
      >>> row = result_row(asked, "copy last", copy_last(asked))
      >>> row.queries, row.accuracy
      (5, 0.6)
    """
    score = score_answers(queries, answers)
    low = high = float("nan")
    if len(np.unique(queries.episode)) > 1:
        interval = accuracy_interval(queries, score, resamples=500)
        low, high = interval.low, interval.high
    return QuestionResult(
        task=queries.environment,
        question=queries.question,
        form=queries.form,
        answerer=answerer,
        prompt=prompt,
        history=queries.history,
        queries=score.queries,
        parsed=score.parsed / score.queries,
        accuracy=score.accuracy,
        low=float(low),
        high=float(high),
        accuracy_of_parsed=score.accuracy_of_parsed,
        elements=tuple(float(x) for x in score.elements),
    )


def right_by_history(
    answer: Callable[[Queries], Answers],
    episodes: Episodes,
    question: Question,
    *,
    length: int = 41,
) -> np.ndarray:
    """Right or wrong in every size of history: what `evaluation.icl_profile` reads.

    The same steps, at most 200, are asked about in all of them, so that what is seen is the
    history's and not the time's in the episode.

    Args:
      answer: `Queries -> Answers`, the method that answers.
      episodes: those that are too short are left out.
      question: what is asked.
      length: L; histories have 0 to L - 1 steps.

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
    long_episodes, columns = take_episodes(episodes, long), []
    for history in range(length):
        queries = build_queries(long_episodes, question, history=history, first=length - 1)
        queries = pick_queries(queries, 200)
        columns.append(score_answers(queries, answer(queries)).right)
    return np.stack(columns, 1).astype(float)


def save_rows(
    path: str | Path,
    rows: Sequence[QuestionResult],
    compared: Sequence[Comparison] = (),
    **about: Any,
) -> None:
    """Writes rows and comparisons, and facts about them, as one JSON file."""
    body = {
        "format": FORMAT,
        "about": about,
        "rows": [dataclasses.asdict(row) for row in rows],
        "comparisons": [dataclasses.asdict(comparison) for comparison in compared],
    }
    write_atomically(Path(path), to_json_text(body) + "\n")


def load_rows(path: str | Path) -> tuple[list[QuestionResult], list[Comparison], dict[str, Any]]:
    """Reads a file that `save_rows` wrote: rows, comparisons, and facts about them.

    Files of earlier versions have no comparisons.

    Raises:
      SavedError: for a file that is missing, damaged or of something else.
    """
    path = Path(path)
    try:
        body = read_json(path)
        if body["format"] != FORMAT:
            raise SavedError(f"{path} is of format {body['format']}, not {FORMAT}")
        number = {"low", "high", "accuracy", "accuracy_of_parsed", "parsed"}
        rows = []
        for entry in body["rows"]:
            entry |= {name: _number_or_nan(entry[name]) for name in number}
            rows.append(
                QuestionResult(
                    **entry | {"elements": tuple(map(_number_or_nan, entry["elements"]))}
                )
            )
        bounds = ("low", "high", "lead_low", "lead_high")
        compared = [
            Comparison(
                **entry
                | {name: _number_or_nan(entry[name]) for name in bounds}
                | {"leads": tuple(entry.get("leads", ()))}
            )
            for entry in body.get("comparisons", [])
        ]
        return rows, compared, body["about"]
    except OSError as error:
        raise SavedError(f"{path} cannot be read ({error.strerror or error})") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SavedError(f"{path} is damaged or has no results ({error})") from error


def _number_or_nan(value: Any) -> float:
    """Returns NaN for None, as JSON has no word for it."""
    return float("nan") if value is None else float(value)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A comparison of one answerer with the null on the same queries with a history.

    Attributes:
      task: the environment's id.
      question: with its form.
      answerer: see `QuestionResult`.
      prompt: see `QuestionResult`.
      queries: in all sizes of history together.
      parsed: share of usable answers.
      echoes: share of replies that only repeat the form of an answer.
      refused: share of replies that are refusals.
      cut_off: share of replies that were cut off before an answer.
      accuracy: of all queries.
      low: lower end of its interval over episodes; NaN with one episode.
      high: upper end.
      null: the rule it is compared with.
      null_accuracy: of that rule on these queries.
      lead: accuracy minus that of the null.
      lead_low: lower end of its paired interval over episodes.
      lead_high: upper end.
      leads: of each of several readers that answered the same queries; all of the above are then
        means over them.
    """

    task: str
    question: str
    answerer: str
    prompt: str
    queries: int
    parsed: float
    echoes: float
    refused: float
    cut_off: float
    accuracy: float
    low: float
    high: float
    null: str
    null_accuracy: float
    lead: float
    lead_low: float
    lead_high: float
    leads: tuple[float, ...] = ()

    @property
    def is_in_numbers(self) -> bool:
        """Returns whether numbers were asked for, beside the parts of their range."""
        return self.question.endswith(ABSOLUTE)

    @property
    def over_readers(self) -> Interval | None:
        """Returns the lead with its t-interval over readers; None of one reader, or a rule."""
        return mean_interval(self.leads) if len(self.leads) > 1 else None

    @property
    def sign(self) -> int:
        """Returns 1 if ahead, -1 if behind, 0 if an interval includes 0."""
        over = self.over_readers
        low, high = (over.low, over.high) if over else (self.lead_low, self.lead_high)
        ahead, behind = min(low, self.lead_low) > 0, max(high, self.lead_high) < 0
        return int(ahead) - int(behind)


def pool_readers(
    queries: Queries, answers: Sequence[Answers], null_answers: Sequence[Answers]
) -> tuple[Queries, Answers, Answers]:
    """Returns the same queries for each of several readers, one reader after the other.

    Args:
      queries: Q of them.
      answers: of S readers.
      null_answers: of as many, or of one rule, which then answers beside each of them.
    """
    count = len(answers)
    if count == len(null_answers) == 1:
        return queries, answers[0], null_answers[0]
    pooled_answers, pooled_nulls = (
        Answers(*map(np.concatenate, zip(*reader_answers, strict=True)))
        for reader_answers in (answers, [*null_answers] * (count // len(null_answers)))
    )
    return (
        take_queries(queries, np.tile(np.arange(len(queries.truth)), count)),
        pooled_answers,
        pooled_nulls,
    )


def choose_rules(
    sized_queries: Sequence[Queries],
    sized_answers: Sequence[Mapping[str, Answers]],
    agents: Sequence[str],
) -> tuple[str, ...]:
    """Returns for each episode the rule that is right most often on its agent's other episodes.

    Queries without a history do not count, where there are others. An agent's only episode has
    the rule of all other episodes, and one that is alone its own.

    Args:
      sized_queries: the same queries in each size of history.
      sized_answers: the answers of rules to each of them, by name.
      agents: the name of each episode's agent.
    """
    with_history = [n for n, queries in enumerate(sized_queries) if queries.history > 0]
    chosen = with_history or [*range(len(sized_queries))]
    names = [*sized_answers[0]]
    right = np.mean(
        [
            [score_answers(sized_queries[n], sized_answers[n][name]).right for name in names]
            for n in chosen
        ],
        0,
    )
    episode = sized_queries[0].episode
    agent_of_query = np.asarray(agents)[episode]
    rules = []
    for number, agent in enumerate(agents):
        is_other = episode != number
        fitting = next(
            mask
            for mask in ((agent_of_query == agent) & is_other, is_other, episode >= 0)
            if mask.any()
        )
        rules.append(names[right[:, fitting].mean(1).argmax()])
    return tuple(rules)


def answers_of_chosen(
    queries: Queries, answers: Mapping[str, Answers], rules: Sequence[str]
) -> Answers:
    """Returns the answers of each episode's rule."""
    rule_of_query = np.asarray(rules)[queries.episode]
    values = np.array(answers[rules[0]].values)
    for name in {*rules}:
        values = np.where((rule_of_query == name)[:, None], answers[name].values, values)
    return Answers(values, np.ones(len(values), bool))


def compare(
    triples: Sequence[tuple[Queries, Answers, Answers]],
    answerer: str,
    null: str,
    prompt: str = "",
    echoes: int = 0,
    refused: int = 0,
    cut_off: int = 0,
    readers: int = 1,
) -> Comparison | None:
    """Compares one answerer with a rule, query by query.

    Args:
      triples: queries of one question, the answers to them and the rule's answers, `pooled` for
        several readers; queries without a history are left out.
      answerer: its name.
      null: the rule's name.
      prompt: name of the question's prompt.
      echoes: number of replies that only repeat the form of an answer.
      refused: number of refusals.
      cut_off: number of replies that were cut off before an answer.
      readers: S, how many have answered each query.

    Returns:
      The comparison; None if nothing was asked with a history.
    """
    with_history = [triple for triple in triples if triple[0].history > 0]
    if not with_history:
        return None

    def right_answers(answers: Iterable[tuple[Queries, Answers]]) -> np.ndarray:
        by_size = [score_answers(*answered).right.reshape(readers, -1) for answered in answers]
        return np.concatenate(by_size, 1).astype(float)

    own_right = right_answers((queries, answers) for queries, answers, _ in with_history)
    null_right = right_answers((queries, rule) for queries, _, rule in with_history)
    parsed = np.concatenate([answers.parsed for _, answers, _ in with_history])
    episode = [queries.episode[: len(queries.episode) // readers] for queries, _, _ in with_history]
    _, episode_index, counts = np.unique(
        np.concatenate(episode), return_inverse=True, return_counts=True
    )

    def interval(values: np.ndarray) -> tuple[float, float]:
        if len(counts) == 1:
            return float("nan"), float("nan")
        sums = np.bincount(episode_index, weights=values.mean(0))
        _, low, high = ratio_interval(sums, counts)
        return low, high

    low, high = interval(own_right)
    lead_low, lead_high = interval(own_right - null_right)
    first = with_history[0][0]
    return Comparison(
        task=first.environment,
        question=question_and_form(first.question, first.form),
        answerer=answerer,
        prompt=prompt,
        queries=own_right.shape[1],
        parsed=float(parsed.mean()),
        echoes=echoes / own_right.shape[1],
        refused=refused / own_right.shape[1],
        cut_off=cut_off / own_right.shape[1],
        accuracy=float(own_right.mean()),
        low=low,
        high=high,
        null=null,
        null_accuracy=float(null_right.mean()),
        lead=float(own_right.mean() - null_right.mean()),
        lead_low=lead_low,
        lead_high=lead_high,
        leads=tuple((own_right - null_right).mean(1).tolist()) if readers > 1 else (),
    )


def group_by_question(
    comparisons: Sequence[Comparison],
) -> dict[tuple[str, str], dict[str, Comparison]]:
    """Returns comparisons of all but language models by task and question, and by answerer."""
    grouped: dict[tuple[str, str], dict[str, Comparison]] = {}
    for comparison in comparisons:
        if not comparison.prompt and comparison.null != "reader":
            grouped.setdefault((comparison.task, comparison.question), {})[comparison.answerer] = (
                comparison
            )
    return grouped


class LeadCount(NamedTuple):
    """Counts of questions on which an answerer leads the null or lags behind, and of all.

    What lies within an interval of a paired difference, over episodes or readers, is neither.
    """

    ahead: int
    behind: int
    pairs: int


def count_leads(
    comparisons: Sequence[Comparison], answerer: str = "reader", *, over_reader: bool = False
) -> LeadCount:
    """Counts one answerer's leads; numbers are not counted beside the parts of their range.

    Args:
      comparisons: comparisons.
      answerer: its name.
      over_reader: counts its leads over the usual reader, not over the null.
    """
    answerer_comparisons = [
        x for x in comparisons if x.answerer == answerer and not x.is_in_numbers
    ]
    signs = [x.sign for x in answerer_comparisons if (x.null == "reader") == over_reader]
    return LeadCount(signs.count(1), signs.count(-1), len(signs))
