"""Figures from arrays; matplotlib loads with the first one made."""

from gpicljax.viz.curves import icl_figure, learning_curves, results_bars
from gpicljax.viz.gradual_learning import (
    efficiency_figure,
    prerequisites_figure,
    skills_figure,
    transfer_figure,
)
from gpicljax.viz.style import save_figure

__all__ = [
    "efficiency_figure",
    "icl_figure",
    "learning_curves",
    "prerequisites_figure",
    "results_bars",
    "save_figure",
    "skills_figure",
    "transfer_figure",
]
