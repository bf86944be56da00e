"""Training sequences of `maze_world`: new episodes, stored ones, or those of the model itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.agents.causal_model import Targets
from gpicljax.agents.sequence import Sequences
from gpicljax.interface import Agent
from gpicljax.systems.maze_world.data.demonstrations import (
    MazeTrajectory,
    sample_trajectories,
    task_of,
)
from gpicljax.systems.maze_world.data.sequences import ImitationBatch, imitation_batch
from gpicljax.systems.maze_world.data.stored import stored_episodes
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params
from gpicljax.systems.maze_world.studies.maze_world.config import Config, Weights


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


def episodes_of(config: Config, env: MazeWorld) -> tuple[MazeTrajectory | None, tuple[Params, ...]]:
    """Returns the stored episodes to learn from, and the distributions of their mazes, if any."""
    if config.data is None:
        return None, ()
    return stored_episodes(config.data, env, config.demonstration.length)


def sampler(
    config: Config,
    env: MazeWorld,
    maze_keys: jax.Array,
    student: Agent,
    distributions: tuple[Params, ...],
) -> Callable[[jax.Array, Data], Sequences]:
    """Returns the function that makes the sequences of an update, in groups with a key each.

    Args:
      config: sizes.
      env: where episodes are played, and rendered.
      maze_keys: keys of the mazes of a finite set.
      student: the model as an agent, which plays some groups.
      distributions: of the mazes of stored episodes.
    """

    def stored_batch(key: jax.Array, data: Data) -> ImitationBatch:
        rows = jax.random.randint(key, (config.group,), 0, len(data.episodes.length))
        taken = jax.tree.map(lambda x: x[rows], data.episodes)
        return imitation_batch(
            env, taken, jax.vmap(lambda one: task_of(env, distributions, one))(taken)
        )

    # Whatever number of groups there is, it is traced once.
    @functools.partial(jax.jit, static_argnames="by_student", inline=True)
    def group(key: jax.Array, data: Data, by_student: bool = False) -> ImitationBatch:
        if data.episodes is not None:
            return stored_batch(key, data)
        key, task_key = jax.random.split(key)
        mazes = jax.random.split(task_key, config.group)
        if any(config.tasks):
            rows = jax.random.randint(key, mazes.shape, 0, jnp.maximum(data.tasks, 1))
            mazes = jnp.where(data.tasks > 0, maze_keys[rows], mazes)
        trajectories = sample_trajectories(
            key,
            env,
            data.params,
            len(mazes),
            config.demonstration,
            actor=student if by_student and data.actor is not None else None,
            actor_params=data.actor if by_student else None,
            tasks=mazes,
        )
        return imitation_batch(env, *trajectories)

    def sample(keys: jax.Array, data: Data) -> Sequences:
        first, student_groups = keys[:: config.group], config.own_groups
        if len(first) == 1:
            batch = group(first[0], data, student_groups == 1)
        else:
            parts = [
                jax.vmap(functools.partial(group, by_student=played), (0, None), out_axes=1)(
                    group_keys, data
                )
                for group_keys, played in (
                    (first[:student_groups], True),
                    (first[student_groups:], False),
                )
                if len(group_keys)
            ]
            parts = jax.tree.map(lambda x: x.reshape(len(x), -1, *x.shape[3:]), parts)
            batch = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *parts)
        return Sequences(batch.inputs, None, Targets(batch.label, batch.counts))

    return sample
