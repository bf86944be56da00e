"""Walking on a grid in four directions, with slips to the side: what lakes and cliffs share."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, TypeVar

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import spaces
from gpicljax.environment import NO_LIMIT, Environment, TransitionModel
from gpicljax.envs._checks import Count, Probability, Real

MOVES = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}  # rows and columns


@struct.dataclass
class GridParams:
    """The distribution over grids, as far as all kinds of them have it in common.

    Attributes:
      success_rate: float `[]`, chance of moving as intended; the rest is shared equally by the
        two perpendicular directions.
      reward_schedule: float `[N]`, rewards of a step by what it leads to.
      horizon: `int32[]`, steps until an episode is truncated.
      permute_actions: `bool[]`, whether each task assigns the four directions at random to the
        action numbers.
    """

    success_rate: Probability
    reward_schedule: Real
    horizon: Count
    permute_actions: jax.Array


@struct.dataclass
class Grid:
    """A grid to walk on.

    Attributes:
      rows: `int32[]`.
      columns: `int32[]`.
      directions: `int32[4]`, the direction of each action, see `GridWorld.directions`.
      success_rate: float `[]`, see `GridParams`.
      reward_schedule: float `[N]`, see `GridParams`.
      horizon: `int32[]`, see `GridParams`.
    """

    rows: jax.Array
    columns: jax.Array
    directions: jax.Array
    success_rate: jax.Array
    reward_schedule: jax.Array
    horizon: jax.Array


Params = TypeVar("Params", bound=GridParams)
Task = TypeVar("Task", bound=Grid)


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      row: `int32[]`, counted from the top.
      column: `int32[]`, counted from the left.
      steps: `int32[]`, steps taken.
    """

    row: jax.Array
    column: jax.Array
    steps: jax.Array


def draw_directions(key: jax.Array, permute: jax.Array, count: int = 4) -> jax.Array:
    """The direction of each action, `int32[count]`: the action itself, or a random permutation."""
    plain = jnp.arange(count, dtype=jnp.int32)
    return jnp.where(permute, jax.random.permutation(key, plain), plain)


class GridWorld(Environment[Params, Task, State]):
    """Base class of walks on grids.

    Attributes:
      directions: the names of the four directions, in the order of their numbers.
    """

    directions: ClassVar[tuple[str, ...]]

    def sample_grid(self, key: jax.Array, params: Params) -> dict[str, jax.Array]:
        """Returns the fields of a `Grid` but its size; only the order of the actions is drawn."""
        dtype = jnp.result_type(float)
        return {
            "directions": draw_directions(key, params.permute_actions),
            "success_rate": jnp.asarray(params.success_rate, dtype),
            "reward_schedule": jnp.asarray(params.reward_schedule, dtype),
            "horizon": jnp.asarray(params.horizon, jnp.int32),
        }

    def draw_noise(self, key: jax.Array, state: State, task: Task) -> jax.Array:
        """Draws the slip of a step, `int32[]` in {0, 1, 2}.

        Direction numbers go round, and a step goes in direction `intended + slip - 1 (mod 4)`: 1
        is as intended, 0 and 2 are the perpendicular ones. It is the index into Gymnasium's list
        of outcomes, `env.unwrapped.P[state][action]`.
        """
        draw = jax.random.uniform(key, dtype=task.success_rate.dtype)
        failure = (1 - task.success_rate) / 2
        past_first = (draw >= failure).astype(jnp.int32)
        return past_first + (draw >= failure + task.success_rate).astype(jnp.int32)

    def slip_probability(self, slip: jax.Array, task: Task) -> jax.Array:
        """Returns the probability of a slip, float `[]`."""
        return jnp.where(slip == 1, task.success_rate, (1 - task.success_rate) / 2)

    def next_cell(
        self, state: State, action: jax.Array, slip: jax.Array, task: Task
    ) -> tuple[jax.Array, jax.Array]:
        """Row and column, `int32[]` each, that an action leads to; the grid's edge holds."""
        direction = (task.directions[action] + slip - 1) % 4

        def towards(forward: str, backward: str) -> jax.Array:
            names = self.directions
            forth, back = direction == names.index(forward), direction == names.index(backward)
            return forth.astype(jnp.int32) - back.astype(jnp.int32)

        row = jnp.clip(state.row + towards("down", "up"), 0, task.rows - 1)
        column = jnp.clip(state.column + towards("right", "left"), 0, task.columns - 1)
        return row, column

    def observe(self, state: State, task: Task) -> jax.Array:
        """Returns the cell's number, `int32[]`."""
        return state.row * task.columns + state.column

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the four directions."""
        return spaces.Discrete(4)

    def transition_model(self, task: Task) -> TransitionModel:
        """Returns the transition model of the three slips, `[cells, 4, 3]`."""
        count = self.observation_space().n  # type: ignore[attr-defined]

        def outcome(cell: jax.Array, action: jax.Array, slip: jax.Array) -> TransitionModel:
            row, column = jnp.divmod(cell, task.columns)
            # Cells beyond a grid that is smaller than its cap stand for its last row.
            state = State(jnp.minimum(row, task.rows - 1), column, jnp.zeros((), jnp.int32))
            moved = self.move(state, action, slip, task)
            chance = self.slip_probability(slip, task)
            following = self.observe(moved.state, task)
            return TransitionModel(chance, following, moved.reward, moved.terminated)

        cells, actions, slips = (jnp.arange(n, dtype=jnp.int32) for n in (count, 4, 3))
        by_action = jax.vmap(jax.vmap(outcome, (None, None, 0)), (None, 0, None))
        return jax.vmap(by_action, (0, None, None))(cells, actions, slips)

    def physical_state(self, state: State) -> jax.Array:
        """Row and column, float `[2]`."""
        return jnp.stack([state.row, state.column]).astype(jnp.result_type(float))

    def with_physical_state(self, state: State, vector: jax.Array) -> State:
        """Returns the state with row and column from float `[2]`; the step count stays."""
        row, column = jnp.asarray(vector).astype(jnp.int32)
        return dataclasses.replace(state, row=row, column=column)

    @property
    def controls(self) -> tuple[tuple[str, str], ...]:
        """See `Environment.controls`."""
        return tuple((name, f"Arrow{name.capitalize()}") for name in self.directions)

    @property
    def match(self) -> str:
        """See `Environment.match`."""
        return "gpicljax.systems.in_context_rl.figures.matches:match"

    def describe(self, state: State, task: Task) -> str:
        """Returns the cell's number and the step."""
        limit = "" if int(task.horizon) == NO_LIMIT else f" of {int(task.horizon)}"
        return f"cell {int(self.observe(state, task))}, step {int(state.steps)}{limit}"
