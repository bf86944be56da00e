"""A program for dark rooms: it searches cell by cell, then goes straight to what it has found."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.batching import select
from gpicljax.envs._dark import ACTIONS
from gpicljax.interface import Agent, TimeStep
from gpicljax.networks.planning import grid_moves
from gpicljax.typing import ArrayTree

_STAY = ACTIONS.index("stay")


class Found(NamedTuple):
    """Findings about a room; leaves have a leading axis `[B]` outside of `vmap`.

    Attributes:
      is_ruled_out: `bool[2, S]`, cells that were reached, before and after the episode had paid.
      goal: `int32[2]`, the cell that pays before and after; -1 while it is not known.
      has_paid: `bool[]`, whether this episode has, where that leads to a second search.
      steps: `int32[]`, of this episode.
    """

    is_ruled_out: jax.Array
    goal: jax.Array
    has_paid: jax.Array
    steps: jax.Array


def sweep(size: int, horizon: int, two_goals: bool = False) -> Agent:
    """Returns the agent that sweeps a square dark room, in whole trials (`wrappers.Trial`) of it.

    It knows the room and the moves, and nothing of the task. It goes to the nearest cell that it
    has not reached and that it still can reach, among those as near to the one with the fewest such
    neighbours, so that no holes are left. What it has found it goes to by the shortest way.

    Args:
      size: side of the room, whose cells are counted row by row.
      horizon: steps of an episode.
      two_goals: whether what pays comes in two steps, key and door, each found by a search.

    Returns:
      The agent; its `aux` has `shares`, float `[B, 5]`, even over the shortest ways.

    Example:
      >>> sweep(9, horizon=20).initial_carry(3).goal.shape
      (3, 2)
    """
    cells = size * size
    place = np.stack(np.divmod(np.arange(cells), size), -1)
    distances = jnp.asarray(np.abs(place[:, None] - place[None]).sum(-1), jnp.int32)
    adjacent = jnp.asarray(distances == 1, jnp.float32)
    lots = jnp.asarray(np.random.default_rng(0).random(cells) * 0.1, jnp.float32)
    following, places = jnp.asarray(grid_moves(size)), jnp.asarray(place)
    is_stay = jnp.arange(len(ACTIONS)) == _STAY

    def initial_carry(batch: int) -> Found:
        return Found(
            is_ruled_out=jnp.zeros((batch, 2, cells), bool),
            goal=jnp.full((batch, 2), -1, jnp.int32),
            has_paid=jnp.zeros(batch, bool),
            steps=jnp.zeros(batch, jnp.int32),
        )

    def learn(found: Found, timestep: TimeStep) -> Found:
        seen, is_step = timestep.observation, ~timestep.trial_start
        reached, phase = seen["reached"], found.has_paid.astype(jnp.int32)
        paid = (timestep.reward > 0) & is_step
        over = seen["terminated"] | seen["truncated"] | timestep.trial_start
        was_ruled_out = found.is_ruled_out[phase, reached]
        return Found(
            is_ruled_out=found.is_ruled_out.at[phase, reached].set(was_ruled_out | is_step),
            goal=found.goal.at[phase].set(jnp.where(paid, reached, found.goal[phase])),
            has_paid=(found.has_paid | (paid & two_goals)) & ~over,
            steps=jnp.where(over, 0, found.steps + 1),
        )

    def choose(found: Found, here: jax.Array) -> tuple[jax.Array, jax.Array]:
        phase, distance = found.has_paid.astype(jnp.int32), distances[here]
        unseen = ~found.is_ruled_out[phase]
        order = distance * 10 + adjacent @ unseen + lots
        # To find out about its own cell it would have to stay: where starts differ, it passes by.
        order = jnp.where((distance == 0) & two_goals, order + 10, order)
        is_candidate = unseen & (two_goals | (distance <= horizon - found.steps))
        nearest = jnp.argmin(jnp.where(is_candidate, order, jnp.inf))
        target = jnp.where(is_candidate.any(), nearest, here)
        target = jnp.where(found.goal[phase] >= 0, found.goal[phase], target)
        is_closer = distances[following[here], target] < distance[target]
        best = jnp.where(target == here, is_stay, is_closer)
        # One way for all: the longer side first.
        gap = places[target] - places[here]
        steps = places[following[here]] - places[here]
        along = (steps * jnp.where(jnp.abs(gap) >= jnp.abs(gap[::-1]), gap, 0)).sum(-1)
        action = jnp.argmax(jnp.where(best, 1 + jnp.maximum(along, 0), 0)).astype(jnp.int32)
        return action, best / best.sum()

    def act(keys: jax.Array, params: ArrayTree, carry: Found, timestep: TimeStep) -> Any:
        del params
        carry = select(timestep.trial_start, initial_carry(keys.shape[0]), carry)
        plain = timestep._replace(info={}, privileged=None)
        carry = jax.vmap(learn)(carry, plain)
        action, shares = jax.vmap(choose)(carry, timestep.observation["now"])
        return action, {"shares": shares}, carry

    # Its observations say which cells were reached, whatever was played.
    return Agent(initial_carry, act, lambda carry, action: carry)
