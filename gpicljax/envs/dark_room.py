"""Dark rooms: find a goal that is not seen, and stay there.

The agent sees its own position alone. Where the goal is has to be inferred from the reward, so that
everything that is learnt is learnt within the trial.

Source: Laskin et al. (2022), "In-context reinforcement learning with algorithm distillation",
section 4.1: 9 x 9 cells, starts in the centre, five actions, 20 steps, reward 1 in every step at
the goal; Dark Room Hard has 17 x 17 cells and pays once. Lee et al. (2023), "Supervised pretraining
can learn in-context reinforcement learning": 10 x 10 cells, 100 steps, random starts, and permuted
actions.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import spaces
from gpicljax.environment import Transition, TransitionModel
from gpicljax.envs._dark import DarkGrid, Room, RoomParams, distance, draw_cell, moves_between
from gpicljax.envs._dark import Walk as State


@struct.dataclass
class Params(RoomParams):
    """The distribution over rooms; see `RoomParams` for the other fields.

    Attributes:
      sparse: `bool[]`, whether the goal pays once, which ends the episode, instead of in every step
        there.
      permute_actions: `bool[]`, whether each task assigns the four moves and staying at random to
        the action numbers.
    """

    sparse: jax.Array
    permute_actions: jax.Array


@struct.dataclass
class Task(Room):
    """One room; see `Room` for the other fields.

    Attributes:
      goal: `int32[2]`, row and column.
      sparse: `bool[]`, see `Params`.
    """

    goal: jax.Array
    sparse: jax.Array


@dataclasses.dataclass(frozen=True)
class DarkRoom(DarkGrid[Params, Task, State]):
    """A dark room. Actions: 0 left, 1 right, 2 up, 3 down, 4 stay (unless permuted).

    Every step that ends at the goal pays 1, any other 0. The observation is the cell's number,
    `row * size + column`. An action against a wall leaves the position as it is. All cells are
    equally likely to be the goal, the centre too. Nothing is left to chance but task and start.

    Args:
      size: the greatest side of a room.

    Raises:
      ValueError: for a size below 2.
    """

    # The distribution over tasks -------------------------------------------------------------

    @property
    def default_params(self) -> Params:
        """Laskin et al.'s: 20 steps from the centre of the largest room, paid at every one."""
        return Params(
            size=jnp.asarray(self.size, jnp.int32),
            horizon=jnp.asarray(20, jnp.int32),
            random_start=jnp.zeros((), bool),
            sparse=jnp.zeros((), bool),
            permute_actions=jnp.zeros((), bool),
        )

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Returns a room with its goal; with the actions permuted if params say so."""
        goal_key, actions_key = jax.random.split(key)
        return Task(
            goal=draw_cell(goal_key, params.size),
            sparse=jnp.asarray(params.sparse, bool),
            **self.sample_room(actions_key, params, params.permute_actions),
        )

    # One episode -----------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """In the centre, or in a random cell."""
        return State(self.first_cell(key, task), jnp.zeros((), jnp.int32))

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """Runs one step; there is no noise."""
        position, steps = self.next_cell(state.position, action, task), state.steps + 1
        at_goal = (position == task.goal).all()
        return Transition(
            State(position, steps),
            at_goal.astype(jnp.result_type(float)),
            at_goal & task.sparse,
            steps >= task.horizon,
            {},
        )

    # Spaces and views ------------------------------------------------------------------------

    def observe(self, state: State, task: Task) -> jax.Array:
        """Returns the cell's number, `int32[]`."""
        return self.cell_number(state.position, task)

    def observation_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the cells (as many as the largest room has)."""
        return spaces.Discrete(self.cells)

    def transition_model(self, task: Task) -> TransitionModel:
        """Returns the outcome of every action in every cell, `[cells, 5, 1]`."""
        numbers = jnp.arange(self.cells, dtype=jnp.int32)
        positions = jax.vmap(self.cell_of, (0, None))(numbers, task)
        return self.transitions(State(positions, jnp.zeros_like(numbers)), task)

    @property
    def explanation(self) -> str:
        """See `Environment.explanation`."""
        return (
            "You are in a dark square room, a grid of cells that are counted row by row from 0; "
            "you see the number of your own cell alone. One cell, the same in every episode, is "
            "the goal: every step that ends there pays 1, any other 0. Actions 0, 1, 2, 3, 4 mean "
            "left, right, up, down, stay, unless the task has them in another order."
        )

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Returns the knowledge that an expert needs, and the best return.

        Returns:
          `goal` and `position`: `int32[2]`, row and column; `directions`: `int32[5]`, the move of
          each action; `distance`: `int32[]`, moves to the goal; `best_return`: float `[]`, what the
          rest of the episode pays at most, which at its start is the optimal return.
        """
        last = state.steps + moves_between(state.position, task.goal)  # the step that arrives
        paid = jnp.maximum(task.horizon - last + 1, 0)
        paid = jnp.where(task.sparse, jnp.minimum(paid, 1), paid)
        return {
            "goal": task.goal,
            "position": state.position,
            "directions": task.directions,
            "distance": distance(state.position, task.goal),
            "best_return": paid.astype(jnp.result_type(float)),
        }

    def render(self, state: State, task: Task) -> jax.Array:
        """Returns a picture: the dark room, the goal (a light) and the walker.

        Returns:
          `uint8[48 * size, 48 * size, 3]`.
        """
        return self.picture(task, state.position, ("goal", task.goal))
