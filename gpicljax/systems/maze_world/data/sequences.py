"""Episodes as a sequence model reads them: what was seen and done, with what was to be done."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.checks import check, check_at_least
from gpicljax.networks.contract import AgentInput
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

    Example:
      >>> label, counts = jnp.zeros((5, 2), int), jnp.arange(5)[:, None] < jnp.array([5, 3])
      >>> inputs = AgentInput(jnp.zeros((5, 2, 8, 8, 3), "uint8"), label - 1, jnp.zeros((5, 2)))
      >>> ImitationBatch(inputs, label, counts).counts.sum(0).tolist()
      [5, 3]
    """

    inputs: AgentInput
    label: jax.Array
    counts: jax.Array


def imitation_batch(env: MazeWorld, episodes: MazeTrajectory, tasks: Task) -> ImitationBatch:
    """Renders episodes of `sample_trajectories`; jittable.

    Args:
      env: the environment; its view says what is seen.
      episodes: leaves `[B, ...]`.
      tasks: theirs.

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
    return jax.tree.map(lambda x: x.swapaxes(0, 1), ImitationBatch(inputs, label, counts))


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
