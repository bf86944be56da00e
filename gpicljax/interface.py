"""What passes between environments and agents: `TimeStep` and `Agent`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from gpicljax.environment import Info


class TimeStep(NamedTuple):
    """What an agent receives; every leaf has a leading batch axis `[B]`.

    Attributes:
      observation: the environment's observation.
      reward: float `[B]` (`[B, A]` with an agent axis), received on arriving here.
      terminated: `bool[B]`, this is the last observation of an episode that ended.
      truncated: `bool[B]`, this is the last observation of an episode that was cut off.
      episode_start: `bool[B]`, this is the first observation of an episode.
      trial_start: `bool[B]`, this is the first observation of a trial: a new task, and the
        moment at which an agent clears its memory.
      info: scalars per instance, as the environment reports them.
    """

    observation: Any
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    episode_start: jax.Array
    trial_start: jax.Array
    info: Info

    @property
    def last(self) -> jax.Array:
        """`bool[B]`: the episode ends here, so the coming action is ignored."""
        return self.terminated | self.truncated


class Agent(NamedTuple):
    """An agent: pure functions over explicit state, batched.

    Attributes:
      initial_carry: maps a batch size to the memory at the start of a trial.
      act: `(key, params, carry, timestep) -> (action, aux, carry)`. It clears the memory itself
        where `timestep.trial_start` is set. `aux` is a pytree of what its learner or a reader
        of results needs (Q-values, log-probabilities, ...), an empty dict if nothing.
    """

    initial_carry: Callable[[int], Any]
    act: Callable[[jax.Array, Any, Any, TimeStep], tuple[Any, Any, Any]]
