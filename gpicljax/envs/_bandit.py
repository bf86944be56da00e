"""What all bandits share: arms, pulls and regret."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Size
from gpicljax.environment import Environment, Params, Transition

Task = TypeVar("Task")


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      pulls: `int32[]`, pulls made so far.
    """

    pulls: jax.Array


@dataclasses.dataclass(frozen=True)
class Bandit(Environment[Params, Task, State]):
    """Base class: arms that pay at random."""

    @property
    def arms(self) -> int:
        """How many there are."""
        raise NotImplementedError

    def means(self, task: Task) -> jax.Array:
        """What a pull of each arm pays on average, float `[arms]`."""
        raise NotImplementedError

    def payment(self, action: jax.Array, noise: jax.Array, task: Task) -> jax.Array:
        """What arm `action: int32[]` pays, float `[]`, given the noise."""
        raise NotImplementedError

    def initial(self, key: jax.Array, task: Task) -> State:
        """No pull made yet."""
        del key, task
        return State(jnp.zeros((), jnp.int32))

    def regret(self, action: jax.Array, task: Task) -> jax.Array:
        """The best arm's average payment minus the pulled arm's, float `[]`."""
        means = self.means(task)
        return means.max() - means[action]

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """The arms."""
        return spaces.Discrete(self.arms)

    def physical_state(self, state: State) -> jax.Array:
        """Pulls made, float `[1]`."""
        return state.pulls.astype(jnp.result_type(float))[None]

    def with_physical_state(self, state: State, vector: jax.Array) -> State:
        """The state with as many pulls made as float `[1]` says."""
        return dataclasses.replace(state, pulls=jnp.asarray(vector)[0].astype(jnp.int32))


@dataclasses.dataclass(frozen=True)
class LongBandit(Bandit[Params, Task]):
    """Base class of bandits with `num_arms` arms and episodes of `horizon` pulls."""

    num_arms: Size = 10

    @property
    def arms(self) -> int:
        """`num_arms`."""
        return self.num_arms

    def move(self, state: State, action: jax.Array, noise: jax.Array, task: Any) -> Transition:
        """Pulls arm `action: int32[]`, with the noise given, see `draw_noise`."""
        pulls = jnp.minimum(state.pulls + 1, task.horizon)
        reward = self.payment(action, noise, task)
        info = {"regret": self.regret(action, task)}
        return Transition(State(pulls), reward, jnp.zeros((), bool), pulls >= task.horizon, info)

    def observe(self, state: State, task: Any) -> jax.Array:
        """The elapsed fraction of the episode, float `[1]`."""
        dtype = jnp.result_type(float)
        return (state.pulls.astype(dtype) / task.horizon.astype(dtype))[None]

    def observation_space(self, task: Task | None = None) -> spaces.Box:
        """One number in [0, 1]."""
        return spaces.Box(0.0, 1.0, (1,))


def in_words(numbers: jax.Array) -> str:
    """Two decimals each, separated by commas."""
    return ", ".join(f"{number:.2f}" for number in np.asarray(numbers))
