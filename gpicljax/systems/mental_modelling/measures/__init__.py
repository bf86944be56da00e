"""Questions on what an agent does next and what it leads to, and scores of the answers."""

from gpicljax.systems.mental_modelling.measures.baselines import baseline_answers, copy_last
from gpicljax.systems.mental_modelling.measures.physics import physics_answers
from gpicljax.systems.mental_modelling.measures.published import best_language_model
from gpicljax.systems.mental_modelling.measures.questions import (
    Queries,
    build_queries,
    pick_queries,
)
from gpicljax.systems.mental_modelling.measures.reader import (
    ReaderSettings,
    reader_answers,
    train_reader,
)
from gpicljax.systems.mental_modelling.measures.results import result_row, right_by_history
from gpicljax.systems.mental_modelling.measures.scoring import score_answers

__all__ = [
    "Queries",
    "ReaderSettings",
    "baseline_answers",
    "best_language_model",
    "build_queries",
    "copy_last",
    "physics_answers",
    "pick_queries",
    "reader_answers",
    "result_row",
    "right_by_history",
    "score_answers",
    "train_reader",
]
