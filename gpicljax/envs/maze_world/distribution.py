"""The distribution over mazes: its defaults, what it refuses, and what stands in a maze."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax.envs._checks import check_horizon, check_order, check_pair
from gpicljax.envs.maze_world import generation, motion, textures
from gpicljax.envs.maze_world.types import Params, Task

RANGES = ("cell_size", "wall_height", "eye_height", "view_range")  # each drawn uniformly
_FINITE = ("density", "mean_landmark_reward", "step_reward", "goal_scale")
MOST = 2**30  # so that nothing overflows
_COUNTS = ("num_landmarks", "num_commands", "refresh_interval")


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
    """The paper's: density 0.36 with loops, 10 landmarks, cells of 2 m, 2,048 steps.

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
        mean_landmark_reward=real(0.6),
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
    if not np.all((n >= 7) & (n <= size) & (n % 2 == 1)):
        raise ValueError(
            f"size = {n}: odd numbers within 7 .. {size} are accepted; raise the cap with "
            "make(..., size=...)"
        )
    for field in _FINITE:
        if not np.isfinite(np.asarray(getattr(params, field))).all():
            raise ValueError(f"{field} = {getattr(params, field)}: a finite number is needed")
    density = np.asarray(params.density)
    if not np.all((density >= 0) & (density < 1)):
        raise ValueError(
            f"density = {density}: a share of walls within [0, 1) is needed; beyond about 0.45 all "
            "mazes are trees"
        )
    for field in _COUNTS:
        value = np.asarray(getattr(params, field))
        if not np.all((value >= 1) & (value <= MOST)):
            raise ValueError(f"{field} = {value}: from 1 to 2^30 are accepted")
    landmarks = np.asarray(params.num_landmarks)
    if not np.all(landmarks <= max_landmarks):
        raise ValueError(
            f"num_landmarks = {landmarks}: choose from 1 .. {max_landmarks}, or raise the cap with "
            "make(..., max_landmarks=...)"
        )
    opened = generation.num_open(n, density, np.asarray(params.allow_loops), np)
    if not np.all(landmarks < opened):
        raise ValueError(
            f"num_landmarks = {landmarks}: a maze of size {n} and density {density} has {opened} "
            "open cells, of which one is the start"
        )
    if not np.all(np.asarray(params.step_reward) < 0):
        raise ValueError(f"step_reward = {params.step_reward}: a number below 0 is needed")
    if not np.all(np.asarray(params.goal_scale) >= 0):
        raise ValueError(f"goal_scale = {params.goal_scale}: a number of at least 0 is needed")
    for name in RANGES:
        values = np.asarray(getattr(params, name))
        check_pair(name, values)
        if not np.all(np.isfinite(values) & (values > 0)):
            raise ValueError(f"{name} = {values}: finite lengths above 0 m are needed")
        check_order(name, values)
    eye, wall = np.asarray(params.eye_height), np.asarray(params.wall_height)
    if not np.all(eye[..., 1] < wall[..., 0]):
        raise ValueError(f"eye_height = {eye}: it lies below every wall_height, {wall}")
    if continuous and not np.all(np.asarray(params.cell_size) > 2 * motion.RADIUS):
        raise ValueError(
            f"cell_size = {np.asarray(params.cell_size)}: in continuous motion the agent is "
            f"{2 * motion.RADIUS} m wide and needs wider cells"
        )
    check_horizon(params.horizon)
    life, most = np.asarray(params.initial_life), np.asarray(params.max_life)
    if not np.all((life >= 0) & (life <= most) & np.isfinite(most)):
        raise ValueError(
            f"initial_life = {life}, max_life = {most}: 0 <= initial_life <= max_life is needed"
        )


@functools.partial(jax.jit, static_argnums=(3, 4))
def furnish(
    key: jax.Array, maze: Maze, params: Params, max_landmarks: int, texture_set: str
) -> Task:
    """Draws what stands in a maze: textures, start, landmarks and their values, and lengths.

    Args:
      key: a typed key.
      maze: the walls.
      params: the distribution.
      max_landmarks: L.
      texture_set: name of a registered set; each wall's texture is drawn from it independently.

    Returns:
      The task.
    """
    dtype = jnp.result_type(float)
    textures_key, places_key, values_key, lengths_key = jax.random.split(key, 4)
    cells = maze.walls.shape[0] ** 2
    chosen = textures.texture_set(texture_set)
    # The bias of a remainder is below (number of textures) / 2**32.
    bits = jax.random.bits(textures_key, (cells + 2,), jnp.uint32)
    walls = (bits[:cells] % len(chosen.walls)).astype(jnp.uint8)
    number = jnp.asarray(params.num_landmarks, jnp.int32)
    start, landmarks, landmark_at = generation.place(places_key, maze.walls, number, max_landmarks)
    spread = jax.random.uniform(values_key, (max_landmarks,), dtype, -0.5, 0.5)
    lengths = {}
    shares = jax.random.uniform(lengths_key, (len(RANGES),), dtype)
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
