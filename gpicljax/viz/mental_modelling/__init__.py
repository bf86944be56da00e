"""Figures of mental modelling, and a sheet on which replies are judged."""

from gpicljax.viz.mental_modelling.figures import (
    elements_figure,
    grouped_bars,
    history_figure,
    mean_elements,
)

__all__ = ["elements_figure", "grouped_bars", "history_figure", "mean_elements"]
