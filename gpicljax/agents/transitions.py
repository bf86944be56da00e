"""Collecting n-step transitions: what learners that replay single steps do before they learn.

A transition over n steps is complete n steps after it began. So the last n - 1 time steps and
actions of a collection, the window, go before those of the next one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.data.transitions import Transition, transitions
from gpicljax.interface import Agent, TimeStep
from gpicljax.rollout import RolloutState, rollout
from gpicljax.vector import VectorEnv


class Collected(NamedTuple):
    """What a collection of T steps of B instances leads to.

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
    items: Transition
    valid: jax.Array
    last: jax.Array
    observations: Any
    metrics: dict[str, jax.Array]


def opening(timestep: TimeStep, action: Any, n_step: int) -> tuple[Any, Transition]:
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
    item = Transition(observation, jnp.zeros_like(action[0]), zero, zero, observation)
    return (early, blank(action)), item


def collect(
    key: jax.Array,
    vec: VectorEnv,
    agent: Agent,
    params: Any,
    start: RolloutState,
    window: Any,
    period: int,
    n_step: int,
    discount: jax.Array | float,
) -> Collected:
    """Lets the agent act for `period` steps and makes the transitions that they complete.

    Args:
      key: a typed key for the agent's choices.
      vec: the environments, B instances.
      agent: the agent.
      params: the agent's parameters.
      start: where to go on from.
      window: likewise, see `opening`.
      period: T.
      n_step: n.
      discount: gamma.
    """
    following, steps = rollout(
        key,
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
    here, there = slice(0, period), slice(1, period + 1)
    ends = timesteps.last[there] | timesteps.trial_start[there]
    arrived = jax.tree.map(lambda x: x[n_step:], timesteps)
    acted = ~steps[0].last
    metrics = {
        "reward": arrived.reward.sum() / jnp.maximum(acted.sum(), 1),
        "episodes": arrived.last.sum(dtype=jnp.int32),
    }
    last = ends & ~timesteps.last[here]
    return Collected(following, window, items, valid, last, steps[0].observation, metrics)


def counted(count: jax.Array, more: jax.Array | int) -> jax.Array:
    """`int32[]`, so many more; it stands still before it would overflow."""
    return count + jnp.where(count < 2**30, more, 0)
