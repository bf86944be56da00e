"""Pictures of the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from gpicljax.registration import id_without_version, make, registered
from gpicljax.viz.pictures import picture_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE_7 = (
    "MountainCar-v0",
    "Acrobot-v1",
    "LunarLander-v3",
    "Pendulum-v1",
    "InvertedDoublePendulum-v4",
    "FetchPickAndPlace-v4",
    "FetchPush-v4",
    "FetchSlide-v4",
)
PICTURED = (*FIGURE_7, "CliffWalking-v1", "FrozenLake-v1")


def pictured_tasks(tasks: Iterable[str]) -> list[str]:
    """Returns those of the tasks that are installed and can be drawn, in the figure's order."""
    installed = {*tasks} & {*registered()}
    return [name for name in PICTURED if name in installed and make(name).can_render]


def tasks_figure(names: Sequence[str] = PICTURED) -> Figure:
    """Draws Figure 7: the tasks; all must be installed."""
    pictures = []
    for name in names:
        env = make(name)

        def frame(key: jax.Array, env: Any = env) -> Any:
            task = env.sample_task(key, env.default_params)
            return env.render(env.initial(key, task), task)

        pictures.append((id_without_version(name), np.asarray(jax.jit(frame)(jax.random.key(0)))))
    rows = [("", pictures[n : n + 4]) for n in range(0, len(pictures), 4)]
    return picture_grid(rows)
