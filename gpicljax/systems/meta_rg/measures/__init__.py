"""Measures of Meta-Referential Games: games, zero-shot compositional tests, languages."""

from gpicljax.systems.meta_rg.measures import published
from gpicljax.systems.meta_rg.measures.acquisition import (
    Acquisition,
    ease_of_acquisition,
    language_acquisition,
)
from gpicljax.systems.meta_rg.measures.games import Games, accuracy_by_seed, outcome, play_games
from gpicljax.systems.meta_rg.measures.language import (
    Languages,
    Utterances,
    languages,
    meanings,
    utterances,
)
from gpicljax.systems.meta_rg.measures.listening import Confusion, confusion
from gpicljax.systems.meta_rg.measures.zsct import (
    HypothesisRow,
    ZSCTAccuracy,
    hypothesis_table,
    hypothesis_tests,
    zsct_accuracy,
)

__all__ = [
    "Acquisition",
    "Confusion",
    "Games",
    "HypothesisRow",
    "Languages",
    "Utterances",
    "ZSCTAccuracy",
    "accuracy_by_seed",
    "confusion",
    "ease_of_acquisition",
    "hypothesis_table",
    "hypothesis_tests",
    "language_acquisition",
    "languages",
    "meanings",
    "outcome",
    "play_games",
    "published",
    "utterances",
    "zsct_accuracy",
]
