"""The program of the study `meta_rg_rules`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import numpy as np

from gpicljax.checks import Count
from gpicljax.evaluation.statistics import mean_interval
from gpicljax.evaluation.tables import (
    Row,
    join_paragraphs,
    results_table,
    seeds_legend,
)
from gpicljax.runs.run_directory import RunDirectory
from gpicljax.runtime import (
    Program,
    Report,
    RunConfig,
    RunResult,
    named_key,
    run_experiment,
)
from gpicljax.systems.meta_rg.experts.listeners import baseline_rules
from gpicljax.systems.meta_rg.measures.games import Games, accuracy_by_seed, pair_accuracies
from gpicljax.systems.meta_rg.measures.rules import (
    Cell,
    best_rule,
    cell_name,
    panel_rules,
    rule_player,
)
from gpicljax.systems.meta_rg.studies.game_config import WITHHELD, GameConfig

Shares = dict[str, np.ndarray]
"""By measure, `float64[seeds]`."""


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """Plays rules that need no training; nothing is trained.

    Attributes:
      game: The games; a cell for every pair of shots and samples.
      evaluation_episodes: Episodes per seed and cell. As many others choose the fixed tolerance.
    """

    game: GameConfig = GameConfig("MetaRG-v1", samples=(1, 4, 16))
    seeds: Count = 3
    evaluation_episodes: Count = 512


def measure(config: Config) -> dict[Cell, dict[str, Shares]]:
    """Returns every measure of every rule, by cell and rule, on the same games."""
    game, seeds = config.game, range(config.seed, config.seed + config.seeds)
    env = game.make(actions="compact")
    rules = panel_rules(env)
    kinds = {"": (env, game)}
    if game.has_room_for_more_values:
        most = game.max_values + 1
        more = dataclasses.replace(game, min_values=most, max_values=most)
        kinds[f", V = {most}"] = more.make(actions="compact"), more
    players = {
        kind: rule_player(kind_env, panel_rules(kind_env), config.evaluation_episodes)
        for kind, (kind_env, _) in kinds.items()
    }

    def play(cell: Cell, kind: str, use: str) -> Games:
        kind_env, kind_game = kinds[kind]
        params = kind_game.params(kind_env, cell)
        played = [players[kind](named_key(seed, use), params) for seed in seeds]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *played)

    results: dict[Cell, dict[str, Shares]] = {}
    for cell in game.cells:
        others = play(cell, "", "choice")
        places = choices(list(rules), len(baseline_rules(env)), others)
        results[cell] = {name: {} for name in places}
        for kind, (_, kind_game) in kinds.items():
            games = play(cell, kind, "rules")
            for name, place in places.items():
                decided = games._replace(correct=games.correct[..., place])
                results[cell][name] |= shares(decided, kind, kind_game.max_values)
    return results


def choices(names: list[str], panel: int, others: Games) -> dict[str, int]:
    """Returns the places of the rules that are shown, by name: the panel, and the best tolerances.

    Args:
      names: of all rules.
      panel: number of rules before the candidates for a tolerance.
      others: games by which tolerances are chosen.
    """
    places = {name: place for place, name in enumerate(names[:panel])}
    counts = others.valid & others.query
    for to in ("nearest", "mean"):
        candidates = [i for i, name in enumerate(names) if i >= panel and to in name]
        if candidates:
            best = candidates[best_rule(others.correct[..., candidates], counts)]
            places[f"fixed tolerance: {names[best]}"] = best
    return places


def shares(games: Games, kind: str, values: int) -> Shares:
    """Returns the measures of a rule's games, leaves `[S, N, G]`."""
    accuracy = accuracy_by_seed(games)
    matches, pairs = (np.asarray(x) for x in pair_accuracies(games, [values]))
    measured = {f"query{kind}": accuracy.query.by_game, f"minimal pairs, V = {values}": pairs}
    if not kind:
        measured |= {"new targets": accuracy.new.by_game, "support": accuracy.support.by_game}
        measured["matches"] = matches
    return {name: np.asarray(seeds, np.float64) for name, seeds in measured.items()}


def build(config: Config) -> Program:
    """Nothing is trained: rules need no agent."""

    def measure_all(run: RunDirectory) -> dict[Cell, dict[str, Shares]]:
        return measure(config)

    return Program(title=f"Rules in {config.game.env}", host_measures=measure_all)


def cell_table(rules: Mapping[str, Shares]) -> str:
    """Returns the table of a cell."""
    measures = list(next(iter(rules.values())))
    rows = [
        Row(name, "rule", [mean_interval(row[measure]).percent for measure in measures])
        for name, row in rules.items()
    ]
    return results_table(["rule", *measures], rows)


def report(outcome: RunResult) -> Report:
    """Returns a table for every cell."""
    config, measured = outcome.config, outcome.host_measured
    parts = [
        f"# {config.game.env}: rules that need no training",
        f"{config.game.values}. Accuracy by game in %, {config.evaluation_episodes} episodes per "
        f"seed and cell: {seeds_legend(config.seeds)}.",
    ]
    for cell, rules in measured.items():
        parts += [f"## {cell_name(cell)}", cell_table(rules)]
    return Report(join_paragraphs(*parts), {cell_name(cell): x for cell, x in measured.items()})


PRESETS = {
    "quick": Config(),
    "table2": Config(game=GameConfig(max_values=3)),
    "sections": Config(game=WITHHELD),
}


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    return run_experiment("meta_rg_rules", PRESETS, build, report, argv)
