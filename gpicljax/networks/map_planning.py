"""Planning on a map of what latents show: value iteration over all cells around the start.

From a latent is read of each cell before the agent whether it is a wall, whether it is seen, and
which landmark it holds. Dead reckoning says where on the map that cell is; what all stored latents
tell of it is added up. A cell is worth reaching if it has not been seen, or not from near by, or if
it holds the landmark that the latent of now commands. What latents show is learnt from a teacher
that says what it sees, and from its moves; where they show it, and that ways lead from cell to
cell, is built in.
"""

from __future__ import annotations

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

    def setup(self) -> None:
        """Layers that read latents, and what things are worth."""
        self.hidden, self.command = dense(self.width), dense(self.landmarks)
        self.shown = dense(len(SIGHTS) * (2 + self.landmarks))
        starts = {
            "unseen": 30.0,
            "unclear": 10.0,
            "goal": 60.0,
            "unfit": -2.5,
            "unknown": 3.0,
            "turn": -1.0,
            "sharpness": 1.0,
        }
        self.worth = {
            name: self.param(name, nn.initializers.constant(value), (), default_float())
            for name, value in starts.items()
        }

    def empty_sums(self, batch: int) -> jax.Array:
        """Returns what is known of cells before anything is seen, float `[B, X Y, C]`."""
        return jnp.zeros((batch, (2 * self.radius + 1) ** 2, 3 + self.landmarks), default_float())

    def read(self, latents: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns what latents `[..., Z]` show of cells, and command: see `CausalOutput.shown`."""
        hidden = nn.gelu(self.hidden(latents))
        shown = self.shown(hidden)
        shown = shown.reshape(*shown.shape[:-1], len(SIGHTS), 2 + self.landmarks)
        return shown, self.command(hidden)

    def add_sights(
        self, sums: jax.Array, places: jax.Array, shown: jax.Array, weight: jax.Array
    ) -> jax.Array:
        """Returns sums `[B, X Y, C]` with what some latents show added, or taken from them.

        Args:
          sums: of what was known.
          places: `int32[N, B]`, where the latents were seen.
          shown: float `[N, B, K, 2 + L]`, see `read`.
          weight: float `[N, B]`, 1 to add a latent, -1 to take it away, 0 for neither.
        """
        cells = jnp.asarray(cells_in_sight(self.radius))[places]
        sights = weight[..., None, None] * evidence_of(shown)
        # Cells beyond the map have a number after the last.
        return sums.at[jnp.arange(len(sums))[:, None], cells].add(sights, mode="drop")

    def add_up(self, shown: jax.Array, places: jax.Array, trace: MapTrace) -> jax.Array:
        """Returns the sums at each step of what stored latents show, float `[T, B, X Y, C]`.

        Args:
          shown: float `[S, B, K, 2 + L]`, see `read`, of latents that are stored at some step.
          places: `int32[S, B]`, where they were seen.
          trace: the map at each step; its `row` is an index into `shown`.
        """
        cells = (2 * self.radius + 1) ** 2
        table = jnp.asarray(cells_in_sight(self.radius))

        def add(episode: tuple[jax.Array, ...]) -> jax.Array:
            sights, places, row = episode
            is_stored = row[:, places] == jnp.arange(len(places))
            placed = jnp.zeros((len(places), cells + 1, sights.shape[-1]))
            placed = placed.at[jnp.arange(len(places))[:, None], table[places]].set(sights)
            sums = is_stored.astype(placed.dtype) @ placed.reshape(len(places), -1)
            return sums.reshape(len(row), cells + 1, -1)[:, :-1]

        episodes = jax.tree.map(lambda x: x.swapaxes(0, 1), (evidence_of(shown), places, trace.row))
        return jax.lax.map(add, episodes).swapaxes(0, 1)

    def __call__(self, sums: jax.Array, command: jax.Array, trace: MapTrace) -> jax.Array:
        """Returns the logits, float `[T, B, 5]`.

        Args:
          sums: float `[T, B, X Y, C]`, what is known of cells.
          command: float `[T, B, L]`, logits of the landmark that is to be reached.
          trace: the map at each step.
        """
        steps, batch, _ = trace.row.shape
        side, count = 2 * self.radius + 1, steps * batch
        sums, target = sums.reshape(count, side, side, -1), jax.nn.softmax(command)
        place = trace.place.reshape(count)
        row, is_blocked = (x.reshape(count, side, side, 4) for x in (trace.row, trace.is_blocked))
        entered = (row >= 0).any(-1).transpose(1, 2, 0)
        barred = cells_ahead(is_blocked).transpose(1, 2, 0)
        learnt = self.worth
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
        return logits.reshape(steps, batch, 5)


def evidence_of(shown: jax.Array) -> jax.Array:
    """Returns what is added up of cells, float `[..., K, C]`: seen, seen near, wall, landmarks."""
    wall, is_seen, landmark = jnp.split(shown, [1, 2], axis=-1)
    # Landmarks far away are not recognised: not to recognise one is no evidence.
    content = jnp.concatenate([wall, jax.nn.softplus(landmark)], axis=-1)
    seen = jax.nn.softplus(is_seen)
    parts = seen, seen * IS_NEAR[:, None], jax.nn.sigmoid(is_seen) * content
    return jnp.concatenate(parts, axis=-1)


def cells_ahead(poses: jax.Array) -> jax.Array:
    """Returns the cells ahead of some poses, `bool[N, X, Y, 4] -> [N, X, Y]`."""
    side = poses.shape[1]
    padded = jnp.pad(poses, ((0, 0), (1, 1), (1, 1), (0, 0)))
    parts = [
        padded[:, 1 - x : 1 - x + side, 1 - y : 1 - y + side, heading]
        for heading, (x, y) in enumerate(HEADINGS)
    ]
    return jnp.stack(parts).any(0)
