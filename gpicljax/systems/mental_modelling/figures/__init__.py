"""Figures of mental modelling, and a sheet on which replies are judged."""

from gpicljax.systems.mental_modelling.figures.curves import grouped_bars, history_figure

__all__ = [
    "grouped_bars",
    "history_figure",
]
