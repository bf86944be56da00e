"""Table and figures of `mental_modelling.py`, all from one results file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import gpicljax
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.mental_modelling.figures.curves import (
    elements_figure,
    grouped_bars,
    history_figure,
    mean_elements,
)
from gpicljax.systems.mental_modelling.measures.results import (
    TRIVIAL,
    Comparison,
    Row,
    comparisons,
    load_rows,
    save_rows,
)
from gpicljax.viz.pictures import picture_grid
from gpicljax.viz.style import save_figure

RESULTS = "results.json"
OTHER_KINDS = "reader of other kinds"
READERS = ("reader", OTHER_KINDS)
DRAWN = ("copy last", "same change", "nearest neighbour", "ridge regression", "physics", "reader")
FIGURE_7 = (
    "MountainCar-v0",
    "Acrobot-v1",
    "LunarLander-v3",
    "Pendulum-v1",
    "InvertedDoublePendulum-v4",
    "FetchPickAndPlace-v4",
    "FetchPush-v4",
    "FetchSlide-v4",
)
PICTURED = (*FIGURE_7, "CliffWalking-v1", "FrozenLake-v1")
_NOTE = (
    "Accuracy in %, over all queries, mean over sizes of history from one step on; a state is "
    "right if all of its elements are. The best trivial rule is the best, on these very queries, "
    "of those that know nothing but the history; the reader knows the task by its weights. The "
    "paper's numbers are of other agents, other sizes of history and other prompts: not comparable "
    "one to one."
)


def table(found: Sequence[Comparison]) -> str:
    """Every task and question: best trivial rule, physics, reader, language models, the paper's."""
    others = [
        name
        for name in dict.fromkeys(name for row in found for name in row.accuracy)
        if name not in (*TRIVIAL, "physics", *READERS)
    ]
    asked = [name for name in READERS if any(name in row.accuracy for row in found)]
    names = ("copy last", "physics", *asked, *others)
    lines = [
        f"| task | question | best trivial rule | {' | '.join(names)} | paper's best model |",
        "|---" * (4 + len(names)) + "|",
    ]
    for row in found:
        best = f"{100 * row.best_trivial:.1f} ({row.trivial})"
        cells = [f"{100 * row.accuracy[n]:.1f}" if n in row.accuracy else "" for n in names]
        theirs = ""
        if row.published is not None:
            theirs = f"{100 * row.published[1]:.1f} ({row.published[0]})"
        lines.append(
            f"| {row.task} | {row.question.replace('_', ' ')} | {best} | {' | '.join(cells)} | "
            f"{theirs} |"
        )
    return "\n".join(lines)


def elements_table(rows: Sequence[Row]) -> list[str]:
    """The share of a state's elements that are told rightly, where they are asked about one by one.

    Hardly any answer to a long state is right as a whole.
    """
    lines = []
    asked = [row for row in rows if row.form == "change" and row.history > 0]
    others = [
        answerer
        for answerer in ("physics", *READERS)
        if any(row.answerer == answerer for row in asked)
    ]
    for task, question in dict.fromkeys((row.task, row.question) for row in asked):
        mine: dict[str, list[float]] = {}
        for row in asked:
            if (row.task, row.question) == (task, question):
                mine.setdefault(row.answerer, []).append(float(np.mean(row.elements)))
        share = {answerer: 100 * float(np.mean(values)) for answerer, values in mine.items()}
        best = max(
            (answerer for answerer in share if answerer in TRIVIAL),
            key=lambda answerer: share[answerer],
        )
        cells = [f"{share[answerer]:.1f}" if answerer in share else "" for answerer in others]
        words = f"{task} | {question.replace('_', ' ')} | {share[best]:.1f} ({best})"
        lines.append(f"| {words} | {' | '.join(cells)} |")
    names = " | ".join(("task", "question", "best trivial rule", *others))
    return [f"| {names} |", "|---" * (3 + len(others)) + "|", *lines] if lines else []


def beaten(
    found: Sequence[Comparison], against: Sequence[str] = TRIVIAL, reader: str = "reader"
) -> tuple[int, int]:
    """On how many tasks and questions the reader beats all of those; and of how many."""
    pairs = [row for row in found if reader in row.accuracy and "absolute" not in row.question]
    wins = [
        row
        for row in pairs
        if all(row.accuracy[reader] > row.accuracy.get(name, -1) for name in against)
    ]
    return len(wins), len(pairs)


def report(outcome: RunResult) -> Report:
    """Writes the rows, and draws from what was written."""
    measured = outcome.host_measured
    folder = outcome.run.path
    save_rows(folder / RESULTS, measured["rows"], tasks=measured["tasks"])
    return draw(folder)


def draw(folder: Path) -> Report:
    """Table and figures from a run's results file alone."""
    rows, about = load_rows(folder / RESULTS)
    found = comparisons(rows)
    figures = folder / "figures"
    for task in dict.fromkeys(row.task for row in rows):
        _figures(figures, task, [row for row in rows if row.task == task])
    shown = {}
    for row in found:
        name = row.task.partition("-")[0]
        if row.question == "next_action":
            shown[name] = {"best trivial rule": row.best_trivial, **_named(row)}
    if shown:
        title = "The next action, mean over sizes of history"
        save_figure(grouped_bars(shown, title=title), figures / "tasks_next_action.png")
    if pictured := [name for name in PICTURED if name in about["tasks"] and _has_picture(name)]:
        save_figure(tasks_figure(pictured), figures / "tasks.png")
    learning = _learning(rows)
    wins, pairs = beaten(found)
    laws, _ = beaten(found, (*TRIVIAL, "physics"))
    notes = [
        f"- {task}: {x['agents']} agents that the reader has not seen, {x['episodes']} episodes, "
        f"mean return {x['mean_return']:.4g}; the reader has read {x['agents_read']} agents; "
        f"histories {', '.join(map(str, x['histories']))}"
        for task, x in about["tasks"].items()
    ]
    text = "\n".join(
        [
            "# Mental modelling of agents",
            "",
            _NOTE,
            "",
            table(found),
            "",
            f"The reader, a transformer that has read other agents, beats every trivial rule on "
            f"{wins} of {pairs} tasks and questions; physics as well on {laws}.",
            *_strangers(found),
            "",
            "Elements of states that are told rightly, in %, mean over sizes of history from one "
            "step on and over elements.",
            "",
            *elements_table(rows),
            "",
            "The reader's accuracy, in %, by size of history: the same queries with more and more "
            "of it. The potential is what the longest history adds to none; the horizon, from "
            "where on a tenth of that is missing at most; none, where the end lies within the "
            "interval of the beginning.",
            "",
            *learning,
            "",
            *notes,
        ]
    )
    results = {
        f"{row.task}, {row.question}": dict(row.accuracy) | {"best trivial": row.trivial}
        for row in found
    }
    return Report(text, results | {"reader beats trivial rules": f"{wins} of {pairs}"})


def _strangers(found: Sequence[Comparison]) -> list[str]:
    """What there is to say of a reader that has seen none of an agent's kind."""
    wins, pairs = beaten(found, reader=OTHER_KINDS)
    if not pairs:
        return []
    lost = [
        row.accuracy["reader"] - row.accuracy[OTHER_KINDS]
        for row in found
        if OTHER_KINDS in row.accuracy and "absolute" not in row.question
    ]
    return [
        "",
        f"The {OTHER_KINDS} answers each question by weights that were trained without any agent "
        f"of the kind that is asked about: it beats every trivial rule on {wins} of {pairs}, and "
        f"is on average {100 * np.mean(lost):.1f} points behind the reader.",
    ]


def _named(row: Comparison) -> dict[str, float]:
    others = {name: x for name, x in row.accuracy.items() if name not in TRIVIAL}
    for name in ("physics", OTHER_KINDS):
        others.pop(name, None)
    if row.published is not None:
        others["paper's best model"] = row.published[1]
    return others


def _learning(rows: Sequence[Row]) -> list[str]:
    """The reader's in-context learning: the same queries with more and more history."""
    mine = [row for row in rows if row.answerer == "reader" and row.form != "absolute"]
    sizes = sorted({row.history for row in mine})
    lines = [
        f"| task | question | {' | '.join(map(str, sizes))} | potential | horizon |",
        "|---" * (4 + len(sizes)) + "|",
    ]
    for task, question in dict.fromkeys((row.task, row.question) for row in mine):
        some = {row.history: row for row in mine if (row.task, row.question) == (task, question)}
        first, last = some[min(some)], some[max(some)]
        potential = last.accuracy - first.accuracy
        # From where on it stays within a tenth of the potential from the end.
        near = [n for n in some if abs(some[n].accuracy - last.accuracy) <= 0.1 * abs(potential)]
        horizon = min(n for n in some if all(m in near for m in some if m >= n))
        shown = "none" if first.low <= last.accuracy <= first.high else str(horizon)
        cells = [f"{100 * some[n].accuracy:.0f}" if n in some else "" for n in sizes]
        words = question.replace("_", " ")
        lines.append(
            f"| {task} | {words} | {' | '.join(cells)} | {100 * potential:+.0f} | {shown} |"
        )
    return lines


def _figures(figures: Path, task: str, rows: Sequence[Row]) -> None:
    name = task.partition("-")[0]
    known = {row.answerer for row in rows}
    models = [answerer for answerer in known if answerer not in (*TRIVIAL, "physics", *READERS)]
    drawn = [answerer for answerer in (*DRAWN, *sorted(models)) if answerer in known]
    published = {
        row.question: ("paper's best model", row.published[1])
        for row in comparisons(rows)
        if row.published is not None
    }
    save_figure(
        history_figure(rows, drawn, levels=published, title=task), figures / f"{name}_history.png"
    )
    if any(row.form == "change" for row in rows):
        changes = [row for row in rows if row.question == "next_state"]
        save_figure(
            elements_figure(changes, answerers=drawn, title=f"{task}: the next state"),
            figures / f"{name}_elements.png",
        )
        groups = mean_elements([row for row in changes if row.answerer in drawn])
        save_figure(
            grouped_bars(groups, title=f"{task}: the next state, by element"),
            figures / f"{name}_elements_mean.png",
        )
    if any(row.form == "absolute" for row in rows):
        asked = {
            form: {
                answerer: float(
                    np.mean(
                        [
                            row.accuracy
                            for row in rows
                            if (row.answerer, row.form) == (answerer, form)
                            and row.question == "next_action"
                        ]
                    )
                )
                for answerer in drawn
                if any((row.answerer, row.form) == (answerer, form) for row in rows)
            }
            for form in ("bins", "absolute")
        }
        save_figure(
            grouped_bars(asked, title=f"{task}: the next action, as part or number"),
            figures / f"{name}_bins.png",
        )


def _has_picture(name: str) -> bool:
    """Fetch's simulator may not be installed where episodes are, or find no way to draw."""
    return name in gpicljax.registered() and gpicljax.make(name).can_render


def tasks_figure(names: Sequence[str] = PICTURED) -> Any:
    """Figure 7: the tasks, as they are drawn here; all must be installed."""
    pictures = []
    for name in names:
        env = gpicljax.make(name)

        def frame(key: jax.Array, env: Any = env) -> Any:
            task = env.sample_task(key, env.default_params)
            return env.render(env.initial(key, task), task)

        pictures.append((name.partition("-")[0], np.asarray(jax.jit(frame)(jax.random.key(0)))))
    rows = [("", pictures[n : n + 4]) for n in range(0, len(pictures), 4)]
    return picture_grid(rows)
