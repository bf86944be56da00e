"""Figures of gradual learning, and the page of a stream."""

from gpicljax.systems.gradual_learning.figures.learning import (
    efficiency_figure,
    prerequisites_figure,
    transfer_figure,
)

__all__ = ["efficiency_figure", "prerequisites_figure", "transfer_figure"]
