"""Measures: in-context learning, intervals and tests, accuracies, published numbers."""

from gpicljax.evaluation import published
from gpicljax.evaluation.icl import Estimate, ICLCurve, ICLProfile, icl_curve, icl_profile
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
from gpicljax.evaluation.zsct import (
    HypothesisRow,
    PhaseAccuracy,
    ZSCTAccuracy,
    hypothesis_table,
    hypothesis_tests,
    zsct_accuracy,
)

__all__ = [
    "Estimate",
    "HypothesisRow",
    "ICLCurve",
    "ICLProfile",
    "Interval",
    "Moments",
    "PhaseAccuracy",
    "WelchResult",
    "ZSCTAccuracy",
    "bootstrap_interval",
    "holm",
    "hypothesis_table",
    "hypothesis_tests",
    "icl_curve",
    "icl_profile",
    "mean_interval",
    "published",
    "welch_test",
    "welch_test_from_moments",
    "zsct_accuracy",
]
