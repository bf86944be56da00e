"""The program of the study `maze_world_variants`."""

from __future__ import annotations

import dataclasses
from argparse import ArgumentParser
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax.runs.arguments import user_path
from gpicljax.runtime import enable_compilation_cache
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Task
from gpicljax.viz.pictures import picture_grid
from gpicljax.viz.style import save_figure

WAYS = ((1, 0), (0, 1), (-1, 0), (0, -1))


def vista(task: Task, rank: int) -> tuple[np.ndarray, float]:
    """Returns a cell, int `[2]`, and a heading from which one looks far: the `rank`-th furthest."""
    walls = np.asarray(task.walls)

    def length(cell: np.ndarray, way: tuple[int, int]) -> int:
        steps = 1
        while not walls[tuple(cell + steps * np.asarray(way))]:
            steps += 1
        return steps

    views = [(length(c, way), *c, q) for c in np.argwhere(~walls) for q, way in enumerate(WAYS)]
    _, x, y, quarter = sorted(views, reverse=True)[rank]
    return np.asarray([x, y]), quarter * np.pi / 2


def look(
    seed: int = 3,
    rank: int = 0,
    tilt: float = 0.12,
    life: float = 1.0,
    static: dict[str, Any] | None = None,
    **params: Any,
) -> np.ndarray:
    """Returns one picture, `uint8[128, 128, 3]`.

    Args:
      seed: of the maze.
      rank: see `vista`.
      tilt: how much to look aside, in radians.
      life: what is left of it (survival).
      static: the environment's configuration.
      **params: of the distribution over mazes.
    """
    env = gpicljax.make("MazeWorld-v0", actions="continuous", **static or {})
    assert isinstance(env, MazeWorld)
    task = env.sample_task(jax.random.key(seed), env.make_params(**params))
    cell, heading = vista(task, rank)
    state = dataclasses.replace(
        env.initial(jax.random.key(seed), task),
        position=jnp.asarray((cell + [0.5, 0.45]) * float(task.cell_size), jnp.float32),
        heading=jnp.float32((heading + tilt) % (2 * np.pi)),
        life=jnp.float32(life),
    )
    return np.asarray(jax.jit(env.observe)(state, task))


def picture_with(field: str, value: float) -> np.ndarray:
    """Returns one picture with another value of one parameter."""
    params: dict[str, Any] = {field: value}
    return look(**params)


def rows() -> list[tuple[str, list[tuple[str, np.ndarray]]]]:
    """Returns all pictures by what varies."""
    poses = (0, 0.12), (5, -0.3), (9, 0.5), (30, 0.0)
    lives = (0.4, 0), (1.0, 7), (1.7, 12), (3.0, 18)
    lengths = {
        "cell size": (1.0, 2.0, 3.0, 4.5),
        "wall height": (2.0, 3.2, 4.5, 6.0),
        "view range": (4.0, 8.0, 12.0, 24.0),
    }
    survival, random = {"mode": "survival"}, {"textures": "random-64"}
    return [
        ("navigation", [(f"pose {i}", look(rank=r, tilt=t)) for i, (r, t) in enumerate(poses)]),
        (
            "survival",
            [(f"life {x}", look(5, rank=r, life=x, static=survival)) for x, r in lives],
        ),
        *(
            (name, [(f"{x} m", picture_with(name.replace(" ", "_"), x)) for x in values])
            for name, values in lengths.items()
        ),
        ("density", [(f"{x:.0%}", look(density=x)) for x in (0.15, 0.25, 0.36, 0.45)]),
        ("textures", [(f"maze {i}", look(i, static=random)) for i in range(11, 15)]),
    ]


def main(argv: list[str] | None = None) -> None:
    """Draws the picture into the file that the command line names."""
    parser = ArgumentParser(prog="gpicljax run maze_world_variants")
    parser.add_argument("file", type=user_path, help="picture to write, e.g. variants.png")
    path = parser.parse_args(argv).file
    enable_compilation_cache()
    save_figure(picture_grid(rows(), width=1.05), path)
