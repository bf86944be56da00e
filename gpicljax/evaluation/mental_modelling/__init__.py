"""Mental modelling: what an agent did next, what it led to, and who can tell from its history."""

from gpicljax.evaluation.mental_modelling.baselines import (
    BASELINES,
    baseline_answers,
    copy_last,
    majority,
    nearest_neighbour,
    ridge,
    same_change,
)
from gpicljax.evaluation.mental_modelling.questions import (
    DECREASE,
    HISTORY_SIZES,
    INCREASE,
    UNCHANGED,
    Queries,
    build_queries,
    change_class,
    rounded,
    to_bins,
)
from gpicljax.evaluation.mental_modelling.scoring import (
    Answers,
    Score,
    accuracy_interval,
    answers_of,
    score,
)

__all__ = [
    "BASELINES",
    "DECREASE",
    "HISTORY_SIZES",
    "INCREASE",
    "UNCHANGED",
    "Answers",
    "Queries",
    "Score",
    "accuracy_interval",
    "answers_of",
    "baseline_answers",
    "build_queries",
    "change_class",
    "copy_last",
    "majority",
    "nearest_neighbour",
    "ridge",
    "rounded",
    "same_change",
    "score",
    "to_bins",
]
