"""Accuracies of untrained rules in the games of a study."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.evaluation.statistics import Interval, mean_interval
from gpicljax.interface import Agent
from gpicljax.runtime import fast_jit, named_key
from gpicljax.runtime.dry_run import within_memory
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.experts import listeners as experts
from gpicljax.systems.meta_rg.experts.speakers import KEPT, keeping_speaker, two_players
from gpicljax.systems.meta_rg.measures.games import Games, accuracy_by_seed, play_games
from gpicljax.typing import ArrayTree

Cell = tuple[int, int]
Bools = np.ndarray | jax.Array
NEAREST, FIXED = "1-nearest neighbour", "fixed tolerance"


_UNMEASURED = mean_interval([math.nan])


def cell_name(cell: Cell) -> str:
    """Returns a cell in words."""
    return f"S = {cell[0]}, O = {cell[1]}"


class RuleAccuracy(NamedTuple):
    """Accuracies of a rule by game, see `GameAccuracy`; NaN where they were not measured."""

    query: Interval
    support: Interval
    new: Interval = _UNMEASURED
    minimal: Interval = _UNMEASURED


def rule_accuracy(games: Games) -> RuleAccuracy:
    """Returns the means over seeds of a rule's games, leaves `[S, N, G]`."""
    return RuleAccuracy(*(mean_interval(part.by_game) for part in accuracy_by_seed(games)))


def panel_rules(env: MetaRG) -> dict[str, experts.Rule]:
    """Returns the rules that stand beside every learner, then the candidates for a tolerance."""
    return experts.baseline_rules(env) | experts.tolerance_rules(env)


def decided_by_rule(env: MetaRG, games: Games) -> dict[str, Games]:
    """Returns the games of `panel_rules` by rule, with a single fixed tolerance.

    It is the best in the other half of the episodes, to the nearest value or to the mean.

    Args:
      env: the game.
      games: leaves `[S, N, G]`, decisions `[S, N, G, R]`.
    """
    names = experts.baseline_rules(env)
    decided = {n: games._replace(correct=games.correct[..., i]) for i, n in enumerate(names)}
    if (candidates := games.correct[..., len(names) :]).shape[-1]:
        chosen = chosen_elsewhere(candidates, games.valid & games.query)
        decided[FIXED] = games._replace(correct=chosen)
    return decided


def chosen_elsewhere(correct: Bools, counts: Bools) -> np.ndarray:
    """Returns the decisions of the rule that is best in the other half of the episodes.

    Args:
      correct: `bool[..., N, G, R]`.
      counts: `bool[..., N, G]`, the games by which a rule is chosen.

    Returns:
      `bool[..., N, G]`.
    """
    parity, chosen = np.arange(counts.shape[-2]) % 2, np.zeros(counts.shape, bool)
    for half in (0, 1):
        judged, rest = parity == half, parity != half
        best = best_rule(correct[..., rest, :, :], counts[..., rest, :])
        chosen[..., judged, :] = correct[..., best][..., judged, :]
    return chosen


def best_rule(correct: Bools, counts: Bools) -> int:
    """Returns the place of the rule that is right most often; arrays as in `chosen_elsewhere`."""
    right = np.asarray(correct & counts[..., None])
    return int(right.reshape(-1, right.shape[-1]).sum(0).argmax())


def rule_player(
    env: MetaRG, rules: Mapping[str, experts.Rule], episodes: int, speaker: Agent | None = None
) -> Callable[[jax.Array, ArrayTree], Any]:
    """Returns `(key, params) -> Games`, leaves `[N, G]`, decisions `[N, G, R]` of all rules.

    Args:
      env: the game in the listener's view.
      rules: what decides.
      episodes: N.
      speaker: what speaks in place of the game's own speaker; see `experts.speakers`.
    """
    panel = experts.rule_panel(env, list(rules.values()))
    if speaker is not None:
        panel = two_players(panel, speaker, env.num_decisions, env.message_length)
        env = dataclasses.replace(env, view="players")
    vec = single_trial_batch(env, episodes, int(env.horizon()), privileged=True)

    @fast_jit
    def play(key: jax.Array, env_params: ArrayTree) -> Games:
        return play_games(key, vec, panel, None, env_params)

    program = within_memory(play, f"{episodes:,} episodes of rules")
    return lambda key, env_params: jax.device_get(program(key, env_params))


def program_accuracies(
    seed: int, env: MetaRG, params: Mapping[Cell, ArrayTree], episodes: int
) -> dict[Cell, dict[str, RuleAccuracy]]:
    """Accuracies of programs that speak beside programs that listen, by cell and name.

    One speaker says in which bin a value lies, with as many bins as there are tokens; the other
    repeats what it said of the nearest value so far.

    Args:
      seed: of the games, which are the same for all programs.
      env: the listener's view of the game, with continuous stimuli and a position for each
        dimension.
      params: the distribution over tasks, by cell.
      episodes: of each.
    """
    listeners = {NEAREST: experts.nearest_rule(env), "section oracle": experts.section_rule(env)}
    rows: dict[Cell, dict[str, RuleAccuracy]] = {cell: {} for cell in params}
    for name, tolerance in {"bins": 0.0, f"bins, kept within {KEPT}": KEPT}.items():
        play = rule_player(env, listeners, episodes, keeping_speaker(env, tolerance))
        for cell, env_params in params.items():
            games = jax.tree.map(lambda x: x[None], play(named_key(seed, "rules"), env_params))
            for i, rule in enumerate(listeners):
                accuracy = rule_accuracy(games._replace(correct=games.correct[..., i]))
                rows[cell][f"not learnt: {name}; {rule}"] = accuracy
    return rows
