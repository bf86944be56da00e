"""Listeners that need no training: oracles, shortcut rules and a memoryless classifier."""

from gpicljax.systems.meta_rg.experts.classifier import fit_classifier
from gpicljax.systems.meta_rg.experts.listeners import baseline_panel, baseline_rules
from gpicljax.systems.meta_rg.experts.memoryless import decision_dataset

__all__ = [
    "baseline_panel",
    "baseline_rules",
    "decision_dataset",
    "fit_classifier",
]
