"""Maze World's demonstrations: made on the fly, or kept in shards."""

from gpicljax.systems.maze_world.data.demonstrations import (
    Demonstration,
    Episode,
    Noise,
    advice,
    demonstrator,
    frames,
    sample_noise,
    states_of,
    task_of,
    trajectories,
)
from gpicljax.systems.maze_world.data.sequences import Glances, Lessons, glances, lessons
from gpicljax.systems.maze_world.data.stored import (
    card,
    check_fits,
    collect,
    from_card,
    stored_episodes,
)

__all__ = [
    "Demonstration",
    "Episode",
    "Glances",
    "Lessons",
    "Noise",
    "advice",
    "card",
    "check_fits",
    "collect",
    "demonstrator",
    "frames",
    "from_card",
    "glances",
    "lessons",
    "sample_noise",
    "states_of",
    "stored_episodes",
    "task_of",
    "trajectories",
]
