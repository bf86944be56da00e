"""Frozen lakes: cross slippery ice to the goal without falling into a hole.

With its default configuration this is Gymnasium's FrozenLake-v1, exactly: states, rewards, ends
and transition probabilities. Beside it stand distributions over random solvable lakes, whose
actions may be permuted, so that a learner has to find out both where the holes are and what its
actions do.

Source: Gymnasium 1.4, `gymnasium/envs/toy_text/frozen_lake.py`; permuted actions follow the hard
mode of AMAGO-2's Meta-FrozenLake (Grigsby et al., 2024).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Range, check, check_choice
from gpicljax.environment import Transition
from gpicljax.envs._checks import Probability, check_values
from gpicljax.envs._grid import MOVES, Grid, GridParams, GridWorld, State
from gpicljax.envs._sprites import SIDE, Sprite, overlay, tile_grid
from gpicljax.symbols import SymbolCode

MAPS = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": (
        "SFFFFFFF",
        "FFFFFFFF",
        "FFFHFFFF",
        "FFFFFHFF",
        "FFFHFFFF",
        "FHHFFFHF",
        "FHFFHFHF",
        "FFFHFFFG",
    ),
}
LETTERS = "FSHG"
FROZEN, START, HOLE, GOAL = range(4)
ACTIONS = ("left", "down", "right", "up")
_MOVES = tuple(MOVES[name] for name in ACTIONS)
_MAX_ATTEMPTS = 10_000
MAX_SIZE = 512
"""The greatest static size of random lakes."""


@struct.dataclass
class Params(GridParams):
    """The distribution over lakes; see `GridParams` for the other fields.

    Rewards, float `[3]`, are for reaching the goal, a hole, any other cell.

    Attributes:
      hole_probability: float `[]`, chance of a hole in each cell (random lakes only).
      size: `int32[]`, side of the square lake, up to the static `size` (random lakes only).
      anywhere: `bool[]`, whether start and goal are any two cells instead of two corners (random
        lakes only).
    """

    hole_probability: Probability
    size: jax.Array
    anywhere: jax.Array


@struct.dataclass
class Task(Grid):
    """One lake; see `Grid` for the other fields.

    Attributes:
      cells: `int32[R, C]`, index into `LETTERS`; holes outside a lake smaller than its cap.
      carved: `bool[]`, no solvable lake turned up within 10,000 draws, so a path was cut into the
        last one.
    """

    cells: jax.Array
    carved: jax.Array


def goal_distances(cells: jax.Array) -> jax.Array:
    """Moves from every cell to the nearest goal, around the holes; ice that does not slip.

    Args:
      cells: `int32[R, C]`, index into `LETTERS`.

    Returns:
      `int32[R, C]`; R * C for holes and for cells from which no goal can be reached.
    """
    far = cells.size
    open_water = cells == HOLE

    def spread(distances: jax.Array) -> jax.Array:
        padded = jnp.pad(distances, 1, constant_values=far)
        vertical = jnp.minimum(padded[:-2, 1:-1], padded[2:, 1:-1])
        horizontal = jnp.minimum(padded[1:-1, :-2], padded[1:-1, 2:])
        nearest = jnp.minimum(vertical, horizontal) + 1
        return jnp.where(open_water, far, jnp.minimum(distances, nearest))

    first = jnp.where(cells == GOAL, 0, far).astype(jnp.int32)
    return jax.lax.while_loop(
        lambda loop: (loop[0] != loop[1]).any(),
        lambda loop: (loop[1], spread(loop[1])),
        (first, spread(first)),
    )[1]


def _random_cells(
    key: jax.Array, cap: int, size: jax.Array, hole_probability: jax.Array, anywhere: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """A solvable lake by rejection, as Gymnasium's `generate_random_map`, and `Task.carved`."""
    row, column = jnp.arange(cap)[:, None], jnp.arange(cap)[None, :]
    # Two different cells of the lake: the second is so many further on, round and round.
    first_key, second_key = jax.random.split(jax.random.fold_in(key, 1))
    first = jax.random.randint(first_key, (), 0, size * size, jnp.int32)
    second = first + jax.random.randint(second_key, (), 1, size * size, jnp.int32)
    last = size * size - 1
    first = jnp.where(anywhere, first, 0)
    second = jnp.where(anywhere, second % (size * size), last)
    (top, left), (bottom, right) = jnp.divmod(first, size), jnp.divmod(second, size)
    start, goal = (row == top) & (column == left), (row == bottom) & (column == right)
    outside = (row >= size) | (column >= size)

    def draw(key: jax.Array) -> jax.Array:
        hole = jax.random.bernoulli(key, hole_probability, (cap, cap)) | outside
        cells = jnp.where(hole, HOLE, FROZEN)
        return jnp.where(start, START, jnp.where(goal, GOAL, cells)).astype(jnp.int32)

    def solvable(cells: jax.Array) -> jax.Array:
        return goal_distances(cells)[top, left] < cap * cap

    def retry(loop: tuple[jax.Array, jax.Array, jax.Array, jax.Array]) -> jax.Array:
        _, attempts, _, done = loop
        return ~done & (attempts < _MAX_ATTEMPTS)

    def attempt(loop: tuple[jax.Array, jax.Array, jax.Array, jax.Array]) -> tuple:
        key, attempts, _, _ = loop
        key, draw_key = jax.random.split(key)
        cells = draw(draw_key)
        return key, attempts + 1, cells, solvable(cells)

    loop = (key, jnp.zeros((), jnp.int32), jnp.zeros((cap, cap), jnp.int32), jnp.zeros((), bool))
    _, _, cells, done = jax.lax.while_loop(retry, attempt, loop)
    # Along the start's column to the goal's row, and along that to the goal.
    down = (column == left) & (row >= jnp.minimum(top, bottom)) & (row <= jnp.maximum(top, bottom))
    along = (row == bottom) & (column >= jnp.minimum(left, right))
    path = down | (along & (column <= jnp.maximum(left, right)))
    return jnp.where(~done & path & (cells == HOLE), FROZEN, cells), ~done


_ROWS = "a tuple of strings, one a row"


def _parse(description: tuple[str, ...]) -> np.ndarray:
    """`int32[R, C]` cells of a map; raises ValueError if it is not a lake that can be crossed."""
    strings = bool(description) and all(isinstance(row, str) for row in description)
    check(strings, "description", description, _ROWS)
    widths = [len(row) for row in description]
    equal = len(set(widths)) == 1 and widths[0] > 0
    check(equal, "description", description, "rows of one length, not ragged ones")
    letters = set("".join(description)) <= set(LETTERS)
    check(letters, "description", description, f"the letters {', '.join(LETTERS)}")
    cells = np.array([[LETTERS.index(letter) for letter in row] for row in description], np.int32)
    for letter, meaning in ("S", "start"), ("G", "goal"):
        present = (cells == LETTERS.index(letter)).any()
        check(present, "description", description, f"a map with a {meaning}, {letter}")
    reached, frontier = set(), list(zip(*np.nonzero(cells == GOAL), strict=True))
    while frontier:
        cell = frontier.pop()
        if cell in reached or cells[cell] == HOLE:
            continue
        reached.add(cell)
        near = ((cell[0] + row, cell[1] + column) for row, column in _MOVES)
        frontier += [(r, c) for r, c in near if 0 <= r < len(cells) and 0 <= c < widths[0]]
    solvable = set(zip(*np.nonzero(cells == START), strict=True)) <= reached
    check(solvable, "description", description, "a map with a way from every start to a goal")
    return cells


@dataclasses.dataclass(frozen=True)
class FrozenLake(GridWorld[Params, Task]):
    """A lake, given or random. Actions: 0 left, 1 down, 2 right, 3 up (unless permuted).

    An episode terminates in a hole or at a goal and is truncated after `params.horizon` steps. An
    action that leads off the lake leaves the position as it is. The observation is the cell's
    number, `row * columns + column`. `info["prob"]` is the probability of the transition, as
    Gymnasium reports it; `info["carved"]` is `Task.carved`.

    The noise of a step is one integer, its slip, see `draw_noise`.

    Args:
      description: a map, one string a row: S start, F frozen, H hole, G goal. Several starts are
        equally likely.
      map_name: a known map, `"4x4"` (as when nothing is given) or `"8x8"`.
      size: instead of a map, each task is a random solvable lake of at most `size x size` cells
        (`params.size`), with the start in the top left and the goal in the bottom right corner
        (or both anywhere, see `params.anywhere`).
      is_slippery: sets the default of `params.success_rate`, 1/3 if true and else 1.

    Raises:
      ValueError: if more than one of `description`, `map_name` and `size` is given, for an
        unknown map name, a size below 2, or a map that is ragged, has illegal letters, no start,
        no goal, or a start from which no goal can be reached.

    Example:
      >>> import jax
      >>> env = FrozenLake(map_name="4x4", is_slippery=False)
      >>> task = env.sample_task(jax.random.key(0), env.default_params)
      >>> observation, state = env.reset(jax.random.key(1), task)
      >>> env.describe(state, task)
      'cell 0, step 0 of 100'
    """

    description: tuple[str, ...] | None = None
    directions = ACTIONS

    map_name: str | None = None
    size: Annotated[int, Range(2, MAX_SIZE)] | None = None
    is_slippery: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        sources = [f for f in ("description", "map_name", "size") if getattr(self, f) is not None]
        check(len(sources) <= 1, "FrozenLake", sources, "one of description, map_name and size")
        if self.size is not None:
            return
        description = self.description
        if description is None:
            name = self.map_name or "4x4"
            check_choice("map_name", name, MAPS)
            description = MAPS[name]
        # One value for one lake, however it was named, so that equal lakes compare equal.
        object.__setattr__(self, "description", description)
        object.__setattr__(self, "map_name", None)
        _parse(description)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the arrays: the map's, or the cap of random lakes."""
        if self.description is None:
            assert self.size is not None
            return self.size, self.size
        return len(self.description), len(self.description[0])

    # The distribution over tasks -------------------------------------------------------------

    @property
    def default_params(self) -> Params:
        """Gymnasium's: rewards (1, 0, 0), holes with chance 0.2, 25 steps per cell of the side.

        That horizon is 100 for 4x4 and 200 for 8x8 lakes.
        """
        dtype = jnp.result_type(float)
        side = max(self.shape)
        return Params(
            success_rate=jnp.asarray(1 / 3 if self.is_slippery else 1.0, dtype),
            reward_schedule=jnp.asarray([1.0, 0.0, 0.0], dtype),
            horizon=jnp.asarray(25 * side, jnp.int32),
            permute_actions=jnp.zeros((), bool),
            hole_probability=jnp.asarray(0.2, dtype),
            size=jnp.asarray(side, jnp.int32),
            anywhere=jnp.zeros((), bool),
        )

    def validate(self, params: Params) -> None:
        """Raises ValueError for probabilities outside [0, 1], a bad size, horizon or schedule."""
        super().validate(params)
        rewards = np.asarray(params.reward_schedule)
        accepted_values = "three rewards, for goal, hole and ice"
        check_values("reward_schedule", rewards, rewards.shape[-1:] == (3,), accepted_values)
        size = np.asarray(params.size)
        if self.description is None:
            fine = (size >= 2) & (size <= self.shape[0])
            check_values("size", size, fine, f"2 .. {self.shape[0]}, the static size")

    def make_params(self, **overrides: object) -> Params:
        """Returns the params; a given map refuses fields of random lakes."""
        for field in {"hole_probability", "size", "anywhere"} & set(overrides):
            accepted_values = "nothing, where the map is given; random lakes have a static size"
            check(self.description is None, field, overrides[field], accepted_values)
        return super().make_params(**overrides)

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Returns the given map, or a random one; with the actions permuted if params say so."""
        cells_key, actions_key = jax.random.split(key)
        if self.description is None:
            rows = columns = jnp.asarray(params.size, jnp.int32)
            cells, carved = _random_cells(
                cells_key, self.shape[0], rows, params.hole_probability, params.anywhere
            )
        else:
            rows, columns = (jnp.asarray(n, jnp.int32) for n in self.shape)
            cells, carved = jnp.asarray(_parse(self.description)), jnp.zeros((), bool)
        return Task(
            cells=cells,
            rows=rows,
            columns=columns,
            carved=carved,
            **self.sample_grid(actions_key, params),
        )

    # One episode -----------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """On a start cell."""
        start = jax.random.categorical(key, jnp.where(task.cells.ravel() == START, 0.0, -jnp.inf))
        row, column = jnp.divmod(start.astype(jnp.int32), self.shape[1])
        return State(row, column, jnp.zeros((), jnp.int32))

    def start_chances(self, task: Task, situations: int) -> jax.Array:
        """All start cells are equally likely."""
        is_start = (task.cells.ravel() == START).astype(jnp.result_type(float))
        return is_start / is_start.sum()

    def move(self, state: State, action: jax.Array, noise: jax.Array, task: Task) -> Transition:
        """Runs one step with its noise given.

        Args:
          state: the state.
          action: `int32[]` in 0 .. 3.
          noise: `int32[]` in 0 .. 2, see `draw_noise`.
          task: the lake.

        Returns:
          The transition. In a hole or at a goal nothing moves any more, with reward 0.
        """
        origin = task.cells[state.row, state.column]
        over = (origin == HOLE) | (origin == GOAL)
        row, column = self.next_cell(state, action, noise, task)
        row, column = jnp.where(over, state.row, row), jnp.where(over, state.column, column)
        cell = task.cells[row, column]
        outcome = jnp.where(cell == GOAL, 0, jnp.where(cell == HOLE, 1, 2))
        steps = state.steps + 1
        return Transition(
            State(row, column, steps),
            jnp.where(over, 0, task.reward_schedule[outcome]),
            (cell == HOLE) | (cell == GOAL),
            steps >= task.horizon,
            {"prob": jnp.where(over, 1, self.slip_probability(noise, task)), "carved": task.carved},
        )

    # Spaces and views ------------------------------------------------------------------------

    def symbols(self) -> SymbolCode:
        """Returns the code: cells, moves, and presents."""
        return SymbolCode(rewards=(0.0, 1.0))

    def observation_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the cells (as many as the largest lake has)."""
        return spaces.Discrete(self.shape[0] * self.shape[1])

    @property
    def explanation(self) -> str:
        """See `Environment.explanation`."""
        return (
            "You are on a frozen lake, a grid of cells that are counted row by row from 0. "
            "Somewhere on it is a goal, and there are holes in the ice. Reaching the goal pays 1; "
            "falling into a hole, like any other move, pays 0. Either ends the episode. Actions 0, "
            "1, 2, 3 mean left, down, right, up, unless the task has them in another order."
        )

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Returns the knowledge that an expert needs.

        Returns:
          `holes`: `bool[R, C]`; `goals`: `bool[R, C]`; `position`: `int32[2]`, row and column;
          `directions`: `int32[4]`, the direction of each action; `distances`: `int32[R, C]`, see
          `goal_distances`; `distance`: `int32[]`, that of the position.
        """
        distances = goal_distances(task.cells)
        return {
            "holes": task.cells == HOLE,
            "goals": task.cells == GOAL,
            "position": jnp.stack([state.row, state.column]),
            "directions": task.directions,
            "distances": distances,
            "distance": distances[state.row, state.column],
        }

    def render(self, state: State, task: Task) -> jax.Array:
        """A picture: ice, holes, start (S), goal (a present) and the elf; snow off the lake.

        Returns:
          `uint8[48 * R, 48 * C, 3]`.
        """
        tiles, elves = _sprites()
        rows, columns = self.shape
        outside = (jnp.arange(rows)[:, None] >= task.rows) | (jnp.arange(columns) >= task.columns)
        picture = tile_grid(tiles, jnp.where(outside, len(LETTERS), task.cells))
        sunk = task.cells[state.row, state.column] == HOLE
        return overlay(picture, jnp.asarray(elves)[sunk.astype(jnp.int32)], state.row, state.column)


# The drawing ---------------------------------------------------------------------------------


def _ice() -> Sprite:
    canvas = Sprite((214, 236, 248))
    for x, y, length in (0.16, 0.44, 0.26), (0.24, 0.5, 0.14), (0.62, 0.9, 0.22):
        canvas.fill(canvas.line(x, y, x + length, y - length, 0.035), 242, 250, 255)
    rim = ~canvas.box(0.02, 0.02, 0.98, 0.98)
    canvas.fill(rim, 170, 205, 226)
    return canvas


def _start() -> Sprite:
    canvas = _ice()
    letter = ("01110", "10001", "10000", "01110", "00001", "10001", "01110")
    for row, bits in enumerate(letter):
        for column, bit in enumerate(bits):
            x, y = 0.32 + 0.072 * column, 0.25 + 0.072 * row
            if bit == "1":
                canvas.fill(canvas.box(x, y, x + 0.073, y + 0.073), 74, 132, 178)
    return canvas


def _hole() -> Sprite:
    canvas = _ice()
    for x0, y0, x1, y1 in (
        (0.2, 0.25, 0.05, 0.1),
        (0.8, 0.25, 0.93, 0.08),
        (0.85, 0.75, 0.96, 0.92),
        (0.2, 0.8, 0.06, 0.94),
    ):
        canvas.fill(canvas.line(x0, y0, x1, y1, 0.025), 120, 165, 195)
    canvas.fill(canvas.ellipse(0.5, 0.52, 0.41, 0.36), 128, 176, 206)
    canvas.fill(canvas.ellipse(0.5, 0.54, 0.37, 0.32), 28, 72, 122)
    canvas.fill(canvas.ellipse(0.5, 0.59, 0.29, 0.23), 12, 40, 82)
    return canvas


def _present() -> Sprite:
    canvas = _ice()
    red, dark, gold = (206, 44, 52), (166, 28, 40), (250, 208, 70)
    canvas.fill(canvas.box(0.22, 0.46, 0.78, 0.88), *red)
    canvas.fill(canvas.box(0.18, 0.36, 0.82, 0.5), *dark)
    canvas.fill(canvas.box(0.44, 0.36, 0.56, 0.88), *gold)
    for x in 0.38, 0.62:
        canvas.fill(canvas.ellipse(x, 0.26, 0.13, 0.1), *gold)
        canvas.fill(canvas.ellipse(x, 0.26, 0.07, 0.045), *dark)
    canvas.fill(canvas.ellipse(0.5, 0.31, 0.06, 0.06), *gold)
    return canvas


def _snow() -> Sprite:
    canvas = Sprite((236, 238, 242))
    for x, y in (0.2, 0.3), (0.65, 0.2), (0.45, 0.65), (0.85, 0.8):
        canvas.fill(canvas.ellipse(x, y, 0.03, 0.03), 210, 215, 224)
    return canvas


def _elf() -> Sprite:
    canvas = Sprite(None)
    green, skin, brown = (38, 140, 66), (247, 205, 165), (94, 60, 38)
    canvas.fill(canvas.ellipse(0.5, 0.93, 0.26, 0.05), 150, 185, 205)
    for x in 0.4, 0.6:
        canvas.fill(canvas.ellipse(x, 0.9, 0.1, 0.06), *brown)
    canvas.fill(canvas.convex((0.4, 0.56), (0.6, 0.56), (0.72, 0.88), (0.28, 0.88)), *green)
    canvas.fill(canvas.box(0.3, 0.74, 0.7, 0.79) & (canvas.image[..., 3] > 0), *brown)
    canvas.fill(canvas.ellipse(0.31, 0.46, 0.09, 0.05), *skin)
    canvas.fill(canvas.ellipse(0.69, 0.46, 0.09, 0.05), *skin)
    canvas.fill(canvas.ellipse(0.5, 0.46, 0.17, 0.16), *skin)
    for x in 0.44, 0.56:
        canvas.fill(canvas.ellipse(x, 0.46, 0.022, 0.03), 40, 30, 30)
    canvas.fill(canvas.box(0.43, 0.54, 0.57, 0.56), 190, 80, 70)
    canvas.fill(canvas.convex((0.52, 0.05), (0.7, 0.38), (0.3, 0.38)), *green)
    canvas.fill(canvas.box(0.28, 0.35, 0.72, 0.41), 214, 40, 48)
    canvas.fill(canvas.ellipse(0.52, 0.07, 0.055, 0.055), 255, 255, 255)
    return canvas


@functools.cache
def _sprites() -> tuple[np.ndarray, np.ndarray]:
    """Tiles `uint8[5, 48, 48, 3]`: `LETTERS`, then snow; elves `uint8[2, 48, 48, 4]`: dry, sunk."""
    tiles = [canvas().finish()[..., :3] for canvas in (_ice, _start, _hole, _present, _snow)]
    elf = _elf().finish()
    sunk = np.zeros_like(elf)
    depth = round(0.24 * SIDE)
    sunk[depth : round(0.72 * SIDE)] = elf[: round(0.72 * SIDE) - depth]
    return np.stack(tiles), np.stack([elf, sunk])
