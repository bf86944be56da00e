"""Maze World's episodes as maps, films and pages."""

from gpicljax.viz.maze_world.episode_page import episode_page
from gpicljax.viz.maze_world.trajectories import MazeEpisode, film_frames, trajectory_figure

__all__ = ["MazeEpisode", "episode_page", "film_frames", "trajectory_figure"]
