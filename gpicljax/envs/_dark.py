"""Dark rooms: grids in which nothing but the own position is seen."""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Range
from gpicljax.environment import Environment, TransitionModel
from gpicljax.envs._checks import Count, check_values
from gpicljax.envs._grid import MOVES, draw_directions
from gpicljax.envs._sprites import Sprite, overlay, tile_grid
from gpicljax.symbols import SymbolCode

ACTIONS = ("left", "right", "up", "down", "stay")
_MOVES = np.array([(MOVES | {"stay": (0, 0)})[name] for name in ACTIONS], np.int32)


@struct.dataclass
class RoomParams:
    """The distribution over square rooms, as far as all kinds of them have it in common.

    Attributes:
      size: `int32[]`, side of the square room, up to the static `size`.
      horizon: `int32[]`, steps until an episode is truncated.
      random_start: `bool[]`, whether every episode starts in a random cell, not in the centre.
    """

    size: jax.Array
    horizon: Count
    random_start: jax.Array


@struct.dataclass
class Room:
    """A square room.

    Attributes:
      directions: `int32[5]`, the move (0 left, 1 right, 2 up, 3 down, 4 stay) of each action.
      size: `int32[]`, see `RoomParams`.
      horizon: `int32[]`, see `RoomParams`.
      random_start: `bool[]`, see `RoomParams`.
    """

    directions: jax.Array
    size: jax.Array
    horizon: jax.Array
    random_start: jax.Array


@struct.dataclass
class Walk:
    """An episode in progress.

    Attributes:
      position: `int32[2]`, row and column.
      steps: `int32[]`, steps taken.
    """

    position: jax.Array
    steps: jax.Array


Params = TypeVar("Params", bound=RoomParams)
Task = TypeVar("Task", bound=Room)
State = TypeVar("State", bound=Walk)


def draw_cell(key: jax.Array, size: jax.Array) -> jax.Array:
    """Row and column of a cell of a square room, `int32[2]`, uniform."""
    return jax.random.randint(key, (2,), 0, size, jnp.int32)


def distance(start: jax.Array, end: jax.Array) -> jax.Array:
    """Returns the moves from one cell to another, `int32[]`, of cells `int32[2]`."""
    return jnp.abs(start - end).sum(dtype=jnp.int32)


def moves_between(start: jax.Array, end: jax.Array) -> jax.Array:
    """Returns the actions until a cell is reached, `int32[]`: at least one, as staying counts."""
    return jnp.maximum(distance(start, end), 1)


@dataclasses.dataclass(frozen=True)
class DarkGrid(Environment[Params, Task, State]):
    """Base class of square rooms without walls.

    Attributes:
      size: the greatest side of a room.
    """

    size: Annotated[int, Range(2, 512)] = 9

    @property
    def cells(self) -> int:
        """The number of cells of the largest room."""
        return self.size * self.size

    def validate(self, params: Params) -> None:
        """Raises ValueError for a bad horizon, or a size beyond the static one."""
        super().validate(params)
        size = np.asarray(params.size)
        fine = (size >= 2) & (size <= self.size)
        check_values("size", size, fine, f"2 .. {self.size}, the static size")

    def sample_room(
        self, key: jax.Array, params: Params, permute_actions: jax.Array
    ) -> dict[str, jax.Array]:
        """Returns the fields of a `Room`; only the order of the actions is drawn."""
        return {
            "directions": draw_directions(key, permute_actions, len(ACTIONS)),
            "size": jnp.asarray(params.size, jnp.int32),
            "horizon": jnp.asarray(params.horizon, jnp.int32),
            "random_start": jnp.asarray(params.random_start, bool),
        }

    def first_cell(self, key: jax.Array, task: Task) -> jax.Array:
        """Returns the first cell of an episode, `int32[2]`: the centre, or any."""
        centre = jnp.full(2, task.size // 2, jnp.int32)
        return jnp.where(task.random_start, draw_cell(key, task.size), centre)

    def start_chances(self, task: Task, situations: int) -> jax.Array:
        """The centre, or any cell; situations beyond the cells are no starts."""
        numbers = jnp.arange(situations)
        centre = self.cell_number(jnp.full(2, task.size // 2, jnp.int32), task)
        is_start = jnp.where(task.random_start, numbers < task.size**2, numbers == centre)
        return is_start / is_start.sum()

    def next_cell(self, position: jax.Array, action: jax.Array, task: Task) -> jax.Array:
        """Returns the cell that an action leads to, `int32[2]`; the walls hold."""
        step = jnp.asarray(_MOVES)[task.directions[action]]
        return jnp.clip(position + step, 0, task.size - 1)

    def cell_number(self, position: jax.Array, task: Task) -> jax.Array:
        """`row * size + column`, `int32[]`."""
        return position[0] * task.size + position[1]

    def cell_of(self, number: jax.Array, task: Task) -> jax.Array:
        """The cell with a number, `int32[2]`; numbers beyond a small room are in its last row."""
        return jnp.stack([jnp.minimum(number // task.size, task.size - 1), number % task.size])

    @property
    def match(self) -> str:
        """See `Environment.match`."""
        return "gpicljax.systems.in_context_rl.figures.matches:match"

    @property
    def controls(self) -> tuple[tuple[str, str], ...]:
        """See `Environment.controls`."""
        return (
            ("left", "ArrowLeft"),
            ("right", "ArrowRight"),
            ("up", "ArrowUp"),
            ("down", "ArrowDown"),
            ("stay", "."),
        )

    def symbols(self) -> SymbolCode:
        """Returns the code: cells, moves, and payments."""
        return SymbolCode(rewards=(0.0, 1.0))

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the four moves, and staying."""
        return spaces.Discrete(len(ACTIONS))

    def transitions(self, states: State, task: Task) -> TransitionModel:
        """Returns the transition model, from the state of every situation (leaves `[S, ...]`)."""

        def outcome(state: State, action: jax.Array) -> TransitionModel:
            moved = self.move(state, action, (), task)
            following = self.situation(moved.state, task)
            fields = jnp.ones_like(moved.reward), following, moved.reward, moved.terminated
            return TransitionModel(*(x[None] for x in fields))

        actions = jnp.arange(len(ACTIONS), dtype=jnp.int32)
        return jax.vmap(jax.vmap(outcome, (None, 0)), (0, None))(states, actions)

    def describe(self, state: State, task: Task) -> str:
        """Returns the cell's number and the step."""
        number = int(self.cell_number(state.position, task))
        return f"cell {number}, step {int(state.steps)} of {int(task.horizon)}"

    def picture(self, task: Task, position: jax.Array, *things: tuple[str, jax.Array]) -> jax.Array:
        """A picture, `uint8[48 * size, 48 * size, 3]`: the walker, over things at their cells.

        Args:
          task: the room.
          position: `int32[2]`, of the walker.
          *things: pairs of a name (`goal`, `key`, `door` or `open door`) and a cell, `int32[2]`.
        """
        tiles, sprites = _sprites()
        row, column = jnp.indices((self.size, self.size), jnp.int32)
        outside = (row >= task.size) | (column >= task.size)
        drawn = tile_grid(tiles, outside.astype(jnp.int32))
        for name, cell in (*things, ("walker", position)):
            drawn = overlay(drawn, jnp.asarray(sprites[name]), cell[0], cell[1])
        return drawn


# The drawing ---------------------------------------------------------------------------------


def _floor() -> Sprite:
    canvas = Sprite((44, 46, 58))
    canvas.fill(~canvas.box(0.02, 0.02, 0.98, 0.98), 58, 60, 74)
    return canvas


def _goal() -> Sprite:
    canvas = Sprite(None)
    for radius, colour in (0.42, (92, 82, 44)), (0.32, (170, 146, 60)), (0.2, (250, 224, 120)):
        canvas.fill(canvas.ellipse(0.5, 0.5, radius, radius), *colour)
    return canvas


def _key() -> Sprite:
    canvas, gold = Sprite(None), (232, 188, 74)
    canvas.fill(canvas.ellipse(0.28, 0.5, 0.17, 0.17), *gold)
    canvas.fill(canvas.ellipse(0.28, 0.5, 0.08, 0.08), 44, 46, 58)
    canvas.fill(canvas.box(0.42, 0.45, 0.88, 0.55), *gold)
    for x in 0.68, 0.8:
        canvas.fill(canvas.box(x, 0.52, x + 0.07, 0.7), *gold)
    return canvas


def _door(wood: tuple[int, int, int]) -> Sprite:
    canvas = Sprite(None)
    canvas.fill(canvas.box(0.2, 0.08, 0.8, 0.94), 84, 84, 94)
    canvas.fill(canvas.box(0.27, 0.15, 0.73, 0.94), *wood)
    canvas.fill(canvas.ellipse(0.65, 0.55, 0.04, 0.04), 232, 188, 74)
    return canvas


def _walker() -> Sprite:
    canvas = Sprite(None)
    canvas.fill(canvas.box(0.36, 0.5, 0.64, 0.84), 78, 146, 214)
    canvas.fill(canvas.ellipse(0.5, 0.34, 0.17, 0.17), 247, 205, 165)
    for x in 0.44, 0.56:
        canvas.fill(canvas.ellipse(x, 0.34, 0.025, 0.025), 40, 30, 30)
        canvas.fill(canvas.box(x - 0.05, 0.84, x + 0.04, 0.94), 34, 58, 104)
    return canvas


@functools.cache
def _sprites() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Tiles `uint8[2, SIDE, SIDE, 3]`, floor and outside; things `uint8[SIDE, SIDE, 4]`."""
    tiles = np.stack([sprite.finish()[..., :3] for sprite in (_floor(), Sprite((226, 226, 230)))])
    things = {
        "goal": _goal(),
        "key": _key(),
        "door": _door((134, 88, 52)),
        "open door": _door((24, 24, 30)),
        "walker": _walker(),
    }
    return tiles, {name: canvas.finish() for name, canvas in things.items()}
