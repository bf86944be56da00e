"""Measures: in-context and gradual learning, returns, intervals, composition, n-gram baselines."""

from gpicljax.evaluation.aggregates import (
    Aggregate,
    aggregate,
    interquartile_mean,
    probability_of_improvement,
)
from gpicljax.evaluation.icl import Estimate, ICLCurve, ICLProfile, icl_curve, icl_profile
from gpicljax.evaluation.returns import EpisodeReturns, episode_returns
from gpicljax.evaluation.statistics import (
    Interval,
    SummaryStats,
    WelchResult,
    bootstrap_interval,
    holm,
    mean_interval,
    ratio_interval,
    welch_test,
    welch_test_from_stats,
)

__all__ = [
    "Aggregate",
    "EpisodeReturns",
    "Estimate",
    "ICLCurve",
    "ICLProfile",
    "Interval",
    "SummaryStats",
    "WelchResult",
    "aggregate",
    "bootstrap_interval",
    "episode_returns",
    "holm",
    "icl_curve",
    "icl_profile",
    "interquartile_mean",
    "mean_interval",
    "probability_of_improvement",
    "ratio_interval",
    "welch_test",
    "welch_test_from_stats",
]
