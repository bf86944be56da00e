"""Maze World: navigation and survival in random mazes, seen in three dimensions."""

from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params, State, Task

__all__ = ["MazeWorld", "Params", "State", "Task"]
