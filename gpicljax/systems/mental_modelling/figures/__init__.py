"""Figures of mental modelling, and a sheet on which replies are judged."""

from gpicljax.systems.mental_modelling.figures.curves import (
    elements_figure,
    grouped_bars,
    history_figure,
    mean_elements,
)
from gpicljax.systems.mental_modelling.figures.review import (
    Reply,
    agreement_figure,
    errors_figure,
    review_page,
)

__all__ = [
    "Reply",
    "agreement_figure",
    "elements_figure",
    "errors_figure",
    "grouped_bars",
    "history_figure",
    "mean_elements",
    "review_page",
]
