"""Figures of Meta-Referential Games."""

from gpicljax.systems.meta_rg.figures.languages import languages_figure
from gpicljax.systems.meta_rg.figures.messages import messages_figure, stimuli_figure

__all__ = [
    "languages_figure",
    "messages_figure",
    "stimuli_figure",
]
