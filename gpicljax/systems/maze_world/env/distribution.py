"""The distribution over mazes: its defaults, what it refuses, and what stands in a maze."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import random
from gpicljax.envs._checks import check_order, check_pair, check_values
from gpicljax.systems.maze_world.env import generation, motion, textures
from gpicljax.systems.maze_world.env.types import Params, Task

RANGES = ("cell_size", "wall_height", "eye_height", "view_range")  # each drawn uniformly

MEAN_LANDMARK_REWARD = 0.4
"""The default `mean_landmark_reward`: a tenth of the landmarks do harm, as the paper has it (A.6).

That of the paper's data scripts, which take 0.4 and 0.5.
"""
SIMULATOR_MEAN_LANDMARK_REWARD = 0.6
"""The reference simulator's own default, with which no landmark does harm."""


@struct.dataclass
class Maze:
    """The expensive part of a task.

    Attributes:
      size: `int32[]`, cells n on a side.
      walls: `bool[N, N]`.
    """

    size: jax.Array
    walls: jax.Array


def default_params(size: int, max_landmarks: int) -> Params:
    """Returns the paper's: density 0.36 with loops, 10 landmarks, cells of 2 m, 2,048 steps.

    In survival a landmark is worth -0.1 .. 0.9, see `MEAN_LANDMARK_REWARD`.

    Args:
      size: the cap on n, which is the default n.
      max_landmarks: the cap on landmarks.
    """
    dtype = jnp.result_type(float)

    def real(value: float) -> jax.Array:
        return jnp.asarray(value, dtype)

    def integer(value: int) -> jax.Array:
        return jnp.asarray(value, jnp.int32)

    return Params(
        size=integer(size),
        density=real(0.36),
        allow_loops=jnp.ones((), bool),
        num_landmarks=integer(min(10, max_landmarks)),
        mean_landmark_reward=real(MEAN_LANDMARK_REWARD),
        step_reward=real(-0.01),
        goal_scale=real(1.0),
        cell_size=jnp.full(2, 2.0, dtype),
        wall_height=jnp.full(2, 3.2, dtype),
        eye_height=jnp.full(2, 1.6, dtype),
        view_range=jnp.full(2, 12.0, dtype),
        horizon=integer(2048),
        num_commands=integer(10_000),
        refresh_interval=integer(200),
        initial_life=real(1.0),
        max_life=real(3.0),
    )


def check(params: Params, size: int, max_landmarks: int, continuous: bool) -> None:
    """Raises ValueError where params contradict each other or exceed a cap.

    Args:
      params: the distribution.
      size: the cap on n.
      max_landmarks: the cap on landmarks.
      continuous: whether the agent has a body that must fit between walls.
    """
    n = np.asarray(params.size)
    fine = (n <= size) & (n % 2 == 1)
    check_values("size", n, fine, f"odd, 7 .. {size}; make(..., size=...) raises the cap")
    density, loops = np.asarray(params.density), np.asarray(params.allow_loops)
    landmarks = np.asarray(params.num_landmarks)
    accepted_values = f"1 .. {max_landmarks}; make(..., max_landmarks=...) raises the cap"
    check_values("num_landmarks", landmarks, landmarks <= max_landmarks, accepted_values)
    opened = generation.num_open(n, density, loops, np)
    accepted_values = f"fewer than the maze's {opened} open cells, of which one is the start"
    check_values("num_landmarks", landmarks, landmarks < opened, accepted_values)
    for name in RANGES:
        values = np.asarray(getattr(params, name))
        check_pair(name, values)
        check_order(name, values)
    eye, wall = np.asarray(params.eye_height), np.asarray(params.wall_height)
    check_values("eye_height", eye, eye[..., 1] < wall[..., 0], "lengths below every wall_height")
    if continuous:
        width, cell = 2 * motion.RADIUS, np.asarray(params.cell_size)
        accepted_values = (
            f"lengths above {width} m: in continuous motion the agent is {width} m wide"
        )
        check_values("cell_size", cell, cell > width, accepted_values)
    life, most = np.asarray(params.initial_life), np.asarray(params.max_life)
    accepted_values = "initial_life <= max_life"
    check_values("initial_life, max_life", (life, most), life <= most, accepted_values)


@functools.partial(jax.jit, static_argnums=(3, 4))
def sample_contents(
    key: jax.Array, maze: Maze, params: Params, max_landmarks: int, texture_set: str
) -> Task:
    """Draws what stands in a maze: textures, start, landmarks and their values, and lengths.

    Args:
      key: a typed key.
      maze: the walls.
      params: the distribution.
      max_landmarks: L.
      texture_set: name of a registered set; each wall's texture is drawn from it independently.
    """
    dtype = jnp.result_type(float)
    textures_key, places_key, values_key, lengths_key = jax.random.split(key, 4)
    cells = maze.walls.shape[0] ** 2
    chosen = textures.texture_set(texture_set)
    # The bias of a remainder is below (number of textures) / 2**32.
    bits = random.bits(textures_key, (cells + 2,))
    walls = (bits[:cells] % len(chosen.walls)).astype(jnp.uint8)
    number = jnp.asarray(params.num_landmarks, jnp.int32)
    start, landmarks, landmark_at = generation.place(places_key, maze.walls, number, max_landmarks)
    spread = random.uniform(values_key, (max_landmarks,), dtype, -0.5, 0.5)
    lengths = {}
    shares = random.uniform(lengths_key, (len(RANGES),), dtype)
    for share, name in zip(shares, RANGES, strict=True):
        low, high = jnp.asarray(getattr(params, name), dtype)
        lengths[name] = low + share * (high - low)
    step_reward = jnp.asarray(params.step_reward, dtype)
    scale = jnp.asarray(params.goal_scale, dtype)
    return Task(
        size=maze.size,
        walls=maze.walls,
        textures=walls.reshape(maze.walls.shape),
        ground=(bits[cells] % len(chosen.grounds)).astype(jnp.int32),
        ceiling=(bits[cells + 1] % len(chosen.ceilings)).astype(jnp.int32),
        landmarks=landmarks,
        landmark_at=landmark_at,
        num_landmarks=number,
        landmark_rewards=jnp.asarray(params.mean_landmark_reward, dtype) + spread,
        start=start,
        **lengths,
        step_reward=step_reward,
        goal_reward=scale * maze.size.astype(dtype) ** 1.5 * jnp.abs(step_reward),
        horizon=jnp.asarray(params.horizon, jnp.int32),
        num_commands=jnp.asarray(params.num_commands, jnp.int32),
        refresh_interval=jnp.asarray(params.refresh_interval, jnp.int32),
        initial_life=jnp.asarray(params.initial_life, dtype),
        max_life=jnp.asarray(params.max_life, dtype),
    )
