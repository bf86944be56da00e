"""Tasks that are physical constants: each is drawn uniformly from a range, by default of one value.

An environment derived from `PhysicalEnvironment` has a `Params` with a range, float `[2]`, for each
constant, and a `Task` with the value drawn, float `[]`; both have a `horizon`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.environment import Environment, Params, State, Task
from gpicljax.envs._checks import check_horizon, check_order, check_pair, check_values, widened
from gpicljax.random import uniform


@dataclasses.dataclass(frozen=True)
class Constant:
    """A constant's default, and what values are accepted.

    Attributes:
      default: the reference simulator's value.
      above: values must exceed this,
      at_least: values must not be below this.
    """

    default: float
    above: float = -np.inf
    at_least: float = -np.inf

    def accepts(self, values: np.ndarray) -> bool:
        """Whether all of them are accepted; infinities and NaN are not."""
        return bool(np.all(np.isfinite(values) & (values > self.above) & (values >= self.at_least)))

    def __str__(self) -> str:
        if self.at_least > -np.inf:
            return f"finite and at least {self.at_least:g}"
        return f"finite and above {self.above:g}" if self.above > -np.inf else "finite"


class PhysicalEnvironment(Environment[Params, Task, State]):
    """Base class: subclasses set the four class attributes.

    Attributes:
      constants: the constants' names, which are fields of `Params` and of `Task`.
      steps_limit: default of `Params.horizon`.
      params_type: `Params`.
      task_type: `Task`.
    """

    constants: ClassVar[dict[str, Constant]]
    steps_limit: ClassVar[int]
    params_type: ClassVar[type]
    task_type: ClassVar[type]

    @property
    def default_params(self) -> Params:
        """The reference simulator's constants, without any spread."""
        dtype = jnp.result_type(float)
        ranges = {name: jnp.full(2, c.default, dtype) for name, c in self.constants.items()}
        return self.params_type(**ranges, horizon=jnp.asarray(self.steps_limit, jnp.int32))

    def make_params(self, **overrides: Any) -> Params:
        """As `Environment.make_params`; one number for a range is both its ends."""
        return super().make_params(**widened(overrides, self.constants))

    def validate(self, params: Params) -> None:
        """Raises ValueError for a range that is malformed or holds values not accepted."""
        for name, constant in self.constants.items():
            values = np.asarray(getattr(params, name))
            check_pair(name, values)
            check_values(name, values, constant.accepts(values), f"values {constant}")
            check_order(name, values)
        check_horizon(self.horizon(params))

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
        """Every constant drawn from its range."""
        return self.task_type(**self.sample_constants(key, params))
