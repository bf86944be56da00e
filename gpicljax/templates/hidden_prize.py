"""One of several doors hides a prize."""

import dataclasses
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

import gpicljax
from gpicljax import Environment, Transition, spaces
from gpicljax.checks import Range, check


@struct.dataclass
class Params:
    """The distribution over tasks.

    Attributes:
      num_doors: `int32[]`, doors that can be opened.
      horizon: `int32[]`, steps in an episode.
    """

    num_doors: jax.Array
    horizon: jax.Array


@struct.dataclass
class Task:
    """One row of doors.

    Attributes:
      prize: `int32[]`, the door that hides the prize.
      num_doors: `int32[]`, see `Params`.
      horizon: `int32[]`, see `Params`.
    """

    prize: jax.Array
    num_doors: jax.Array
    horizon: jax.Array


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      steps: `int32[]`, steps taken.
      found: `bool[]`, the last door was the right one.
    """

    steps: jax.Array
    found: jax.Array


@dataclasses.dataclass(frozen=True)
class HiddenPrize(Environment[Params, Task, State]):
    """Open the door that hides the prize; truncated at the horizon.

    The observation is whether the last door was the right one, 0 or 1. A door beyond `num_doors` is
    a wall: it pays nothing. `info["regret"]` is 1 minus the reward, float `[]`.

    Args:
      max_doors: cap on the number of doors.

    Raises:
      ValueError: if `max_doors` is below 2.
    """

    max_doors: Annotated[int, Range(2)] = 4

    # The distribution over tasks

    @property
    def default_params(self):
        """All doors, 10 steps."""
        return Params(jnp.int32(self.max_doors), jnp.int32(10))

    def validate(self, params):
        """Raises ValueError where the params exceed the cap. Called with concrete values only."""
        doors, horizon = np.asarray(params.num_doors), np.asarray(params.horizon)
        fine = np.all((doors >= 2) & (doors <= self.max_doors))
        check(fine, "num_doors", doors.tolist(), f"2 .. max_doors = {self.max_doors}")
        check(np.all(horizon >= 1), "horizon", horizon.tolist(), "at least 1 step")

    def sample_task(self, key, params):
        """Draws the door."""
        prize = jax.random.randint(key, (), 0, params.num_doors, jnp.int32)
        return Task(prize, params.num_doors, params.horizon)

    # One episode

    def initial(self, key, task):
        """No door opened yet."""
        return State(jnp.int32(0), jnp.zeros((), bool))

    def move(self, state, action, noise, task):
        """Opens door `action: int32[]`. There is no noise."""
        found = (action == task.prize) & (action < task.num_doors)
        steps = jnp.minimum(state.steps + 1, task.horizon)
        reward = found.astype(jnp.result_type(float))
        return Transition(
            state=State(steps, found),
            reward=reward,
            terminated=jnp.zeros((), bool),
            truncated=steps >= task.horizon,
            info={"regret": 1 - reward},
        )

    def observe(self, state, task):
        """`int32[]`, 1 if the last door was the right one."""
        return state.found.astype(jnp.int32)

    # Spaces and views

    def action_space(self, task=None):
        """The doors."""
        return spaces.Discrete(self.max_doors)

    def observation_space(self, task=None):
        """0 or 1."""
        return spaces.Discrete(2)

    def privileged(self, state, task):
        """`prize`: `int32[]`."""
        return {"prize": task.prize}

    def describe(self, state, task):
        """One line."""
        return f"step {int(state.steps)} of {int(task.horizon)}"


gpicljax.register("HiddenPrize-v0", HiddenPrize)
