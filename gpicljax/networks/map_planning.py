"""Planning on a map of what latents show: value iteration over all cells around the start.

From a latent is read of each cell before the agent whether it is a wall, whether it is seen, and
which landmark it holds. Dead reckoning says where on the map that cell is; what all stored latents
tell of it is added up. A cell is worth reaching if it has not been seen, or not from near by, or if
it holds the landmark that the latent of now commands. What latents show is learnt from a teacher
that says what it sees, and from its moves; where they show it, and that ways lead from cell to
cell, is built in.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from gpicljax.networks.feedforward import dense
from gpicljax.networks.layers import default_float
from gpicljax.networks.map_memory import HEADINGS, MapTrace, number_of_places

# Worth of what lies beyond the map.
NEVER = -50.0
# What entering a cell costs in which something was in the way.
BLOCKED = 20.0
# Cells that latents show: steps forward and to the right.
SIGHTS = np.array([(x, y) for x in range(5) for y in (-1, 0, 1)], np.int32)
# Those cells in which a landmark is recognised, too.
IS_NEAR = np.array([x + abs(y) < 3 for x, y in SIGHTS])


def cells_in_sight(radius: int) -> np.ndarray:
    """Returns the cells that a latent of each place shows, `int32[P, K]`.

    A cell is numbered row by row; those beyond the map have the number after the last.
    """
    side = 2 * radius + 1
    place = np.arange(number_of_places(radius))
    cell = np.stack([place // (4 * side), place // 4 % side], axis=-1)[:, None]
    forward, right = (HEADINGS[(place + turn) % 4][:, None] for turn in (0, 1))
    cell = cell + SIGHTS[:, :1] * forward + SIGHTS[:, 1:] * right
    is_inside = ((cell >= 0) & (cell < side)).all(-1)
    return np.where(is_inside, cell @ np.array([side, 1]), side * side).astype(np.int32)


def values_of_neighbours(
    worth: jax.Array, cost: jax.Array, place: jax.Array, sweeps: int
) -> jax.Array:
    """Returns what it is worth to enter each neighbour of a place, by value iteration.

    Args:
      worth: float `[X, Y, N]`, of being in a cell.
      cost: float `[X, Y, N]`, of entering it.
      place: `int32[N]`.
      sweeps: cells of the longest way.

    Returns:
      Float `[4, N]`, by heading. Its gradient is that of the best way's end and costs.
    """
    side, count = worth.shape[1:]
    fixed_worth, fixed_cost = jax.lax.stop_gradient((worth, cost))

    def onward(values: jax.Array) -> jax.Array:
        around = (1, 1), (1, 1), (0, 0)
        return jnp.pad(values - fixed_cost, around, constant_values=NEVER)

    def sweep(values: jax.Array, _: None) -> tuple[jax.Array, None]:
        entered = onward(values)
        rows = jnp.maximum(entered[2:, 1:-1], entered[:-2, 1:-1])
        columns = jnp.maximum(entered[1:-1, 2:], entered[1:-1, :-2])
        return jnp.maximum(fixed_worth, jnp.maximum(rows, columns)), None

    values, _ = jax.lax.scan(sweep, fixed_worth, None, length=sweeps)
    entered, column = onward(values), jnp.arange(count)
    steps = jnp.asarray(HEADINGS)

    def values_around(x: jax.Array, y: jax.Array) -> jax.Array:
        ways = steps.reshape(4, 2, *(1,) * x.ndim)
        return entered[1 + x + ways[:, 0], 1 + y + ways[:, 1], column]

    def walk(cell: tuple[jax.Array, ...], _: None) -> tuple[Any, Any]:
        x, y, goes = cell
        ahead = values_around(x, y)
        goes &= ahead.max(0) > fixed_worth[x, y, column]
        way = jnp.where(goes[..., None], steps[ahead.argmax(0)], 0)
        x, y = x + way[..., 0], y + way[..., 1]
        return (x, y, goes), (x, y, goes)

    x, y = place // (4 * side), place // 4 % side
    x, y = (z + way[:, None] for z, way in zip((x, y), steps.T, strict=True))
    is_inside = (jnp.minimum(x, y) >= 0) & (jnp.maximum(x, y) < side)
    x, y = (jnp.clip(z, 0, side - 1) for z in (x, y))
    end, later = jax.lax.scan(walk, (x, y, is_inside), None, length=sweeps)
    costs = jnp.where(later[2], cost[later[0], later[1], column], 0).sum(0)
    value = worth[end[0], end[1], column] - costs - cost[x, y, column]
    return jnp.where(is_inside, value, NEVER)


class MapPlanner(nn.Module):
    """Logits of the five moves of a maze's agent, by planning on its map.

    Attributes:
      radius: of the map, see `MapReader`.
      sweeps: of value iteration.
      landmarks: L, those that are told apart.
      width: of the hidden layer that reads latents.
    """

    radius: int
    sweeps: int
    landmarks: int
    width: int = 128

    @nn.compact
    def __call__(
        self, latents: jax.Array, places: jax.Array, trace: MapTrace
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        """Returns the logits, float `[T, B, 5]`, and what latents show, see `CausalOutput`.

        Args:
          latents: float `[S, B, Z]`, those that are stored at some step.
          places: `int32[S, B]`, where they were seen.
          trace: the map at each step; its `row` is an index into `latents`.
        """
        steps, batch, _ = trace.row.shape
        side, count = 2 * self.radius + 1, steps * batch
        hidden = nn.gelu(dense(self.width)(latents))
        shown = dense(len(SIGHTS) * (2 + self.landmarks))(hidden)
        shown = shown.reshape(*places.shape, len(SIGHTS), 2 + self.landmarks)
        command = dense(self.landmarks)(hidden)
        wall, is_seen, landmark = jnp.split(shown, [1, 2], axis=-1)
        # Landmarks far away are not recognised: not to recognise one is no evidence.
        content = jnp.concatenate([wall, jax.nn.softplus(landmark)], axis=-1)
        seen = jax.nn.softplus(is_seen)
        parts = seen, seen * IS_NEAR[:, None], jax.nn.sigmoid(is_seen) * content
        sights, target = jnp.concatenate(parts, axis=-1), jax.nn.softmax(command)

        def by_episode(x: jax.Array) -> jax.Array:
            return x.swapaxes(0, 1)

        episodes = jax.tree.map(by_episode, (sights, target, places, trace.row, trace.place))
        sums, target = jax.lax.map(self._add_up, episodes)
        sums = sums.reshape(count, side, side, -1)
        place = episodes[-1].reshape(count)
        row, is_blocked = (
            by_episode(x).reshape(count, side, side, 4) for x in (trace.row, trace.is_blocked)
        )
        entered = (row >= 0).any(-1).transpose(1, 2, 0)
        barred = cells_ahead(is_blocked).transpose(1, 2, 0)
        starts = {
            "unseen": 30.0,
            "unclear": 10.0,
            "goal": 60.0,
            "unfit": -2.5,
            "unknown": 3.0,
            "turn": -1.0,
            "sharpness": 1.0,
        }
        learnt = {
            name: self.param(name, nn.initializers.constant(value), (), default_float())
            for name, value in starts.items()
        }
        seen, near, wall = (sums[..., i].transpose(1, 2, 0) for i in range(3))
        cost = 1 + jax.nn.softplus(learnt["unknown"] + wall)
        cost = jnp.where(entered, 1.0, jnp.where(barred, BLOCKED, cost))
        known = entered | barred
        match = jnp.einsum("nxyk,nk->xyn", sums[..., 3:], target.reshape(count, -1))
        worth = learnt["goal"] * jax.nn.sigmoid(match + learnt["unfit"])
        for name, evidence in (("unseen", seen), ("unclear", near)):
            worth += learnt[name] * (jnp.where(known, 0.0, jnp.exp(-evidence)) - 1)
        value = values_of_neighbours(worth, cost, place, self.sweeps)
        turned = (place % 4 + np.arange(4)[:, None]) % 4
        front, right, behind, left = jnp.take_along_axis(value, turned, axis=0)
        stay = worth[place // (4 * side), place // 4 % side, jnp.arange(count)]
        # A teacher turns round by the right, and never goes back.
        turn, back = jax.nn.softplus(learnt["turn"]), jnp.full_like(front, NEVER)
        right = jnp.maximum(right, behind - turn)
        moves = jnp.stack([stay, left - turn, right - turn, back, front], axis=-1)
        # All are compared with the best, the more coarsely the worse they are.
        deficit = moves.max(-1, keepdims=True) - moves
        logits = -jnp.exp(learnt["sharpness"]) * jnp.log1p(deficit)
        return by_episode(logits.reshape(batch, steps, 5)), (shown, command)

    def _add_up(self, episode: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        """Returns the sums of an episode's sights, `[T, X Y, C]`, and its targets, `[T, L]`."""
        sights, targets, places, row, place = episode
        side = 2 * self.radius + 1
        is_stored = row[:, places] == jnp.arange(len(places))
        target = targets[jnp.take_along_axis(row, place[:, None], axis=1)[:, 0]]
        if len(row) == 1:  # Latents are those of all places.
            stored = jnp.where(is_stored[0, :, None, None], sights, 0)
            return add_places(stored.reshape(side, side, 4, *stored.shape[1:]))[None], target
        table = jnp.asarray(cells_in_sight(self.radius))
        placed = jnp.zeros((len(places), side**2 + 1, sights.shape[-1]))
        placed = placed.at[jnp.arange(len(places))[:, None], table[places]].set(sights)
        sums = is_stored.astype(placed.dtype) @ placed.reshape(len(places), -1)
        return sums.reshape(len(row), side**2 + 1, -1)[:, :-1], target


def add_places(sights: jax.Array) -> jax.Array:
    """Returns the sums over all places of what they show: `[X, Y, 4, K, C] -> [X Y, C]`."""
    side, reach = len(sights), int(np.abs(SIGHTS).max())
    padded = jnp.pad(sights, ((reach, reach), (reach, reach), *((0, 0),) * 3))
    parts = []
    for heading, (k, (forward, right)) in itertools.product(range(4), enumerate(SIGHTS)):
        x, y = reach - forward * HEADINGS[heading] - right * HEADINGS[(heading + 1) % 4]
        parts.append(padded[x : x + side, y : y + side, heading, k])
    return jnp.stack(parts).sum(0).reshape(side * side, -1)


def cells_ahead(poses: jax.Array) -> jax.Array:
    """Returns the cells ahead of some poses, `bool[N, X, Y, 4] -> [N, X, Y]`."""
    side = poses.shape[1]
    padded = jnp.pad(poses, ((0, 0), (1, 1), (1, 1), (0, 0)))
    parts = [
        padded[:, 1 - x : 1 - x + side, 1 - y : 1 - y + side, heading]
        for heading, (x, y) in enumerate(HEADINGS)
    ]
    return jnp.stack(parts).any(0)
