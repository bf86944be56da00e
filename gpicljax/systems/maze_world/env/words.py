"""A moment in a maze, in words."""

from __future__ import annotations

import numpy as np

from gpicljax.systems.maze_world.env import motion
from gpicljax.systems.maze_world.env.types import State, Task

COLOURS = (
    "green", "red", "blue", "cyan", "magenta", "yellow", "light blue", "light green", "pink",
    "petrol", "indigo", "jade", "olive", "brown", "plum",
)  # fmt: skip
WAYS = ("+x", "+y", "-x", "-y")


def describe(mode: str, actions: str, state: State, task: Task) -> str:
    """Describes the agent's place, and its target or what is left of its life.

    Args:
      mode: `MazeWorld.mode`.
      actions: `MazeWorld.actions`.
      state: the state.
      task: the task.
    """
    cell = motion.cell_of(state.position, task.cell_size)
    n, (x, y) = int(task.size), np.asarray(cell).tolist()
    parts = [f"cell ({x}, {y}) of {n} x {n}"]
    if actions == "discrete":
        parts.append(f"facing {WAYS[int(motion.quarter_of(state.heading))]}")
    elif actions == "continuous":
        parts.append(f"heading {np.degrees(float(state.heading)):.0f} degrees")
    parts.append(f"step {int(state.steps)} of {int(task.horizon)}")
    cells = np.asarray(task.landmarks).tolist()[: int(task.num_landmarks)]
    if mode == "navigation":
        target = int(state.command)
        x, y = cells[target]
        parts.append(f"go to {COLOURS[target]} at ({x}, {y})")
        return ", ".join([*parts, f"{int(state.command_index)} reached so far"])
    parts.append(f"life {float(state.life):.2f} of {float(task.max_life):.2f}")
    values, waits = np.asarray(task.landmark_rewards), np.asarray(state.countdown)
    landmarks = [
        f"{COLOURS[i]} at ({x}, {y}) {values[i]:+.2f}"
        + (f" in {waits[i]} steps" if waits[i] else "")
        for i, (x, y) in enumerate(cells)
    ]
    return f"{', '.join(parts)}; {', '.join(landmarks)}"
