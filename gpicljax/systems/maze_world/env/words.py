"""A moment in a maze, in words."""

from __future__ import annotations

import numpy as np

from gpicljax.systems.maze_world.env.types import State, Task

COLOURS = (
    "green", "red", "blue", "cyan", "magenta", "yellow", "light blue", "light green", "pink",
    "petrol", "indigo", "jade", "olive", "brown", "plum",
)  # fmt: skip


def describe(survival: bool, state: State, task: Task, pose: np.ndarray | None) -> str:
    """Returns the step, and the target or what is left of life.

    Args:
      survival: `MazeWorld.survival`.
      state: the state.
      task: the task.
      pose: float `[4]`, see `MazeWorld.pose`; None where it is not observed.
    """
    parts = [f"step {int(state.steps)} of {int(task.horizon)}"]
    if survival:
        parts.append(f"life {float(state.life):.2f} of {float(task.max_life):.2f}")
    else:
        target = COLOURS[int(state.command)]
        parts.append(f"go to {target}, {int(state.command_index)} reached so far")
    if pose is not None:
        x, y, cosine, sine = pose
        degrees = np.degrees(np.arctan2(sine, cosine))
        parts.append(f"at ({x:.2f}, {y:.2f}) m, heading {degrees:.0f} degrees")
    return ", ".join(parts)
