"""A stream of bytes small enough to be followed by hand."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import spaces
from gpicljax.environment import Environment, Transition


@struct.dataclass
class Params:
    pay: jax.Array


@struct.dataclass
class State:
    byte: jax.Array
    steps: jax.Array


@dataclasses.dataclass(frozen=True)
class Parrot(Environment):
    """Repeat the byte: 1 if it is repeated, else -1. A third of an episode is a task."""

    length: int = 6

    @property
    def default_params(self):
        return Params(jnp.ones(()))

    def horizon(self, params=None):
        return self.length

    def sample_task(self, key, params):
        return params.pay

    def initial(self, key, task):
        return State(jax.random.randint(key, (), 0, 256), jnp.zeros((), jnp.int32))

    def transition(self, key, state, action, task):
        steps = state.steps + 1
        after = State(jax.random.randint(key, (), 0, 256), steps)
        reward = jnp.where(action == state.byte, task, -task)
        over = steps >= self.length
        return Transition(
            after, reward, over, jnp.zeros((), bool), {"cleared": 3 * steps // self.length}
        )

    def observe(self, state, task):
        return state.byte

    def action_space(self, task=None):
        return spaces.Discrete(256)

    def observation_space(self, task=None):
        return spaces.Discrete(256)
