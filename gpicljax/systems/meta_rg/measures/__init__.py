"""Measures of Meta-Referential Games: games, zero-shot compositional tests, languages."""

from gpicljax.systems.meta_rg.measures.acquisition import ease_of_acquisition
from gpicljax.systems.meta_rg.measures.compositionality import (
    bosdis,
    posdis,
    topographic_similarity,
)
from gpicljax.systems.meta_rg.measures.disentanglement import (
    factor_vae_score,
    modularity,
    mutual_information_gap,
)
from gpicljax.systems.meta_rg.measures.games import play_games
from gpicljax.systems.meta_rg.measures.listening import confusion
from gpicljax.systems.meta_rg.measures.recall import play_recall_games, recall_accuracy
from gpicljax.systems.meta_rg.measures.speaker_language import languages, meanings

__all__ = [
    "bosdis",
    "confusion",
    "ease_of_acquisition",
    "factor_vae_score",
    "languages",
    "meanings",
    "modularity",
    "mutual_information_gap",
    "play_games",
    "play_recall_games",
    "posdis",
    "recall_accuracy",
    "topographic_similarity",
]
