"""The tables, the figures and the summary of `meta_rg_players.py`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpicljax.evaluation.statistics import mean_interval, welch_test
from gpicljax.evaluation.tables import (
    interval_table,
    join_paragraphs,
    markdown_table,
    percents,
    seeds_legend,
)
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.figures.languages import languages_figure
from gpicljax.systems.meta_rg.figures.replay import replay
from gpicljax.systems.meta_rg.measures import published
from gpicljax.systems.meta_rg.measures.games import accuracy_by_seed
from gpicljax.systems.meta_rg.measures.rules import cell_name
from gpicljax.systems.meta_rg.measures.speaker_language import meanings
from gpicljax.typing import ArrayTree
from gpicljax.viz.style import save_figure

LANGUAGE = ("topsim", "posdis", "bosdis")
ACQUISITION = "ease of acquisition"


class Measures(NamedTuple):
    """The measures of every pair; `RunResult.measured` has the results in the same places.

    Attributes:
      games: by condition: `Games`.
      languages: what speakers say, by when they are asked: `Languages`.
      acquisition: how fast a new listener learns it, float `[structures, T]`; None where none is.
      episode: one of the greedy players', step by step: `Recorded`.
    """

    games: dict[str, Any]
    languages: dict[str, Any]
    acquisition: Any
    episode: Any


class Results:
    """The measurements of a run.

    Attributes:
      outcome: of the run.
      cells: their names.
      accuracies: by condition and kind of game (see `GameAccuracy`), `float64[cells, seeds]`.
      language: by measure, the mean over structures, likewise; empty without speakers to ask.
    """

    def __init__(self, outcome: RunResult) -> None:
        """Computes the accuracies."""
        self.outcome, self.cells = outcome, list(outcome.program.cells)
        measured: Measures = outcome.measured
        by_kind = {name: accuracy_by_seed(x)._asdict() for name, x in measured.games.items()}
        self.accuracies = {
            name: {kind: self._by_cell(accuracy.by_game) for kind, accuracy in kinds.items()}
            for name, kinds in by_kind.items()
        }
        self.language = {
            f"{name}, {when}": self._by_cell(
                np.asarray(getattr(spoken, name)).reshape(len(spoken.topsim), -1)
            )
            for name in LANGUAGE
            for when, spoken in measured.languages.items()
        }
        if measured.acquisition is not None:
            self.language[ACQUISITION] = self._by_cell(measured.acquisition)

    def _by_cell(self, values: ArrayTree) -> np.ndarray:
        values = self.outcome.seeds(values).reshape(len(self.cells), self.outcome.config.seeds, -1)
        # Structures in which nothing is said have no measure; nor has a speaker that says nothing.
        is_measured = ~np.isnan(values)
        total = np.where(is_measured, values, 0).sum(-1)
        return np.where(is_measured.any(-1), total / np.maximum(is_measured.sum(-1), 1), np.nan)


def accuracy_table(results: Results) -> str:
    """Returns every cell and condition."""
    rows = []
    for index, cell in enumerate(results.cells):
        for name, kinds in results.accuracies.items():
            by_kind = [values[index] for values in kinds.values()]
            means = (mean_interval(x).percent for x in by_kind)
            rows.append([cell, name, *means, " ".join(percents(by_kind[0]))])
    for cell, rules in results.outcome.host_measured.items():
        for name, accuracy in rules.items():
            rows.append([cell_name(cell), name, *(share.percent for share in accuracy)])
    header = "game", "evaluated", "query", "support", "new targets", "minimal pairs"
    return markdown_table([*header, "query, seed by seed"], rows)


def language_table(results: Results) -> str:
    """Returns every cell's measures of compositionality, and what a new listener understands."""
    rows = {
        cell: [values[index] for values in results.language.values()]
        for index, cell in enumerate(results.cells)
    }
    return interval_table(["game", *results.language], rows, cell=lambda x: x.percent)


def paper_table(results: Results) -> str:
    """Returns the paper's Table 1 beside what learning players reached in the same games, in %."""
    rows = []
    measured = {
        "zsct": results.accuracies["greedy"]["query"],
        "ease_of_acquisition": results.language.get(ACQUISITION),
        **{name: results.language.get(f"{name}, end") for name in LANGUAGE},
    }
    for (measure, shots), paper in published.TABLE_1.items():
        cell, values = cell_name((shots, 4)), measured[measure]
        if cell not in results.cells or values is None:
            continue
        cells = [
            mean_interval(values[results.cells.index(name)]).percent
            for name in (cell, f"{cell}, frozen speaker")
            if name in results.cells
        ]
        rows.append([cell, measure.replace("_", " "), paper.percent, *cells])
    return markdown_table(["game", "measure", "paper", "ours", "ours, frozen speaker"], rows)


def comparisons(results: Results) -> list[str]:
    """Learning speakers against those that keep their first code, in words."""
    lines = []
    query = dict(zip(results.cells, results.accuracies["greedy"]["query"], strict=True))
    for cell, learning in query.items():
        if (frozen := query.get(f"{cell}, frozen speaker")) is None:
            continue
        gain, test = 100 * (learning.mean() - frozen.mean()), ""
        if len(learning) > 1:
            welch = welch_test(learning, frozen, alternative="greater")
            test = f" (Welch's t = {welch.t:.2f}, one-sided p = {welch.p:.4f})"
        lines.append(
            f"{cell}: a speaker that learns gains {gain:+.1f} points of query accuracy over one "
            f"that keeps its first code{test}."
        )
    return lines


def draw(results: Results) -> None:
    """Draws the learning curves and the languages."""
    outcome = results.outcome
    config, env, figures = outcome.config, outcome.program.more, outcome.run.figures
    assert isinstance(env, MetaRG)
    title = f"Two players in {config.game.env}, {config.method}, {config.game.values}"
    seeds = config.seeds
    outcome.draw_learning(
        "query_accuracy",
        baselines={"chance": 0.5},
        xlabel="observations per seed",
        ylabel="query accuracy, greedy",
        title=title,
        percent=True,
    )
    if results.language:
        spoken, space = outcome.measured.languages["end"], meanings(env)
        # The first seed's richest structure, as every seed of the first cell speaks about it.
        shape = (len(results.cells) * seeds, config.structures, len(space))
        counts = np.asarray(spoken.counts).reshape(shape)[:seeds]
        messages = np.asarray(spoken.messages).reshape(*shape, -1)[:seeds]
        shown = counts[0, counts[0].sum(-1).argmax()]
        same = (counts == shown).all(-1).argmax(-1)
        languages = {
            f"seed {seed}": messages[seed, same[seed]][shown > 0]
            for seed in range(seeds)
            if (counts[seed, same[seed]] == shown).all()
        }
        figure = languages_figure(
            languages, space[shown > 0], env.vocab_size, title="What is said of every meaning"
        )
        save_figure(figure, figures / "languages.png")


def report(outcome: RunResult) -> Report:
    """Draws the figures, and says what was found."""
    results, config = Results(outcome), outcome.config
    draw(results)
    parts = [
        f"# {config.game.env}: two players, {config.method}, preset {config.preset}",
        f"{config.game.values}. Accuracy in %, {config.evaluation_episodes} fresh episodes per "
        f"seed: {seeds_legend(config.seeds)}.",
        accuracy_table(results),
        *comparisons(results),
    ]
    if results.language:
        parts += [
            f"The language, in %: mean over {config.structures} semantic structures and all their "
            "meanings, each asked for at the start of an episode or at the end of one.",
            language_table(results),
        ]
        if config.taught:
            parts += [
                f"{ACQUISITION.capitalize()}: the accuracy of new listeners on the meanings of the "
                f"query phase after 512 epochs of those of the support phase, in {config.taught} "
                "structures; chance is 50 %.",
            ]
    if config.game.max_values == 5 and 4 in config.game.samples:
        parts += ["Beside the paper's Table 1:", paper_table(results)]
    parts += [outcome.training_note(), replay(outcome, outcome.program.more)]
    numbers: dict[str, Any] = {
        cell: {
            name: {
                **{kind: values[index] for kind, values in kinds.items()},
                **vars(mean_interval(kinds["query"][index])),
            }
            for name, kinds in results.accuracies.items()
        }
        | {name: values[index] for name, values in results.language.items()}
        for index, cell in enumerate(results.cells)
    }
    return Report(join_paragraphs(*parts), {**numbers, "observations_per_s": outcome.speed})
