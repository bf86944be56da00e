"""Figures of Meta-Referential Games."""

from gpicljax.viz.meta_rg.languages import languages_figure
from gpicljax.viz.meta_rg.messages import messages_figure, stimuli_figure

__all__ = ["languages_figure", "messages_figure", "stimuli_figure"]
