"""Tasks from one of several environments."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax.checks import check
from gpicljax.environment import Environment, Transition
from gpicljax.spaces import Space, observed_values
from gpicljax.typing import ArrayTree


@struct.dataclass
class MixtureTask:
    """A task of `TaskMixture`.

    Attributes:
      index: `int32[]`, the environment it is from.
      tasks: one of each environment; those of the others stand for nothing.
    """

    index: jax.Array
    tasks: tuple[Any, ...]


_Params: TypeAlias = tuple[ArrayTree, ...]
"""The params of each environment."""

_States: TypeAlias = tuple[ArrayTree, ...]
"""The states of each environment."""


@dataclasses.dataclass(frozen=True)
class TaskMixture(Environment[_Params, MixtureTask, _States]):
    """Tasks from one of several environments with the same spaces, each as likely as the others.

    A batch computes the step of every one of them for each instance: it is for a few small ones.
    Params are a tuple of theirs; states too. `info` is empty.

    Attributes:
      envs: the environments.

    Raises:
      ValueError: unless their spaces are the same.

    Example:
      >>> import gpicljax
      >>> names = "BanditTwoArmedHighLowFixed-v0", "BanditTwoArmedLowLowFixed-v0"
      >>> env = TaskMixture(tuple(gpicljax.make(name) for name in names))
      >>> jax.eval_shape(env.sample_task, jax.random.key(0), env.default_params).index.shape
      ()
    """

    envs: tuple[Environment, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check(len(self.envs) > 0, "envs", self.envs, "one or more environments")
        for spaces_of in (lambda e: e.observation_space(), lambda e: e.action_space()):
            first = spaces_of(self.envs[0])
            for env in self.envs:
                spaces_of_env = spaces_of(env)
                check(
                    spaces_of_env == first,
                    "envs",
                    f"{env.name} with {spaces_of_env}",
                    f"spaces like {first}",
                )

    @property
    def name(self) -> str:
        """Those of all."""
        return f"Mixture({', '.join(env.name for env in self.envs)})"

    @property
    def default_params(self) -> tuple[Any, ...]:
        """Default params of each environment."""
        return tuple(env.default_params for env in self.envs)

    def validate(self, params: _Params) -> None:
        """Raises ValueError for params that one of them refuses."""
        fits = isinstance(params, tuple) and len(params) == len(self.envs)
        check(fits, "params", params, f"a tuple of {len(self.envs)}")
        for env, own_params in zip(self.envs, params, strict=True):
            env.validate(own_params)

    def params_or_default(self, params: _Params | None) -> _Params:
        """Params for one batch."""
        if params is None:
            return tuple(env.params_or_default(None) for env in self.envs)
        self.validate(params)
        return params

    def sample_task(self, key: jax.Array, params: _Params) -> MixtureTask:
        """Draws a task of each environment, and which one counts."""
        which_key, key = jax.random.split(key)
        index = jax.random.randint(which_key, (), 0, len(self.envs), jnp.int32)
        pairs = zip(self.envs, params, strict=True)
        return MixtureTask(index, tuple(env.sample_task(key, p) for env, p in pairs))

    def initial(self, key: jax.Array, task: MixtureTask) -> tuple[Any, ...]:
        """Returns the start of each."""
        pairs = zip(self.envs, task.tasks, strict=True)
        return tuple(env.initial(key, own_task) for env, own_task in pairs)

    def _select(self, task: MixtureTask, values: Sequence[ArrayTree]) -> Any:
        """Selects, among values of the same shapes, that of the task's environment."""
        chosen = values[0]
        for number, value in enumerate(values[1:], 1):
            is_chosen = task.index == number
            chosen = jax.tree.map(lambda a, b, here=is_chosen: jnp.where(here, b, a), chosen, value)
        return chosen

    def draw_noise(self, key: jax.Array, state: _States, task: MixtureTask) -> jax.Array:
        """Returns the key."""
        del state, task
        return key

    def move(self, state: _States, action: Any, noise: jax.Array, task: MixtureTask) -> Transition:
        """Runs a step of each, of which one counts."""
        triples = zip(self.envs, state, task.tasks, strict=True)
        moved = [env.transition(noise, inner, action, own_task) for env, inner, own_task in triples]
        dtype = jnp.result_type(float)
        outcomes = [(m.reward.astype(dtype), m.terminated, m.truncated) for m in moved]
        reward, terminated, truncated = self._select(task, outcomes)
        return Transition(tuple(m.state for m in moved), reward, terminated, truncated, {})

    def horizon(self, params: _Params | None = None) -> Any:
        """Returns the longest horizon of the environments."""
        pairs = zip(self.envs, self.params_or_default(params), strict=True)
        return np.max(np.stack([np.asarray(env.horizon(p)) for env, p in pairs]), axis=0)

    def observe(self, state: _States, task: MixtureTask) -> Any:
        """Returns the observation of the task's environment."""
        triples = zip(self.envs, state, task.tasks, strict=True)
        return self._select(
            task, [env.observe(inner, own_task) for env, inner, own_task in triples]
        )

    def privileged(self, state: _States, task: MixtureTask) -> Any:
        """Returns the privileged information of the task's environment; all must have the same
        shapes.
        """
        triples = zip(self.envs, state, task.tasks, strict=True)
        return self._select(
            task, [env.privileged(inner, own_task) for env, inner, own_task in triples]
        )

    def action_space(self, task: MixtureTask | None = None) -> Space:
        """Returns the action space that all share."""
        return self.envs[0].action_space()

    def observation_space(self, task: MixtureTask | None = None) -> Space:
        """Returns the observation space that all share."""
        return self.envs[0].observation_space()

    def describe(self, state: _States, task: MixtureTask) -> str:
        """Returns the observation, as the words of one environment would tell which it is."""
        values = observed_values(self.observe(state, task))
        return ", ".join(f"{name} {value}" for name, value in values.items())
