"""Transitions over n steps: what learners that replay single steps store and learn from."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.interface import TimeStep


class Transition(NamedTuple):
    """From one observation to that n steps later, or at the end of the episode if that is earlier.

    Attributes:
      observation: where it starts.
      action: `int32[]`, or float `[...]` if continuous: what was done there.
      reward: float `[]`, the discounted sum of the rewards on the way.
      discount: float `[]`, of the value of `following`; 0 if that is terminal.
      following: the observation where it ends.
    """

    observation: Any
    action: jax.Array
    reward: jax.Array
    discount: jax.Array
    following: Any


def transitions(
    timestep: TimeStep, action: jax.Array, n_step: int, discount: jax.Array | float
) -> tuple[Transition, jax.Array]:
    """The n-step transitions of one instance's stretch of steps.

    Args:
      timestep: leaves `[T + n, ...]`, without `info`.
      action: `[T + n - 1, ...]`.
      n_step: n.
      discount: gamma.

    Returns:
      Transitions with leaves `[T, ...]`, and `bool[T]`: false where the action was ignored, or
      where a trial was begun before the step could be completed.
    """
    count = action.shape[0] - n_step + 1
    reward = jnp.zeros(count, timestep.reward.dtype)
    factor = jnp.ones_like(reward)
    going = jnp.ones(count, bool)
    end = jnp.arange(count)
    for k in range(n_step):
        place = jnp.arange(count) + k + 1
        if k:  # behind a time step that was not the last of its episode, but followed by a new one
            going = going & ~timestep.trial_start[place]
        reward = jnp.where(going, reward + factor * timestep.reward[place], reward)
        factor = jnp.where(going, factor * discount, factor)
        end = jnp.where(going, place, end)
        going = going & ~timestep.last[place]
    factor = jnp.where(timestep.terminated[end], 0, factor)
    made = Transition(
        jax.tree.map(lambda x: x[:count], timestep.observation),
        action[:count],
        reward,
        factor.astype(reward.dtype),
        jax.tree.map(lambda x: x[end], timestep.observation),
    )
    return made, ~timestep.last[:count] & ~timestep.trial_start[1 : count + 1]
