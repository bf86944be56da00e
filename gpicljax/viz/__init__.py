"""Figures from arrays; matplotlib loads with the first one made."""

from gpicljax.viz.curves import icl_figure, learning_curves, results_bars
from gpicljax.viz.style import save_figure

__all__ = [
    "icl_figure",
    "learning_curves",
    "results_bars",
    "save_figure",
]
