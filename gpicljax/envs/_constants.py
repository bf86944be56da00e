"""Tasks that are physical constants: each is drawn uniformly from a range, by default of one value.

An environment derived from `PhysicalEnvironment` has a `Params` with a range, float `[2]`, for each
constant, and a `Task` with the value drawn, float `[]`; both have a `horizon`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from gpicljax.environment import Environment, Params, State, Task
from gpicljax.envs._checks import check_order, check_pair, expand_ranges
from gpicljax.random import uniform


class PhysicalEnvironment(Environment[Params, Task, State]):
    """Base class: subclasses set the class attributes.

    Attributes:
      coordinates: the fields of a state that a reference simulator has too, float `[]` each.
      constants: the reference simulator's values by name; fields of `Params`, whose annotations say
        what is accepted, and of `Task`.
      steps_limit: default of `Params.horizon`.
      params_type: `Params`.
      task_type: `Task`.
    """

    coordinates: ClassVar[tuple[str, ...]]
    constants: ClassVar[dict[str, float]]
    steps_limit: ClassVar[int]
    params_type: ClassVar[type]
    task_type: ClassVar[type]

    @property
    def default_params(self) -> Params:
        """The reference simulator's constants, without any spread."""
        dtype = jnp.result_type(float)
        ranges = {name: jnp.full(2, value, dtype) for name, value in self.constants.items()}
        return self.params_type(**ranges, horizon=jnp.asarray(self.steps_limit, jnp.int32))

    def make_params(self, **overrides: Any) -> Params:
        """Returns the params; one number for a range is both its ends."""
        return super().make_params(**expand_ranges(overrides, self.constants))

    def validate(self, params: Params) -> None:
        """Raises ValueError for a range that is malformed or holds values not accepted."""
        super().validate(params)
        for name in self.constants:
            check_pair(name, getattr(params, name))
            check_order(name, getattr(params, name))

    def sample_constants(self, key: jax.Array, params: Params) -> dict[str, jax.Array]:
        """Every constant drawn from its range, float `[]` each, and the horizon, `int32[]`."""
        dtype = jnp.result_type(float)
        shares = uniform(key, (len(self.constants),), dtype)
        drawn = {}
        for share, name in zip(shares, self.constants, strict=True):
            low, high = jnp.asarray(getattr(params, name), dtype)
            drawn[name] = low + share * (high - low)
        return {**drawn, "horizon": jnp.asarray(self.horizon(params), jnp.int32)}

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Returns every constant drawn from its range."""
        return self.task_type(**self.sample_constants(key, params))

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Returns the task's constants by name, float `[]` each."""
        return {name: getattr(task, name) for name in self.constants}

    def physical_state(self, state: State) -> jax.Array:
        """Returns the state's `coordinates`, float `[N]`."""
        return jnp.stack([getattr(state, name) for name in self.coordinates])

    def with_physical_state(self, state: State, vector: jax.Array) -> State:
        """Returns the state with `coordinates` from float `[N]`; the step count stays."""
        values = jnp.asarray(vector, jnp.result_type(float))
        before: Any = state
        return before.replace(**dict(zip(self.coordinates, values, strict=True)))
