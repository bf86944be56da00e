"""Arms, pulls and regret, common to all bandits."""

from __future__ import annotations

import dataclasses
from typing import Protocol, TypeVar

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Size
from gpicljax.environment import Environment, Params, Transition

Task = TypeVar("Task")


class LimitedTask(Protocol):
    """A bandit that allows so many pulls in an episode."""

    @property
    def horizon(self) -> jax.Array:
        """Pulls in an episode, `int32[]`."""
        ...


LimitedTaskT = TypeVar("LimitedTaskT", bound=LimitedTask)


EXPLANATION = (
    "You stand before a row of slot machines. Every action pulls the arm of one of them, which "
    "pays with a chance of its own that stays the same. Every pull is an episode."
)
"""A row of arms in words, for a language model."""


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
        """The number of arms."""
        raise NotImplementedError(f"{self.name} has no arms, which is to be an int: how many")

    def means(self, task: Task) -> jax.Array:
        """Returns the mean reward of each arm, float `[arms]`."""
        raise NotImplementedError(f"{self.name} has no means(task), which is to return float[arms]")

    def payment(self, action: jax.Array, noise: jax.Array, task: Task) -> jax.Array:
        """Returns the payment of arm `action: int32[]`, float `[]`, given the noise."""
        raise NotImplementedError(f"{self.name} has no payment(action, noise, task), a float[]")

    def initial(self, key: jax.Array, task: Task) -> State:
        """No pull made yet."""
        del key, task
        return State(jnp.zeros((), jnp.int32))

    def regret(self, action: jax.Array, task: Task) -> jax.Array:
        """Returns the best arm's average payment minus the pulled arm's, float `[]`."""
        means = self.means(task)
        return means.max() - means[action]

    @property
    def explanation(self) -> str:
        """See `Environment.explanation`."""
        return EXPLANATION

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the arms."""
        return spaces.Discrete(self.arms)

    def physical_state(self, state: State) -> jax.Array:
        """Pulls made, float `[1]`."""
        return state.pulls.astype(jnp.result_type(float))[None]

    def with_physical_state(self, state: State, vector: jax.Array) -> State:
        """Returns the state with as many pulls made as float `[1]` says."""
        return dataclasses.replace(state, pulls=jnp.asarray(vector)[0].astype(jnp.int32))


@dataclasses.dataclass(frozen=True)
class ManyPullBandit(Bandit[Params, LimitedTaskT]):
    """Base class: an episode has as many pulls as its task says, and is truncated then.

    The observation is the elapsed fraction of the episode, float `[1]` in [0, 1].
    """

    num_arms: Size = 10

    @property
    def arms(self) -> int:
        """`num_arms`."""
        return self.num_arms

    def move(
        self, state: State, action: jax.Array, noise: jax.Array, task: LimitedTaskT
    ) -> Transition:
        """Pulls arm `action: int32[]`; with `draw_noise` this is the whole of `transition`."""
        pulls = jnp.minimum(state.pulls + 1, task.horizon)
        return Transition(
            state=State(pulls),
            reward=self.payment(action, noise, task),
            terminated=jnp.zeros((), bool),
            truncated=pulls >= task.horizon,
            info={"regret": self.regret(action, task)},
        )

    def observe(self, state: State, task: LimitedTaskT) -> jax.Array:
        """Returns the elapsed fraction of the episode, float `[1]`."""
        dtype = jnp.result_type(float)
        return (state.pulls.astype(dtype) / task.horizon.astype(dtype))[None]

    def observation_space(self, task: LimitedTaskT | None = None) -> spaces.Box:
        """Returns one number in [0, 1]."""
        return spaces.Box(0.0, 1.0, (1,))

    def describe(self, state: State, task: LimitedTaskT) -> str:
        """Returns the pulls made."""
        return f"{int(state.pulls)} of {int(task.horizon)} pulls made"
