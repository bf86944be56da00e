"""Sequences that models are trained on: new episodes, stored ones, or those of a model itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax.agents.causal_losses import Targets
from gpicljax.agents.sequence import Sequences
from gpicljax.checks import Rate
from gpicljax.interface import Agent
from gpicljax.systems.maze_world.data.demonstrations import (
    Demonstration,
    sample_trajectories,
    task_of,
)
from gpicljax.systems.maze_world.data.sequences import ImitationBatch, imitation_batch
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params


@struct.dataclass
class Weights:
    """Weights of the losses; a loss of weight 0 is left out.

    Attributes:
      policy: L_pm, the teacher's action.
      image: L_wm, the next picture.
      latent: L_z, the next latents.
      reward: of the squared error of the reward; the model is to predict it.
    """

    policy: Rate = 0.25
    image: Rate = 0.70
    latent: Rate = 0.05
    reward: Rate = 0.0


class Data(NamedTuple):
    """The sources of training sequences.

    Attributes:
      params: the distribution over mazes.
      tasks: `int32[]`, mazes that are learnt from; 0 for a new one in every episode.
      window: `int32[]`, steps that the model attends to, once it has grown.
      weights: of the losses.
      actor: parameters of the model as it was at the last log line, where it plays episodes; None
        before there is one.
      episodes: stored ones, leaves `[N, ...]`; None where new ones are made.
    """

    params: Params
    tasks: jax.Array
    window: jax.Array
    weights: Weights
    actor: Any = None
    episodes: Any = None


def sampler(
    env: MazeWorld,
    settings: Demonstration,
    student: Agent,
    *,
    group: int,
    student_groups: int,
    maze_keys: jax.Array | None,
    distributions: tuple[Params, ...],
    cells: np.ndarray | None = None,
) -> Callable[[jax.Array, Data], Sequences]:
    """Returns the function that makes the sequences of an update, in groups with a key each.

    Args:
      env: where episodes are played, and rendered.
      settings: of the episodes.
      student: the model as an agent, which plays some groups.
      group: episodes of a group.
      student_groups: number of groups that the model plays.
      maze_keys: keys of the mazes of a finite set; None where every maze is new.
      distributions: of the mazes of stored episodes.
      cells: see `imitation_batch`.
    """

    def stored_batch(key: jax.Array, data: Data) -> ImitationBatch:
        rows = jax.random.randint(key, (group,), 0, len(data.episodes.length))
        taken = jax.tree.map(lambda x: x[rows], data.episodes)
        return imitation_batch(
            env, taken, jax.vmap(lambda one: task_of(env, distributions, one))(taken), cells
        )

    # Whatever number of groups there is, it is traced once.
    @functools.partial(jax.jit, static_argnames="by_student", inline=True)
    def play(key: jax.Array, data: Data, by_student: bool = False) -> ImitationBatch:
        if data.episodes is not None:
            return stored_batch(key, data)
        key, task_key = jax.random.split(key)
        mazes = jax.random.split(task_key, group)
        if maze_keys is not None:
            rows = jax.random.randint(key, mazes.shape, 0, jnp.maximum(data.tasks, 1))
            mazes = jnp.where(data.tasks > 0, maze_keys[rows], mazes)
        trajectories = sample_trajectories(
            key,
            env,
            data.params,
            len(mazes),
            settings,
            actor=student if by_student and data.actor is not None else None,
            actor_params=data.actor if by_student else None,
            tasks=mazes,
        )
        return imitation_batch(env, *trajectories, cells)

    def sample(keys: jax.Array, data: Data) -> Sequences:
        first = keys[::group]
        if len(first) == 1:
            batch = play(first[0], data, student_groups == 1)
        else:
            kinds = (first[:student_groups], True), (first[student_groups:], False)
            parts = [
                jax.vmap(functools.partial(play, by_student=played), (0, None), out_axes=1)(
                    group_keys, data
                )
                for group_keys, played in kinds
                if len(group_keys)
            ]
            parts = jax.tree.map(lambda x: x.reshape(len(x), -1, *x.shape[3:]), parts)
            batch = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *parts)
        targets = Targets(batch.label, batch.counts, sights=batch.sights)
        return Sequences(batch.inputs, None, targets)

    return sample
