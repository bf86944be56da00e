"""Accuracies of untrained rules in the games of a study."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np

from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.runtime import fast_jit, named_key
from gpicljax.runtime.dry_run import within_memory
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.experts import listeners as experts
from gpicljax.systems.meta_rg.measures.games import GameAccuracy, game_accuracy, play_games
from gpicljax.typing import ArrayTree

Cell = tuple[int, int]


class RuleAccuracy(NamedTuple):
    """Accuracies of a rule by game, see `GameAccuracy`; NaN where they were not measured."""

    query: float
    support: float
    new: float = math.nan
    minimal: float = math.nan


def rule_accuracies(
    seed: int,
    env: MetaRG,
    rules: Mapping[str, experts.Rule],
    params: Mapping[Cell, ArrayTree],
    episodes: int,
) -> dict[Cell, dict[str, RuleAccuracy]]:
    """Accuracies of all rules on the same games, by cell and name."""
    longest = int(env.horizon())
    vec = single_trial_batch(env, episodes, longest, privileged=True)
    panel = experts.rule_panel(env, list(rules.values()))

    @fast_jit
    def play(key: jax.Array, env_params: ArrayTree) -> GameAccuracy:
        sizes = {"max_games": env.max_games, "max_steps": longest}
        games = play_games(key, vec, panel, None, env_params=env_params, **sizes)
        judge = jax.vmap(lambda correct: game_accuracy(games._replace(correct=correct)), -1)
        return judge(games.correct)

    rules_program = within_memory(play, f"{episodes:,} episodes of rules")

    def by_rule(env_params: ArrayTree) -> dict[str, RuleAccuracy]:
        accuracies = rules_program(named_key(seed, "rules"), env_params)
        rows = np.stack([accuracy.by_game for accuracy in accuracies], -1).tolist()
        return {name: RuleAccuracy(*row) for name, row in zip(rules, rows, strict=True)}

    return {cell: by_rule(env_params) for cell, env_params in params.items()}
