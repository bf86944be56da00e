"""Layer 1: one environment instance, as pure functions over explicit state.

An environment is a frozen dataclass of static configuration and caps: hashable by value, holding
no arrays. What it computes on is passed in and returned:

- `params`: a *distribution* over tasks; a pytree of traced values.
- `task`: what stays the same over a trial and a learner has to infer; a pytree.
- `state`: one episode in progress; a pytree.

Everything is unbatched: `jax.vmap` adds the batch.
"""

from __future__ import annotations

import inspect
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gpicljax import spaces
from gpicljax.batching import strong
from gpicljax.checks import check, check_choice, refusal

Params = TypeVar("Params")
Task = TypeVar("Task")
State = TypeVar("State")
Observation = Any
Info = dict[str, jax.Array]


NO_LIMIT = 2**31 - 1
"""The horizon of an environment that never cuts an episode off."""


# What a subclass's own methods are to return, for the message about one that is missing.
_RETURNED = {
    "default_params": "the distribution over tasks used when none is given, a pytree of arrays",
    "sample_task": "a task, a pytree of arrays",
    "initial": "the state at the start of an episode, a pytree of arrays",
    "move": "Transition(state, reward, terminated, truncated, info)",
    "horizon": "the most steps of an episode, int32[]: the params' field `horizon`, or its own",
    "observe": "an observation, a member of observation_space(task)",
    "action_space": "one of gpicljax.spaces",
    "observation_space": "one of gpicljax.spaces",
    "privileged": "what experts may see and agents may not, a pytree of arrays",
    "describe": "the situation in words, a str",
    "render": "a picture, uint8[H, W, 3]",
    "physical_state": "what a reference simulator has of the state, float[N]",
    "with_physical_state": "the state with that part replaced",
}


def _arguments(method: Any) -> list[str]:
    return [name for name in inspect.signature(method).parameters if name != "self"]


def _like(field: str, value: Any, default: Any) -> jax.Array:
    """`value` in the dtype of `default`. ValueError where that would change it."""
    default = strong(default)
    accepted = f"numbers that {default.dtype} holds"
    given = value
    if isinstance(value, Tracer):
        kept = jnp.promote_types(value.dtype, default.dtype) == default.dtype
        floats = all(jnp.issubdtype(x.dtype, jnp.floating) for x in (value, default))
        integers = all(jnp.issubdtype(x.dtype, jnp.integer) for x in (value, default))
        check(kept or floats or integers, field, value.dtype.name, accepted)
        return jnp.asarray(value, default.dtype)
    try:
        value = np.asarray(value)
        if value.dtype.kind in "OSU":
            raise TypeError
        with np.errstate(invalid="ignore"):
            cast = value.astype(default.dtype)
        kept = jnp.issubdtype(default.dtype, jnp.floating) or bool(np.all(cast == value))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(refusal(field, given, accepted)) from None
    check(kept, field, given, accepted)
    return jnp.asarray(cast)


class Transition(NamedTuple):
    """What `Environment.transition` returns.

    Example:
      >>> Transition(state=(), reward=1.0, terminated=False, truncated=False, info={}).reward
      1.0
    """

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
    """Base class: implement `sample_task`, `initial`, `move`, `observe`, spaces and views.

    Subclasses are `@dataclasses.dataclass(frozen=True)` with static fields only. The rest follows,
    but for two abilities that not every environment has, which `can_render` and
    `has_physical_state` tell of. A method that is missing raises NotImplementedError, which names
    it, the class, and what it is to return.

    Example:
      >>> import gpicljax, jax
      >>> env = gpicljax.make("BernoulliBandit-v0")
      >>> task = env.sample_task(jax.random.key(0), env.default_params)
      >>> observation, state = env.reset(jax.random.key(1), task)
      >>> step = env.step(jax.random.key(2), state, 1, task)
      >>> step._fields
      ('observation', 'state', 'reward', 'terminated', 'truncated', 'info')
      >>> Environment().observe(state, task)
      Traceback (most recent call last):
      NotImplementedError: Environment has no observe: class gpicljax.environment.Environment does
      not define observe(state, task), which is to return an observation, a member of
      observation_space(task)
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
        raise self._missing("default_params")

    def make_params(self, **overrides: Any) -> Params:
        """`default_params` with some fields replaced, checked by `validate`.

        Args:
          **overrides: numbers or arrays, converted to the dtypes of the defaults.

        Raises:
          ValueError: for an unknown field, a value that its dtype cannot hold (half a step), or
            values that contradict each other or a cap.

        Example:
          >>> import gpicljax
          >>> env = gpicljax.make("BernoulliBandit-v0")
          >>> env.make_params(horizon=20).horizon.dtype.name
          'int32'
          >>> env.make_params(horizont=20)
          Traceback (most recent call last):
          ValueError: BernoulliBandit.make_params: got 'horizont' (did you mean 'horizon'?); ...
        """
        params: Any = self.default_params
        defaults = {field: getattr(params, field) for field in params.__dataclass_fields__}
        for field in overrides:
            check_choice(f"{self.name}.make_params", field, defaults)
        # In the defaults' dtypes, so that an override does not compile anew.
        params = params.replace(**{f: _like(f, x, defaults[f]) for f, x in overrides.items()})
        self.validate(params)
        return params

    def validate(self, params: Params) -> None:
        """Raises ValueError where concrete `params` contradict each other or exceed a cap."""

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws a task. May be expensive."""
        raise self._missing("sample_task")

    # One episode -----------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """The state at the start of an episode, with the episode's script."""
        raise self._missing("initial")

    def draw_noise(self, key: jax.Array, state: State, task: Task) -> Any:
        """The chance of a step: whatever `move` needs to know beside state, action and task.

        A pytree; `()`, by default, where nothing is left to chance.
        """
        del key, state, task
        return ()

    def move(self, state: State, action: Any, noise: Any, task: Task) -> Transition:
        """One step of the dynamics with its noise given: deterministic.

        So an episode of an outside simulator, whose noise is known, can be replayed.
        """
        raise self._missing("move")

    def transition(self, key: jax.Array, state: State, action: Any, task: Task) -> Transition:
        """One step of the dynamics: `move` with drawn noise. Cheap, and without an observation."""
        return self.move(state, action, self.draw_noise(key, state, task), task)

    def horizon(self, params: Params | None = None) -> Any:
        """How many steps an episode takes at most.

        Args:
          params: the distribution over tasks; `default_params` if None.

        Returns:
          `int32[]` (of a grid of params `int32[...]`): their field `horizon` unless overridden;
          `NO_LIMIT` if episodes may go on for ever. As concrete as the params are:
          `int(env.horizon(params))` is a static bound, in a traced function too.

        Example:
          >>> import gpicljax
          >>> env = gpicljax.make("BernoulliBandit-v0")
          >>> int(env.horizon()), int(env.horizon(env.make_params(horizon=20)))
          (100, 20)
        """
        given: Any = self.default_params if params is None else params
        try:
            return given.horizon
        except AttributeError:
            raise self._missing("horizon") from None

    def observe(self, state: State, task: Task) -> Observation:
        """What the agent sees; the only place that renders or assembles an observation."""
        raise self._missing("observe")

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
        raise self._missing("action_space")

    def observation_space(self, task: Task | None = None) -> spaces.Space:
        """The space of observations."""
        raise self._missing("observation_space")

    def privileged(self, state: State, task: Task) -> Any:
        """What experts and evaluators may see and agents may not."""
        raise self._missing("privileged")

    def describe(self, state: State, task: Task) -> str:
        """The situation in words (on the host)."""
        raise self._missing("describe")

    # Optional abilities ----------------------------------------------------------------------

    @property
    def can_render(self) -> bool:
        """Whether there is a picture to `render`: by default, if the method is overridden."""
        return type(self).render is not Environment.render

    def render(self, state: State, task: Task) -> jax.Array:
        """A picture of the situation for people, `uint8[H, W, 3]`; see `can_render`."""
        raise self._missing("render")

    @property
    def has_physical_state(self) -> bool:
        """Whether a reference simulator's state can be read and written: if overridden."""
        return type(self).physical_state is not Environment.physical_state

    def physical_state(self, state: State) -> jax.Array:
        """The part of a state that a reference simulator has too, float `[N]`."""
        raise self._missing("physical_state")

    def with_physical_state(self, state: State, vector: jax.Array) -> State:
        """The state with the part that `physical_state` shows replaced, from float `[N]`."""
        raise self._missing("with_physical_state")

    def _missing(self, method: str) -> NotImplementedError:
        kind, base = type(self), getattr(Environment, method)
        arguments = "" if isinstance(base, property) else f"({', '.join(_arguments(base))})"
        return NotImplementedError(
            f"{self.name} has no {method}: class {kind.__module__}.{kind.__qualname__} does not "
            f"define {method}{arguments}, which is to return {_RETURNED[method]}"
        )

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
