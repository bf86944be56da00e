"""Random mazes, and where things are in them.

A maze of n x n cells (n odd) starts as solid wall but for its *sites*, the k^2 cells with two odd
coordinates, k = (n - 1) / 2, which are components of their own. What lies between two sites is an
*edge*; what lies between four is a *pillar*. Then, as in the reference simulator,

1. until one component is left, a cell is opened that is drawn uniformly from those walls that touch
   two components, whether edges or pillars: random Kruskal;
2. if loops are allowed, a cell is opened that is drawn uniformly from all inner walls with an open
   neighbour, until no more than a share `density` of the (n - 2)^2 inner cells are walls.

The reference has one more rule: without loops, a cell may not touch a component twice. No cell that
phase 1 could open does: the two sites beside an edge are different components, and a pillar beside
it would be open only if the four sites around that were one component; and a pillar whose
neighbours are of two components has exactly two open ones, since edges at a right angle share a
site. So every opening joins two components, there are k^2 - 1 of them, and 2 k^2 - 1 cells are open
after phase 1, with loops or without.

Drawing from all eligible cells anew for each of hundreds of openings is slow, and ordering the
cells once at random would be wrong: cells that become eligible late would come too early. Instead
each cell waits for an exponential time *from the moment at which it becomes eligible*. Because
that has no memory, whichever of the eligible cells comes first is uniform among them, whatever
happened before; so the order of openings has the law of repeated draws. Random numbers are needed
only once per cell and phase.

Source: section 3.1 and appendix A.5 of the GPICL paper, and Xenoverse's MazeWorld v1.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax import random
from gpicljax.batching import batch_last, bound_rounds

_TOLERANCE = 1e-6  # so that 0.28 of 25 cells are 7, however 0.28 is rounded


def num_open(size: Any, density: Any, allow_loops: Any, xp: Any = jnp) -> Any:
    """Returns the number of open cells: max(2 k^2 - 1, m - floor(density m)), m = (n - 2)^2.

    Args:
      size: `int32[]`, n.
      density: float `[]`.
      allow_loops: `bool[]`; if not, it is 2 k^2 - 1.
      xp: `numpy` or `jax.numpy`.

    Returns:
      `int32[]`.
    """
    tree, inner = 2 * ((size - 1) // 2) ** 2 - 1, (size - 2) ** 2
    walls = xp.floor(density * inner * (1 + _TOLERANCE)).astype(xp.int32)
    return xp.where(allow_loops, xp.maximum(tree, inner - walls), tree)


@functools.partial(jax.jit, static_argnums=2)
def carve(
    key: jax.Array, size: jax.Array, cap: int, density: jax.Array, allow_loops: jax.Array
) -> jax.Array:
    """Draws a maze. Compiled once for all callers outside `jit`.

    Args:
      key: a typed key.
      size: `int32[]`, n: odd, 3 .. `cap`.
      cap: N, the side of the array.
      density: float `[]`, see `num_open`.
      allow_loops: `bool[]`.

    Returns:
      `bool[N, N]`, true for walls and for what lies beyond n.
    """
    sites = (size.astype(jnp.int32) - 1) // 2
    opened = num_open(size.astype(jnp.int32), density, allow_loops)
    # float32 whatever the default, so that a key gives the same maze.
    waits = -jnp.log1p(-random.uniform(key, (2, cap - 2, cap - 2), jnp.float32))
    return _carve(waits, sites, opened.astype(jnp.int32))


# The batch -----------------------------------------------------------------------------------
#
# With the batch as their last axis the loops below consist of long rows that vectorise.


def _spanning_tree(
    across: jax.Array, along: jax.Array, waits: jax.Array, sites: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Phase 1.

    Args:
      across: `float32[k - 1, k, B]`, when the edge between sites (i, j) and (i + 1, j) is opened
        unless they are connected by then: all of these are eligible from the beginning.
      along: `float32[k, k - 1, B]`, the same for sites (i, j) and (i, j + 1).
      waits: `float32[k - 1, k - 1, B]`, how long the pillar between sites (i, j) and
        (i + 1, j + 1) waits once it is eligible.
      sites: `int32[B]`, how many sites a side has, at most k.

    Returns:
      Which of the edges and pillars are open, `bool` of the arguments' shapes.
    """
    k, batch = along.shape[0], sites.shape[0]
    number = np.arange(k, dtype=np.int32)
    site = number[:, None] * k + number
    counts = [x.shape[0] * x.shape[1] for x in (across, along, waits)]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    places = [
        jnp.arange(low, low + count, dtype=jnp.int32).reshape(*x.shape[:2], 1)
        for low, count, x in zip(offsets, counts, (across, along, waits), strict=False)
    ]
    nowhere = int(offsets[-1])
    # A site on either side of each place; the entry for "nowhere" joins a site with itself.
    ends = [
        np.concatenate([s.ravel() for s in side] + [[0]]).astype(np.int32)
        for side in (
            (site[:-1], site[:, :-1], site[:-1, :-1]),
            (site[1:], site[:, 1:], site[1:, 1:]),
        )
    ]
    far = jnp.float32(np.inf)
    exists = jnp.asarray(number)[:, None] < sites
    across = jnp.where(exists[1:, None] & exists[None], across, far)
    along = jnp.where(exists[:, None] & exists[None, 1:], along, far)
    columns = jnp.arange(batch)

    def open_wall(_: jax.Array, loop: tuple) -> tuple:
        # A time of minus infinity marks what is open, infinity what is not yet eligible.
        label, times = loop
        joins = (
            label[:-1] != label[1:],
            label[:, :-1] != label[:, 1:],
            label[:-1, :-1] != label[1:, 1:],
        )
        coming = [jnp.where(join, time, far) for join, time in zip(joins, times, strict=True)]
        soonest = jnp.minimum(
            jnp.minimum(coming[0].min((0, 1)), coming[1].min((0, 1))), coming[2].min((0, 1))
        )
        first = jnp.full(batch, nowhere, jnp.int32)
        for time, place in zip(coming, places, strict=True):
            at = jnp.where((time == soonest) & (soonest < far), place, nowhere)
            first = jnp.minimum(first, at.min((0, 1)))
        flat = label.reshape(k * k, batch)
        label_here, label_beyond = (flat[jnp.asarray(end)[first], columns] for end in ends)
        label = jnp.where(label == label_beyond, label_here, label)
        across, along, pillars = (
            jnp.where(place == first, -far, time) for time, place in zip(times, places, strict=True)
        )
        open_across, open_along = across == -far, along == -far
        eligible = (open_across[:, :-1] & open_across[:, 1:]) | (open_along[:-1] & open_along[1:])
        pillars = jnp.where(eligible & (pillars == far), soonest + waits, pillars)
        return label, (across, along, pillars)

    label = jnp.broadcast_to(jnp.asarray(site)[..., None], (k, k, batch))
    start = label, (across, along, jnp.full_like(waits, far))
    rounds = bound_rounds(lambda sites: sites.max() ** 2 - 1, k**2 - 1, sites)
    _, times = jax.lax.fori_loop(0, rounds, open_wall, start)
    return tuple(time == -far for time in times)


def _soonest(times: jax.Array, number: jax.Array) -> jax.Array:
    """Marks the `number: int32[B]` smallest of `times: float32[M, B]` (not negative)."""
    # By bisection: the bits of such floats are in the order of their values.
    bits = jax.lax.bitcast_convert_type(times, jnp.int32)
    index = jnp.arange(times.shape[0], dtype=jnp.int32)[:, None]

    def threshold(keys: jax.Array, among: jax.Array, number: jax.Array, top: int) -> jax.Array:
        """Returns the least value such that `number` keys are not above it."""

        def halve(_: jax.Array, loop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            low, high = loop
            middle = low + (high - low) // 2
            enough = (among & (keys <= middle)).sum(0, dtype=jnp.int32) >= number
            return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

        start = jnp.zeros_like(number), jnp.full_like(number, top)
        return jax.lax.fori_loop(0, top.bit_length(), halve, start)[1]

    last = threshold(bits, jnp.ones_like(bits, bool), number, 2**31 - 1)
    below, tied = bits < last, bits == last
    missing = number - below.sum(0, dtype=jnp.int32)
    chosen = tied & (index <= threshold(index, tied, missing, times.shape[0] - 1))
    return (number > 0) & (below | chosen)


def _carve_all(waits: jax.Array, sites: jax.Array, opened: jax.Array) -> jax.Array:
    """Carves mazes.

    Args:
      waits: `float32[2, N - 2, N - 2, B]`, exponential times of the inner cells in the two phases.
      sites: `int32[B]`, k.
      opened: `int32[B]`, cells to be open in the end.

    Returns:
      `bool[N, N, B]`, the walls.
    """
    first, second = waits
    side, batch = first.shape[0], first.shape[-1]
    across, along, pillars = _spanning_tree(
        first[1::2, ::2], first[::2, 1::2], first[1::2, 1::2], sites
    )
    inside = jnp.arange(side, dtype=jnp.int32)[:, None] < 2 * sites - 1
    inside = inside[:, None] & inside[None]
    free = jnp.zeros((side, side, batch), bool).at[::2, ::2].set(True)
    free = free.at[1::2, ::2].set(across).at[::2, 1::2].set(along).at[1::2, 1::2].set(pillars)
    free &= inside

    # Phase 2. Edges lie between open sites, so they are eligible from its beginning. So is a
    # pillar beside an open edge; any other waits for the first of its edges to be opened.
    edges_x, edges_y = second[1::2, ::2], second[::2, 1::2]
    soonest = jnp.minimum(
        jnp.minimum(edges_x[:, :-1], edges_x[:, 1:]), jnp.minimum(edges_y[:-1], edges_y[1:])
    )
    has_open_edge = across[:, :-1] | across[:, 1:] | along[:-1] | along[1:]
    times = second.at[1::2, 1::2].add(jnp.where(has_open_edge, 0, soonest))
    times = jnp.where(inside & ~free, times, jnp.inf).reshape(side * side, batch)
    more = _soonest(times, jnp.maximum(opened - (2 * sites**2 - 1), 0))
    free |= more.reshape(free.shape)
    return jnp.pad(~free, ((1, 1), (1, 1), (0, 0)), constant_values=True)


_carve = batch_last(_carve_all)


# Landmarks -----------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=3)
def place(
    key: jax.Array, walls: jax.Array, number: jax.Array, most: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draws a start and landmarks: distinct open cells, uniformly.

    Args:
      key: a typed key.
      walls: `bool[N, N]`, with more than `most` open cells.
      number: `int32[]`, landmarks wanted.
      most: L, at least `number`.

    Returns:
      The start `int32[2]`; the landmarks `int32[L, 2]`, (-1, -1) beyond `number`; and the landmark
      in each cell, `int8[N, N]`, -1 for none.
    """
    cap = walls.shape[0]
    noise = random.uniform(key, (cap * cap,), jnp.float32)
    # The barrier keeps parts of the result from being cut out of a full sort. What else passes it
    # keeps XLA from handing it the operation's own pair, on which its compiler breaks down where
    # mazes are batched twice.
    top = jax.lax.top_k(jnp.where(walls.ravel(), -1, noise), most + 1)
    chosen = jax.lax.optimization_barrier((*top, number))[1].astype(jnp.int32)
    cells = jnp.stack(jnp.divmod(chosen, cap), -1)
    exists = jnp.arange(most, dtype=jnp.int32) < number
    landmarks = jnp.where(exists[:, None], cells[1:], -1)
    # As comparisons: XLA:CPU scatters into a batch of mazes far slower.
    places = jnp.where(exists, chosen[1:], -1)
    numbers = jnp.arange(most, dtype=jnp.int8)[:, None]
    is_landmark_cell = places[:, None] == jnp.arange(cap * cap, dtype=jnp.int32)
    landmark_at = jnp.where(is_landmark_cell, numbers, jnp.int8(-1)).max(0)
    return cells[0], landmarks, landmark_at.reshape(cap, cap)
