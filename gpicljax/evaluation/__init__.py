"""Measures: in-context and gradual learning, returns, intervals, composition, n-gram baselines."""

from gpicljax.evaluation.accuracy import PhaseAccuracy, phase_accuracy
from gpicljax.evaluation.aggregates import (
    Aggregate,
    aggregate,
    interquartile_mean,
    probability_of_improvement,
)
from gpicljax.evaluation.compositionality import (
    bosdis,
    edit_distance,
    hamming_distance,
    posdis,
    spearman,
    topographic_similarity,
)
from gpicljax.evaluation.disentanglement import (
    factor_vae_score,
    modularity,
    mutual_information_gap,
)
from gpicljax.evaluation.gradual_learning import (
    Clearance,
    Contestant,
    Efficiency,
    Forgetting,
    Retention,
    Transfer,
    clearance,
    efficiency,
    forgetting,
    learns_gradually,
    orders,
    ranking,
    retention,
    transfer,
)
from gpicljax.evaluation.icl import Estimate, ICLCurve, ICLProfile, icl_curve, icl_profile
from gpicljax.evaluation.in_context_rl import TrialMeasures, Trials, measure, normalised
from gpicljax.evaluation.ngrams import adaptive_ngram
from gpicljax.evaluation.returns import EpisodeReturns, episode_returns
from gpicljax.evaluation.statistics import (
    Interval,
    Moments,
    WelchResult,
    bootstrap_interval,
    holm,
    mean_interval,
    ratio_interval,
    welch_test,
    welch_test_from_moments,
)
from gpicljax.evaluation.world_model import Foresight, foresee

__all__ = [
    "Aggregate",
    "Clearance",
    "Contestant",
    "Efficiency",
    "EpisodeReturns",
    "Estimate",
    "Foresight",
    "Forgetting",
    "ICLCurve",
    "ICLProfile",
    "Interval",
    "Moments",
    "PhaseAccuracy",
    "Retention",
    "Transfer",
    "TrialMeasures",
    "Trials",
    "WelchResult",
    "adaptive_ngram",
    "aggregate",
    "bootstrap_interval",
    "bosdis",
    "clearance",
    "edit_distance",
    "efficiency",
    "episode_returns",
    "factor_vae_score",
    "foresee",
    "forgetting",
    "hamming_distance",
    "holm",
    "icl_curve",
    "icl_profile",
    "interquartile_mean",
    "learns_gradually",
    "mean_interval",
    "measure",
    "modularity",
    "mutual_information_gap",
    "normalised",
    "orders",
    "phase_accuracy",
    "posdis",
    "probability_of_improvement",
    "ranking",
    "ratio_interval",
    "retention",
    "spearman",
    "topographic_similarity",
    "transfer",
    "welch_test",
    "welch_test_from_moments",
]
