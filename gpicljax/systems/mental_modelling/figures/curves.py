"""The paper's kinds of figures, from the rows of one results file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpicljax.checks import check
from gpicljax.registration import id_without_version
from gpicljax.systems.mental_modelling.measures.results import (
    ABSOLUTE,
    NULL,
    READERS,
    TRIVIAL,
    QuestionResult,
)
from gpicljax.viz import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES: Mapping[str, str] = {
    "next_action": "next action",
    "last_action": "last action",
    "next_state": "next state",
    "last_state": "last state",
    "argue": "for or against an action",
}
"""Titles of questions."""
DRAWN = ("copy last", "nearest neighbour", "ridge regression", "physics", NULL, *READERS)
"""Answerers that are drawn beside language models."""
FIGURES: Mapping[str, tuple[str, str, str]] = {
    "figure_21": ("MountainCar", "no-dynamics", ""),
    "figure_22": ("MountainCar", "no-instructions", ""),
    "figure_23": ("Acrobot", "no-instructions", ""),
    "figure_24": ("Pendulum", "", "action"),
}
"""Tasks of Figures 21 to 24, the prompts that are compared, and the end of their questions."""
_COLUMNS = 3


def history_figure(
    rows: Sequence[QuestionResult],
    answerers: Sequence[str] | None = None,
    *,
    levels: Mapping[str, tuple[str, float]] | None = None,
    title: str | None = None,
) -> Figure:
    """Draws accuracy by size of history, a panel for each question: Figures 3 and 15 to 23.

    Args:
      rows: Results of one task. An answerer with several prompts has a line for each.
      answerers: names to draw, in this order; all if None.
      levels: for some questions, a name and a level that is drawn dashed.
      title: title, or none.

    Raises:
      ValueError: if there is nothing to draw.

    Example:
      >>> row = QuestionResult(
      ...     *("Walk", "next_action", "discrete", "ridge", "", 3, 9),
      ...     *(1.0, 0.5, 0.3, 0.7, 0.5, (0.5,)),
      ... )
      >>> len(history_figure([row]).axes)
      1
    """
    lines = _rows_by_line(rows, answerers)
    titles = {row.question_and_form: _title(row) for row in rows}
    questions = list(titles)
    figure, panels = _panels(questions, list(titles.values()))
    for axes, question in zip(panels, questions, strict=True):
        for (name, group), colour in zip(lines.items(), style.colours(len(lines)), strict=True):
            question_rows = sorted(
                (row for row in group if row.question_and_form == question),
                key=lambda row: row.history,
            )
            _line(axes, question_rows, [row.accuracy for row in question_rows], colour, name)
            low, high = [row.low for row in question_rows], [row.high for row in question_rows]
            axes.fill_between(
                _places(question_rows), low, high, color=colour, alpha=0.12, linewidth=0
            )
        if levels and question in levels:
            _, level = levels[question]
            axes.axhline(level, color=style.MUTED, linewidth=1.0, linestyle=(0, (4, 3)))
    level_name = levels[next(iter(levels))][0] if levels else None
    return _finish_figure(figure, panels, rows, title, extra=level_name)


def elements_figure(
    rows: Sequence[QuestionResult],
    answerers: Sequence[str] | None = None,
    *,
    title: str | None = None,
) -> Figure:
    """Draws the accuracy of each element of a state by size of history: Figures 5 and 8 to 10.

    Args:
      rows: Results of one task in one question about states.
      answerers: see `history_figure`.
      title: title, or none.

    Raises:
      ValueError: if there is nothing to draw.
    """
    lines = _rows_by_line(rows, answerers)
    words = [f"element {n}" for n in range(len(rows[0].elements))]
    figure, panels = _panels(words, words)
    for n, axes in enumerate(panels):
        for (name, group), colour in zip(lines.items(), style.colours(len(lines)), strict=True):
            group = sorted(group, key=lambda row: row.history)
            _line(axes, group, [row.elements[n] for row in group], colour, name)
    return _finish_figure(figure, panels, rows, title)


def drawn_answerers(rows: Sequence[QuestionResult]) -> list[str]:
    """Returns what is drawn of these rows: some rules, readers and all language models."""
    answered = {row.answerer for row in rows}
    models = sorted(answered - {*TRIVIAL, "physics", NULL, *READERS})
    return [answerer for answerer in (*DRAWN, *models) if answerer in answered]


def paper_figure(rows: Sequence[QuestionResult], task: str, prompt: str, end: str) -> Figure:
    """Draws what a prompt leaves out, or numbers beside parts of their range: Figures 21 to 24.

    The null and readers read no prompt: they have one line, beside those of a language model.

    Args:
      rows: of any tasks, with some of this one.
      task: its name without a version.
      prompt: its name; the indexed one is drawn, too.
      end: of the names of questions.
    """
    shown = [
        row
        for row in rows
        if id_without_version(row.task) == task
        and row.prompt in ("", "indexed", prompt)
        and row.question.endswith(end)
        and row.question != "argue"
    ]
    rules = {*DRAWN} - {NULL, *READERS}
    answerers = [x for x in drawn_answerers(shown) if x not in rules]
    words = (
        f"for prompts that are indexed or {prompt}" if prompt else "parts of a range and numbers"
    )
    return history_figure(shown, answerers, title=f"{task}, {words}")


def amounts_figure(amounts: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    """Draws leads over the null by the number of agents read, with a line for each of kinds.

    Args:
      amounts: by task, readers with `kinds`, `agents` and `lead`: each is a point, and lines go
        through means.
    """
    figure, panels = _panels([*amounts], [*amounts])
    kinds = sorted({cell["kinds"] for cells in amounts.values() for cell in cells})
    counts = sorted({cell["agents"] for cells in amounts.values() for cell in cells})
    for axes, cells in zip(panels, amounts.values(), strict=True):
        for number, colour in zip(kinds, style.colours(len(kinds)), strict=True):
            leads: dict[float, list[float]] = {}
            for cell in cells:
                if cell["kinds"] == number:
                    leads.setdefault(np.log2(cell["agents"]), []).append(cell["lead"])
            means = [float(np.mean(x)) for x in leads.values()]
            axes.plot([*leads], means, color=colour, linewidth=1.6, label=f"kinds: {number}")
            for place, values in leads.items():
                axes.plot([place] * len(values), values, ".", color=colour, markersize=4)
        axes.axhline(0, color=style.MUTED, linewidth=1.0, linestyle=(0, (4, 3)))
        axes.set_ylim(auto=True)
        axes.autoscale(axis="y")
        axes.set_xticks([float(np.log2(n)) for n in counts], [str(n) for n in counts])
        style.name_axes(axes, "agents read", "", axes.get_title(loc="left") or None)
    style.title_figure(figure, "Lead over the null on an unseen kind")
    _legend(figure, panels[0])
    return figure


def grouped_bars(
    groups: Mapping[str, Mapping[str, float]],
    *,
    ylabel: str = "accuracy",
    title: str | None = None,
) -> Figure:
    """Draws bars side by side in groups: Figures 4, 6, 11 to 14 and 24.

    Args:
      groups: accuracies by name, by group; a name that a group lacks has no bar there.
      ylabel: name of the vertical axis.
      title: title, or none.

    Raises:
      ValueError: if there is no group.

    Example:
      >>> figure = grouped_bars({"MountainCar": {"copy last": 0.98, "Llama3-70b": 0.87}})
    """
    check(groups, "groups", groups, "at least one")
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    figure = style.new_figure(max(6.4, 0.7 + 0.16 * len(names) * len(groups)), 3.6)
    axes = figure.add_subplot()
    style.style_axes(axes)
    places = np.arange(len(groups))
    width = 0.84 / len(names)
    for n, (name, colour) in enumerate(zip(names, style.colours(len(names)), strict=True)):
        heights = [group.get(name, np.nan) for group in groups.values()]
        axes.bar(places - 0.42 + (n + 0.5) * width, heights, 0.9 * width, color=colour, label=name)
    words = [re.sub(r"(?<=[a-z])(?=[A-Z])", "\n", name) for name in groups]
    axes.set_xticks(places, words, fontsize=style.SMALL)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(style.tick(True))
    style.name_axes(axes, "", ylabel, title)
    _legend(figure, axes)
    return figure


def mean_elements(rows: Sequence[QuestionResult]) -> dict[str, dict[str, float]]:
    """Returns groups for `grouped_bars`: the accuracy of each element over all sizes of history."""
    lines = _rows_by_line(rows, None)
    count = min(len(row.elements) for group in lines.values() for row in group)
    return {
        str(n): {
            name: float(np.mean([row.elements[n] for row in group]))
            for name, group in lines.items()
        }
        for n in range(count)
    }


def _rows_by_line(
    rows: Sequence[QuestionResult], answerers: Sequence[str] | None
) -> dict[str, list[QuestionResult]]:
    """Returns rows by answerer and prompt."""
    chosen = list(dict.fromkeys(row.answerer for row in rows)) if answerers is None else answerers
    groups: dict[str, list[QuestionResult]] = {}
    for name in chosen:
        answerer_rows = [row for row in rows if row.answerer == name]
        several = len({row.prompt for row in answerer_rows}) > 1
        for row in answerer_rows:
            label = f"{name} ({row.prompt})" if several else name
            groups.setdefault(label, []).append(row)
    check(groups, "answerers", answerers, "at least one that has answered")
    return groups


def _title(row: QuestionResult) -> str:
    return TITLES[row.question] + (ABSOLUTE if row.form == "absolute" else "")


def _places(rows: Sequence[QuestionResult]) -> list[float]:
    """Returns sizes of history as logarithms, with a place for none."""
    return [float(np.log2(row.history + 1)) for row in rows]


def _line(
    axes: Axes, rows: Sequence[QuestionResult], heights: Sequence[float], colour: str, name: str
) -> None:
    axes.plot(
        _places(rows), heights, color=colour, linewidth=1.6, marker="o", markersize=3, label=name
    )


def _panels(names: Sequence[str], titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
    columns = min(_COLUMNS, len(names))
    lines = -(-len(names) // columns)
    figure = style.new_figure(max(4.2, 2.6 * columns), 0.9 + 2.0 * lines)
    panels = []
    for n, title in enumerate(titles):
        axes = figure.add_subplot(lines, columns, n + 1)
        style.style_axes(axes)
        style.name_axes(axes, "history" if n + columns >= len(names) else "", "", title)
        axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(style.tick(True))
        panels.append(axes)
    return figure, panels


def _finish_figure(
    figure: Figure,
    panels: Sequence[Axes],
    rows: Sequence[QuestionResult],
    title: str | None,
    extra: str | None = None,
) -> Figure:
    sizes = sorted({row.history for row in rows})
    for axes in panels:
        axes.set_xticks([float(np.log2(size + 1)) for size in sizes], [str(s) for s in sizes])
    if extra:
        panels[0].plot([], [], color=style.MUTED, linestyle=(0, (4, 3)), label=extra)
    style.title_figure(figure, title)
    _legend(figure, panels[0])
    return figure


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower left",
        ncols=4,
        frameon=False,
        fontsize=style.SMALL,
        handlelength=1.2,
    )
