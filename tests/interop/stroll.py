"""An environment small enough to be followed by hand, and the ways to look at results."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from variants import daily

import gpicljax
from gpicljax import spaces
from gpicljax.environment import Environment, Transition

LONGEST = 6
DRAWN = []  # a note of each task drawn with `count_draws`


@struct.dataclass
class Params:
    longest: jax.Array


@struct.dataclass
class Task:
    name: jax.Array
    length: jax.Array


@struct.dataclass
class State:
    script: jax.Array
    noise: jax.Array
    steps: jax.Array
    key: jax.Array  # a typed key, which a state may hold


@dataclasses.dataclass(frozen=True)
class Stroll(Environment[Params, Task, State]):
    """Walk `length` steps; odd lengths end in termination, even ones in truncation.

    Everything random is shown: the task's name, the episode's script, each step's noise. The
    reward of a step is the action, minus 1 for all agents but the first.
    """

    players: int | None = None
    count_draws: bool = False

    @property
    def num_agents(self):
        return self.players

    def horizon(self, params=None):
        return LONGEST

    @property
    def default_params(self):
        return Params(jnp.asarray(LONGEST, jnp.int32))

    def validate(self, params):
        if np.any(np.asarray(params.longest) > LONGEST):
            raise ValueError(f"longest = {params.longest}: at most {LONGEST}")

    def sample_task(self, key, params):
        name_key, length_key = jax.random.split(key)
        name = jax.random.uniform(name_key)
        if self.count_draws:
            jax.debug.callback(lambda name: DRAWN.append(float(name)), name)
        length = jax.random.randint(length_key, (), 2, params.longest + 1, jnp.int32)
        return Task(name, length)

    def initial(self, key, task):
        zero = jnp.zeros((), jnp.int32)
        return State(jax.random.uniform(key), jnp.zeros(()), zero, key)

    def transition(self, key, state, action, task):
        steps = state.steps + 1
        over, odd = steps >= task.length, task.length % 2 == 1
        noise = jax.random.uniform(key)
        state = state.replace(noise=noise, steps=steps, key=jax.random.fold_in(state.key, 0))
        reward = action.astype(jnp.result_type(float))
        if self.players:
            reward = reward - (jnp.arange(self.players) > 0)
        return Transition(state, reward, over & odd, over & ~odd, {"noise": noise})

    def observe(self, state, task):
        story = jnp.stack([task.name, state.script, state.noise])
        one = {"place": jnp.minimum(state.steps, LONGEST), "story": story}
        if not self.players:
            return one
        return jax.tree.map(lambda x: jnp.stack([x] * self.players), one)

    def action_space(self, task=None):
        one = spaces.Discrete(3)
        return spaces.repeat(one, self.players) if self.players else one

    def observation_space(self, task=None):
        one = spaces.Dict.of(
            place=spaces.Discrete(LONGEST + 1), story=spaces.Box(-np.inf, np.inf, (3,))
        )
        return spaces.repeat(one, self.players) if self.players else one

    def describe(self, state, task):
        return f"step {int(state.steps)} of {int(task.length)}"


def plain(tree):
    """NumPy leaves, also of typed keys."""

    def leaf(x):
        typed = isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(x) if typed else x)

    return jax.tree.map(leaf, tree)


def assert_same(a, b, rounding=0.0):
    """Equal trees, bit for bit unless some rounding is allowed."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(plain(a)), jax.tree.leaves(plain(b)), strict=True):
        np.testing.assert_allclose(x, y, rtol=rounding, atol=rounding)


def at(tree, *index):
    """One entry along the leading axes."""
    return jax.tree.map(lambda x: x[index], tree)


THREE = "FrozenLake-v1", "Pendulum-v1", "MetaLanguage-v0"
"""Adapters know spaces, not environments: discrete to discrete, box to box, token to vector."""


def subjects():
    """One id of every kind of environment with these spaces; all but three are `slow`."""
    kinds = {}
    for env_id in gpicljax.registered():
        env = gpicljax.make(env_id)
        kinds[type(env), env.observation_space(), env.action_space()] = env_id
    ids = sorted(kinds.values())
    return daily(THREE, [env_id for env_id in ids if gpicljax.make(env_id).num_agents is None])


SINGLE = subjects()
