"""An episode in a maze of 7 x 7 cells, made by hand."""

import numpy as np

from gpicljax.systems.maze_world.figures.trajectories import MazeEpisode

COLOURS = np.array([(0, 255, 0), (255, 0, 0), (0, 0, 255)], np.uint8)
# Once around the pillar in the middle, and on: cells from (1, 1), 12 steps.
PATH = [(1, 1), (2, 1), (3, 1), (3, 2), (3, 3), (2, 3), (1, 3), (1, 2), (1, 1), (1, 1), (2, 1)]


def small_maze(**changes):
    """Landmark 0 in (3, 1), landmark 1 in (1, 3), none for the third; the expert learns columns."""
    walls = np.ones((7, 7), bool)
    walls[1:6, 1:6] = False
    walls[2, 2] = True
    steps = len(PATH) - 1
    memory = np.zeros((steps + 1, 7, 7), bool)
    for t in range(steps + 1):
        memory[t, : 2 + t // 2] = True
    episode = MazeEpisode(
        walls=walls,
        position=np.array(PATH) + 0.5,
        heading=np.linspace(0, np.pi, steps + 1),
        landmarks=np.array([(3, 1), (1, 3), (-1, -1)]),
        colours=COLOURS,
        command=np.array([0] * 3 + [1] * (steps - 2)),
        reward=np.where(np.arange(steps) == 2, 0.5, -0.01),
        memory=memory,
    )
    return episode._replace(**changes)


MOMENTS = len(PATH)


def views(count=MOMENTS, height=40, width=48):
    """A flat colour each."""
    level = np.arange(count)[:, None, None, None] * 20
    return np.broadcast_to(level + [0, 20, 40], (count, height, width, 3)).astype(np.uint8)
