"""Costs of ways over what is known of a maze, and the ways themselves, for a whole batch.

Entering a cell known to be free costs 1 and one that is not known costs 10; known walls are
impassable. The batch is the *last* axis of everything in this file, and mazes are flat lists of
P^2 cells: the maze with one more ring around it that cannot be entered (`bordered`). Each cell's
neighbours then lie at fixed distances in memory, and arithmetic runs along the batch.

`step_costs` is the fast solver: 32 instances share a word, and one pass over the words says for all
cells of all mazes whether they are reached at a given cost. `sweep_costs` is for other costs.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Cost of entering a cell that is not known, and thus levels in a block of `step_costs`.
UNKNOWN = 10
# Integer cost of what is out of reach.
FAR = 30_000
# The same for `sweep_costs`.
FAR_AWAY = 2**28
# The reference's order of neighbours: -x, +x, +y, -y.
NEIGHBOURS = np.array([(-1, 0), (1, 0), (0, 1), (0, -1)], np.int32)


def add_border(x: jax.Array) -> jax.Array:
    """`[B, N, N]` as `[P^2, B]` with P = N + 2, zero in the added ring."""
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1)))
    return x.reshape(x.shape[0], -1).T


def place(cell: jax.Array, size: int) -> jax.Array:
    """Index in the list of P^2 cells of `int32[..., 2]`, a cell of the N x N maze."""
    return (cell[..., 0] + 1) * (size + 2) + cell[..., 1] + 1


def cell_at(place: jax.Array, size: int) -> jax.Array:
    """Returns the cell at an index in that list, `int32[..., 2]`."""
    return jnp.stack([place // (size + 2) - 1, place % (size + 2) - 1], axis=-1)


def steps_to_neighbours(size: int) -> tuple[int, ...]:
    """Returns the distances of a cell's neighbours along the list of P^2 cells, in the order of
    `NEIGHBOURS`.
    """
    return tuple(int(dx) * (size + 2) + int(dy) for dx, dy in NEIGHBOURS)


# Sets of instances as bits -----------------------------------------------------------------------


def pack_batch(x: jax.Array) -> jax.Array:
    """`bool[B, ...]` as `uint32[..., ceil(B / 32)]`: one bit per instance."""
    spare = -x.shape[0] % 32
    x = jnp.pad(x, ((0, spare), *((0, 0),) * (x.ndim - 1)))
    x = x.reshape(-1, 32, *x.shape[1:])
    bits = jnp.uint32(1) << jnp.arange(32, dtype=jnp.uint32)
    x = jnp.where(x, bits.reshape(32, *(1,) * (x.ndim - 2)), jnp.uint32(0))
    return jnp.moveaxis(x.sum(1, dtype=jnp.uint32), 0, -1)


def packed_cells(x: jax.Array) -> jax.Array:
    """`bool[B, N, N]` as `uint32[P^2, ceil(B / 32)]`, no bit set in the added ring."""
    words = jnp.pad(pack_batch(x), ((1, 1), (1, 1), (0, 0)))
    return words.reshape(-1, words.shape[-1])


def mark_cells(places: jax.Array, has_place: jax.Array, size: int) -> jax.Array:
    """Returns one marked cell for each instance, as `uint32[P^2, ceil(B / 32)]`.

    Args:
      places: `int32[B]`, see `place`.
      has_place: `bool[B]`, False for no cell at all.
      size: N.
    """
    instance = jnp.arange(places.shape[0], dtype=jnp.uint32)
    bit = jnp.where(has_place, jnp.uint32(1) << (instance & 31), jnp.uint32(0))
    words = jnp.zeros(((size + 2) ** 2, -(-places.shape[0] // 32)), jnp.uint32)
    return words.at[places, instance >> 5].add(bit)


class StepCosts(NamedTuple):
    """Costs in binary digits, for all rows of the bordered maze but the first and the last.

    Attributes:
      reached: `uint32[M, G]`, whether there is a cost.
      above_zero: `uint32[M, G]`, whether it is above 0.
      units: four of `uint32[M, G]`, digits of (cost - 1) modulo 10.
      tens: `uint32[D, M, G]`, digits of (cost - 1) divided by 10.
    """

    reached: jax.Array
    above_zero: jax.Array
    units: tuple[jax.Array, ...]
    tens: jax.Array


def _any_cell(words: jax.Array) -> jax.Array:
    return jax.lax.reduce(words, np.uint32(0), jax.lax.bitwise_or, (0,))


def step_costs(
    free: jax.Array, unknown: jax.Array, start: jax.Array, goal: jax.Array, size: int
) -> StepCosts:
    """The lowest cost of getting from the nearest cell of `start` to each, entering it included.

    Args:
      free: `uint32[P^2, G]`, cells known to be free.
      unknown: `uint32[P^2, G]`, cells not known.
      start: `uint32[P^2, G]`, cells with cost 0.
      goal: `uint32[P^2, G]`; costs above that of the nearest of them may be missing.
      size: N.
    """
    side, cells = size + 2, (size + 2) ** 2
    inner = slice(side, cells - side)
    free, unknown, goal = free[inner], unknown[inner], goal[inner]
    digits = (size * size).bit_length()  # no path enters more cells than there are
    blank = jnp.zeros_like(free)

    def level(reached: jax.Array, waited: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns the cells reached one cost on, the unknown cells touched, and the new cells."""
        neighbours = reached[: -2 * side] | reached[2 * side :]
        neighbours |= reached[side - 1 : -side - 1] | reached[side + 1 : 1 - side]
        reached_before = reached[inner]
        # Fused with the next level, this one would be computed several times.
        grown, touched = jax.lax.optimization_barrier(
            (reached_before | (neighbours & free) | waited, neighbours & unknown)
        )
        return (
            jax.lax.dynamic_update_slice(reached, grown, (side, 0)),
            touched,
            grown & ~reached_before,
        )

    def block(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        number, _, reached, waiting, units, tens = carry
        before, waiting, units, new = reached[inner], list(waiting), list(units), []
        for i in range(UNKNOWN):
            # What was touched nine levels ago had a neighbour ten levels ago: it is entered now.
            reached, waiting[i - 1], arrived = level(reached, waiting[i])
            new.append(arrived)
        for digit, i in itertools.product(range(4), range(UNKNOWN)):
            if i >> digit & 1:
                units[digit] |= new[i]
        added = reached[inner] & ~before
        places = jnp.arange(digits, dtype=jnp.uint32)[:, None, None]
        tens |= jnp.where((number >> places) & 1 == 1, added, jnp.uint32(0))
        going = _any_cell(added) & ~_any_cell(reached[inner] & goal)
        return number + 1, (going != 0).any(), reached, tuple(waiting), tuple(units), tens

    carry = (
        jnp.zeros((), jnp.uint32),
        jnp.ones((), bool),
        start,
        (blank,) * UNKNOWN,
        (blank,) * 4,
        jnp.zeros((digits, *blank.shape), jnp.uint32),
    )
    _, _, reached, _, units, tens = jax.lax.while_loop(lambda carry: carry[1], block, carry)
    return StepCosts(reached[inner], reached[inner] & ~start[inner], units, tens)


def cost_at(costs: StepCosts, places: jax.Array, size: int) -> jax.Array:
    """Returns the costs at some cells, `int32[K, B]`, `FAR` where there is none.

    Args:
      costs: from `step_costs`.
      places: `int32[K, B]`, cells of the maze, not of the ring around it.
      size: N.
    """
    instance = jnp.arange(places.shape[-1], dtype=jnp.uint32)
    row, group, bit = places - size - 2, instance >> 5, instance & 31

    def read_bit(words: jax.Array) -> jax.Array:
        return ((words[row, group] >> bit) & 1).astype(jnp.int32)

    cost = sum(read_bit(words) << k for k, words in enumerate(costs.units))
    cost += 10 * sum(read_bit(words) << k for k, words in enumerate(costs.tens))
    cost = jnp.where(read_bit(costs.above_zero) == 1, cost + 1, 0)
    return jnp.where(read_bit(costs.reached) == 1, cost, FAR)


def all_costs(costs: StepCosts, batch: int, size: int) -> jax.Array:
    """Returns the costs at all cells, `int32[P^2, B]`, `FAR` where there is none."""
    bits = jnp.arange(32, dtype=jnp.uint32)

    def read_bit(words: jax.Array) -> jax.Array:
        return ((words[..., None] >> bits) & 1).astype(jnp.int32)

    cost = sum(read_bit(words) << k for k, words in enumerate(costs.units))
    cost += 10 * sum(read_bit(words) << k for k, words in enumerate(costs.tens))
    cost = jnp.where(read_bit(costs.above_zero) == 1, cost + 1, 0)
    cost = jnp.where(read_bit(costs.reached) == 1, cost, FAR).reshape(cost.shape[0], -1)
    ring = jnp.full((size + 2, batch), FAR, jnp.int32)
    return jnp.concatenate([ring, cost[:, :batch], ring])


# Other costs -------------------------------------------------------------------------------------


def sweep_costs(entry: jax.Array, start: jax.Array, size: int) -> jax.Array:
    """The lowest cost of getting from the nearest cell of `start` to each, entering it included.

    Args:
      entry: `int32[P^2, B]`, cost of entering each cell, at least 1; `FAR_AWAY` if it cannot be.
      start: `bool[P^2, B]`, cells with cost 0.
      size: N.

    Returns:
      `int32[P^2, B]`, `FAR_AWAY` where there is none.
    """
    side, cells = size + 2, (size + 2) ** 2
    inner = slice(side, cells - side)

    def sweep(costs: jax.Array) -> tuple[jax.Array, jax.Array]:
        lowest_neighbour = jnp.minimum(costs[: -2 * side], costs[2 * side :])
        lowest_neighbour = jnp.minimum(lowest_neighbour, costs[side - 1 : -side - 1])
        lowest_neighbour = jnp.minimum(lowest_neighbour, costs[side + 1 : 1 - side])
        current = costs[inner]
        lower = jnp.where(entry[inner] < FAR_AWAY, lowest_neighbour + entry[inner], FAR_AWAY)
        lower = jax.lax.optimization_barrier(jnp.minimum(lower, current))
        return jax.lax.dynamic_update_slice(costs, lower, (side, 0)), (lower != current).any()

    def sweeps(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        costs = carry[0]
        for _ in range(3):
            costs, _ = sweep(costs)
        return sweep(costs)

    carry = jnp.where(start, 0, FAR_AWAY).astype(jnp.int32), jnp.ones((), bool)
    costs, _ = jax.lax.while_loop(lambda carry: carry[1], sweeps, carry)
    return costs


# Paths -------------------------------------------------------------------------------------------


def descend(costs: jax.Array, target: jax.Array, size: int) -> jax.Array:
    """The first cell after the start on the reference's path to a target, `int32[B]`.

    From the target back, the four neighbours are tried in turn, going on with the next direction
    after each move, and the first one with a lower cost is moved to. Where costs differ by more
    than the cost of a step, that is not always a shortest path.

    Args:
      costs: integers `[P^2, B]`, from the start, the one cell with cost 0.
      target: `int32[B]`, a place with a finite cost; where it is the start, so is the result.
      size: N.
    """
    batch = target.shape[0]
    instance, flat = jnp.arange(batch, dtype=jnp.int32), costs.reshape(-1)
    steps = jnp.asarray(steps_to_neighbours(size), jnp.int32)
    order = jnp.asarray([[(turn + k) % 4 for k in range(4)] for turn in range(4)], jnp.int32)

    def move(carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        place, cost, turn, first = carry
        tried = place + steps[order[turn]].T  # [4, B]
        tried_costs = flat[tried * batch + instance]
        lower = tried_costs < cost
        first = jnp.where(lower.any(0), place, first)
        turn_after = turn
        for k in (3, 2, 1, 0):  # the earliest counts
            place = jnp.where(lower[k], tried[k], place)
            cost = jnp.where(lower[k], tried_costs[k], cost)
            turn_after = jnp.where(lower[k], (turn + k + 1) % 4, turn_after)
        # An end for targets that are out of reach.
        return place, jnp.where(lower.any(0), cost, 0), turn_after, first

    def going(carry: tuple[jax.Array, ...]) -> jax.Array:
        return (carry[1] > 0).any()

    cost = flat[target * batch + instance]
    carry = target, cost, jnp.zeros(batch, jnp.int32), target
    return jax.lax.while_loop(going, move, carry)[3]


def best_neighbour(costs: jax.Array, heading: jax.Array | None) -> jax.Array:
    """Returns the direction, an index into `NEIGHBOURS`, in which costs are lowest: `int32[B]`.

    Args:
      costs: `int32[4, B]`, of the neighbours.
      heading: `int32[B]`, quarter turns from +x towards +y, so that of equal costs the one that
        takes the fewest turns is chosen, then the one on the right; None if there are no turns.
    """
    if heading is not None:
        towards = jnp.asarray([2, 0, 1, 3], jnp.int32)[:, None]
        costs = 4 * costs + jnp.asarray([0, 1, 3, 2], jnp.int32)[(towards - heading) % 4]
    return jnp.argmin(costs, axis=0).astype(jnp.int32)
