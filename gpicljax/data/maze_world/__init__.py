"""Maze World's demonstrations: made on the fly, or kept in shards."""

from gpicljax.data.maze_world.demonstrations import (
    Demonstration,
    Episode,
    collect,
    frames,
    trajectories,
)

__all__ = ["Demonstration", "Episode", "collect", "frames", "trajectories"]
