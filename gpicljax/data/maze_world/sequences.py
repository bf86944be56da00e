"""Episodes as a sequence model reads them: what was seen and done, with what was to be done."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.data.maze_world.demonstrations import Episode, frames
from gpicljax.envs.maze_world import MazeWorld, Task
from gpicljax.networks.contract import AgentInput
from gpicljax.networks.policies import no_action


class Lessons(NamedTuple):
    """Episodes of T steps to learn from; leaves `[T, B, ...]`.

    Attributes:
      inputs: what was seen before each step, rendered, with the action and the reward before it.
      label: the teacher's action.
      counts: `bool[T, B]`, whether the step was played.
    """

    inputs: AgentInput
    label: jax.Array
    counts: jax.Array


def lessons(env: MazeWorld, episodes: Episode, tasks: Task) -> Lessons:
    """What `trajectories` made, rendered; jittable.

    Args:
      env: the environment; its view says what is seen.
      episodes: leaves `[B, ...]`.
      tasks: theirs.

    Example:
      >>> from gpicljax.data.maze_world import Demonstration, trajectories
      >>> env = MazeWorld(resolution=(32, 32))
      >>> def some(key):
      ...     return lessons(
      ...         env, *trajectories(key, env, env.default_params, 2, Demonstration(length=16))
      ...     )
      >>> jax.eval_shape(some, jax.random.key(0)).inputs.observation.shape
      (16, 2, 32, 32, 3)
    """
    steps, batch = episodes.action.shape[1], episodes.action.shape[0]
    # The last pose is seen by nobody who acts.
    begun = episodes._replace(pose=episodes.pose[..., :steps])
    for name in ("command", "active", "life"):
        if getattr(episodes, name) is not None:
            begun = begun._replace(**{name: getattr(episodes, name)[:, :steps]})
    seen = jax.vmap(lambda task, episode: frames(env, task, episode))(tasks, begun)
    space = env.action_space()
    none = no_action(space, batch)
    action, label = (x.astype(none.dtype) for x in (episodes.action, episodes.label))
    last_action = jnp.concatenate([none[:, None], action[:, :-1]], axis=1)
    reward = episodes.reward.astype(jnp.result_type(float))
    last_reward = jnp.pad(reward[:, :-1], ((0, 0), (1, 0)))
    counts = jnp.arange(steps) < episodes.length[:, None]
    inputs = AgentInput(seen, last_action, last_reward)
    return jax.tree.map(lambda x: x.swapaxes(0, 1), Lessons(inputs, label, counts))
