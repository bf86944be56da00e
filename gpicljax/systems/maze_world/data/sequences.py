"""Episodes as a sequence model reads them: what was seen and done, with what was to be done."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import check, check_at_least
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.map_memory import HEADINGS
from gpicljax.networks.policies import no_action
from gpicljax.systems.maze_world.data.demonstrations import MazeTrajectory, frames, states_of
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params, Task


class ImitationBatch(NamedTuple):
    """B episodes of T steps to learn from; leaves `[T, B, ...]`.

    Attributes:
      inputs: what was seen before each step, rendered, with the action and the reward before it.
      label: the teacher's action.
      counts: `bool[T, B]`, whether the step was played.
      sights: `int32[T, B, K + 1]`, what the teacher sees in cells around the agent: 0 nothing, 1 a
        wall, 2 a free cell, from 3 on landmarks; at last the one commanded. None if not asked for.

    Example:
      >>> label, counts = jnp.zeros((5, 2), int), jnp.arange(5)[:, None] < jnp.array([5, 3])
      >>> inputs = AgentInput(jnp.zeros((5, 2, 8, 8, 3), "uint8"), label - 1, jnp.zeros((5, 2)))
      >>> ImitationBatch(inputs, label, counts).counts.sum(0).tolist()
      [5, 3]
    """

    inputs: AgentInput
    label: jax.Array
    counts: jax.Array
    sights: jax.Array | None = None


def imitation_batch(
    env: MazeWorld, episodes: MazeTrajectory, tasks: Task, cells: np.ndarray | None = None
) -> ImitationBatch:
    """Renders episodes of `sample_trajectories`; jittable.

    Args:
      env: the environment; its view says what is seen.
      episodes: leaves `[B, ...]`.
      tasks: theirs.
      cells: `int32[K, 2]`, steps forward and to the right to the cells of `sights`, in navigation
        from cell to cell.

    Example:
      >>> from gpicljax.systems.maze_world.data import Demonstration, sample_trajectories
      >>> env = MazeWorld(resolution=(32, 32))
      >>> def some(key):
      ...     short = Demonstration(length=16)
      ...     return imitation_batch(
      ...         env, *sample_trajectories(key, env, env.default_params, 2, short)
      ...     )
      >>> jax.eval_shape(some, jax.random.key(0)).inputs.observation.shape
      (16, 2, 32, 32, 3)
    """
    steps, batch = episodes.action.shape[1], episodes.action.shape[0]
    # No action follows the last pose.
    begun = episodes._replace(pose=episodes.pose[..., :steps])
    for name in ("command", "active", "life"):
        if getattr(episodes, name) is not None:
            begun = begun._replace(**{name: getattr(episodes, name)[:, :steps]})
    observations = jax.vmap(lambda task, episode: frames(env, task, episode))(tasks, begun)
    space = env.action_space()
    none = no_action(space, batch)
    action, label = (x.astype(none.dtype) for x in (episodes.action, episodes.label))
    last_action = jnp.concatenate([none[:, None], action[:, :-1]], axis=1)
    reward = episodes.reward.astype(jnp.result_type(float))
    last_reward = jnp.pad(reward[:, :-1], ((0, 0), (1, 0)))
    counts = jnp.arange(steps) < episodes.length[:, None]
    inputs = AgentInput(observations, last_action, last_reward)
    sights = None
    if cells is not None:
        seen = jax.vmap(lambda task, episode: cells_seen(env, task, episode))(tasks, begun)
        look = jax.vmap(jax.vmap(functools.partial(look_around, cells=cells)))
        around = look(seen, begun.pose.swapaxes(1, 2))
        command = 3 + begun.command[..., None].astype(jnp.int32)
        sights = jnp.concatenate([around, command], axis=-1)
    return jax.tree.map(lambda x: x.swapaxes(0, 1), ImitationBatch(inputs, label, counts, sights))


def cells_seen(env: MazeWorld, task: Task, episode: MazeTrajectory) -> jax.Array:
    """Returns what is seen in the cells of a maze, `int32[T, N, N]`; see `ImitationBatch`."""
    exposed = jax.vmap(env.visible_cells, (0, None))(states_of(env, task, episode), task)
    content = jnp.where(task.walls, 1, 3 + task.landmark_at.astype(jnp.int32))
    return jnp.where(exposed, content, 0)


def look_around(seen: jax.Array, pose: jax.Array, cells: np.ndarray) -> jax.Array:
    """Returns what of `int32[N, N]` is around a pose, `int32[K]`; 0 beyond the maze."""
    x, y, quarter = pose.astype(jnp.int32)
    forward, right = (jnp.asarray(HEADINGS)[(quarter + turn) % 4] for turn in (0, 1))
    at = jnp.stack([x, y]) + cells[:, :1] * forward + cells[:, 1:] * right
    is_inside = ((at >= 0) & (at < len(seen))).all(-1)
    return jnp.where(is_inside, seen[tuple(jnp.clip(at, 0, len(seen) - 1).T)], 0)


class FrameBatch(NamedTuple):
    """Pictures of N moments in each of M mazes; `uint8[M, N, H, W, 3]`.

    Attributes:
      after: what is seen.
      before: what was seen a step earlier.
    """

    after: jax.Array
    before: jax.Array


def sample_frames(
    key: jax.Array, env: MazeWorld, params: Params, mazes: int, count: int
) -> FrameBatch:
    """Returns views after a random action from anywhere in new mazes; jittable.

    Cells, headings and commands are uniform. No episode is played for it, so that a program that
    needs pictures alone compiles in a fraction of the time.

    Args:
      key: a typed key.
      env: the environment: navigation without continuous motion, its observation a picture.
      params: the distribution over mazes.
      mazes: M.
      count: N.

    Raises:
      ValueError: for another environment, or counts below 1.
    """
    fits = not env.survival and env.actions != "continuous" and not env.with_pose
    check(fits, "env", env, "navigation from cell to cell, without poses in the observation")
    check_at_least(1, mazes=mazes, count=count)

    def of_maze(key: jax.Array) -> FrameBatch:
        task_key, cell_key, heading_key, command_key, action_key = jax.random.split(key, 5)
        task = env.sample_task(task_key, params)
        free = jnp.where(task.walls.reshape(-1), -jnp.inf, 0)
        place = jax.random.categorical(cell_key, free, shape=(count,))
        heading = jax.random.randint(heading_key, (count,), 0, 4)
        pose = jnp.stack([place // env.size, place % env.size, heading]).astype(jnp.uint8)
        command = jax.random.randint(command_key, (count,), 0, task.num_landmarks)
        blank = MazeTrajectory(*(None,) * len(MazeTrajectory._fields))
        begun = states_of(env, task, blank._replace(pose=pose, command=command))
        action = jax.vmap(env.action_space().sample)(jax.random.split(action_key, count))
        # The script that commands would follow is empty.
        after = jax.vmap(lambda state, action: env.move(state, action, (), task).state)
        next_state = dataclasses.replace(after(begun, action), command=begun.command)
        see = jax.vmap(env.observe, (0, None))
        return FrameBatch(see(next_state, task), see(begun, task))

    return jax.vmap(of_maze)(jax.random.split(key, mazes))
