"""Maze World's demonstrations: made on the fly, or kept in shards."""

from gpicljax.systems.maze_world.data.demonstrations import (
    Demonstration,
    MazeTrajectory,
    sample_trajectories,
)
from gpicljax.systems.maze_world.data.sequences import ImitationBatch, imitation_batch
from gpicljax.systems.maze_world.data.stored import collect_trajectories, stored_episodes

__all__ = [
    "Demonstration",
    "ImitationBatch",
    "MazeTrajectory",
    "collect_trajectories",
    "imitation_batch",
    "sample_trajectories",
    "stored_episodes",
]
