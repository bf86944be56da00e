"""Measures of reinforcement learning in context, on trials of a number of actions."""

from gpicljax.systems.in_context_rl.measures.trials import (
    TrialRecords,
    keep_trial_step,
    measure_trials,
    normalised_score,
    trial_records,
)

__all__ = [
    "TrialRecords",
    "keep_trial_step",
    "measure_trials",
    "normalised_score",
    "trial_records",
]
