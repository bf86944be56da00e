"""Measures of Meta-Referential Games: games, zero-shot compositional tests, published numbers."""

from gpicljax.evaluation.meta_rg import published
from gpicljax.evaluation.meta_rg.games import Games, outcome, play_games
from gpicljax.evaluation.meta_rg.zsct import (
    HypothesisRow,
    PhaseAccuracy,
    ZSCTAccuracy,
    hypothesis_table,
    hypothesis_tests,
    zsct_accuracy,
)

__all__ = [
    "Games",
    "HypothesisRow",
    "PhaseAccuracy",
    "ZSCTAccuracy",
    "hypothesis_table",
    "hypothesis_tests",
    "outcome",
    "play_games",
    "published",
    "zsct_accuracy",
]
