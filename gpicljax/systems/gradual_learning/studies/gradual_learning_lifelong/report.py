"""The tables and the figure of `gradual_learning_lifelong.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpicljax.evaluation.statistics import mean_interval
from gpicljax.evaluation.tables import interval_table, join_paragraphs, markdown_table
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.gradual_learning.figures.learning import accuracy_matrix_figure
from gpicljax.systems.gradual_learning.learners.life import Life
from gpicljax.systems.gradual_learning.measures.criteria import (
    CompletionTimes,
    Retention,
    Transfer,
    forgetting,
    learns_gradually,
    retention,
    transfer,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning_lifelong.config import (
    Config,
    Method,
)
from gpicljax.viz.style import save_figure

Lives = Mapping[Method, Sequence[Life]]
"""By method, the life of each seed."""


SKILLS = {
    "final": "skill at the end",
    "backward": "backward transfer",
    "forgetting": "forgetting",
    "forward": "forward transfer",
    "steps": "steps of training",
}
"""Measures of a life: names in `summary.json`, heads of columns."""


def summarise_skills(lives: Sequence[Life]) -> np.ndarray:
    """Returns the summary of one method's lives, `float[5, seeds]`, as `SKILLS`."""
    columns = []
    for life in lives:
        skill = life.solved.mean(-1)
        columns.append((skill[-1].mean(), *forgetting(skill[1:], skill[0]), life.steps.sum()))
    return np.transpose(columns)


def transfers_of(lives: Lives, method: Method, targets: Sequence[str]) -> dict[str, Transfer]:
    """Returns criterion B by target: lives that go on beside those that begin anew, by seed."""
    transfers = {}
    for name in targets:
        pairs = list(zip(lives["anew"], lives[method], strict=False))
        if len(pairs) < 2:
            continue
        places = [life.order.index(name) for life, _ in pairs]
        anew = CompletionTimes(
            np.array([[old.steps[p]] for (old, _), p in zip(pairs, places, strict=True)]),
            np.array([[old.cleared[p]] for (old, _), p in zip(pairs, places, strict=True)]),
        )
        # All that came before counts as one: seeds have other numbers of sets before a target.
        after = CompletionTimes(
            np.array(
                [
                    [new.steps[:p].sum(), new.steps[p]]
                    for (_, new), p in zip(pairs, places, strict=True)
                ]
            ),
            np.array([[True, new.cleared[p]] for (_, new), p in zip(pairs, places, strict=True)]),
        )
        transfers[name] = transfer(anew, after)
    return transfers


def retentions_of(lives: Sequence[Life]) -> dict[str, Retention]:
    """Returns criterion C by task set but the last: cleared once it was learnt, and at the end."""
    retentions = {}
    for name in sorted({name for life in lives for name in life.order[:-1]}):
        first, last = [], []
        for life in lives:
            place = life.order.index(name)
            for row, results_of_row in ((place + 1, first), (-1, last)):
                results_of_row.append(
                    (np.median(life.taken[row, place]), life.kept[row, place].all())
                )
        times = [
            CompletionTimes(
                np.array([[steps] for steps, _ in results]),
                np.array([[kept] for _, kept in results]),
            )
            for results in (first, last)
        ]
        retentions[name] = retention(*times)
    return retentions


def _steps_cell(lives: Sequence[Life], name: str) -> str:
    places = [life.order.index(name) for life in lives]
    steps = [life.steps[p] for life, p in zip(lives, places, strict=True)]
    share = np.mean([life.cleared[p] for life, p in zip(lives, places, strict=True)])
    return f"{np.median(steps):,.0f}" + (f" ({100 * share:.0f} %)" if share < 1 else "")


def report(outcome: RunResult) -> Report:
    """Draws the figure; returns tables and numbers."""
    config, lives = outcome.config, outcome.host_measured
    methods: list[Method] = [method for method in lives if method != "anew"]
    transfers = {
        method: transfers_of(lives, method, config.targets) for method in methods if "anew" in lives
    }
    retentions = {method: retentions_of(lives[method]) for method in methods}
    skills = {method: summarise_skills(method_lives) for method, method_lives in lives.items()}
    matrices = {
        method: np.mean([life.solved.mean(-1) for life in method_lives], 0)
        for method, method_lives in lives.items()
    }
    figure = accuracy_matrix_figure(matrices, title="skill in each set, after each set")
    save_figure(figure, outcome.run.figures / "matrix.png")
    text = join_paragraphs(
        *_introduction(config),
        *_steps_section(config, lives),
        *_transfer_section(transfers),
        *_retention_section(config, retentions),
        *_matrix_section(skills),
    )
    summaries = {
        method: dict(zip(SKILLS, map(mean_interval, columns), strict=True))
        for method, columns in skills.items()
    }
    return Report(text, {"B": transfers, "C": retentions, "skills": summaries})


def _introduction(config: Config) -> list[str]:
    orders = "; ".join(" ".join(config.order(seed)) for seed in range(config.seeds))
    return [
        f"# Learning one task set after the other, preset {config.preset}",
        f"{config.seeds} seeds; {config.steps:,} steps an update, at most {config.updates} updates "
        f"on a set. A set is cleared when {100 * config.cleared:.0f} % of {config.streams} new "
        f"streams with frozen weights are, in {config.budget:,} steps: {config.threshold} "
        f"instances solved in a row. This is tried after every update. Orders: {orders}.",
    ]


def _steps_section(config: Config, lives: Lives) -> list[str]:
    rows = [
        [name, *(_steps_cell(method_lives, name) for method_lives in lives.values())]
        for name in config.task_sets
    ]
    return [
        "## A. Steps of training until cleared",
        "Medians over seeds; in brackets the share of seeds that cleared the set, where not all.",
        markdown_table(["task set", *lives], rows),
    ]


def _transfer_section(transfers: Mapping[str, Mapping[str, Transfer]]) -> list[str]:
    """Returns the section on criterion B; empty without lives to compare with."""
    if not transfers:
        return []
    text = [
        "## B. What the sets before are worth",
        "Times fewer steps on a target after the sets before it than from new weights: geometric "
        "means over seeds with intervals of 95 %; `inclusive` counts the steps on the sets before, "
        "too.",
    ]
    for method, method_transfers in transfers.items():
        head = [method, "times faster", "sign test p", "inclusive", "not cleared: anew, after"]
        rows = [
            [name, x.interval, f"{x.p:.3f}", f"{x.inclusive:.2f}", x.not_cleared]
            for name, x in method_transfers.items()
        ]
        gradual = bool(method_transfers) and learns_gradually(list(method_transfers.values()))
        verdict = "holds" if gradual else "is not shown"
        text += [markdown_table(head, rows), f"{method}: gradual learning {verdict}."]
    return text


def _retention_section(
    config: Config, retentions: Mapping[str, Mapping[str, Retention]]
) -> list[str]:
    rows = [
        [name, *(_retention_cell(by_set.get(name)) for by_set in retentions.values())]
        for name in config.task_sets
        if any(name in by_set for by_set in retentions.values())
    ]
    return [
        "## C. What is kept",
        "Steps of a stream with frozen weights until a set is cleared, right after it was learnt "
        "over those at the end of the life (1: nothing is lost), with intervals of 95 % over "
        "seeds; `lost`: seeds that do not clear it again.",
        markdown_table(["task set", *retentions], rows),
    ]


def _matrix_section(skills: Mapping[str, np.ndarray]) -> list[str]:
    return [
        "## The matrix of skills",
        "Skill is the share of instances solved with frozen weights. Backward transfer: change "
        "from when a set was learnt to the end. Forgetting: best skill since then, less that at "
        "the end. Forward transfer: skill just before a set is learnt, less that before the first. "
        "Means over sets, with intervals of 95 % over seeds. Steps are those of a whole life. From "
        "set to set elastic keeps three numbers for each weight, all others one; replay and "
        "rehearsal store no streams, but draw new ones of all sets so far.",
        interval_table(
            ["", *SKILLS.values()],
            skills,
            lambda x: x.format(".2f" if abs(x.mean) <= 1 else ",.0f"),
        ),
        "![skill in every task set, after every task set](figures/matrix.png)",
    ]


def _retention_cell(result: Retention | None) -> str:
    if result is None or not result.pairs:
        return ""
    return result.interval + f"; {result.lost} of {result.pairs} lost" * bool(result.lost)
