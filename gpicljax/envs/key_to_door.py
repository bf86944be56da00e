"""Key to door: find a key that is not seen, then the door that it opens.

The agent sees its own position alone; that it has the key, it has to remember.

Source: Laskin et al. (2022), "In-context reinforcement learning with algorithm distillation",
section 4.1, Dark Key-to-Door: 9 x 9 cells, so that there are 81 * 81 tasks; five actions; 50 steps;
reward 1 once for the key, and once for the door after it.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import spaces
from gpicljax.environment import Transition, TransitionModel
from gpicljax.envs._dark import DarkGrid, Room, RoomParams, Walk, draw_cell, moves_between

SEARCHING, HELD, OPENED = range(3)
"""How far an episode is: without the key, with it, and after the door."""


@struct.dataclass
class Params(RoomParams):
    """The distribution over rooms; see `RoomParams` for the other fields.

    Attributes:
      door_ends: `bool[]`, whether an episode ends when the door is opened.
      permute_actions: `bool[]`, whether each task assigns the four moves and staying at random to
        the action numbers.
    """

    door_ends: jax.Array
    permute_actions: jax.Array


@struct.dataclass
class Task(Room):
    """One room; see `Room` for the other fields.

    Attributes:
      key_cell: `int32[2]`, row and column of the key.
      door: `int32[2]`, row and column; maybe those of the key.
      door_ends: `bool[]`, see `Params`.
    """

    key_cell: jax.Array
    door: jax.Array
    door_ends: jax.Array


@struct.dataclass
class State(Walk):
    """An episode in progress; see `Walk` for the other fields.

    Attributes:
      progress: `int32[]`, `SEARCHING`, `HELD` or `OPENED`.
    """

    progress: jax.Array


@dataclasses.dataclass(frozen=True)
class KeyToDoor(DarkGrid[Params, Task, State]):
    """A dark room with a key and a door. Actions: 0 left, 1 right, 2 up, 3 down, 4 stay.

    The first step that ends at the key takes it and pays 1. The first step after it that ends at
    the door opens it and pays 1. Every other step pays 0. The observation is the cell's number,
    `row * size + column`. An action against a wall leaves the position as it is. Nothing is left to
    chance but task and start.

    Args:
      size: the greatest side of a room.
      show_key: whether the observation says that the key has been taken: `size * size` is added to
        the cell's number from then on.

    Raises:
      ValueError: for a size below 2.
    """

    show_key: bool = False

    # The distribution over tasks -------------------------------------------------------------

    @property
    def default_params(self) -> Params:
        """Laskin et al.'s: 50 steps in the largest room, from a random cell."""
        return Params(
            size=jnp.asarray(self.size, jnp.int32),
            horizon=jnp.asarray(50, jnp.int32),
            random_start=jnp.ones((), bool),
            door_ends=jnp.zeros((), bool),
            permute_actions=jnp.zeros((), bool),
        )

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Returns a room with its key and its door, all pairs of cells equally likely."""
        key_key, door_key, actions_key = jax.random.split(key, 3)
        return Task(
            key_cell=draw_cell(key_key, params.size),
            door=draw_cell(door_key, params.size),
            door_ends=jnp.asarray(params.door_ends, bool),
            **self.sample_room(actions_key, params, params.permute_actions),
        )

    # One episode -----------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """In the centre, or in a random cell; without the key."""
        none = jnp.zeros((), jnp.int32)
        return State(self.first_cell(key, task), steps=none, progress=none)

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """Runs one step; there is no noise."""
        position, steps = self.next_cell(state.position, action, task), state.steps + 1
        sought = jnp.where(state.progress == SEARCHING, task.key_cell, task.door)
        reached = (position == sought).all() & (state.progress != OPENED)
        progress = state.progress + reached.astype(jnp.int32)
        return Transition(
            State(position, steps, progress),
            reached.astype(jnp.result_type(float)),
            reached & (progress == OPENED) & task.door_ends,
            steps >= task.horizon,
            {},
        )

    # Spaces and views ------------------------------------------------------------------------

    def observe(self, state: State, task: Task) -> jax.Array:
        """The cell's number, `int32[]`; with `show_key`, and whether the key has been taken."""
        number = self.cell_number(state.position, task)
        if not self.show_key:
            return number
        return number + self.cells * (state.progress != SEARCHING).astype(jnp.int32)

    def observation_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the cells (as many as the largest room has), twice where the key is shown."""
        return spaces.Discrete((2 if self.show_key else 1) * self.cells)

    def situation(self, state: State, task: Task) -> jax.Array:
        """Returns the cell's number and how far the episode is, `int32[]`."""
        return self.cell_number(state.position, task) + self.cells * state.progress

    def transition_model(self, task: Task) -> TransitionModel:
        """Returns the outcomes of actions in situations, `[3 * cells, 5, 1]`; see `situation`."""
        numbers = jnp.arange(3 * self.cells, dtype=jnp.int32)
        progress, cells = jnp.divmod(numbers, self.cells)
        positions = jax.vmap(self.cell_of, (0, None))(cells, task)
        return self.transitions(State(positions, jnp.zeros_like(numbers), progress), task)

    @property
    def explanation(self) -> str:
        """See `Environment.explanation`."""
        return (
            "You are in a dark square room, a grid of cells that are counted row by row from 0; "
            "you see the number of your own cell alone. One cell has a key and one a door, the "
            "same ones in every episode. Coming to the key for the first time in an episode pays "
            "1, and coming to the door after that pays 1 once more; any other step pays 0. Actions "
            "0, 1, 2, 3, 4 mean left, right, up, down, stay, unless the task has them in another "
            "order."
        )

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Returns the knowledge that an expert needs, and the best return.

        Returns:
          `key`, `door` and `position`: `int32[2]`, row and column; `directions`: `int32[5]`, the
          move of each action; `progress`: `int32[]`, see `State`; `best_return`: float `[]`, what
          the rest of the episode pays at most, which at its start is the optimal return.
        """
        to_key = moves_between(state.position, task.key_cell)
        between = moves_between(task.key_cell, task.door)
        left = task.horizon - state.steps
        most = (left >= to_key).astype(jnp.int32) + (left >= to_key + between)
        door = (left >= moves_between(state.position, task.door)).astype(jnp.int32)
        paid = jnp.select([state.progress == SEARCHING, state.progress == HELD], [most, door], 0)
        return {
            "key": task.key_cell,
            "door": task.door,
            "position": state.position,
            "directions": task.directions,
            "progress": state.progress,
            "best_return": paid.astype(jnp.result_type(float)),
        }

    def describe(self, state: State, task: Task) -> str:
        """Returns the cell's number, the step, and what has paid so far."""
        progress = ("", ", key taken", ", door opened")[int(state.progress)]
        return super().describe(state, task) + progress

    def render(self, state: State, task: Task) -> jax.Array:
        """Returns a picture: the dark room, the key until it is taken, the door and the walker.

        Returns:
          `uint8[48 * size, 48 * size, 3]`.
        """
        plain = self.picture(task, state.position, ("door", task.door), ("key", task.key_cell))
        held = self.picture(task, state.position, ("door", task.door))
        after = self.picture(task, state.position, ("open door", task.door))
        return jnp.select(
            [state.progress == SEARCHING, state.progress == HELD], [plain, held], after
        )
