"""Figures from arrays; matplotlib loads with the first one made."""

import lazy_loader

from gpicljax.viz.curves import icl_figure, learning_curves, results_bars
from gpicljax.viz.films import animation, choose_frames, contact_sheet, render_frames
from gpicljax.viz.pictures import picture_grid
from gpicljax.viz.style import new_figure, save_figure

__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["episode_page"])

__all__ = [
    "animation",
    "choose_frames",
    "contact_sheet",
    "icl_figure",
    "learning_curves",
    "new_figure",
    "picture_grid",
    "render_frames",
    "results_bars",
    "save_figure",
]
