"""An environment that does everything it may do: ends, truncations, noise, masks, forced steps."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from untasked import Untasked

from gpicljax import spaces
from gpicljax.environment import Transition

ACTIONS, ACTORS = 3, 3


@struct.dataclass
class State:
    time: jax.Array
    length: jax.Array
    noise: jax.Array


@dataclasses.dataclass(frozen=True)
class Lottery(Untasked):
    """Episodes of 2 to 5 steps that terminate or are truncated; noise, masks, forced steps."""

    def initial(self, key, task):
        noise = jax.random.uniform(key, (3,))
        length = 2 + jnp.floor(4 * noise[0]).astype(jnp.int32)
        return State(jnp.zeros((), jnp.int32), length, noise)

    def transition(self, key, state, action, task):
        reward = state.noise[1] * (action - 1) + state.noise[2]
        noise = jax.random.uniform(key, (3,))
        state = state.replace(time=state.time + 1, noise=noise)
        over = state.time >= state.length
        even = state.length % 2 == 0
        return Transition(state, reward, over & even, over & ~even, {})

    def observe(self, state, task):
        legal = jnp.stack([state.noise[0] < 0.8, state.noise[1] > 0.4, state.noise[2] > 0.4])
        legal = legal.at[0].set(legal[0] | ~legal.any())
        return {"noise": 2 * state.noise - 1, "action_mask": legal}

    def action_space(self, task=None):
        return spaces.Discrete(ACTIONS)

    def observation_space(self, task=None):
        return spaces.Dict.of(
            noise=spaces.Box(-1, 1, (3,)), action_mask=spaces.Box(0, 1, (ACTIONS,), bool)
        )


ENV = Lottery()
