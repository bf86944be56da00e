"""Planning on a map of what was seen where: shortest ways to what a model wants to reach.

Latents have scores, products of what the model attends to now and of the latent: what it is worth
to be where it was seen; to go on from there to a new cell; to go on to a cell that was entered
before (a landmark does not show to an agent inside its cell); and to turn right or left in the next
cell and go on there (what is beside an agent does not show either). Ways between cells that were
entered cost a learnt price a cell. What is worth what is learnt; that ways are made of cells next
to each other is built in.
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

HERE, EXPLORE, ENTER = range(3)
"""Ends of ways: in a cell; in the cell ahead, entered for the first time, or again."""


class Worth(NamedTuple):
    """Worth of the ends of ways; float `[N, X, Y, 4]` unless stated; `NEVER` where none can end.

    Attributes:
      here: of being in a cell, by the heading in which it was seen.
      explore: of entering the cell ahead for the first time.
      enter: of entering it again.
      price: `[]`, of one cell.
    """

    here: jax.Array
    explore: jax.Array
    enter: jax.Array
    price: jax.Array


def neighbours(values: jax.Array, fill: float | bool) -> jax.Array:
    """Returns the values of the cells next to each cell, `[N, X, Y] -> [N, X, Y, 4]`."""
    side = values.shape[1]
    padded = jnp.pad(values, ((0, 0), (1, 1), (1, 1)), constant_values=fill)
    return jnp.stack(
        [padded[:, 1 + x : 1 + x + side, 1 + y : 1 + y + side] for x, y in HEADINGS], axis=-1
    )


class Ways(NamedTuple):
    """Ends of the best ways that leave a cell along each heading; leaves `[N, 4]`.

    Attributes:
      goal: `int32`, the pose at its end.
      end: `int32`, `HERE`, `EXPLORE` or `ENTER`.
      cells: `int32`, its length between cells that were entered.
      exists: `bool`, whether there is one.
    """

    goal: jax.Array
    end: jax.Array
    cells: jax.Array
    exists: jax.Array


def best_ways(
    worth: Worth, entered: jax.Array, is_blocked: jax.Array, place: jax.Array, sweeps: int
) -> Ways:
    """Returns the best ways from a place by value iteration; without gradients.

    Args:
      worth: see `Worth`.
      entered: `bool[N, X, Y]`, cells that were entered.
      is_blocked: `bool[N, X, Y, 4]`, poses ahead of which something was in the way.
      place: `int32[N]`, a pose in the cell that ways leave.
      sweeps: of value iteration: cells of the longest way.
    """
    side = entered.shape[1]
    is_way = neighbours(entered, False) & entered[..., None]
    is_frontier = entered[..., None] & ~is_way & ~is_blocked
    ahead = jnp.where(is_frontier, worth.explore, jnp.where(is_way, worth.enter, NEVER))
    here = jnp.where(entered[..., None], worth.here, NEVER)
    start = jnp.maximum(here.max(-1), ahead.max(-1))

    def ways(values: jax.Array) -> jax.Array:
        return jnp.where(is_way, neighbours(values, NEVER), NEVER) - worth.price

    def sweep(values: jax.Array, _: None) -> tuple[jax.Array, None]:
        return jnp.maximum(start, ways(values).max(-1)), None

    values, _ = jax.lax.scan(sweep, start, None, length=sweeps)
    # What follows is computed for few cells: those on four ways.
    rows, headings = jnp.arange(len(place))[:, None], jnp.arange(4)
    onward, here, ahead, is_way, is_frontier, goes_on = (
        x.reshape(len(place), side * side, -1)
        for x in (ways(values), here, ahead, is_way, is_frontier, values > start)
    )
    strides = jnp.asarray(HEADINGS @ np.array([side, 1]), jnp.int32)

    def walk(state: tuple[jax.Array, jax.Array], _: None) -> tuple[Any, None]:
        cell, cells = state
        goes = goes_on[rows, cell, 0]
        then = cell + strides[onward[rows, cell].argmax(-1)]
        return (jnp.where(goes, then, cell), cells + goes), None

    origin = place[:, None] // 4
    leads = onward[rows, origin, headings] > ahead[rows, origin, headings]
    first = jnp.where(leads, origin + strides, origin)
    (last, cells), _ = jax.lax.scan(walk, (first, leads.astype(jnp.int32)), None, length=sweeps)
    ends_here, ends_ahead = here[rows, last], ahead[rows, last]
    is_ahead = ~leads | (ends_ahead.max(-1) > ends_here.max(-1))
    heading = jnp.where(is_ahead, ends_ahead.argmax(-1), ends_here.argmax(-1))
    cell, heading = jnp.where(leads, last, origin), jnp.where(leads, heading, headings)
    end = jnp.where(is_frontier[rows, cell, heading], EXPLORE, ENTER)
    exists = (is_way | is_frontier)[rows, origin, headings]
    return Ways(
        cell * 4 + heading,
        jnp.where(is_ahead, end, HERE),
        jnp.where(leads, cells, 0),
        exists,
    )


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
        steps, batch, _ = trace.row.shape
        keys = nn.gelu(dense(self.width)(latents)).transpose(1, 2, 0)
        keys = jnp.pad(keys, ((0, 0), (0, 1), (0, 0)), constant_values=1.0)
        scores = {
            name: (dense(self.width + 1, name=name)(features).swapaxes(0, 1) @ keys).swapaxes(0, 1)
            / np.sqrt(self.width)
            for name in ("here", "explore", "enter", "right", "left")
        }
        starts = {"unseen": 0.0, "price": -1.0, "sharpness": 1.0, "turn": -1.0}
        unseen, price, sharpness, turn = (
            self.param(name, nn.initializers.constant(value), (), default_float())
            for name, value in starts.items()
        )
        price, turn = jax.nn.softplus(price), jax.nn.softplus(turn)
        side = 2 * self.radius + 1

        def as_maps(x: jax.Array) -> jax.Array:
            return x.reshape(steps * batch, side, side, 4)

        def pick(values: jax.Array, index: jax.Array) -> jax.Array:
            return jnp.take_along_axis(values, index, axis=-1)

        # All scores of a step in one table, and for each pose the entry of each of its ends. A
        # latent tells what is ahead where it was seen in that pose, or else beside the next cell.
        table = [scores[name] for name in ("here", "enter", "explore", "right", "left")]
        table.append(jnp.broadcast_to(unseen, (steps, batch, 1)))
        table, count = jnp.concatenate(table, axis=-1), len(latents)
        row = as_maps(trace.row)
        explore = jnp.full_like(row, 5 * count)
        for number, seen in ((4, beside(row, -1)), (3, beside(row, 1)), (2, row)):
            explore = jnp.where(seen >= 0, seen + number * count, explore)
        entered, seen = (row >= 0).any(-1), jnp.maximum(row, 0)
        entries = jnp.stack([seen, explore, seen + count])  # of HERE, EXPLORE, ENTER
        entries = entries.reshape(3, steps, batch, -1)
        fixed, fixed_price = jax.lax.stop_gradient((table, price))
        here, explored, again = (as_maps(pick(fixed, entry)) for entry in entries)
        here, again = (jnp.where(row >= 0, worth, NEVER) for worth in (here, again))
        worth = Worth(here, explored, again, fixed_price)
        place = trace.place.reshape(-1)
        ways = best_ways(worth, entered, as_maps(trace.is_blocked), place, self.sweeps)
        # The gradient of what the best way is worth is that of its end and of its length.
        goal, end, cells, exists = (x.reshape(steps, batch, 4) for x in ways)
        entry = jnp.choose(end, [pick(entry, goal) for entry in entries], mode="clip")
        value = jnp.where(exists, pick(table, entry) - price * cells, NEVER)
        turned = (trace.place[..., None] + np.arange(4)) % 4
        front, right, behind, left = jnp.moveaxis(pick(value, turned), -1, 0)
        stay = jnp.full_like(front, NEVER)
        moves = jnp.stack([stay, left - turn, right - turn, behind, front], axis=-1)
        best = moves.max(-1, keepdims=True)
        return jnp.exp(sharpness) * jnp.maximum(moves - best, -CLIP)


def beside(row: jax.Array, turn: int) -> jax.Array:
    """Returns the rows of latents that show what is beside the next cell, `int32[N, X, Y, 4]`.

    Of a pose it is the latent seen one cell before in the heading from which `turn` quarters to the
    right lead to the pose's; -1 where there is none.
    """
    side, shown = row.shape[1], []
    padded = jnp.pad(row, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-1)
    for heading in range(4):
        before = (heading - turn) % 4
        x, y = HEADINGS[before]
        shown.append(padded[:, 1 - x : 1 - x + side, 1 - y : 1 - y + side, before])
    return jnp.stack(shown, axis=-1)
