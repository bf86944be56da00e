"""Measures: in-context and gradual learning, returns, intervals, composition, n-gram baselines."""

from gpicljax.evaluation.aggregates import aggregate, interquartile_mean, probability_of_improvement
from gpicljax.evaluation.icl import ICLCurve, ICLProfile, icl_curve, icl_profile
from gpicljax.evaluation.records import ICLRecord, icl_record
from gpicljax.evaluation.returns import (
    Episode,
    EpisodeReturns,
    episode_returns,
    record_episode,
    single_trial_batch,
)
from gpicljax.evaluation.statistics import (
    Interval,
    bootstrap_interval,
    holm_correction,
    mean_interval,
    ratio_interval,
    welch_test,
    welch_test_from_stats,
)

__all__ = [
    "Episode",
    "EpisodeReturns",
    "ICLCurve",
    "ICLProfile",
    "ICLRecord",
    "Interval",
    "aggregate",
    "bootstrap_interval",
    "episode_returns",
    "holm_correction",
    "icl_curve",
    "icl_profile",
    "icl_record",
    "interquartile_mean",
    "mean_interval",
    "probability_of_improvement",
    "ratio_interval",
    "record_episode",
    "single_trial_batch",
    "welch_test",
    "welch_test_from_stats",
]
