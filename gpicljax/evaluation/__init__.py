"""Measures: in-context learning, returns, intervals and tests, n-gram baselines."""

from gpicljax.evaluation.icl import Estimate, ICLCurve, ICLProfile, icl_curve, icl_profile
from gpicljax.evaluation.ngrams import adaptive_ngram
from gpicljax.evaluation.returns import EpisodeReturns, episode_returns
from gpicljax.evaluation.statistics import (
    Interval,
    Moments,
    WelchResult,
    bootstrap_interval,
    holm,
    mean_interval,
    welch_test,
    welch_test_from_moments,
)

__all__ = [
    "EpisodeReturns",
    "Estimate",
    "ICLCurve",
    "ICLProfile",
    "Interval",
    "Moments",
    "WelchResult",
    "adaptive_ngram",
    "bootstrap_interval",
    "episode_returns",
    "holm",
    "icl_curve",
    "icl_profile",
    "mean_interval",
    "welch_test",
    "welch_test_from_moments",
]
