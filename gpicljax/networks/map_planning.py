"""Planning on a map of what was seen where: shortest ways to what a model wants to reach.

Each pose that was seen has two scores, products of what the model attends to now and of the latent
stored there: what it is worth to be there, and what it is worth to go on from there to a cell not
entered yet. Ways between cells that were entered cost a learnt price a cell. What is worth what is
learnt; that ways are made of cells next to each other is built in.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from gpicljax.networks.feedforward import dense
from gpicljax.networks.layers import default_float
from gpicljax.networks.map_memory import HEADINGS, MapTrace

# Worth of what cannot be reached; finite, so that its gradient is 0 and not NaN.
NEVER = -50.0
# Moves that are worth this much less than the best are told apart by the model alone.
CLIP = 3.0


class Worth(NamedTuple):
    """Worth of poses and of steps; float `[N, X, Y, 4]` unless stated.

    Attributes:
      here: of being in a cell, by the heading in which it was seen.
      ahead: of entering the cell ahead for the first time.
      price: `[]`, of one cell.
    """

    here: jax.Array
    ahead: jax.Array
    price: jax.Array


def neighbours(values: jax.Array, fill: float | bool) -> jax.Array:
    """Returns the values of the cells next to each cell, `[N, X, Y] -> [N, X, Y, 4]`."""
    side = values.shape[1]
    padded = jnp.pad(values, ((0, 0), (1, 1), (1, 1)), constant_values=fill)
    return jnp.stack(
        [padded[:, 1 + x : 1 + x + side, 1 + y : 1 + y + side] for x, y in HEADINGS], axis=-1
    )


class Ways(NamedTuple):
    """Where the best way that leaves a cell along each heading ends; leaves `[N, 4]`.

    Attributes:
      goal: `int32`, the pose at its end.
      is_ahead: `bool`, whether it ends in the cell ahead of that pose, entered for the first time.
      cells: `int32`, its length between cells that were entered.
      exists: `bool`, whether there is one.
    """

    goal: jax.Array
    is_ahead: jax.Array
    cells: jax.Array
    exists: jax.Array


def best_ways(
    worth: Worth, is_seen: jax.Array, is_blocked: jax.Array, place: jax.Array, sweeps: int
) -> Ways:
    """Returns the best ways from a place by value iteration; without gradients.

    Args:
      worth: see `Worth`.
      is_seen: `bool[N, X, Y, 4]`, poses with something stored.
      is_blocked: `bool[N, X, Y, 4]`, poses ahead of which something was in the way.
      place: `int32[N]`, a pose in the cell that ways leave.
      sweeps: of value iteration: cells of the longest way.
    """
    side = is_seen.shape[1]
    entered = is_seen.any(-1)
    is_way = neighbours(entered, False) & entered[..., None]
    is_frontier = entered[..., None] & ~is_way & ~is_blocked
    ahead = jnp.where(is_frontier, worth.ahead, NEVER)
    here = jnp.where(is_seen, worth.here, NEVER)
    start = jnp.maximum(here.max(-1), ahead.max(-1))

    def ways(values: jax.Array) -> jax.Array:
        return jnp.where(is_way, neighbours(values, NEVER), NEVER) - worth.price

    def sweep(values: jax.Array, _: None) -> tuple[jax.Array, None]:
        return jnp.maximum(start, ways(values).max(-1)), None

    values, _ = jax.lax.scan(sweep, start, None, length=sweeps)
    # Everything below is asked for few cells: those on four ways.
    rows = jnp.arange(len(place))[:, None]
    flat = {
        name: x.reshape(len(place), side * side, -1)
        for name, x in (
            ("ways", ways(values)),
            ("here", here),
            ("ahead", ahead),
            ("is_way", is_way),
            ("is_frontier", is_frontier),
            ("goes_on", values > start),
        )
    }
    steps = jnp.asarray(HEADINGS @ np.array([side, 1]), jnp.int32)

    def walk(state: tuple[jax.Array, jax.Array], _: None) -> tuple[Any, None]:
        cell, cells = state
        goes_on = flat["goes_on"][rows, cell, 0]
        onward = cell + steps[flat["ways"][rows, cell].argmax(-1)]
        return (jnp.where(goes_on, onward, cell), cells + goes_on), None

    origin, headings = place[:, None] // 4, jnp.arange(4)
    leads = flat["is_way"][rows, origin, headings]
    first = jnp.where(leads, origin + steps, origin)
    (last, cells), _ = jax.lax.scan(walk, (first, leads.astype(jnp.int32)), None, length=sweeps)
    ends_here, ends_ahead = flat["here"][rows, last], flat["ahead"][rows, last]
    is_ahead = ends_ahead.max(-1) > ends_here.max(-1)
    heading = jnp.where(is_ahead, ends_ahead.argmax(-1), ends_here.argmax(-1))
    goal = jnp.where(leads, last * 4 + heading, origin * 4 + headings)
    exists = leads | flat["is_frontier"][rows, origin, headings]
    return Ways(goal, is_ahead | ~leads, jnp.where(leads, cells, 0), exists)


class MapPlanner(nn.Module):
    """Logits of the five moves of a maze's agent, by planning on its map.

    Attributes:
      radius: of the map, see `MapReader`.
      sweeps: of value iteration.
      width: of the keys of stored latents.
    """

    radius: int
    sweeps: int
    width: int = 64

    @nn.compact
    def __call__(self, features: jax.Array, latents: jax.Array, trace: MapTrace) -> jax.Array:
        """Returns the logits, float `[T, B, 5]`.

        Args:
          features: float `[T, B, F]`, what the model attends to.
          latents: float `[S, B, Z]`, those that are stored at some step.
          trace: the map at each step; its `row` is an index into `latents`.
        """
        steps, batch, places = trace.row.shape
        keys = nn.gelu(dense(self.width)(latents)).transpose(1, 2, 0)
        keys = jnp.pad(keys, ((0, 0), (0, 1), (0, 0)), constant_values=1.0)
        here, ahead = (
            (dense(self.width + 1, name=name)(features).swapaxes(0, 1) @ keys).swapaxes(0, 1)
            / np.sqrt(self.width)
            for name in ("here", "ahead")
        )
        starts = {"unseen": 0.0, "price": -1.0, "sharpness": 1.0, "turn": -1.0}
        unseen, price, sharpness, turn = (
            self.param(name, nn.initializers.constant(value), (), default_float())
            for name, value in starts.items()
        )
        price, turn = jax.nn.softplus(price), jax.nn.softplus(turn)
        is_seen, row = trace.row >= 0, jnp.maximum(trace.row, 0)
        side = 2 * self.radius + 1

        def shaped(x: jax.Array) -> jax.Array:
            return x.reshape(steps * batch, side, side, 4)

        def pick(scores: jax.Array, row: jax.Array) -> jax.Array:
            return jnp.take_along_axis(scores, row, axis=-1)

        fixed_here, fixed_ahead, fixed_unseen, fixed_price = jax.lax.stop_gradient(
            (here, ahead, unseen, price)
        )
        worth = Worth(
            shaped(pick(fixed_here, row)),
            shaped(jnp.where(is_seen, pick(fixed_ahead, row), fixed_unseen)),
            fixed_price,
        )
        maps = shaped(is_seen), shaped(trace.is_blocked)
        place = trace.place.reshape(-1)
        ways = best_ways(worth, *maps, place, self.sweeps)
        # The gradient of what the best way is worth is that of its goal and of its length.
        goal, is_ahead, cells, exists = (x.reshape(steps, batch, 4) for x in ways)
        is_known, at_goal = pick(is_seen, goal), pick(row, goal)
        entering = jnp.where(is_known, pick(ahead, at_goal), unseen)
        value = jnp.where(is_ahead, entering, pick(here, at_goal)) - price * cells
        value = jnp.where(exists, value, NEVER)
        turned = (trace.place[..., None] + np.arange(4)) % 4
        front, right, behind, left = jnp.moveaxis(pick(value, turned), -1, 0)
        stay = jnp.full_like(front, NEVER)
        moves = jnp.stack([stay, left - turn, right - turn, behind, front], axis=-1)
        best = moves.max(-1, keepdims=True)
        return jnp.exp(sharpness) * jnp.maximum(moves - best, -CLIP)
