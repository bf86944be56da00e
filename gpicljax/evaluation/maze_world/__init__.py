"""Measures of Maze World: how much of a maze is explored."""

from gpicljax.evaluation.maze_world.exploration import explored

__all__ = ["explored"]
