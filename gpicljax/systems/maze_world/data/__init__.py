"""Maze World's demonstrations: made on the fly, or kept in shards."""

from gpicljax.systems.maze_world.data.demonstrations import (
    Demonstration,
    MazeTrajectory,
    Noise,
    advice,
    demonstrator,
    frames,
    sample_noise,
    states_of,
    task_of,
    trajectories,
)
from gpicljax.systems.maze_world.data.sequences import (
    FrameBatch,
    ImitationBatch,
    imitation_batch,
    sample_frames,
)
from gpicljax.systems.maze_world.data.stored import (
    check_fits,
    collect_trajectories,
    from_metadata,
    metadata,
    stored_episodes,
)

__all__ = [
    "Demonstration",
    "MazeTrajectory",
    "FrameBatch",
    "ImitationBatch",
    "Noise",
    "advice",
    "metadata",
    "check_fits",
    "collect_trajectories",
    "demonstrator",
    "frames",
    "from_metadata",
    "sample_frames",
    "imitation_batch",
    "sample_noise",
    "states_of",
    "stored_episodes",
    "task_of",
    "trajectories",
]
