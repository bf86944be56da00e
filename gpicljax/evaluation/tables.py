"""Tables of reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown; rows that are too short end with empty cells.

    Example:
      >>> print(markdown_table(["game", "accuracy"], [["Recall", 0.5], ["MetaRG"]]))
      | game | accuracy |
      |---|---|
      | Recall | 0.5 |
      | MetaRG |  |
    """
    full = [[*row, *[""] * (len(head) - len(row))] for row in rows]
    lines = [f"| {' | '.join(map(str, row))} |" for row in (head, *full)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])
