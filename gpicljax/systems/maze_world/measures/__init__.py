"""Measures of Maze World: how much of a maze is explored."""

from gpicljax.systems.maze_world.measures.exploration import cells_visited
from gpicljax.systems.maze_world.measures.world_model import OpenLoopError, open_loop_error

__all__ = [
    "OpenLoopError",
    "cells_visited",
    "open_loop_error",
]
