"""The cells that an agent sees: all that a camera's rays traverse, first walls included.

A ray crosses one cell after the other, and |dx| + |dy|, counted in cells from the agent's own,
grows by one with each: cells are therefore judged ring by ring. The rays that enter a cell are
consecutive columns, which follow from the ends of the faces it turns to the agent, cut where they
are out of range. Sets of columns are bits of 32-bit words, from which each wall takes its own away.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import check, check_at_least, check_choice

Poses = Literal["quarter", "any"]

# Up to this range, in cells, the cells in question are listed ahead of time: 12 m of 2 m each.
NEAR = 6


class Rings(NamedTuple):
    """Cells that may be seen from up to `NEAR` cells away, nearest ring first.

    Attributes:
      offsets: `int32[S, K, 2]`, dx and dy in cells of S rings with up to K cells each; rings with
        fewer are filled up with cells out of sight.
      window: `int32[2 NEAR + 1, 2 NEAR + 1]`, each offset's place among them, S K for those that
        are not there, S K + 1 in the middle.
    """

    offsets: np.ndarray
    window: np.ndarray


@cache
def _rings(poses: Poses, field_of_view: float) -> Rings:
    """Returns the cells to judge; for quarter turns those of a heading of 0."""
    side = np.arange(-NEAR, NEAR + 1)
    dx, dy = (x.reshape(-1) for x in np.meshgrid(side, side, indexing="ij"))
    slack = 0.5 if poses == "quarter" else 1.0  # how much nearer than its offset a cell may begin
    near_x, near_y = (np.maximum(np.abs(d) - slack, 0) for d in (dx, dy))
    ring = np.abs(dx) + np.abs(dy)
    keep = (np.hypot(near_x, near_y) < NEAR) & (ring > 0)
    if poses == "quarter":
        keep &= np.arctan2(near_y, dx + slack) < np.radians(field_of_view) / 2
    counts = np.bincount(ring[keep])[1:]
    offsets = np.full((counts.size, counts.max(), 2), 4 * NEAR, np.int32)
    window = np.full(dx.size, counts.size * counts.max())
    window[ring == 0] += 1
    for s in range(counts.size):
        members = np.flatnonzero(keep & (ring == s + 1))
        offsets[s, : members.size] = np.stack([dx, dy], axis=-1)[members]
        window[members] = s * counts.max() + np.arange(members.size)
    return Rings(offsets, window.reshape(side.size, -1).astype(np.int32))


def _below(column: jax.Array, words: int) -> jax.Array:
    """Returns the columns before each of `int32[K]`, as bits: `uint32[K, words]`."""
    count = column[:, None] - 32 * jnp.arange(words, dtype=jnp.int32)
    shift = jnp.clip(count, 0, 31).astype(jnp.uint32)  # a shift by 32 is undefined
    return jnp.where(count >= 32, jnp.uint32(0xFFFFFFFF), (jnp.uint32(1) << shift) - jnp.uint32(1))


def _columns_into(
    offsets: jax.Array | np.ndarray,
    within: jax.Array,
    direction: jax.Array,
    ratio: jax.Array,
    columns: int,
    field_of_view: float,
) -> jax.Array:
    """Returns the columns whose rays enter each cell within range, if nothing is in the way.

    Args:
      offsets: `int32[K, 2]`, the cells, seen from the agent's; (0, 0) is not among them.
      within: float `[2]` in [0, 1), where in its own cell the agent is.
      direction: float `[2]`, cosine and sine of the heading.
      ratio: float `[]`, range in cells.
      columns: number of rays.
      field_of_view: degrees.

    Returns:
      `uint32[K, ceil(columns / 32)]`.
    """
    tiny = 1e-6  # keeps a face that the agent touches in front of it
    dx, dy = offsets[:, 0], offsets[:, 1]
    low_x, low_y = dx - within[0], dy - within[1]
    near_x = jnp.where(dx > 0, jnp.maximum(low_x, tiny), jnp.minimum(low_x + 1, -tiny))
    near_y = jnp.where(dy > 0, jnp.maximum(low_y, tiny), jnp.minimum(low_y + 1, -tiny))
    # How far the faces at near_x and near_y are within range.
    squared = ratio * ratio
    reach_y = jnp.sqrt(jnp.maximum(squared - near_x * near_x, 0))
    reach_x = jnp.sqrt(jnp.maximum(squared - near_y * near_y, 0))
    top_x, bottom_x = jnp.minimum(low_x + 1, reach_x), jnp.maximum(low_x, -reach_x)
    top_y, bottom_y = jnp.minimum(low_y + 1, reach_y), jnp.maximum(low_y, -reach_y)
    # Both ends of what the cell turns to the agent: one face, or two that share a corner.
    one_x = jnp.where(dx == 0, top_x, near_x)
    one_y = jnp.where(dx == 0, near_y, jnp.where(dy >= 0, top_y, bottom_y))
    two_x = jnp.where(dy == 0, near_x, jnp.where(dx > 0, top_x, bottom_x))
    two_y = jnp.where(dy == 0, bottom_y, near_y)
    nearest_x, nearest_y = jnp.where(dx == 0, 0, near_x), jnp.where(dy == 0, 0, near_y)
    reached = nearest_x * nearest_x + nearest_y * nearest_y < squared

    def before(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns whether a point is ahead, and how many columns look at smaller angles."""
        ahead = x * direction[0] + y * direction[1]
        right = y * direction[0] - x * direction[1]
        place = right / jnp.where(ahead > tiny / 2, ahead, 1) / half_width + 1
        place = jnp.ceil(place * (columns / 2) - 0.5)
        return ahead > tiny / 2, jnp.clip(place, 0, columns).astype(jnp.int32)

    half_width = float(np.tan(np.radians(field_of_view) / 2))
    (one_ahead, first_column), (two_ahead, second_column) = (
        before(one_x, one_y),
        before(two_x, two_y),
    )
    swap = one_x * two_y - one_y * two_x < 0  # the first is the one at the larger angle
    # An end behind the agent lies beyond the picture, on the side on which the cell is.
    first_column = jnp.where(one_ahead, first_column, jnp.where(swap, columns, 0))
    second_column = jnp.where(two_ahead, second_column, jnp.where(swap, 0, columns))
    low, high = (
        jnp.where(swap, second_column, first_column),
        jnp.where(swap, first_column, second_column),
    )
    reached = reached & (one_ahead | two_ahead)
    words = -(-columns // 32)
    bits = _below(high, words) & ~_below(low, words)
    return jnp.where(reached[:, None], bits, jnp.uint32(0))


def _pass(rays: jax.Array, into: jax.Array, walls: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the cells `[K]` of a ring that the rays `uint32[words]` enter, and the rays beyond
    it.
    """
    blocked = jnp.where(walls[:, None], into, jnp.uint32(0))
    blocked = jax.lax.reduce(blocked, np.uint32(0), jax.lax.bitwise_or, (0,))
    return ((into & rays) != 0).any(-1), rays & ~blocked


def _all_rays(columns: int) -> jax.Array:
    return _below(jnp.asarray([columns], jnp.int32), -(-columns // 32))[0]


def _place_window(window: jax.Array, cell: jax.Array, size: int) -> jax.Array:
    """Returns the maze's cells, `bool[N, N]`, from those around `cell`."""
    radius = window.shape[0] // 2
    bits = jnp.uint32(1) << jnp.arange(2 * radius + 1, dtype=jnp.uint32)
    rows = jnp.where(window, bits, jnp.uint32(0)).sum(-1, dtype=jnp.uint32)
    side = jnp.arange(size, dtype=jnp.int32)
    row, bit = side - cell[0] + radius, side - cell[1] + radius
    rows = rows.at[jnp.where(row >= 0, row, 2 * radius + 1)].get(mode="fill", fill_value=0)
    inside = (bit >= 0) & (bit <= 2 * radius)
    shifted = rows[:, None] >> jnp.clip(bit, 0, 31).astype(jnp.uint32)
    return inside & ((shifted & 1) != 0)


def _seen_near(
    walls: jax.Array,
    cell: jax.Array,
    within: jax.Array,
    heading: jax.Array,
    ratio: jax.Array,
    columns: int,
    field_of_view: float,
    poses: Poses,
) -> jax.Array:
    """`bool[N, N]` for ranges of up to `NEAR` cells."""
    size = walls.shape[0]
    rings = _rings(poses, field_of_view)
    quarter = jnp.round(heading / (np.pi / 2)).astype(jnp.int32) % 4
    direction = jnp.stack([jnp.cos(heading), jnp.sin(heading)])
    offsets = rings.offsets.reshape(-1, 2)
    at = jnp.asarray(offsets)
    if poses == "quarter":  # everything as if the heading were 0; only look-ups are turned
        direction = jnp.asarray([1.0, 0.0], ratio.dtype)
        within = jnp.full(2, 0.5, ratio.dtype)
        cosine = jnp.where(quarter % 2 == 0, 1 - quarter, 0)
        sine = jnp.where(quarter % 2 == 1, 2 - quarter, 0)
        at = jnp.stack([at[:, 0] * cosine - at[:, 1] * sine, at[:, 0] * sine + at[:, 1] * cosine])
        at = at.T
    at = jnp.clip(cell + at, 0, size - 1)
    blocking = walls.reshape(-1)[at[:, 0] * size + at[:, 1]]
    into = _columns_into(offsets, within, direction, ratio, columns, field_of_view)

    def ring(rays: jax.Array, cells: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        is_visible, rays = _pass(rays, *cells)
        return rays, is_visible

    split = rings.offsets.shape[:2]
    cells = into.reshape(*split, -1), blocking.reshape(split)
    _, visible = jax.lax.scan(ring, _all_rays(columns), cells)
    visible = jnp.concatenate([visible.reshape(-1), jnp.asarray([False, True])])
    window = visible[rings.window]
    if poses == "quarter":
        turned = window, window.T[::-1], window[::-1, ::-1], window.T[:, ::-1]
        even = jnp.where(quarter == 0, turned[0], turned[2])
        odd = jnp.where(quarter == 1, turned[1], turned[3])
        window = jnp.where(quarter % 2 == 0, even, odd)
    return _place_window(window, cell, size)


def _seen_far(
    walls: jax.Array,
    cell: jax.Array,
    within: jax.Array,
    heading: jax.Array,
    ratio: jax.Array,
    is_needed: jax.Array,
    columns: int,
    field_of_view: float,
) -> jax.Array:
    """Returns `bool[N, N]` for any range; takes no time unless `is_needed`."""
    size = walls.shape[0]
    direction = jnp.stack([jnp.cos(heading), jnp.sin(heading)])
    k = jnp.arange(8 * size, dtype=jnp.int32)

    def ring(carry: tuple[jax.Array, jax.Array, jax.Array]) -> Any:
        s, rays, visible = carry
        side, along = k // s, k % s
        dx = jnp.select([side == 0, side == 1, side == 2], [s - along, -along, along - s], along)
        dy = jnp.select([side == 0, side == 1, side == 2], [along, s - along, -along], along - s)
        offsets = jnp.stack([dx, dy], axis=-1)
        at = cell + offsets
        is_inside = (side < 4) & ((at >= 0) & (at < size)).all(-1)
        at = jnp.where(is_inside, at[:, 0] * size + at[:, 1], size * size)
        into = _columns_into(offsets, within, direction, ratio, columns, field_of_view)
        into = jnp.where(is_inside[:, None], into, jnp.uint32(0))
        blocking = walls.reshape(-1).at[at].get(mode="fill", fill_value=True)
        entered, rays = _pass(rays, into, blocking)
        return s + 1, rays, visible.at[at].max(entered, mode="drop")

    rays = jnp.where(is_needed, _all_rays(columns), jnp.uint32(0))
    visible = jnp.arange(size * size, dtype=jnp.int32) == cell[0] * size + cell[1]
    carry = jnp.asarray(1, jnp.int32), rays, visible
    _, _, visible = jax.lax.while_loop(lambda c: (c[1] != 0).any() & (c[0] < 2 * size), ring, carry)
    return visible.reshape(size, size)


def seen_by_rays(
    walls: jax.Array,
    position: jax.Array,
    heading: jax.Array,
    ratio: jax.Array,
    *,
    columns: int = 128,
    field_of_view: float = 108.0,
    poses: Poses = "any",
) -> jax.Array:
    """Returns the cells that a camera's rays traverse, one ray per column of its picture.

    A ray starts in the agent's cell and ends at the first wall, which is seen, or at the first
    boundary of cells at or beyond the range.

    Args:
      walls: `bool[N, N]`, True all along the border.
      position: float `[2]`, in cells.
      heading: float `[]`, radians.
      ratio: float `[]`, range in cells.
      columns: number of rays, W; they are W equal parts of a plane at right angles to the heading.
      field_of_view: degrees between the edges of that plane.
      poses: "quarter" if the agent is in the middle of a cell and looks along an axis: faster.

    Returns:
      `bool[N, N]`.

    Raises:
      ValueError: for a bad number of columns, field of view or kind of poses.

    Source: section 3.2 of the GPICL benchmarks paper (arXiv:2405.17234), appendix A.6.
    """
    check_at_least(1, columns=columns)
    check(0 < field_of_view < 180, "field_of_view", field_of_view, "degrees above 0, below 180")
    check_choice("poses", poses, ("quarter", "any"))
    dtype = jnp.result_type(float)
    position, heading, ratio = (jnp.asarray(x, dtype) for x in (position, heading, ratio))
    whole = jnp.floor(position)
    cell, within = whole.astype(jnp.int32), position - whole
    camera = {"columns": columns, "field_of_view": float(field_of_view)}
    near = _seen_near(walls, cell, within, heading, ratio, poses=poses, **camera)
    is_far = ratio > NEAR
    far = _seen_far(walls, cell, within, heading, ratio, is_far, **camera)
    return jnp.where(is_far, far, near)


def seen_around(cell: jax.Array, size: int, radius: int) -> jax.Array:
    """Returns the window of (2 radius + 1)^2 cells, whatever walls there are: `bool[N, N]`.

    Args:
      cell: `int32[2]`.
      size: N.
      radius: cells to each side.
    """
    side = jnp.arange(size, dtype=jnp.int32)
    close = jnp.abs(side[:, None] - cell) <= radius
    return close[:, None, 0] & close[None, :, 1]
