"""CliffWalking-v1: walk along a cliff to the goal, falling off as rarely as possible.

With its default configuration this is Gymnasium's, exactly: states, rewards, ends and transition
probabilities. Beside it stand distributions over corridors of many sizes, with cliffs in various
places, whose actions may be permuted.

Source: Sutton & Barto (2018), "Reinforcement learning: an introduction", example 6.6; Gymnasium
1.3, `gymnasium/envs/toy_text/cliffwalking.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Range
from gpicljax.environment import NO_LIMIT, Transition
from gpicljax.envs._checks import check_order, check_pair, check_values, expand_ranges
from gpicljax.envs._grid import MOVES, Grid, GridParams, GridWorld, State
from gpicljax.envs._sprites import Sprite, overlay, tile_grid

ACTIONS = ("up", "right", "down", "left")
Side = Annotated[int, Range(2, 512)]
_MOVES = tuple(MOVES[name] for name in ACTIONS)


@struct.dataclass
class Params(GridParams):
    """The distribution over corridors; see `GridParams` for the other fields.

    Rewards, float `[2]`, are those of a step, and of a step off the cliff. Ranges are `[lowest,
    highest]`, and draws are uniform.

    Attributes:
      rows: `int32[2]`, range of the corridor's rows.
      columns: `int32[2]`, range of the corridor's columns.
      cliff_rows: `int32[2]`, range of the cliff's rows; at least one row of the corridor stays.
      random_cliff: `bool[]`, whether the cliff is a random stretch of the columns between start
        and goal, one at least, instead of all of them.
      turn: `bool[]`, whether each task may be mirrored, left to right and upside down.
    """

    rows: jax.Array
    columns: jax.Array
    cliff_rows: jax.Array
    random_cliff: jax.Array
    turn: jax.Array


@struct.dataclass
class Task(Grid):
    """One corridor, and a cliff which is a rectangle of its cells; see `Grid` for other fields.

    Attributes:
      cliff: `int32[4]`, the cliff's first and last row, first and last column; empty if a last one
        comes before the first.
      start: `int32[2]`, row and column.
      goal: `int32[2]`, row and column.
    """

    cliff: jax.Array
    start: jax.Array
    goal: jax.Array


def on_cliff(row: jax.Array, column: jax.Array, task: Task) -> jax.Array:
    """Returns whether a cell belongs to the cliff, `bool`, of the shape of `row` and `column`."""
    top, bottom, left, right = task.cliff
    return (row >= top) & (row <= bottom) & (column >= left) & (column <= right)


def _between(key: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """`int32[]`, uniform in low .. high."""
    return jax.random.randint(key, (), low, high + 1, jnp.int32)


@dataclasses.dataclass(frozen=True)
class CliffWalking(GridWorld[Params, Task]):
    """A corridor beside a cliff. Actions: 0 up, 1 right, 2 down, 3 left (unless permuted).

    A step off the cliff leads back to the start, and the episode goes on. It terminates at the
    goal, and is truncated after `params.horizon` steps if there is such a limit (Gymnasium sets
    none). An action that leads out of the corridor leaves the position as it is. The observation
    is the cell's number, `row * columns + column`. `info["prob"]` is the probability of the
    transition, as Gymnasium reports it.

    The noise of a step is one integer, its slip, see `draw_noise`.

    Args:
      max_rows: the most rows a corridor may have.
      max_columns: the most columns a corridor may have.
      is_slippery: sets the default of `params.success_rate`, 1/3 if true and else 1.

    Raises:
      ValueError: unless there are at least 2 rows and 2 columns.

    Example:
      >>> import jax
      >>> env = CliffWalking(max_rows=3, max_columns=6)
      >>> params = env.make_params(columns=(4, 6), permute_actions=True)
      >>> task = env.sample_task(jax.random.key(0), env.default_params)
      >>> env.describe(env.initial(jax.random.key(1), task), task)
      'cell 12, step 0'
    """

    directions = ACTIONS

    max_rows: Side = 4
    max_columns: Side = 12
    is_slippery: bool = False

    # The distribution over tasks -------------------------------------------------------------

    @property
    def default_params(self) -> Params:
        """Gymnasium's: the largest corridor, a cliff all along its lower edge, no limit."""
        dtype = jnp.result_type(float)
        return Params(
            success_rate=jnp.asarray(1 / 3 if self.is_slippery else 1.0, dtype),
            reward_schedule=jnp.asarray([-1.0, -100.0], dtype),
            horizon=jnp.asarray(NO_LIMIT, jnp.int32),
            permute_actions=jnp.zeros((), bool),
            rows=jnp.full(2, self.max_rows, jnp.int32),
            columns=jnp.full(2, self.max_columns, jnp.int32),
            cliff_rows=jnp.ones(2, jnp.int32),
            random_cliff=jnp.zeros((), bool),
            turn=jnp.zeros((), bool),
        )

    def make_params(self, **overrides: Any) -> Params:
        """Returns the params; one number for a range is both its ends."""
        return super().make_params(**expand_ranges(overrides, ("rows", "columns", "cliff_rows")))

    def validate(self, params: Params) -> None:
        """Raises ValueError for a bad probability, schedule or horizon, or malformed corridors."""
        super().validate(params)
        rewards = np.asarray(params.reward_schedule)
        accepted_values = "two rewards, for a step and for a fall"
        check_values("reward_schedule", rewards, rewards.shape[-1:] == (2,), accepted_values)
        most = {
            "rows": (2, self.max_rows),
            "columns": (2, self.max_columns),
            "cliff_rows": (1, np.asarray(params.rows)[..., 0].min() - 1),
        }
        for name, (least, greatest) in most.items():
            values = np.asarray(getattr(params, name))
            check_pair(name, values)
            fine = (values >= least) & (values <= greatest)
            check_values(name, values, fine, f"{least} .. {greatest}")
            check_order(name, values)

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """A corridor of random size, with its cliff, which way round it is and its actions."""
        keys = jax.random.split(key, 6)
        rows = _between(keys[0], *params.rows)
        columns = _between(keys[1], *params.columns)
        depth = _between(keys[2], *params.cliff_rows)
        first, last = self._stretch(keys[3], columns, params.random_cliff)
        flip, mirror = jax.random.bernoulli(keys[4], 0.5, (2,)) & params.turn
        bottom = rows - 1
        edge = jnp.where(flip, 0, bottom)
        cliff = jnp.stack(
            [
                jnp.where(flip, 0, rows - depth),
                jnp.where(flip, depth - 1, bottom),
                jnp.where(mirror, columns - 1 - last, first),
                jnp.where(mirror, columns - 1 - first, last),
            ]
        )
        near, far = jnp.zeros_like(columns), columns - 1
        return Task(
            rows=rows,
            columns=columns,
            cliff=cliff,
            start=jnp.stack([edge, jnp.where(mirror, far, near)]),
            goal=jnp.stack([edge, jnp.where(mirror, near, far)]),
            **self.sample_grid(keys[5], params),
        )

    def _stretch(
        self, key: jax.Array, columns: jax.Array, random: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """First and last column of a cliff between start and goal; every stretch equally likely."""
        first, last = np.triu_indices(self.max_columns - 2)
        # In the order of their last column, so that those of a shorter corridor come first.
        order = np.lexsort((first, last))
        inner = columns - 2
        pick = jax.random.randint(key, (), 0, jnp.maximum(inner * (inner + 1) // 2, 1), jnp.int32)
        partial = [jnp.asarray(np.append(x[order], 0) + 1, jnp.int32)[pick] for x in (first, last)]
        partly = random & (inner > 0)
        return jnp.where(partly, partial[0], 1), jnp.where(partly, partial[1], columns - 2)

    # One episode -----------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """On the start cell."""
        del key
        return State(task.start[0], task.start[1], jnp.zeros((), jnp.int32))

    def move(self, state: State, action: jax.Array, noise: jax.Array, task: Task) -> Transition:
        """Runs one step with its noise given.

        Args:
          state: the state.
          action: `int32[]` in 0 .. 3.
          noise: `int32[]` in 0 .. 2, see `draw_noise`.
          task: the corridor.

        Returns:
          The transition.
        """
        row, column = self.next_cell(state, action, noise, task)
        fell = on_cliff(row, column, task)
        row, column = jnp.where(fell, task.start[0], row), jnp.where(fell, task.start[1], column)
        steps = jnp.minimum(state.steps, NO_LIMIT - 1) + 1
        return Transition(
            State(row, column, steps),
            jnp.where(fell, task.reward_schedule[1], task.reward_schedule[0]),
            (row == task.goal[0]) & (column == task.goal[1]),
            (steps >= task.horizon) & (task.horizon < NO_LIMIT),
            {"prob": self.slip_probability(noise, task)},
        )

    # Spaces and views ------------------------------------------------------------------------

    def observation_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the cells (as many as the largest corridor has)."""
        return spaces.Discrete(self.max_rows * self.max_columns)

    def cells(self, task: Task) -> jax.Array:
        """Returns the corridor, `int32[max_rows, max_columns]`, an index into `".CSG "`.

        That is: 0 free, 1 cliff, 2 start, 3 goal, 4 outside the corridor.
        """
        row, column = jnp.indices((self.max_rows, self.max_columns), jnp.int32)
        kind = on_cliff(row, column, task).astype(jnp.int32)
        for number, cell in (2, task.start), (3, task.goal):
            kind = jnp.where((row == cell[0]) & (column == cell[1]), number, kind)
        return jnp.where((row >= task.rows) | (column >= task.columns), 4, kind)

    @property
    def explanation(self) -> str:
        """See `Environment.explanation`."""
        return (
            "You walk along a cliff, on a grid of cells that are counted row by row from 0. Every "
            "move costs 1; a move over the edge costs 100 and takes you back to where you started. "
            "The episode ends at the far end of the cliff. Actions 0, 1, 2, 3 mean up, right, "
            "down, left, unless the task has them in another order."
        )

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Returns the knowledge that an expert needs.

        Returns:
          `cliff`: `bool[max_rows, max_columns]`; `goal` and `position`: `int32[2]`, row and column;
          `directions`: `int32[4]`, the direction of each action.
        """
        return {
            "cliff": self.cells(task) == 1,
            "goal": task.goal,
            "position": jnp.stack([state.row, state.column]),
            "directions": task.directions,
        }

    def render(self, state: State, task: Task) -> jax.Array:
        """Returns a picture: grass, the abyss, start (a signpost), goal (a flag) and the walker.

        Returns:
          `uint8[48 * max_rows, 48 * max_columns, 3]`.
        """
        tiles, walker = _sprites()
        kinds = self.cells(task)
        below_rim = (kinds == 1) & (jnp.roll(kinds, 1, axis=0) == 1)
        below_rim = below_rim.at[0].set(False)
        picture = tile_grid(tiles, jnp.where(below_rim, len(tiles) - 1, kinds))
        return overlay(picture, jnp.asarray(walker), state.row, state.column)


# The drawing ---------------------------------------------------------------------------------


def _grass() -> Sprite:
    canvas = Sprite((136, 186, 92))
    for x, y in (0.2, 0.3), (0.7, 0.2), (0.5, 0.6), (0.15, 0.8), (0.82, 0.78):
        for lean in (-0.04, 0.0, 0.04):
            canvas.fill(canvas.line(x, y, x + lean, y - 0.09, 0.02), 100, 156, 66)
    canvas.fill(~canvas.box(0.01, 0.01, 0.99, 0.99), 116, 168, 76)
    return canvas


def _deep() -> Sprite:
    return Sprite((34, 28, 40))


def _abyss() -> Sprite:
    canvas = _deep()
    for x, top, bottom, shade in (
        (0.0, 0.0, 0.62, 0),
        (0.2, 0.0, 0.44, 10),
        (0.38, 0.0, 0.7, -8),
        (0.56, 0.0, 0.5, 6),
        (0.76, 0.0, 0.66, -4),
    ):
        rock = canvas.convex((x, top), (x + 0.26, top), (x + 0.2, bottom), (x + 0.06, bottom))
        canvas.fill(rock, 122 + shade, 92 + shade, 70 + shade)
    canvas.fill(canvas.box(0.0, 0.0, 1.0, 0.1), 92, 140, 62)
    canvas.fill(canvas.box(0.0, 0.1, 1.0, 0.16), 88, 64, 48)
    return canvas


def _signpost() -> Sprite:
    canvas = _grass()
    canvas.fill(canvas.box(0.46, 0.3, 0.54, 0.92), 110, 76, 46)
    canvas.fill(
        canvas.convex((0.2, 0.2), (0.7, 0.2), (0.86, 0.34), (0.7, 0.48), (0.2, 0.48)), 150, 108, 66
    )
    canvas.fill(canvas.line(0.3, 0.34, 0.62, 0.34, 0.05), 240, 226, 190)
    canvas.fill(canvas.convex((0.6, 0.26), (0.72, 0.34), (0.6, 0.42)), 240, 226, 190)
    return canvas


def _flag() -> Sprite:
    canvas = _grass()
    canvas.fill(canvas.ellipse(0.4, 0.9, 0.2, 0.05), 96, 140, 66)
    canvas.fill(canvas.box(0.36, 0.1, 0.43, 0.92), 70, 70, 76)
    canvas.fill(canvas.convex((0.43, 0.12), (0.9, 0.3), (0.43, 0.5)), 214, 40, 48)
    return canvas


def _nothing() -> Sprite:
    return Sprite((226, 226, 230))


def _walker() -> Sprite:
    canvas = Sprite(None)
    blue, skin, brown, straw = (46, 84, 168), (247, 205, 165), (94, 60, 38), (226, 190, 96)
    canvas.fill(canvas.ellipse(0.5, 0.94, 0.26, 0.045), 88, 132, 60)
    for x in 0.41, 0.59:
        canvas.fill(canvas.box(x - 0.06, 0.7, x + 0.06, 0.9), 70, 74, 90)
        canvas.fill(canvas.ellipse(x, 0.9, 0.09, 0.05), *brown)
    canvas.fill(canvas.box(0.22, 0.44, 0.36, 0.72), 176, 64, 40)
    canvas.fill(canvas.box(0.32, 0.44, 0.68, 0.74), *blue)
    canvas.fill(canvas.line(0.68, 0.48, 0.8, 0.66, 0.1), *blue)
    canvas.fill(canvas.line(0.8, 0.36, 0.82, 0.92, 0.04), *brown)
    canvas.fill(canvas.ellipse(0.8, 0.66, 0.05, 0.05), *skin)
    canvas.fill(canvas.ellipse(0.5, 0.32, 0.16, 0.15), *skin)
    for x in 0.45, 0.57:
        canvas.fill(canvas.ellipse(x, 0.33, 0.022, 0.03), 40, 30, 30)
    canvas.fill(canvas.box(0.46, 0.4, 0.56, 0.42), 190, 80, 70)
    canvas.fill(canvas.ellipse(0.5, 0.22, 0.3, 0.05), *straw)
    canvas.fill(canvas.ellipse(0.5, 0.16, 0.16, 0.1), *straw)
    canvas.fill(canvas.box(0.35, 0.17, 0.65, 0.2), *brown)
    return canvas


@functools.cache
def _sprites() -> tuple[np.ndarray, np.ndarray]:
    """Tiles `uint8[6, SIDE, SIDE, 3]` by `CliffWalking.cells`, and deep down; the walker."""
    drawings = (_grass, _abyss, _signpost, _flag, _nothing, _deep)
    return np.stack([tile().finish()[..., :3] for tile in drawings]), _walker().finish()
