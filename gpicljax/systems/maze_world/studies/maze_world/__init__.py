"""World models and policies of Maze World, learnt from demonstrations: what is context worth?

    python experiments/maze_world.py

trains an autoencoder of the pictures (`maze_world_autoencoder.py`), then causal models side by
side, on the same episodes of a privileged agent: one remembers the whole episode, the other its
last 2 steps. On mazes that none has seen it measures how they imitate and foresee along the
episode, how they do when they act themselves, beside privileged agents and programs, and how far
ahead they see. `--preset paper-small` is the paper's; `--dry-run` says what it would take here.
"""

__all__: list[str] = []
