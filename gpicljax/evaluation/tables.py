"""Tables and texts of reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from numpy.typing import ArrayLike

from gpicljax.evaluation.statistics import Interval, mean_interval

RowKind = Literal["learner", "control", "rule", "oracle"]


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table of results.

    Attributes:
      name: Name of the agent or rule.
      kind: `"learner"` for a trained agent, `"control"` for one that lacks something or serves for
        comparison alone, `"rule"` for one without training, `"oracle"` for one that knows the task.
      cells: Contents of the other columns, in the order of the head.
      condition: Condition that the agent plays under, such as `"greedy"` or `"memory wiped"`.
    """

    name: str
    kind: RowKind
    cells: Sequence[object] = ()
    condition: str = ""

    @property
    def label(self) -> str:
        """The content of the first column, in Markdown; learners are bold."""
        name = f"**{self.name}**" if self.kind == "learner" else self.name
        return f"{name}, {self.condition}" if self.condition else name


def results_table(head: Sequence[object], rows: Iterable[Row]) -> str:
    """Returns a Markdown table with a label and the cells of each row."""
    return markdown_table(head, ([row.label, *row.cells] for row in rows))


def markdown_table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table in Markdown; rows that are too short end with empty cells."""
    full = [[*row, *[""] * (len(head) - len(row))] for row in rows]
    lines = [f"| {' | '.join(map(str, row))} |" for row in (head, *full)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def interval_table(
    head: Sequence[object],
    samples: Mapping[str, Iterable[ArrayLike]],
    cell: Callable[[Interval], str] = Interval.format,
) -> str:
    """Returns a table in Markdown of means of samples with their t-intervals.

    Args:
      head: head of all columns.
      samples: by the name of the row, `float[N]` for each further column.
      cell: content of a cell, see `Interval`.
    """
    rows = samples.items()
    return markdown_table(head, ([n, *(cell(mean_interval(x)) for x in xs)] for n, xs in rows))


def percents(shares: Iterable[float]) -> list[str]:
    """Returns shares in per cent, as tables have them."""
    return [f"{100 * share:.1f}" for share in shares]


def seeds_legend(seeds: int) -> str:
    """Returns what the cells `Interval.percent` and their like show, in words."""
    return f"mean ± standard deviation [95 % t-interval] over {seeds} seed(s)"


def join_paragraphs(*parts: str) -> str:
    """Returns headings, paragraphs and tables as one text in Markdown; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)
