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
from gpicljax.registration import unversioned
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
    """A share in per cent with its interval, if there is one."""
    text = f"{100 * value:{sign}.1f}"
    return text if math.isnan(low) else f"{text} [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"


def by_question(found: Sequence[Comparison]) -> dict[tuple[str, str], dict[str, Comparison]]:
    """Comparisons with the null by task and question, and by answerer; no language models."""
    grouped: dict[tuple[str, str], dict[str, Comparison]] = {}
    for each in found:
        if not each.prompt and each.null != "reader":
            grouped.setdefault((each.task, each.question), {})[each.answerer] = each
    return grouped


def published_best(result: Comparison) -> str:
    """Returns the paper's best language model on a task and question; empty where it has none."""
    has_one = not result.is_in_numbers
    best = best_language_model(result.task, result.question) if has_one else None
    return "" if best is None else f"{100 * best[1]:.1f} ({best[0]})"


def _lead(each: Comparison | None) -> list[str]:
    """The difference with its interval over episodes, and that over readers."""
    if each is None:
        return ["", ""]
    over = each.over_readers
    of_readers = f"[{100 * over.low:+.1f}, {100 * over.high:+.1f}]" if over else ""
    return [percent(each.lead, each.lead_low, each.lead_high, "+"), of_readers]


def _accuracy(each: Comparison | None, interval: bool = True) -> str:
    """The accuracy, with its interval over episodes; empty without any."""
    if each is None:
        return ""
    low, high = (each.low, each.high) if interval else (math.nan, math.nan)
    return percent(each.accuracy, low, high)


def table(found: Sequence[Comparison]) -> str:
    """Every task and question: the null, other rules, the reader and its lead, and the paper's."""
    names = ["task", "question", "null", "copy last", "physics", "reader", "reader - null"]
    names += ["over readers", "paper's best model"]
    lines = []
    for (task, question), each in by_question(found).items():
        some = next(iter(each.values()))
        cells = [task, question.replace("_", " "), f"{percent(some.null_accuracy)} ({some.null})"]
        cells += [_accuracy(each.get(name), False) for name in ("copy last", "physics")]
        cells += [_accuracy(each.get("reader")), *_lead(each.get("reader"))]
        lines.append([*cells, published_best(some)])
    return markdown_table(names, lines)


def strangers_table(found: Sequence[Comparison]) -> list[str]:
    """The reader of other kinds beside the null and the usual reader; empty without any."""
    usual = {(x.task, x.question): x for x in found if x.null == "reader"}
    names = ["task", "question", "null", "reader", OTHER_KINDS, "other kinds - null"]
    names += ["over readers", "other kinds - reader", "over readers"]
    lines = []
    for (task, question), each in by_question(found).items():
        if mine := each.get(OTHER_KINDS):
            cells = [task, question.replace("_", " "), percent(mine.null_accuracy)]
            cells += [_accuracy(each.get("reader"), False), _accuracy(mine)]
            lines.append([*cells, *_lead(mine), *_lead(usual.get((task, question)))])
    return [markdown_table(names, lines)] if lines else []


def told_table(found: Sequence[Comparison]) -> list[str]:
    """Language models, prompt by prompt, beside the null on the same queries; empty without any."""
    told = [each for each in found if each.prompt]
    if not told:
        return []
    names = ["task", "question", "model", "prompt", "queries", "answered", "refused", "cut off"]
    names += ["echoes", "accuracy", "null", "model - null", "paper's best model"]
    lines = []
    for each in told:
        cells = [each.task, each.question.replace("_", " "), each.answerer, each.prompt]
        cells += [str(each.queries), *map(percent, (each.parsed, each.refused, each.cut_off))]
        cells += [percent(each.echoes)]
        cells += [percent(each.accuracy, each.low, each.high) if each.parsed else "-"]
        cells += [f"{percent(each.null_accuracy)} ({each.null})"]
        cells += [percent(each.lead, each.lead_low, each.lead_high, "+") if each.parsed else "-"]
        lines.append([*cells, published_best(each)])
    return ["", markdown_table(names, lines)]


def elements_table(rows: Sequence[QuestionResult]) -> list[str]:
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
        lines.append([task, question.replace("_", " "), f"{share[best]:.1f} ({best})", *cells])
    names = ["task", "question", "best trivial rule", *others]
    return [markdown_table(names, lines)] if lines else []


class Count(NamedTuple):
    """On how many tasks and questions an answerer is ahead of the null, or behind; and of how many.

    What lies within an interval of a paired difference, over episodes or readers, is neither.
    """

    ahead: int
    behind: int
    pairs: int


def count_leads(
    found: Sequence[Comparison], answerer: str = "reader", *, of_reader: bool = False
) -> Count:
    """Counts one answerer's leads; numbers are not counted beside the parts of their range.

    Args:
      found: comparisons.
      answerer: its name.
      of_reader: counts its leads over the usual reader, not over the null.
    """
    mine = [x for x in found if x.answerer == answerer and not x.is_in_numbers]
    signs = [x.sign for x in mine if (x.null == "reader") == of_reader]
    return Count(signs.count(1), signs.count(-1), len(signs))


def report(outcome: RunResult) -> Report:
    """Writes the rows, and draws from what was written."""
    measured = outcome.host_measured
    folder = outcome.run.path
    rows, compared = measured["rows"], measured["compared"]
    save_rows(folder / RESULTS, rows, compared, **measured["about"])
    return draw(folder)._replace(icl=measured["icl"])


def draw(folder: Path) -> Report:
    """Table and figures from a run's results file alone."""
    rows, found, about = load_rows(folder / RESULTS)
    figures = folder / "figures"
    for task in dict.fromkeys(row.task for row in rows):
        _figures(figures, task, [row for row in rows if row.task == task])
    shown: dict[str, dict[str, float]] = {}
    for each in found:
        if each.question == "next_action" and (each.prompt or each.answerer == "reader"):
            name = f"{each.answerer}, {each.prompt}" if each.prompt else each.answerer
            bars = shown.setdefault(unversioned(each.task), {"null": each.null_accuracy})
            bars[name] = each.accuracy
            if best := best_language_model(each.task, each.question):
                bars["paper's best model"] = best[1]
    if shown:
        title = "The next action, mean over sizes of history"
        save_figure(grouped_bars(shown, title=title), figures / "tasks_next_action.png")
    if pictured := [name for name in PICTURED if name in about["tasks"] and _has_picture(name)]:
        save_figure(tasks_figure(pictured), figures / "tasks.png")
    learning = _learning(rows)
    leads = count_leads(found)
    notes = [
        f"- {task}: {x['agents']} agents that the reader has not seen, {x['episodes']} episodes, "
        f"mean return {x['mean_return']:.4g}{_returns(x)}; {x.get('readers', 1)} reader(s), which "
        f"have read {x['agents_read']} agents; "
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
            *told_table(found),
            *(["", spent] if (spent := about.get("language_model")) else []),
            "",
            f"The reader, a transformer that has read other agents, is ahead of the null on "
            f"{leads.ahead} of {leads.pairs} tasks and questions and behind it on {leads.behind}; "
            "on the others an interval of the difference, over episodes or over readers, "
            "includes 0.",
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
    results: dict[str, Any] = {
        f"{task}, {question}": {name: x.accuracy for name, x in each.items()}
        | {"null": next(iter(each.values())).null}
        | {f"{name} - null": x.lead for name, x in each.items() if name in READERS}
        for (task, question), each in by_question(found).items()
    }
    return Report(text, results | {"reader and null": leads._asdict()})


def _strangers(found: Sequence[Comparison]) -> list[str]:
    """What there is to say of a reader that has seen none of an agent's kind."""
    leads = count_leads(found, OTHER_KINDS)
    if not leads.pairs:
        return []
    against = count_leads(found, OTHER_KINDS, of_reader=True)
    lost = [-x.lead for x in found if x.null == "reader" and not x.is_in_numbers]
    return [
        "",
        f"The {OTHER_KINDS} answers each question by weights that were trained without any agent "
        f"of the kind that is asked about: it is ahead of the null on {leads.ahead} of "
        f"{leads.pairs} and behind it on {leads.behind}. It is ahead of the reader on "
        f"{against.ahead} and behind it on {against.behind}, and is on average "
        f"{100 * np.mean(lost):.1f} points behind the reader.",
        "",
        *strangers_table(found),
    ]


def _learning(rows: Sequence[QuestionResult]) -> list[str]:
    """The reader's in-context learning: the same queries with more and more history."""
    mine = [row for row in rows if row.answerer == "reader" and row.form != "absolute"]
    sizes = sorted({row.history for row in mine})
    lines = []
    for task, question in dict.fromkeys((row.task, row.question) for row in mine):
        some = {row.history: row for row in mine if (row.task, row.question) == (task, question)}
        first, last = some[min(some)], some[max(some)]
        potential = last.accuracy - first.accuracy
        # From where on it stays within a tenth of the potential from the end.
        near = [n for n in some if abs(some[n].accuracy - last.accuracy) <= 0.1 * abs(potential)]
        horizon = min(n for n in some if all(m in near for m in some if m >= n))
        shown = "none" if first.low <= last.accuracy <= first.high else str(horizon)
        cells = [f"{100 * some[n].accuracy:.0f}" if n in some else "" for n in sizes]
        lines.append([task, question.replace("_", " "), *cells, f"{100 * potential:+.0f}", shown])
    return [markdown_table(["task", "question", *sizes, "potential", "horizon"], lines)]


def _figures(figures: Path, task: str, rows: Sequence[QuestionResult]) -> None:
    name = unversioned(task)
    known = {row.answerer for row in rows}
    models = [answerer for answerer in known if answerer not in (*TRIVIAL, "physics", *READERS)]
    drawn = [answerer for answerer in (*DRAWN, *sorted(models)) if answerer in known]
    published = {
        question: ("paper's best model", best[1])
        for question in dict.fromkeys(row.question for row in rows)
        if (best := best_language_model(task, question)) is not None
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


def _returns(about: Mapping[str, Any]) -> str:
    """The mean return of each kind of agents that is asked about."""
    found = about.get("returns", {})
    return f" ({', '.join(f'{kind} {mean:.4g}' for kind, mean in found.items())})" * bool(found)


def _has_picture(name: str) -> bool:
    return name in gpicljax.registered() and gpicljax.make(name).can_render


def tasks_figure(names: Sequence[str] = PICTURED) -> Any:
    """Figure 7: the tasks, as they are drawn here; all must be installed."""
    pictures = []
    for name in names:
        env = gpicljax.make(name)

        def frame(key: jax.Array, env: Any = env) -> Any:
            task = env.sample_task(key, env.default_params)
            return env.render(env.initial(key, task), task)

        pictures.append((unversioned(name), np.asarray(jax.jit(frame)(jax.random.key(0)))))
    rows = [("", pictures[n : n + 4]) for n in range(0, len(pictures), 4)]
    return picture_grid(rows)
