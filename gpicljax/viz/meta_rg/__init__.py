"""Figures of Meta-Referential Games."""

from gpicljax.viz.meta_rg.messages import messages_figure, stimuli_figure

__all__ = ["messages_figure", "stimuli_figure"]
