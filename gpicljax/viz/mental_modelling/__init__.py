"""Figures of mental modelling, and a sheet on which replies are judged."""

from gpicljax.viz.mental_modelling.figures import (
    elements_figure,
    grouped_bars,
    history_figure,
    mean_elements,
)
from gpicljax.viz.mental_modelling.review import (
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
