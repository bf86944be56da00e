"""Table and figures of `mental_modelling.py`, all from one results file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import gpicljax
from gpicljax.evaluation.tables import markdown_table
from gpicljax.registration import id_without_version
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.mental_modelling.figures.curves import (
    elements_figure,
    grouped_bars,
    history_figure,
    mean_elements,
)
from gpicljax.systems.mental_modelling.measures.published import best_language_model
from gpicljax.systems.mental_modelling.measures.results import (
    TRIVIAL,
    Comparison,
    QuestionResult,
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
    "right if all of its elements are. The null is a rule that knows nothing but the history: the "
    "one that is best on the agents that the reader has read. It answers the same queries; "
    "differences are paired, with intervals of 95 % over episodes. Where several readers are "
    "trained, from other seeds, all answer the same queries: numbers are means over them, and "
    "over readers there is a t-interval of the difference. The reader knows the task by "
    "its weights. The paper's numbers are of other agents, other sizes of history and other "
    "prompts: not comparable one to one."
)


def percent(value: float, low: float = math.nan, high: float = math.nan, sign: str = "") -> str:
    """Formats a share in per cent with its interval, if there is one."""
    text = f"{100 * value:{sign}.1f}"
    return text if math.isnan(low) else f"{text} [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"


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


def published_best(result: Comparison) -> str:
    """Returns the paper's best language model on a task and question; empty where it has none."""
    has_one = not result.is_in_numbers
    best = best_language_model(result.task, result.question) if has_one else None
    return "" if best is None else f"{100 * best[1]:.1f} ({best[0]})"


def _format_lead(comparison: Comparison | None) -> list[str]:
    """Formats the difference with its interval over episodes, and that over readers."""
    if comparison is None:
        return ["", ""]
    over_readers = comparison.over_readers
    reader_interval = (
        f"[{100 * over_readers.low:+.1f}, {100 * over_readers.high:+.1f}]" if over_readers else ""
    )
    return [
        percent(comparison.lead, comparison.lead_low, comparison.lead_high, "+"),
        reader_interval,
    ]


def _format_accuracy(comparison: Comparison | None, interval: bool = True) -> str:
    """Formats the accuracy, with its interval over episodes; empty without any."""
    if comparison is None:
        return ""
    low, high = (comparison.low, comparison.high) if interval else (math.nan, math.nan)
    return percent(comparison.accuracy, low, high)


def comparison_table(comparisons: Sequence[Comparison]) -> str:
    """Returns the null, rules, reader, its lead and the paper's model by task and question."""
    names = ["task", "question", "null", "copy last", "physics", "reader", "reader - null"]
    names += ["over readers", "paper's best model"]
    lines = []
    for (task, question), by_answerer in group_by_question(comparisons).items():
        first = next(iter(by_answerer.values()))
        cells = [task, question.replace("_", " "), f"{percent(first.null_accuracy)} ({first.null})"]
        cells += [
            _format_accuracy(by_answerer.get(name), False) for name in ("copy last", "physics")
        ]
        cells += [
            _format_accuracy(by_answerer.get("reader")),
            *_format_lead(by_answerer.get("reader")),
        ]
        lines.append([*cells, published_best(first)])
    return markdown_table(names, lines)


def other_kinds_table(comparisons: Sequence[Comparison]) -> list[str]:
    """Returns the reader of other kinds beside the null and the usual reader; empty without any."""
    with_reader = {(x.task, x.question): x for x in comparisons if x.null == "reader"}
    names = ["task", "question", "null", "reader", OTHER_KINDS, "other kinds - null"]
    names += ["over readers", "other kinds - reader", "over readers"]
    lines = []
    for (task, question), by_answerer in group_by_question(comparisons).items():
        if comparison := by_answerer.get(OTHER_KINDS):
            cells = [task, question.replace("_", " "), percent(comparison.null_accuracy)]
            cells += [
                _format_accuracy(by_answerer.get("reader"), False),
                _format_accuracy(comparison),
            ]
            lines.append(
                [
                    *cells,
                    *_format_lead(comparison),
                    *_format_lead(with_reader.get((task, question))),
                ]
            )
    return [markdown_table(names, lines)] if lines else []


def language_model_table(comparisons: Sequence[Comparison]) -> list[str]:
    """Returns language models, prompt by prompt, beside the null; empty without any."""
    of_models = [comparison for comparison in comparisons if comparison.prompt]
    if not of_models:
        return []
    names = ["task", "question", "model", "prompt", "queries", "answered", "refused", "cut off"]
    names += ["echoes", "accuracy", "null", "model - null", "paper's best model"]
    lines = []
    for row in of_models:
        cells = [row.task, row.question.replace("_", " "), row.answerer, row.prompt]
        cells += [str(row.queries), *map(percent, (row.parsed, row.refused, row.cut_off))]
        cells += [percent(row.echoes)]
        cells += [percent(row.accuracy, row.low, row.high) if row.parsed else "-"]
        cells += [f"{percent(row.null_accuracy)} ({row.null})"]
        cells += [percent(row.lead, row.lead_low, row.lead_high, "+") if row.parsed else "-"]
        lines.append([*cells, published_best(row)])
    return ["", markdown_table(names, lines)]


def elements_table(rows: Sequence[QuestionResult]) -> list[str]:
    """Returns the share of a state's elements that are predicted rightly, by task and question.

    Hardly any answer to a long state is right as a whole.
    """
    lines = []
    element_rows = [row for row in rows if row.form == "change" and row.history > 0]
    answerers = [
        answerer
        for answerer in ("physics", *READERS)
        if any(row.answerer == answerer for row in element_rows)
    ]
    for task, question in dict.fromkeys((row.task, row.question) for row in element_rows):
        accuracies: dict[str, list[float]] = {}
        for row in element_rows:
            if (row.task, row.question) == (task, question):
                accuracies.setdefault(row.answerer, []).append(float(np.mean(row.elements)))
        share = {answerer: 100 * float(np.mean(values)) for answerer, values in accuracies.items()}
        best = max(
            (answerer for answerer in share if answerer in TRIVIAL),
            key=lambda answerer: share[answerer],
        )
        cells = [f"{share[answerer]:.1f}" if answerer in share else "" for answerer in answerers]
        lines.append([task, question.replace("_", " "), f"{share[best]:.1f} ({best})", *cells])
    names = ["task", "question", "best trivial rule", *answerers]
    return [markdown_table(names, lines)] if lines else []


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
    accuracies: dict[str, dict[str, float]] = {}
    for comparison in comparisons:
        if comparison.question == "next_action" and (
            comparison.prompt or comparison.answerer == "reader"
        ):
            name = (
                f"{comparison.answerer}, {comparison.prompt}"
                if comparison.prompt
                else comparison.answerer
            )
            bars = accuracies.setdefault(
                id_without_version(comparison.task), {"null": comparison.null_accuracy}
            )
            bars[name] = comparison.accuracy
            if best := best_language_model(comparison.task, comparison.question):
                bars["paper's best model"] = best[1]
    if accuracies:
        title = "The next action, mean over sizes of history"
        save_figure(grouped_bars(accuracies, title=title), figures / "tasks_next_action.png")
    if pictured := [name for name in PICTURED if name in about["tasks"] and _has_picture(name)]:
        save_figure(tasks_figure(pictured), figures / "tasks.png")
    learning = _learning_table(rows)
    leads = count_leads(comparisons)
    notes = [
        f"- {task}: {x['agents']} agents that the reader has not seen, {x['episodes']} episodes, "
        f"mean return {x['mean_return']:.4g}{_format_returns(x)}; {x.get('readers', 1)} reader(s), "
        f"which have read {x['agents_read']} agents; "
        f"histories {', '.join(map(str, x['histories']))}"
        for task, x in about["tasks"].items()
    ]
    text = "\n".join(
        [
            "# Mental modelling of agents",
            "",
            _NOTE,
            "",
            comparison_table(comparisons),
            *language_model_table(comparisons),
            *(["", spent] if (spent := about.get("language_model")) else []),
            "",
            f"The reader, a transformer that has read other agents, is ahead of the null on "
            f"{leads.ahead} of {leads.pairs} tasks and questions and behind it on {leads.behind}; "
            "on the others an interval of the difference, over episodes or over readers, "
            "includes 0.",
            *_other_kinds_section(comparisons),
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
    results: dict[str, Any] = {
        f"{task}, {question}": {name: x.accuracy for name, x in by_answerer.items()}
        | {"null": next(iter(by_answerer.values())).null}
        | {f"{name} - null": x.lead for name, x in by_answerer.items() if name in READERS}
        for (task, question), by_answerer in group_by_question(comparisons).items()
    }
    return Report(text, results | {"reader and null": leads._asdict()})


def _other_kinds_section(comparisons: Sequence[Comparison]) -> list[str]:
    """Returns the section on a reader that has seen none of an agent's kind."""
    leads = count_leads(comparisons, OTHER_KINDS)
    if not leads.pairs:
        return []
    over_reader = count_leads(comparisons, OTHER_KINDS, over_reader=True)
    deficits = [-x.lead for x in comparisons if x.null == "reader" and not x.is_in_numbers]
    return [
        "",
        f"The {OTHER_KINDS} answers each question by weights that were trained without any agent "
        f"of the kind that is asked about: it is ahead of the null on {leads.ahead} of "
        f"{leads.pairs} and behind it on {leads.behind}. It is ahead of the reader on "
        f"{over_reader.ahead} and behind it on {over_reader.behind}, and is on average "
        f"{100 * np.mean(deficits):.1f} points behind the reader.",
        "",
        *other_kinds_table(comparisons),
    ]


def _learning_table(rows: Sequence[QuestionResult]) -> list[str]:
    """Returns the reader's accuracy on the same queries with more and more history."""
    reader_rows = [row for row in rows if row.answerer == "reader" and row.form != "absolute"]
    sizes = sorted({row.history for row in reader_rows})
    lines = []
    for task, question in dict.fromkeys((row.task, row.question) for row in reader_rows):
        by_history = {
            row.history: row for row in reader_rows if (row.task, row.question) == (task, question)
        }
        first, last = by_history[min(by_history)], by_history[max(by_history)]
        potential = last.accuracy - first.accuracy
        # From where on it stays within a tenth of the potential from the end.
        close_sizes = [
            n
            for n in by_history
            if abs(by_history[n].accuracy - last.accuracy) <= 0.1 * abs(potential)
        ]
        horizon = min(n for n in by_history if all(m in close_sizes for m in by_history if m >= n))
        horizon_cell = "none" if first.low <= last.accuracy <= first.high else str(horizon)
        cells = [f"{100 * by_history[n].accuracy:.0f}" if n in by_history else "" for n in sizes]
        lines.append(
            [task, question.replace("_", " "), *cells, f"{100 * potential:+.0f}", horizon_cell]
        )
    return [markdown_table(["task", "question", *sizes, "potential", "horizon"], lines)]


def _draw_task_figures(figures: Path, task: str, rows: Sequence[QuestionResult]) -> None:
    name = id_without_version(task)
    answerers = {row.answerer for row in rows}
    models = [answerer for answerer in answerers if answerer not in (*TRIVIAL, "physics", *READERS)]
    shown = [answerer for answerer in (*DRAWN, *sorted(models)) if answerer in answerers]
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
        accuracies = {
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
                for answerer in shown
                if any((row.answerer, row.form) == (answerer, form) for row in rows)
            }
            for form in ("bins", "absolute")
        }
        save_figure(
            grouped_bars(accuracies, title=f"{task}: the next action, as part or number"),
            figures / f"{name}_bins.png",
        )


def _format_returns(about: Mapping[str, Any]) -> str:
    """Formats the mean return of each kind of agents that is asked about."""
    returns = about.get("returns", {})
    return f" ({', '.join(f'{kind} {mean:.4g}' for kind, mean in returns.items())})" * bool(returns)


def _has_picture(name: str) -> bool:
    return name in gpicljax.registered() and gpicljax.make(name).can_render


def tasks_figure(names: Sequence[str] = PICTURED) -> Any:
    """Draws Figure 7: the tasks; all must be installed."""
    pictures = []
    for name in names:
        env = gpicljax.make(name)

        def frame(key: jax.Array, env: Any = env) -> Any:
            task = env.sample_task(key, env.default_params)
            return env.render(env.initial(key, task), task)

        pictures.append((id_without_version(name), np.asarray(jax.jit(frame)(jax.random.key(0)))))
    rows = [("", pictures[n : n + 4]) for n in range(0, len(pictures), 4)]
    return picture_grid(rows)
