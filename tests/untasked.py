"""The base of tests' environments that have no tasks to tell apart."""

import dataclasses

import jax.numpy as jnp

from gpicljax.environment import Environment


@dataclasses.dataclass(frozen=True)
class Untasked(Environment):
    """Its params are one number, and its task is that number."""

    @property
    def default_params(self):
        return jnp.zeros(())

    def sample_task(self, key, params):
        return params
