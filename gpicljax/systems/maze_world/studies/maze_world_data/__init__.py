"""Demonstrations in Maze World, written to a folder: the data of appendix A.3.

    python experiments/maze_world_data.py --out mazes

makes a small set in a minute or two; `--preset paper` the paper's 120 K episodes of 2,048 steps. An
interrupted collection goes on when it is started again with the same flags. `--dry-run` says how
long it would take on the machine at hand, and how much space.

Training does not need it: by default, `gpicljax.systems.maze_world.data.trajectories` makes new
episodes inside a training step. A folder is for data that is to be the same
elsewhere and later, and for machines on which accelerators wait for one another.
"""

__all__: list[str] = []
