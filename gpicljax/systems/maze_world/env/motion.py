"""Motion of the agent: cell by cell with or without a heading, or continuous with collisions.

Source: appendix A.5 of the GPICL paper and its reference simulator, Xenoverse's MazeWorld v1.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

STAY, TURN_LEFT, TURN_RIGHT, BACK, FORWARD = range(5)
DIRECTIONS = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)], np.int32)  # by quarter of a turn
MOVES = np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)], np.int32)  # by action
NUM_ACTIONS = 5

RADIUS = 0.2  # metres from the agent's middle within which walls push it away
SUBSTEP = 0.01  # seconds
NUM_SUBSTEPS = 10
_CORNER = 0.708  # cells from a wall cell's middle to its corners, as the reference has it


def cell_of(position: jax.Array, cell_size: jax.Array) -> jax.Array:
    """Returns the cell, `int32[2]`, of a position, float `[2]` in metres."""
    return jnp.floor(position / cell_size).astype(jnp.int32)


def middle_of(cell: jax.Array, cell_size: jax.Array) -> jax.Array:
    """Returns the position, float `[2]` in metres, of the middle of a cell, `int32[2]`."""
    return (cell + 0.5).astype(cell_size.dtype) * cell_size


def quarter_of(heading: jax.Array) -> jax.Array:
    """Returns the nearest quarter of a turn, `int32[]` in 0 .. 3: +x, +y, -x, -y."""
    return jnp.round(heading / (np.pi / 2)).astype(jnp.int32) % 4


def _go(walls: jax.Array, cell: jax.Array, way: jax.Array) -> jax.Array:
    """Returns the next cell, `int32[2]`: the same one where a wall is in the way."""
    ahead = cell + way
    return jnp.where(walls[ahead[0], ahead[1]], cell, ahead)


def turn_or_go(
    walls: jax.Array, cell: jax.Array, quarter: jax.Array, action: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns one of five actions: stay, turn left, turn right, one cell back, one cell forward.

    Args:
      walls: `bool[N, N]`.
      cell: `int32[2]`.
      quarter: `int32[]`, the heading in quarters of a turn.
      action: `int32[]` in 0 .. 4.

    Returns:
      The next cell and quarter.
    """
    sign = (action == FORWARD).astype(jnp.int32) - (action == BACK)
    turn = (action == TURN_RIGHT).astype(jnp.int32) - (action == TURN_LEFT)
    return _go(walls, cell, sign * jnp.asarray(DIRECTIONS)[quarter]), (quarter + turn) % 4


def move(walls: jax.Array, cell: jax.Array, action: jax.Array) -> jax.Array:
    """One of five actions: stay, or one cell along -x, +x, -y, +y; the next cell `int32[2]`."""
    return _go(walls, cell, jnp.asarray(MOVES)[jnp.clip(action, 0, NUM_ACTIONS - 1)])


def push(walls: jax.Array, position: jax.Array, cell_size: jax.Array) -> jax.Array:
    """By how much the walls around push the agent away in one substep.

    Every wall nearer than `RADIUS` gives back half of what is missing, away from its nearest
    point, and the pushes of all walls add up. As a cell is wider than twice the radius, no more
    than three walls can be that near: those beside, above or below, and diagonally in between on
    the nearer sides. An agent inside a wall (it never gets there by itself) is pushed away from
    that wall's middle as well.

    Args:
      walls: `bool[N, N]`.
      position: float `[2]`, metres.
      cell_size: float `[]`, metres; above twice the radius.

    Returns:
      float `[2]`, metres.
    """
    radius = RADIUS / cell_size
    scaled = position / cell_size
    cell = jnp.floor(scaled).astype(jnp.int32)
    inside = scaled - cell
    lower = inside < 0.5
    side = cell + jnp.where(lower, -1, 1)
    gap = jnp.where(lower, inside, 1 - inside)
    away = jnp.where(lower, 1, -1).astype(gap.dtype)

    limit = walls.shape[0] - 1
    (x, y), (nx, ny) = jnp.clip(cell, 0, limit), jnp.clip(side, 0, limit)
    straight = jnp.stack([walls[nx, y], walls[x, ny]]) * jnp.maximum(radius - gap, 0)
    distance = jnp.maximum(jnp.hypot(gap[0], gap[1]), 1e-6)
    diagonal = walls[nx, ny] * jnp.maximum(radius - distance, 0) * gap / distance

    offset = inside - 0.5
    depth = jnp.maximum(jnp.hypot(offset[0], offset[1]), 1e-6)
    out = walls[x, y] * (_CORNER + radius - depth) * offset / depth
    return 0.5 * (out + away * (straight + diagonal)) * cell_size


def drive(
    walls: jax.Array,
    position: jax.Array,
    heading: jax.Array,
    action: jax.Array,
    cell_size: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Runs one step of 0.1 s of continuous motion, in ten substeps with soft collisions.

    Args:
      walls: `bool[N, N]`.
      position: float `[2]`, metres.
      heading: float `[]`, radians.
      action: float `[2]`, clipped to [-1, 1]: half turns per second, and metres per second of
        which backwards only half is done.
      cell_size: float `[]`, metres.

    Returns:
      The next position, and the next heading in [0, 2 pi).
    """
    dtype = position.dtype
    action = jnp.clip(jnp.nan_to_num(action.astype(dtype)), -1, 1)
    turn = action[0] * (np.pi * SUBSTEP)
    way = jnp.where(action[1] < 0, 0.5, 1.0).astype(dtype) * action[1] * SUBSTEP

    def substep(_: jax.Array, pose: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        position, heading = pose
        middle = heading + turn / 2
        position = position + way * jnp.stack([jnp.cos(middle), jnp.sin(middle)])
        return position + push(walls, position, cell_size), wrap_heading(heading + turn)

    return jax.lax.fori_loop(0, NUM_SUBSTEPS, substep, (position, heading))


def wrap_heading(heading: jax.Array) -> jax.Array:
    """Returns the heading in [0, 2 pi)."""
    full = jnp.asarray(2 * np.pi, heading.dtype)
    heading = heading % full
    # The remainder of a tiny negative angle rounds to a whole turn.
    return jnp.where(heading >= full, 0, heading)
