"""Maze World: navigation and survival in random mazes, seen in three dimensions."""

from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.textures import LANDMARK_COLOURS, TextureSet, register_textures

__all__ = [
    "LANDMARK_COLOURS",
    "MazeWorld",
    "TextureSet",
    "register_textures",
]
