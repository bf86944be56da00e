"""Tables of reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Literal

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
