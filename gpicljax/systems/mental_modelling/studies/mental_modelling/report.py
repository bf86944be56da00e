"""Table and figures of `mental_modelling.py`, all from one results file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpicljax.evaluation.statistics import format_interval, mean_interval
from gpicljax.evaluation.tables import join_paragraphs, markdown_table
from gpicljax.registration import id_without_version
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.mental_modelling.figures.curves import (
    FIGURES,
    amounts_figure,
    drawn_answerers,
    elements_figure,
    grouped_bars,
    history_figure,
    mean_elements,
    paper_figure,
)
from gpicljax.systems.mental_modelling.figures.tasks import pictured_tasks, tasks_figure
from gpicljax.systems.mental_modelling.measures.published import best_language_model
from gpicljax.systems.mental_modelling.measures.results import (
    OTHER_KINDS,
    READERS,
    TRIVIAL,
    Comparison,
    QuestionResult,
    count_leads,
    group_by_question,
    load_rows,
    save_rows,
)
from gpicljax.viz.style import save_figure

RESULTS = "results.json"
_NOTE = (
    "Accuracy in %, over all queries, mean over sizes of history from one step on; a state is "
    "right if all of its elements are. The null is a rule that needs no training, physics among "
    "them: in each episode the one that is best on the other episodes of the same agent; they are "
    "named from the most frequent one on. It answers the same queries; differences are paired, "
    "with intervals of 95 % over episodes. Where several readers are trained, from other seeds, "
    "all answer the same queries: numbers are means over them, and over readers there is a "
    "t-interval of the difference. The reader knows the task by its weights, and is told what each "
    "rule answers. The paper's numbers are of other agents, other sizes of history and other "
    "prompts: not comparable one to one."
)


def percent(value: float, low: float = math.nan, high: float = math.nan, sign: str = "") -> str:
    """Formats a share in per cent with its interval, if there is one."""
    return format_interval(value, low, high, f"{sign}.1f", scale=100)


def published_best(result: Comparison) -> str:
    """Returns the paper's best language model on a task and question; empty where it has none."""
    has_one = not result.is_in_numbers
    best = best_language_model(result.task, result.question) if has_one else None
    return "" if best is None else f"{100 * best[1]:.1f} ({best[0]})"


def _format_lead(comparison: Comparison | None) -> list[str]:
    """Formats the difference with its interval over episodes, and that over readers."""
    if comparison is None:
        return ["", ""]
    over = comparison.over_readers
    reader_interval = f"[{100 * over.low:+.1f}, {100 * over.high:+.1f}]" if over else ""
    lead = percent(comparison.lead, comparison.lead_low, comparison.lead_high, "+")
    return [lead, reader_interval]


def _format_accuracy(comparison: Comparison | None, interval: bool = True) -> str:
    """Formats the accuracy, with its interval over episodes; empty without any."""
    if comparison is None:
        return ""
    if not interval:
        return percent(comparison.accuracy)
    return percent(comparison.accuracy, comparison.low, comparison.high)


def _place_cells(result: Comparison | QuestionResult) -> list[str]:
    """Returns the first cells of a row: task and question."""
    return [result.task, result.question.replace("_", " ")]


def comparison_table(comparisons: Sequence[Comparison]) -> str:
    """Returns the null, rules, reader, its lead and the paper's model by task and question."""
    head = ["task", "question", "null", "copy last", "physics", "reader", "reader - null"]
    rows = []
    for by_answerer in group_by_question(comparisons).values():
        first, reader = next(iter(by_answerer.values())), by_answerer.get("reader")
        rules = (by_answerer.get(name) for name in ("copy last", "physics"))
        rows.append(
            [
                *_place_cells(first),
                f"{percent(first.null_accuracy)} ({first.null})",
                *(_format_accuracy(rule, False) for rule in rules),
                _format_accuracy(reader),
                *_format_lead(reader),
                published_best(first),
            ]
        )
    return markdown_table([*head, "over readers", "paper's best model"], rows)


def other_kinds_table(comparisons: Sequence[Comparison]) -> str:
    """Returns the reader of other kinds beside the null and the usual reader; empty without any."""
    with_reader = {(x.task, x.question): x for x in comparisons if x.null == "reader"}
    head = ["task", "question", "null", "reader", OTHER_KINDS, "other kinds - null"]
    rows = [
        [
            *_place_cells(comparison),
            percent(comparison.null_accuracy),
            _format_accuracy(by_answerer.get("reader"), False),
            _format_accuracy(comparison),
            *_format_lead(comparison),
            *_format_lead(with_reader.get(place)),
        ]
        for place, by_answerer in group_by_question(comparisons).items()
        if (comparison := by_answerer.get(OTHER_KINDS))
    ]
    head += ["over readers", "other kinds - reader", "over readers"]
    return markdown_table(head, rows) if rows else ""


def language_model_table(comparisons: Sequence[Comparison]) -> str:
    """Returns language models, prompt by prompt, beside the null; empty without any."""
    head = ["task", "question", "model", "prompt", "queries", "answered", "refused", "cut off"]
    head += ["echoes", "accuracy", "null", "model - null", "paper's best model"]
    rows = [
        [
            *_place_cells(row),
            row.answerer,
            row.prompt,
            row.queries,
            *map(percent, (row.parsed, row.refused, row.cut_off, row.echoes)),
            _format_accuracy(row) if row.parsed else "-",
            f"{percent(row.null_accuracy)} ({row.null})",
            _format_lead(row)[0] if row.parsed else "-",
            published_best(row),
        ]
        for row in comparisons
        if row.prompt
    ]
    return markdown_table(head, rows) if rows else ""


def elements_table(rows: Sequence[QuestionResult]) -> str:
    """Returns the share of a state's elements that are predicted rightly, by task and question.

    Hardly any answer to a long state is right as a whole.
    """
    shares: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for row in rows:
        if row.form == "change" and row.history > 0:
            by_answerer = shares.setdefault(tuple(_place_cells(row)), {})
            by_answerer.setdefault(row.answerer, []).append(float(np.mean(row.elements)))
    answered = {answerer for by_answerer in shares.values() for answerer in by_answerer}
    shown = [answerer for answerer in ("physics", *READERS) if answerer in answered]
    lines = []
    for place, by_answerer in shares.items():
        share = {answerer: float(np.mean(values)) for answerer, values in by_answerer.items()}
        best = max((x for x in share if x in TRIVIAL), key=lambda answerer: share[answerer])
        cells = [percent(share[answerer]) if answerer in share else "" for answerer in shown]
        lines.append([*place, f"{percent(share[best])} ({best})", *cells])
    head = ["task", "question", "best trivial rule", *shown]
    return markdown_table(head, lines) if lines else ""


def report(outcome: RunResult) -> Report:
    """Writes the rows, and draws from the written file."""
    measured = outcome.host_measured
    folder = outcome.run.path
    rows, comparisons = measured["rows"], measured["compared"]
    save_rows(folder / RESULTS, rows, comparisons, **measured["about"])
    return draw_results(folder)._replace(icl=measured["icl"])


def draw_results(folder: Path) -> Report:
    """Makes the table and figures from a run's results file alone."""
    rows, comparisons, about = load_rows(folder / RESULTS)
    figures = folder / "figures"
    for task in dict.fromkeys(row.task for row in rows):
        _draw_task_figures(figures, task, [row for row in rows if row.task == task])
    _draw_next_action(figures, comparisons)
    for figure, (task, *parts) in FIGURES.items():
        if any(id_without_version(row.task) == task for row in rows):
            save_figure(paper_figure(rows, task, *parts), figures / f"{figure}.png")
    amounts = {task: x["amounts"] for task, x in about["tasks"].items() if x.get("amounts")}
    if amounts:
        save_figure(amounts_figure(amounts), figures / "amounts.png")
    if pictured := pictured_tasks(about["tasks"]):
        save_figure(tasks_figure(pictured), figures / "tasks.png")
    leads = count_leads(comparisons)
    notes = [
        f"- {task}: {x['agents']} agents that the reader has not seen, {x['episodes']} episodes, "
        f"mean return {x['mean_return']:.4g}{_format_returns(x)}; {x.get('readers', 1)} reader(s), "
        f"which have read {x['agents_read']} agents; "
        f"histories {', '.join(map(str, x['histories']))}"
        for task, x in about["tasks"].items()
    ]
    text = join_paragraphs(
        "# Mental modelling of agents",
        _NOTE,
        comparison_table(comparisons),
        language_model_table(comparisons),
        about.get("language_model", ""),
        f"The reader, a transformer that has read other agents, is ahead of the null on "
        f"{leads.ahead} of {leads.pairs} tasks and questions and behind it on {leads.behind}; "
        "on the others an interval of the difference, over episodes or over readers, includes 0.",
        _other_kinds_note(comparisons),
        other_kinds_table(comparisons),
        _amounts_table(amounts),
        "Elements of states that are told rightly, in %, mean over sizes of history from one "
        "step on and over elements.",
        elements_table(rows),
        "The reader's accuracy, in %, by size of history: the same queries with more and more "
        "of it. The potential is what the longest history adds to none; the horizon, from "
        "where on a tenth of that is missing at most; none, where the end lies within the "
        "interval of the beginning.",
        _learning_table(rows),
        "\n".join(notes),
    )
    results: dict[str, Any] = {
        f"{task}, {question}": {name: x.accuracy for name, x in by_answerer.items()}
        | {"null": next(iter(by_answerer.values())).null}
        | {f"{name} - null": x.lead for name, x in by_answerer.items() if name in READERS}
        for (task, question), by_answerer in group_by_question(comparisons).items()
    }
    return Report(text, results | {"reader and null": leads._asdict()})


def _draw_next_action(figures: Path, comparisons: Sequence[Comparison]) -> None:
    """Draws the accuracies of readers and language models in the next action, task by task."""
    accuracies: dict[str, dict[str, float]] = {}
    for comparison in comparisons:
        is_reader = comparison.answerer == "reader"
        if comparison.question == "next_action" and (comparison.prompt or is_reader):
            name = ", ".join(filter(None, (comparison.answerer, comparison.prompt)))
            task = id_without_version(comparison.task)
            bars = accuracies.setdefault(task, {"null": comparison.null_accuracy})
            bars[name] = comparison.accuracy
            if best := best_language_model(comparison.task, comparison.question):
                bars["paper's best model"] = best[1]
    if accuracies:
        title = "The next action, mean over sizes of history"
        save_figure(grouped_bars(accuracies, title=title), figures / "tasks_next_action.png")


def _other_kinds_note(comparisons: Sequence[Comparison]) -> str:
    """Returns the leads of a reader that has seen none of an agent's kind; empty without one."""
    leads = count_leads(comparisons, OTHER_KINDS)
    if not leads.pairs:
        return ""
    over_reader = count_leads(comparisons, OTHER_KINDS, over_reader=True)
    deficits = [-x.lead for x in comparisons if x.null == "reader" and not x.is_in_numbers]
    return (
        f"The {OTHER_KINDS} answers each question by weights that were trained without any agent "
        f"of the kind that is asked about: it is ahead of the null on {leads.ahead} of "
        f"{leads.pairs} and behind it on {leads.behind}. It is ahead of the reader on "
        f"{over_reader.ahead} and behind it on {over_reader.behind}, and is on average "
        f"{100 * np.mean(deficits):.1f} points behind the reader."
    )


def _amounts_table(amounts: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Returns the lead of readers by kinds and agents that they have read; empty without any."""
    counts = sorted({x["agents"] for cells in amounts.values() for x in cells})
    lines = []
    for task, cells in amounts.items():
        for kinds in sorted({x["kinds"] for x in cells}):
            leads = (
                [x["lead"] for x in cells if (x["kinds"], x["agents"]) == (kinds, n)]
                for n in counts
            )
            means = (mean_interval(x) if x else None for x in leads)
            cells_of_row = ("" if x is None else percent(x.mean, x.low, x.high, "+") for x in means)
            lines.append([task, kinds, *cells_of_row])
    note = (
        "The lead over the null of readers of few agents and kinds, without the kind that is asked "
        "about, mean over questions; intervals over readers, each without another kind."
    )
    head = ["task", "kinds", *(f"{n} agents" for n in counts)]
    return join_paragraphs(note, markdown_table(head, lines)) if lines else ""


def _learning_table(rows: Sequence[QuestionResult]) -> str:
    """Returns the reader's accuracy on the same queries with more and more history."""
    by_question: dict[tuple[str, ...], dict[int, QuestionResult]] = {}
    for row in rows:
        if row.answerer == "reader" and row.form != "absolute":
            by_question.setdefault(tuple(_place_cells(row)), {})[row.history] = row
    sizes = sorted({history for by_history in by_question.values() for history in by_history})
    lines = []
    for place, by_history in by_question.items():
        histories = sorted(by_history)
        first, last = by_history[histories[0]], by_history[histories[-1]]
        potential = last.accuracy - first.accuracy
        # From where on it stays within a tenth of the potential from the end.
        missing = [abs(by_history[n].accuracy - last.accuracy) for n in histories]
        outside = [i for i, gap in enumerate(missing) if gap > 0.1 * abs(potential)]
        horizon = histories[outside[-1] + 1 if outside else 0]
        horizon_cell = "none" if first.low <= last.accuracy <= first.high else horizon
        cells = [f"{100 * by_history[n].accuracy:.0f}" if n in by_history else "" for n in sizes]
        lines.append([*place, *cells, f"{100 * potential:+.0f}", horizon_cell])
    return markdown_table(["task", "question", *sizes, "potential", "horizon"], lines)


def _draw_task_figures(figures: Path, task: str, rows: Sequence[QuestionResult]) -> None:
    name = id_without_version(task)
    shown = drawn_answerers(rows)
    published = {
        question: ("paper's best model", best[1])
        for question in dict.fromkeys(row.question for row in rows)
        if (best := best_language_model(task, question)) is not None
    }
    save_figure(
        history_figure(rows, shown, levels=published, title=task), figures / f"{name}_history.png"
    )
    if any(row.form == "change" for row in rows):
        changes = [row for row in rows if row.question == "next_state"]
        save_figure(
            elements_figure(changes, answerers=shown, title=f"{task}: the next state"),
            figures / f"{name}_elements.png",
        )
        groups = mean_elements([row for row in changes if row.answerer in shown])
        save_figure(
            grouped_bars(groups, title=f"{task}: the next state, by element"),
            figures / f"{name}_elements_mean.png",
        )
    if any(row.form == "absolute" for row in rows):
        accuracies: dict[str, dict[str, list[float]]] = {"bins": {}, "absolute": {}}
        for row in rows:
            if row.question == "next_action" and row.answerer in shown and row.form in accuracies:
                accuracies[row.form].setdefault(row.answerer, []).append(row.accuracy)
        bars = {
            form: {x: float(np.mean(by_answerer[x])) for x in shown if x in by_answerer}
            for form, by_answerer in accuracies.items()
        }
        title = f"{task}: the next action, as part or number"
        save_figure(grouped_bars(bars, title=title), figures / f"{name}_bins.png")


def _format_returns(about: Mapping[str, Any]) -> str:
    """Formats the mean return of each kind of agents that is asked about."""
    returns = about.get("returns", {})
    return f" ({', '.join(f'{kind} {mean:.4g}' for kind, mean in returns.items())})" * bool(returns)
