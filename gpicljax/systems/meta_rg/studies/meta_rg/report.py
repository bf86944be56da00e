"""The table, the figures and the summary of `meta_rg.py`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from gpicljax.evaluation.icl import ICLCurve, ICLProfile, icl_curve, icl_profile
from gpicljax.evaluation.records import ICLRecord, icl_record, reached_length
from gpicljax.evaluation.statistics import mean_interval
from gpicljax.evaluation.tables import (
    Row,
    join_paragraphs,
    markdown_table,
    percents,
    results_table,
    seeds_legend,
)
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.figures.messages import messages_figure, stimuli_figure
from gpicljax.systems.meta_rg.figures.replay import replay
from gpicljax.systems.meta_rg.measures import published
from gpicljax.systems.meta_rg.measures.games import (
    GameAccuracy,
    Games,
    accuracy_by_seed,
    pair_accuracies,
    pair_aucs,
    right_or_wrong,
)
from gpicljax.systems.meta_rg.measures.rules import (
    FIXED,
    NEAREST,
    Cell,
    RuleAccuracy,
    cell_name,
    decided_by_rule,
    rule_accuracy,
)
from gpicljax.systems.meta_rg.measures.zsct import hypothesis_table, hypothesis_tests
from gpicljax.systems.meta_rg.studies.meta_rg.config import Config
from gpicljax.typing import ArrayTree
from gpicljax.viz.curves import icl_figure, results_bars
from gpicljax.viz.style import save_figure


@dataclasses.dataclass(frozen=True)
class AccuracyMeasure:
    """An accuracy that reports show.

    Attributes:
      phase: Field of `GameAccuracy`: the decisions that count.
      unit: `"game"` for a mean over games, `"episode"` for a mean over episodes' means.
      title: Head of its column.
    """

    phase: Literal["query", "new", "minimal", "support"]
    unit: Literal["game", "episode"]
    title: str

    @property
    def key(self) -> str:
        """Its name in `summary.json`."""
        return f"{self.phase} by {self.unit}"


QUERY = AccuracyMeasure("query", "game", "query (games)")
QUERY_BY_EPISODE = AccuracyMeasure("query", "episode", "query (episodes)")
MEASURES = (
    QUERY,
    AccuracyMeasure("new", "game", "new targets"),
    AccuracyMeasure("minimal", "game", "minimal pairs"),
    QUERY_BY_EPISODE,
    AccuracyMeasure("support", "game", "support (games)"),
)
GREEDY = "greedy"
"""The condition of agents that act greedily in the games that they were trained on."""


def greedy_condition(max_values: int | None = None, samples: int | None = None) -> str:
    """Returns the name of the condition with other values or samples than in training."""
    differences = {"V": max_values, "O": samples}
    return ", ".join([GREEDY, *(f"{n} = {x}" for n, x in differences.items() if x is not None)])


def unseen_games(config: Config) -> dict[str, tuple[int, int, int]]:
    """Returns least and most values, and samples, of games that no training had, by condition.

    0 samples stand for those of the cell.
    """
    seen, more = (config.game.min_values, config.game.max_values), config.game.max_values + 1
    games = {greedy_condition(samples=o): (*seen, o) for o in config.unseen_samples}
    if config.game.has_room_for_more_values:
        games[greedy_condition(more)] = more, more, 0
        games |= {greedy_condition(more, o): (more, more, o) for o in config.unseen_samples}
    return games


class Measures(NamedTuple):
    """The measures of every agent; `RunResult.measured` has the results in the same places.

    Attributes:
      games: by condition: `Games`.
      rules: the rules' decisions in the games of "greedy": `Games`, R decisions each.
      episode: one of the greedy agent's, step by step: `Recorded`.
    """

    games: dict[str, Any]
    rules: Any
    episode: Any


class Results:
    """The measurements of a run, by cell and condition.

    Attributes:
      outcome: of the run.
      cells: (S, O) of each cell.
      conditions: in which agents were evaluated.
      accuracies: by condition, leaves `[seeds of all cells]`.
      decided: of each cell by rule, its decisions in the greedy agents' games.
      rules: by cell and rule, its accuracies in those games.
    """

    def __init__(self, outcome: RunResult) -> None:
        """Computes the accuracies."""
        self.outcome = outcome
        self.cells: list[Cell] = outcome.config.game.cells
        measured: Measures = outcome.measured
        self.conditions = list(measured.games)
        self.accuracies: dict[str, GameAccuracy] = {
            name: accuracy_by_seed(games) for name, games in measured.games.items()
        }
        self.decided: list[dict[str, Games]] = [
            decided_by_rule(outcome.program.more, self.of_cell(measured.rules, i))
            for i in range(len(self.cells))
        ]
        self.rules: dict[Cell, dict[str, RuleAccuracy]] = {
            cell: {name: rule_accuracy(games) for name, games in decided.items()}
            | outcome.host_measured[cell]
            for cell, decided in zip(self.cells, self.decided, strict=True)
        }

    def of_cell(self, values: ArrayTree, index: int) -> Any:
        """Returns the part of arrays `[seeds of all cells, ...]` that belongs to a cell."""
        seeds = self.outcome.config.seeds
        return jax.tree.map(lambda x: np.asarray(x)[index * seeds : (index + 1) * seeds], values)

    @property
    def pair_values(self) -> range:
        """Numbers of values by which minimal pairs are told apart: one more than in training."""
        return range(2, self.outcome.config.game.max_values + 2)

    def greedy_games(self, index: int) -> dict[str, Games]:
        """Returns a cell's greedy games of sound seeds, by condition."""
        games, sound = self.outcome.measured.games, self.of_cell(self.outcome.sound, index)
        return {
            name: jax.tree.map(lambda x: x[sound], self.of_cell(games[name], index))
            for name in (GREEDY, *unseen_games(self.outcome.config))
            if name in games
        }

    def measure(self, condition: str, measure: AccuracyMeasure, index: int) -> np.ndarray:
        """Returns a measure of a cell's seeds, `float64[seeds]`; NaN where a seed has broken."""
        accuracies = getattr(self.accuracies[condition], measure.phase)
        accuracy = accuracies.by_game if measure.unit == "game" else accuracies.by_episode
        return self.of_cell(self.outcome.seeds(accuracy), index)


def condition_table(results: Results, index: int) -> str:
    """Returns one cell's agents and rules, side by side."""
    rows = []
    for condition in results.conditions:
        cells = [mean_interval(results.measure(condition, m, index)).percent for m in MEASURES]
        cells.append(" ".join(percents(results.measure(condition, QUERY, index))))
        rows.append(Row("R2D2", "learner", cells, condition))
    for name, shares in results.rules[results.cells[index]].items():
        query, support, new, minimal = ("" if math.isnan(x.mean) else x.percent for x in shares)
        rows.append(Row(name, "rule", [query, new, minimal, "", support]))
    titles = [measure.title for measure in MEASURES]
    return results_table(["listener", *titles, "query, seed by seed"], rows)


def minimal_pair_table(results: Results, index: int) -> str:
    """Accuracy on minimal pairs, by how many values the dimension has in which they differ.

    Beside it the area under the ROC curve of the agents' value gap over matches and such pairs.
    """
    values = results.pair_values

    def cells(seeds: list[list[float]], spec: str = "") -> list[str]:
        intervals = [mean_interval(x or [math.nan]) for x in seeds]
        shown = [x.format(spec) if spec else x.percent for x in intervals]
        return ["" if math.isnan(x.mean) else s for x, s in zip(intervals, shown, strict=True)]

    rows = []
    for condition, games in results.greedy_games(index).items():
        rows.append(Row("R2D2", "learner", cells(pair_accuracies(games, values)), condition))
        aucs = ["", *cells(pair_aucs(games, values), ".3f")]
        rows.append(Row("R2D2", "learner", aucs, f"{condition}, AUC"))
    for name in ("equality", FIXED, NEAREST, ORACLE):
        if name in results.decided[index]:
            shares = pair_accuracies(results.decided[index][name], values)
            rows.append(Row(name, "rule", cells(shares)))
    return results_table(["minimal pairs of V values", "matches", *values], rows)


def paper_table(results: Results) -> str:
    """Returns the paper's numbers beside ours, cell by cell (query accuracy by episode, %)."""
    config = results.outcome.config
    table, source = dict(published.TABLE_3), "Table 3"
    if config.game.max_values == 3:
        memory = config.network.memory.upper()
        memory = memory if memory in published.TABLE_2 else "LSTM"
        table, source = {(1, 1): published.TABLE_2[memory]}, f"Table 2, {memory}"
    rows = []
    for index, cell in enumerate(results.cells):
        paper = table.get(cell)
        measured = [
            mean_interval(results.measure(condition, QUERY_BY_EPISODE, index)).percent
            for condition in ("behaviour (exploring actors)", GREEDY)
        ]
        rows.append([cell_name(cell), paper.percent if paper else "", *measured])
    head = ["cell", f"paper ({source})", "ours, behaviour", "ours, greedy"]
    return markdown_table(head, rows)


def hypotheses(results: Results) -> list[str]:
    """Tests of the paper's hypotheses 1 and 2 between cells, ours and the published ones.

    Empty unless there are several cells, and seeds to test them with.
    """
    if len(results.cells) == 1 or results.outcome.config.seeds == 1:
        return []
    cells = {
        cell: results.measure(GREEDY, QUERY_BY_EPISODE, index)
        for index, cell in enumerate(results.cells)
    }
    return [
        "## Hypotheses",
        "### Ours (greedy)",
        hypothesis_table(hypothesis_tests(cells)),
        "### The paper's Table 3, from its printed means and deviations",
        hypothesis_table(hypothesis_tests(published.TABLE_3)),
    ]


def context_curve(games: Games, sound: np.ndarray) -> tuple[ICLCurve, ICLProfile]:
    """Accuracy by position in the episode over the seeds that are sound, and its profile.

    Positions that fewer than a tenth of the episodes reach are left out.
    """
    shares = right_or_wrong(games)[sound if sound.any() else ~sound]
    values = shares.reshape(-1, shares.shape[-1])[:, : reached_length(shares)]
    valid = np.isfinite(values)
    return icl_curve(values, valid), icl_profile(values, valid)


ORACLE = "section oracle"
NULLS = (
    NEAREST,
    "equality",
    FIXED,
    "n-th tuple (message-free)",
    "always same",
    "always different",
    "leak rule (message-free)",
    "any-feedback rule (message-free)",
    "whole messages for whole stimuli",
)
"""Rules that need no training; those that listen know the grammar, which training can teach."""


def icl_records(results: Results) -> list[ICLRecord]:
    """Accuracy by the games played before, beside the rules in the same games: `profile` reads it.

    Positions that fewer than a tenth of the episodes reach are left out.
    """
    records, config = [], results.outcome.config
    games = results.outcome.measured.games
    for index, cell in enumerate(results.cells):
        sound = results.of_cell(results.outcome.sound, index)
        if not sound.any():
            continue

        greedy, wiped = (
            right_or_wrong(results.of_cell(games[name], index))[sound]
            for name in (GREEDY, "memory cleared every game")
        )
        decided = results.decided[index]
        records.append(
            icl_record(
                {
                    "agent": greedy,
                    "memory wiped": wiped,
                    "oracle": np.where(np.isnan(greedy), np.nan, 1.0),
                },
                {n: right_or_wrong(decided[n])[sound] for n in NULLS if n in decided},
                system="Meta-Referential Games",
                task=f"{config.game.env}, {cell_name(cell)}, {config.game.values}",
                agent=f"R2D2, {config.network.memory}",
                measure="accuracy",
                context="games",
                oracle="knows the meanings",
                reached=True,
            )
        )
    return records


def draw(results: Results) -> dict[Cell, ICLProfile]:
    """Draws every figure; returns the cells' ICL profiles."""
    config = results.outcome.config
    title = f"R2D2 listeners, {config.game.env}, {config.game.values}"
    draw_learning(results, title)
    profiles = draw_context(results, title)
    draw_listeners(results, title)
    draw_episode(results)
    return profiles


def draw_learning(results: Results, title: str) -> None:
    """Query accuracy over the training, beside the rules."""
    outcome, rules = results.outcome, results.rules[results.cells[0]]
    lines = {
        "chance": 0.5,
        "leak rule": rules["leak rule (message-free)"].query.mean,
        "any-feedback rule": rules["any-feedback rule (message-free)"].query.mean,
        NEAREST: rules[NEAREST].query.mean,
    }
    outcome.draw_learning(
        "query_accuracy",
        baselines=lines,
        xlabel="observations per seed",
        ylabel="query accuracy, greedy",
        title=title,
        percent=True,
    )


def draw_context(results: Results, title: str) -> dict[Cell, ICLProfile]:
    """Accuracy by position in the episode; returns the cells' ICL profiles."""
    outcome = results.outcome
    curves: dict[Cell, ICLCurve] = {}
    profiles: dict[Cell, ICLProfile] = {}
    for i, cell in enumerate(results.cells):
        games = results.of_cell(outcome.measured.games[GREEDY], i)
        curves[cell], profiles[cell] = context_curve(games, results.of_cell(outcome.sound, i))
    single = len(curves) == 1
    first = results.cells[0]
    figure = icl_figure(
        curves[first] if single else {cell_name(c): curve for c, curve in curves.items()},
        profile=profiles[first] if single else {cell_name(c): p for c, p in profiles.items()},
        xlabel="games played before in the episode",
        ylabel="accuracy, greedy",
        title=title,
        percent=True,
    )
    save_figure(figure, outcome.run.figures / "in_context_learning.png")
    return profiles


def draw_listeners(results: Results, title: str) -> None:
    """Query accuracy of the agents, by condition, and of the rules, in the first cell."""
    names, intervals, samples = [], [], []
    for condition in results.conditions:
        seeds = results.measure(condition, QUERY, 0)
        names.append(f"R2D2, {condition}")
        intervals.append(mean_interval(seeds))
        samples.append(seeds)
    for name, accuracy in results.rules[results.cells[0]].items():
        names.append(name)
        intervals.append(accuracy.query)
        samples.append(np.asarray([accuracy.query.mean]))
    figure = results_bars(
        names,
        [x.mean for x in intervals],
        [x.low for x in intervals],
        [x.high for x in intervals],
        samples=samples,
        highlight=names[: len(results.conditions)],
        xlabel="query accuracy",
        title=f"{title}, {cell_name(results.cells[0])}",
    )
    save_figure(figure, results.outcome.run.figures / "listeners.png")


def draw_episode(results: Results) -> None:
    """Draws the stimuli and messages of the episode that is replayed."""
    env, figures = results.outcome.program.more, results.outcome.run.figures
    assert isinstance(env, MetaRG)
    _, (episode, _) = results.outcome.first_sound(results.outcome.measured.episode)
    _, starts = np.unique(episode.states.index[: int(episode.length)], return_index=True)
    states = jax.tree.map(lambda x: x[starts], episode.states)
    messages = np.asarray(jax.jit(jax.vmap(env.speak))(states))
    support = int(states.skeleton.num_support[0])
    if env.stimulus == "scs":
        structure = {n: getattr(episode.task, n) for n in ("means", "sigmas", "num_values")}
        figure = stimuli_figure(
            states.game.speaker[:, 0],
            states.game.speaker_latents[:, 0],
            **structure,
            num_support=support,
            title="What the speaker sees in one episode",
        )
        save_figure(figure, figures / "stimuli.png")
    figure = messages_figure(
        messages, support, env.vocab_size, title="What the posdis speaker says in that episode"
    )
    save_figure(figure, figures / "messages.png")


def report(outcome: RunResult) -> Report:
    """Draws the figures and returns the summary."""
    results, config = Results(outcome), outcome.config
    profiles = draw(results)
    parts = [f"# {config.game.env}: R2D2 listeners, preset {config.preset}"]
    for index, cell in enumerate(results.cells):
        parts += [
            f"## {cell_name(cell)}, {config.game.values}",
            f"Accuracy in %, {config.evaluation_episodes} fresh episodes per seed: "
            f"{seeds_legend(config.seeds)}.",
            condition_table(results, index),
            minimal_pair_table(results, index),
            "In-context learning: accuracy by position in the episode, greedy.",
            profiles[cell].table(),
        ]
    game = config.game
    if game.stimulus == "scs" and game.num_rounds == 1 and game.num_distractors == 0:
        parts += [
            "## Beside the paper",
            "Query accuracy in %, averaged over episodes. The manual says how to read the tables: "
            "Meta-Referential Games, what a score must be compared with.",
            paper_table(results),
        ]
    parts += [
        *hypotheses(results),
        outcome.training_note(),
        replay(outcome, outcome.program.more),
    ]
    numbers: dict[str, Any] = {
        cell_name(cell): {
            condition: {
                measure.key: {
                    "seeds": (seeds := results.measure(condition, measure, index)),
                    **vars(mean_interval(seeds)),
                }
                for measure in MEASURES
            }
            for condition in results.accuracies
        }
        | {
            "rules": {
                name: {kind: share.mean for kind, share in rule._asdict().items()}
                for name, rule in results.rules[cell].items()
            },
            "minimal pairs": {
                condition: {
                    "values": list(results.pair_values),
                    "accuracy": pair_accuracies(games, results.pair_values)[1:],
                    "AUC": pair_aucs(games, results.pair_values),
                }
                for condition, games in results.greedy_games(index).items()
            },
        }
        for index, cell in enumerate(results.cells)
    }
    numbers |= {"parameters": outcome.parameters, "observations_per_s": outcome.speed}
    evaluations = [
        {
            condition: results.measure(condition, QUERY, index)[seed]
            for condition in results.conditions
        }
        for index in range(len(results.cells))
        for seed in range(config.seeds)
    ]
    return Report(join_paragraphs(*parts), numbers, evaluations, icl_records(results))
