"""Maze World's episodes as maps, films and pages."""

from gpicljax.systems.maze_world.figures.episode_page import maze_episode_page
from gpicljax.systems.maze_world.figures.trajectories import (
    MazeEpisode,
    film_frames,
    trajectory_figure,
)

__all__ = [
    "MazeEpisode",
    "film_frames",
    "maze_episode_page",
    "trajectory_figure",
]
