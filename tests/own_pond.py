"""An environment in one file outside the package."""

import dataclasses

import jax.numpy as jnp
from flax import struct

import gpicljax
from gpicljax import spaces
from gpicljax.environment import Environment, Transition


@struct.dataclass
class Params:
    horizon: jnp.ndarray


@dataclasses.dataclass(frozen=True)
class Pond(Environment):
    """Five stones in a row; each step on the last one pays 1."""

    @property
    def default_params(self):
        return Params(jnp.int32(8))

    def sample_task(self, key, params):
        del key
        return params

    def initial(self, key, task):
        del key, task
        return jnp.zeros(2, jnp.int32)

    def move(self, state, action, noise, task):
        stone, steps = jnp.clip(state[0] + 2 * action - 1, 0, 4), state[1] + 1
        no = jnp.zeros((), bool)
        reward = (stone == 4).astype(float)
        return Transition(jnp.stack([stone, steps]), reward, no, steps >= task.horizon, {})

    def observe(self, state, task):
        return state[0]

    def action_space(self, task=None):
        return spaces.Discrete(2)

    def observation_space(self, task=None):
        return spaces.Discrete(5)

    def privileged(self, state, task):
        return {"best_action": jnp.int32(1)}

    def describe(self, state, task):
        return f"stone {int(state[0])}"

    @property
    def explanation(self):
        return "Five stones lie in a row; the last one pays 1."

    @property
    def controls(self):
        return (("back", "ArrowLeft"), ("on", "ArrowRight"))


gpicljax.register("Pond-v0", Pond)
