"""Measures of Maze World: how much of a maze is explored."""

from gpicljax.systems.maze_world.measures.exploration import cells_visited

__all__ = ["cells_visited"]
