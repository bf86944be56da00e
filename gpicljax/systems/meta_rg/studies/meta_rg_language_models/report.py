"""Table of `meta_rg_language_models.py`: accuracies of listeners beside what could explain them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpicljax.evaluation.statistics import mean_interval
from gpicljax.evaluation.tables import join_paragraphs, markdown_table
from gpicljax.llm.outcomes import OUTCOME_LEGEND, OUTCOMES, ReplyTally, silence_notes
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.meta_rg.measures.listening import Confusion
from gpicljax.systems.meta_rg.measures.published import TABLE_4


def _percent(values: Sequence[float]) -> str:
    interval = mean_interval(values)
    return interval.moments.percent if interval.count > 1 else interval.percent


class ListenerResults(NamedTuple):
    """The decisions of a language model as listener.

    Attributes:
      model: its name.
      decisions: decisions of each seed, by cell.
      nulls: those of a rule on the same episodes.
      tallies: replies of both phases by outcome, by cell.
      spent: requests and tokens, in words; empty for a fake.
      stopped: whether Ctrl-C has ended it.
    """

    model: str
    decisions: Mapping[str, Sequence[Confusion]]
    nulls: Mapping[str, Sequence[Confusion]]
    tallies: Mapping[str, ReplyTally]
    spent: str
    stopped: bool


def report(outcome: RunResult) -> Report:
    """Returns the table with what it has cost, and its numbers."""
    listened: ListenerResults = outcome.host_measured
    model, decisions, nulls, tallies, spent, _ = listened
    head = ["cell", "accuracy", "balanced", 'says "same"', "not valid", 'always "same"', "rule"]
    rows = []
    for cell, seeds in decisions.items():
        invalid = [(c.same[2] + c.different[2]) / max(c.games, 1) for c in seeds]
        columns = [
            _percent([getattr(c, name) for c in seeds])
            for name in ("accuracy", "balanced_accuracy", "says_same")
        ]
        control = _percent([c.always_same for c in seeds])
        games = sum(c.games for c in seeds)
        rule = _percent([c.accuracy for c in nulls[cell]])
        if tallies[cell].is_silent:
            columns = ["-"] * 3
        shares = tallies[cell].cells()
        rows.append([cell, *columns, _percent(invalid), control, rule, games, *shares])
    printed_lines = [
        f"- {name}, O={samples} S={shots}: {printed.percent}"
        for (name, shots, samples), printed in TABLE_4.items()
    ]
    text = join_paragraphs(
        f"# {model} as listener: zero-shot compositional tests",
        "In %, mean ± standard deviation over seeds; answers that are not valid are wrong. The "
        "rule is not trained: the nearest stimulus that it was shown, dimension by dimension, "
        f"decides. It plays the same games. {OUTCOME_LEGEND}",
        markdown_table([*head, "games", *OUTCOMES], rows),
        *silence_notes(tallies),
        spent,
        "The paper's (accuracy alone, 5 seeds of 64 episodes):",
        "\n".join(printed_lines),
    )
    results = {cell: [c._asdict() for c in seeds] for cell, seeds in decisions.items()}
    replies = {cell: dict(tally.counts) for cell, tally in tallies.items()}
    return Report(text, {"model": model, "query": results, "replies": replies})
