"""Maze World: navigation and survival in random mazes, seen in three dimensions."""

from gpicljax.envs.maze_world.env import MazeWorld
from gpicljax.envs.maze_world.types import Params, State, Task

__all__ = ["MazeWorld", "Params", "State", "Task"]
