"""Plays one stream with an agent whose weights change while it plays, beside nulls without weights.

    python experiments/gradual_learning_online.py

The agent has one life: a stream of the ordered curriculum, with no teacher and no earlier training.
Weights begin at zero and change after every step, on what rewards say and on a replay of the same
stream.
"""

__all__: list[str] = []
