"""Transitions over n steps: what learners that replay single steps collect, store and learn from.

A transition over n steps is complete n steps after it began. So the last n - 1 time steps and
actions of a collection, the window, go before those of the next one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.interface import Agent, TimeStep
from gpicljax.rollout import RolloutState, rollout
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv


class NStepTransition(NamedTuple):
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
) -> tuple[NStepTransition, jax.Array]:
    """Returns the n-step transitions of one instance's stretch of steps.

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
    completed = NStepTransition(
        jax.tree.map(lambda x: x[:count], timestep.observation),
        action[:count],
        reward,
        factor.astype(reward.dtype),
        jax.tree.map(lambda x: x[end], timestep.observation),
    )
    return completed, ~timestep.last[:count] & ~timestep.trial_start[1 : count + 1]


class CollectedSteps(NamedTuple):
    """The outcome of T steps of B instances.

    Attributes:
      rollout: where to go on from.
      window: likewise.
      items: the transitions that were completed, leaves `[T, B, ...]`.
      valid: `bool[T, B]`, false for those of ignored actions.
      last: `bool[T, B]`, where the transition is the last one of its episode; also where a renewal
        broke the episode off, whose transition is not valid.
      observations: what was seen while acting, leaves `[T, B, ...]`.
      metrics: `reward` (mean per step) and `episodes` (ended, `int32[]`).
    """

    rollout: RolloutState
    window: Any
    items: NStepTransition
    valid: jax.Array
    last: jax.Array
    observations: Any
    metrics: dict[str, jax.Array]


def initial_window(
    timestep: TimeStep, action: jax.Array, n_step: int
) -> tuple[Any, NStepTransition]:
    """Before the first collection.

    Args:
      timestep: the first one, leaves `[B, ...]`, without `info`.
      action: any one, `[B, ...]`.
      n_step: n.

    Returns:
      The window, and an unbatched transition of zeros, for a replay to be shaped like.
    """
    blank = lambda x: jnp.zeros((n_step - 1, *x.shape), x.dtype)  # noqa: E731
    early = jax.tree.map(blank, timestep)
    # Steps before the first one: nothing leads out of the end of an episode.
    early = early._replace(terminated=jnp.ones_like(early.terminated))
    observation = jax.tree.map(lambda x: jnp.zeros_like(x[0]), timestep.observation)
    zero = jnp.zeros((), timestep.reward.dtype)
    item = NStepTransition(observation, jnp.zeros_like(action[0]), zero, zero, observation)
    return (early, blank(action)), item


def collect(
    vec: VectorEnv,
    agent: Agent,
    params: ArrayTree,
    start: RolloutState,
    window: tuple[TimeStep, jax.Array],
    period: int,
    n_step: int,
    discount: jax.Array | float,
) -> CollectedSteps:
    """Lets the agent act for `period` steps and makes the transitions that they complete.

    Args:
      vec: the environments, B instances.
      agent: the agent.
      params: the agent's parameters.
      start: where to go on from.
      window: likewise, see `initial_window`.
      period: T.
      n_step: n.
      discount: gamma.
    """
    following, steps = rollout(
        vec,
        agent,
        params,
        start,
        period,
        keep=lambda record: (record.timestep._replace(info={}), record.action),
    )
    timesteps, actions = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), window, steps)
    # The last time step is where the last transition leads; its action is not known yet.
    closing = following.timestep._replace(info={})
    timesteps = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), timesteps, closing)
    window = jax.tree.map(lambda x: x[period:], (timesteps, actions))
    window = (jax.tree.map(lambda x: x[:-1], window[0]), window[1])
    items, valid = jax.vmap(transitions, (1, 1, None, None), 1)(
        timesteps, actions, n_step, discount
    )
    starts, following_steps = slice(0, period), slice(1, period + 1)
    ends = timesteps.last[following_steps] | timesteps.trial_start[following_steps]
    arrived = jax.tree.map(lambda x: x[n_step:], timesteps)
    acted = ~steps[0].last
    metrics = {
        "reward": arrived.reward.sum() / jnp.maximum(acted.sum(), 1),
        "episodes": arrived.last.sum(dtype=jnp.int32),
    }
    last = ends & ~timesteps.last[starts]
    return CollectedSteps(following, window, items, valid, last, steps[0].observation, metrics)
