"""Layer 1: one environment instance, as pure functions over explicit state.

An environment is a frozen dataclass of static configuration and caps: hashable by value, holding
no arrays. What it computes on is passed in and returned:

- `params`: a *distribution* over tasks; a pytree of traced values.
- `task`: what stays the same over a trial and a learner has to infer; a pytree.
- `state`: one episode in progress; a pytree.

Everything is unbatched: `jax.vmap` adds the batch.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gpicljax import spaces

Params = TypeVar("Params")
Task = TypeVar("Task")
State = TypeVar("State")
Observation = Any
Info = dict[str, jax.Array]


def _like(field: str, value: Any, default: Any) -> Any:
    """`value` in the dtype of `default`, if that is an array. ValueError where that rounds it."""
    if not isinstance(default, jax.Array):
        return value
    cast = jnp.asarray(value, default.dtype)
    may_round = jnp.issubdtype(default.dtype, jnp.floating) or isinstance(cast, Tracer)
    if not may_round and (np.asarray(value) != np.asarray(cast)).any():
        raise ValueError(f"{field} = {value}: {default.dtype} is needed")
    return cast


class Transition(NamedTuple):
    """What `Environment.transition` returns."""

    state: Any
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    info: Info


class Step(NamedTuple):
    """What `Environment.step` returns: gymnax 1.x's six values."""

    observation: Observation
    state: Any
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    info: Info


class Environment(Generic[Params, Task, State]):
    """Base class: implement the methods that raise NotImplementedError; the rest follows.

    Subclasses are `@dataclasses.dataclass(frozen=True)` with static fields only.
    """

    @property
    def name(self) -> str:
        """A short name for messages; the class name unless overridden."""
        return type(self).__name__

    @property
    def num_agents(self) -> int | None:
        """None for one agent without an agent axis, else the size of the leading agent axis."""
        return None

    # The distribution over tasks -------------------------------------------------------------

    @property
    def default_params(self) -> Params:
        """The distribution over tasks used when none is given."""
        raise NotImplementedError

    def make_params(self, **overrides: Any) -> Params:
        """`default_params` with some fields replaced, checked by `validate`.

        Raises:
          ValueError: for an unknown field, or values that contradict each other or a cap.
        """
        params: Any = self.default_params
        known = list(params.__dataclass_fields__)
        for field in overrides:
            if field not in known:
                accepted = ", ".join(known) or "nothing"
                raise ValueError(f"{self.name} has no parameter {field!r}; it accepts {accepted}")
        # In the defaults' dtypes, so that an override does not compile anew.
        cast = {f: _like(f, value, getattr(params, f)) for f, value in overrides.items()}
        params = params.replace(**cast)
        self.validate(params)
        return params

    def validate(self, params: Params) -> None:
        """Raises ValueError where concrete `params` contradict each other or exceed a cap."""

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws a task. May be expensive."""
        raise NotImplementedError

    # One episode -----------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """The state at the start of an episode, with the episode's script."""
        raise NotImplementedError

    def transition(self, key: jax.Array, state: State, action: Any, task: Task) -> Transition:
        """One step of the dynamics: cheap, and without an observation."""
        raise NotImplementedError

    def observe(self, state: State, task: Task) -> Observation:
        """What the agent sees; the only place that renders or assembles an observation."""
        raise NotImplementedError

    def reset(self, key: jax.Array, task: Task) -> tuple[Observation, State]:
        """Starts an episode: `initial`, then `observe`."""
        state = self.initial(key, task)
        return self.observe(state, task), state

    def step(self, key: jax.Array, state: State, action: Any, task: Task) -> Step:
        """`transition`, then `observe`. Never resets by itself."""
        state, reward, terminated, truncated, info = self.transition(key, state, action, task)
        observation = self.observe(state, task)
        return Step(observation, state, reward, terminated, truncated, info)

    # Spaces and views ------------------------------------------------------------------------

    def action_space(self, task: Task | None = None) -> spaces.Space:
        """The space of actions (with a leading agent axis where there are several agents)."""
        raise NotImplementedError

    def observation_space(self, task: Task | None = None) -> spaces.Space:
        """The space of observations."""
        raise NotImplementedError

    def privileged(self, state: State, task: Task) -> Any:
        """What experts and evaluators may see and agents may not."""
        raise NotImplementedError

    def describe(self, state: State, task: Task) -> str:
        """The situation in words (on the host)."""
        raise NotImplementedError

    # The start of a trial, in two parts ------------------------------------------------------

    def sample_blueprint(self, key: jax.Array, params: Params) -> Any:
        """The expensive part of a trial's start, which a bank may keep and hand out again.

        By default it is the whole start, a task with its first state. An environment whose cost
        lies in one part overrides this and `start`, so that everything else stays fresh.
        """
        task_key, state_key = jax.random.split(key)
        task = self.sample_task(task_key, params)
        return task, self.initial(state_key, task)

    def start(self, key: jax.Array, blueprint: Any, params: Params) -> tuple[Task, State]:
        """A task and the state of its first episode, from a blueprint. Cheap."""
        del key, params
        return blueprint
