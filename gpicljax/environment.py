"""Layer 1: one environment instance, as pure functions over explicit state.

An environment is a frozen dataclass of static configuration and caps: hashable by value, holding
no arrays. What it computes on is passed in and returned:

- `params`: a *distribution* over tasks; a pytree of traced values.
- `task`: what stays the same over a trial and a learner has to infer; a pytree.
- `state`: one episode in progress; a pytree.

Everything is unbatched: `jax.vmap` adds the batch.

Arguments are refused at the door, when a method is called or traced, by what is known then: their
classes, shapes and dtypes. Nothing of it is left in a compiled program.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, get_args, get_origin

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gpicljax import spaces
from gpicljax.batching import strip_weak_types
from gpicljax.checks import (
    check,
    check_choice,
    check_fields,
    check_ranges,
    field_annotations,
    refusal,
)
from gpicljax.random import check_key
from gpicljax.typing import ArrayTree

if TYPE_CHECKING:
    from gpicljax.symbols import SymbolCode

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
    "symbols": "a gpicljax.symbols.SymbolCode",
    "privileged": "what experts may see and agents may not, a pytree of arrays",
    "describe": "the situation in words, as the agent may know it, a str",
    "render": "a picture, uint8[H, W, 3]",
    "physical_state": "what a reference simulator has of the state, float[N]",
    "with_physical_state": "the state with that part replaced",
    "transition_model": "what every action leads to, as a TransitionModel",
    "goal_reward": "the reward for having achieved what was desired, float[]",
}


def _arguments(method: Callable[..., object]) -> list[str]:
    return [name for name in inspect.signature(method).parameters if name != "self"]


def _like(field: str, value: ArrayTree, default: jax.Array) -> jax.Array:
    """Returns `value` in the dtype of `default`; ValueError where that would change it."""
    default = strip_weak_types(default)
    kind = "integers" if jnp.issubdtype(default.dtype, jnp.integer) else "numbers"
    accepted_values = (
        "True or False" if default.dtype == bool else f"{kind} that {default.dtype} holds"
    )
    received = value
    if isinstance(value, Tracer):
        kept = jnp.promote_types(value.dtype, default.dtype) == default.dtype
        floats = all(jnp.issubdtype(x.dtype, jnp.floating) for x in (value, default))
        integers = all(jnp.issubdtype(x.dtype, jnp.integer) for x in (value, default))
        check(kept or floats or integers, field, value.dtype.name, accepted_values)
        return jnp.asarray(value, default.dtype)
    try:
        value = np.asarray(value)
        if value.dtype.kind in "OSU":
            raise TypeError
        with np.errstate(invalid="ignore"):
            cast = value.astype(default.dtype)
        kept = jnp.issubdtype(default.dtype, jnp.floating) or bool(np.all(cast == value))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(refusal(field, received, accepted_values)) from None
    check(kept, field, received, accepted_values)
    return jnp.asarray(cast)


class Transition(NamedTuple):
    """Result of `Environment.transition`.

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
    """Result of `Environment.step`: the six values of gymnax 1.x.

    Example:
      >>> step = Step(jnp.zeros(4), (), reward=1.0, terminated=True, truncated=False, info={})
      >>> observation, state, reward, terminated, truncated, info = step
      >>> reward, terminated
      (1.0, True)
    """

    observation: Observation
    state: Any
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    info: Info


class TransitionModel(NamedTuple):
    """Outcomes of every action in every situation of a task; see `Environment.transition_model`.

    Attributes:
      chance: float `[S, A, K]`, of each of K outcomes.
      following: `int32[S, A, K]`, the situation it leads to.
      reward: float `[S, A, K]`, on the way (a mean, where it is random).
      over: `bool[S, A, K]`, the episode ends there.

    Example:
      >>> one = jnp.ones((1, 2, 1))
      >>> pulls = TransitionModel(one, jnp.zeros((1, 2, 1), int), 0.5 * one, one.astype(bool))
      >>> pulls.reward.shape
      (1, 2, 1)
    """

    chance: jax.Array
    following: jax.Array
    reward: jax.Array
    over: jax.Array


def action_values(
    outcomes: TransitionModel,
    discount: float = 0.99,
    tolerance: float = 1e-6,
    sweeps: jax.Array | int = 1000,
    at_random: bool = False,
) -> jax.Array:
    """Returns the value of every action in every situation of a known task, by value iteration.

    With `discount=1`, `tolerance=0` and `sweeps` the steps that are left, it is the expected sum
    of rewards until then.

    A sweep's greatest and least change bound how much all later ones add. Where nothing ends, all
    values soon grow by the same amount, and the rest of the discounted sum is added at once.

    Args:
      outcomes: what every action leads to.
      discount: of the episode's rewards; nothing follows an episode's end.
      tolerance: largest difference between a sweep's changes after which it ends, or twice what
        rounding leaves of the values; an end counts as a change of 0.
      sweeps: the most there are, an integer or `int32[]`.
      at_random: whether play goes on with uniformly random actions instead of the best ones.

    Returns:
      float `[S, A]`.

    Source: Bellman (1957); Sutton & Barto (2018), section 4.4; the bounds: Puterman (1994),
    section 6.6.
    """
    expected = (outcomes.chance * outcomes.reward).sum(-1)
    onward = jnp.where(outcomes.over, 0, discount * outcomes.chance)
    ends = (outcomes.over & (outcomes.chance > 0)).any() | (discount >= 1)
    rest = discount / (1 - discount) if discount < 1 else 0.0
    rounding = 2 * float(jnp.finfo(expected.dtype).eps) if tolerance else 0.0

    def sweep(values: jax.Array) -> jax.Array:
        following = values.mean(-1) if at_random else values.max(-1)
        return expected + (onward * following[outcomes.following]).sum(-1)

    def changes(before: jax.Array, after: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns the least and the greatest change."""
        first = jnp.where(ends, 0, (after - before)[0, 0])
        return jnp.minimum((after - before).min(), first), jnp.maximum(
            (after - before).max(), first
        )

    def is_unfinished(loop: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        before, after, count = loop
        least, most = changes(before, after)
        close = jnp.maximum(tolerance, rounding * jnp.abs(after).max())
        return (most - least > close) & (count < sweeps)

    loop = jnp.zeros_like(expected), sweep(jnp.zeros_like(expected)), jnp.ones((), jnp.int32)
    before, after, _ = jax.lax.while_loop(
        is_unfinished, lambda loop: (loop[1], sweep(loop[1]), loop[2] + 1), loop
    )
    return after + rest * jnp.where(ends, 0, sum(changes(before, after)) / 2)


class Environment(Generic[Params, Task, State]):
    """Base class: implement `sample_task`, `initial`, `move`, `observe`, spaces and views.

    Subclasses are `@dataclasses.dataclass(frozen=True)` with static fields only, whose annotations
    say what they accept (see `gpicljax.checks`). The rest follows, but for abilities that not every
    environment has, of which `can_render`, `has_physical_state`, `has_symbols`,
    `has_transition_model` and `sets_goals` tell. A method that is missing raises
    NotImplementedError, which names it, the class, and what it is to return.

    Keys, params, tasks, states and actions of another kind are refused with a ValueError.

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

    def __init_subclass__(cls, **options: Any) -> None:
        """Puts a door in front of what the subclass implements."""
        super().__init_subclass__(**options)
        for name, door in _DOORS.items():
            if name in vars(cls):
                setattr(cls, name, door(vars(cls)[name]))

    def __post_init__(self) -> None:
        """Refuses static fields by their annotations; lists become tuples, which are hashable.

        A subclass that checks more calls this first.
        """
        for field, value in vars(self).items():
            if isinstance(value, list):
                object.__setattr__(self, field, tuple(value))
        check_fields(self)

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

    def suited_to(self, **params: Any) -> Environment:
        """Returns the environment with the static options that overrides of `make_params` need.

        Itself, unless a subclass knows better: one that generates several kinds of tasks may leave
        out those that a curriculum lacks. Commands call it with the curriculum they were given.

        Example:
          >>> import gpicljax
          >>> gpicljax.make("CliffWalking-v1").suited_to(horizon=20).name
          'CliffWalking'
        """
        del params
        return self

    def validate(self, params: Params) -> None:
        """Raises ValueError where concrete `params` contradict each other or exceed a cap.

        What a single one may be is declared at its field, `Annotated[jax.Array, Range(0, 1)]`, and
        checked here; a subclass that checks more calls this first.
        """
        _check_class(self, "params", params)
        check_ranges(params)

    def params_or_default(self, params: Params | None) -> Params:
        """Returns params for one batch: the default ones for None, or these if valid.

        Raises:
          ValueError: for params of another environment or other shapes, and see `validate`.
        """
        default: Any = self.default_params
        if params is None:
            if not any(isinstance(x, Tracer) for x in jax.tree.leaves(default)):
                self.validate(default)
            return default
        self.validate(params)
        for field in field_annotations(type(default)):
            default_shape, shape = (
                np.shape(getattr(default, field)),
                np.shape(getattr(params, field)),
            )
            accepted_values = f"shape {[*default_shape]}; jax.vmap runs a grid of params"
            check(shape == default_shape, f"params.{field}", [*shape], accepted_values)
        return params

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
        """Runs one step of the dynamics with its noise given: deterministic.

        So an episode of an outside simulator, whose noise is known, can be replayed. What it is
        given of an action out of range is the nearest member of the action space, see `step`.
        """
        raise self._missing("move")

    def transition(self, key: jax.Array, state: State, action: ArrayTree, task: Task) -> Transition:
        """One step of the dynamics: `move` with drawn noise. Cheap, and without an observation."""
        return self.move(state, action, self.draw_noise(key, state, task), task)

    def horizon(self, params: Params | None = None) -> Any:
        """Returns the most steps that an episode takes.

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
        chosen: Any = self.default_params if params is None else params
        try:
            return chosen.horizon
        except AttributeError:
            raise self._missing("horizon") from None

    def observe(self, state: State, task: Task) -> Observation:
        """Returns the agent's observation; the only place that renders or assembles one."""
        raise self._missing("observe")

    def reset(self, key: jax.Array, task: Task) -> tuple[Observation, State]:
        """Starts an episode: `initial`, then `observe`."""
        state = self.initial(key, task)
        return self.observe(state, task), state

    def step(self, key: jax.Array, state: State, action: ArrayTree, task: Task) -> Step:
        """`transition`, then `observe`. Never resets by itself.

        Args:
          key: a typed key.
          state: the state.
          action: of the shape and kind of dtype of `action_space()`, or it is refused. Its values
            are not looked at: those out of range (99, -1, 1e9) stand for the nearest ones of the
            space, and an action with a NaN makes the reward NaN, whatever becomes of the state.
          task: the task; not the params, which stand in this place in gymnax.

        Returns:
          Six values, see `Step`.

        Raises:
          ValueError: for arguments of another kind.
        """
        state, reward, terminated, truncated, info = self.transition(key, state, action, task)
        observation = self.observe(state, task)
        return Step(observation, state, reward, terminated, truncated, info)

    # Spaces and views ------------------------------------------------------------------------

    def action_space(self, task: Task | None = None) -> spaces.Space:
        """The space of actions (with a leading agent axis where there are several agents)."""
        raise self._missing("action_space")

    def observation_space(self, task: Task | None = None) -> spaces.Space:
        """Returns the space of observations."""
        raise self._missing("observation_space")

    @property
    def has_symbols(self) -> bool:
        """Whether trials can be written as streams of symbols: if `symbols` is overridden."""
        return type(self).symbols is not Environment.symbols

    def symbols(self) -> SymbolCode:
        """Returns how trials are written as streams of symbols; an ability that not all have."""
        raise self._missing("symbols")

    def observation_bounds(self, params: Params) -> tuple[Any, Any] | None:
        """Returns the least and the greatest entries of a Box observation under concrete params.

        The space cannot tell them where they depend on params: it is one for all of these. None,
        by default, where the space's own bounds are all there is to say.
        """
        del params
        return None

    def privileged(self, state: State, task: Task) -> Any:
        """Returns what experts and evaluators may see and agents may not."""
        raise self._missing("privileged")

    def describe(self, state: State, task: Task) -> str:
        """Returns the situation in words, as the agent may know it; a `str`, on the host.

        What it observes now, and what a player keeps count of or is told anyway: steps, games, what
        was paid. Nothing that `privileged` or the task alone has: the same history of observations,
        actions and rewards has the same words in every task, and `gpicljax.testing` checks that.

        Args:
          state: one state, unbatched; leaves on the host or on a device.
          task: its task, likewise.
        """
        raise self._missing("describe")

    @property
    def explanation(self) -> str | None:
        """The task in words, for a language model that acts in it; None if there are none."""
        return None

    @property
    def controls(self) -> tuple[tuple[str, str], ...]:
        """The name and the key of every Discrete action, as they are played by hand; or none.

        A key is a character, or `"ArrowLeft"` and the like. Without controls, actions have digits
        and letters.
        """
        return ()

    @property
    def match(self) -> str | None:
        """Returns `"module:function"`: what plays beside a person, and how an episode is drawn.

        The function returns the `play.match.Match` of an environment and its params. None, by
        default: a person plays alone, and episodes are drawn in words and pictures.
        """
        return None

    # Optional abilities ----------------------------------------------------------------------

    @property
    def can_render(self) -> bool:
        """Whether there is a picture to `render`: by default, if the method is overridden."""
        return type(self).render is not Environment.render

    def render(self, state: State, task: Task) -> jax.Array:
        """Returns a picture of the situation for people, `uint8[H, W, 3]`; see `can_render`."""
        raise self._missing("render")

    @property
    def has_physical_state(self) -> bool:
        """Whether a reference simulator's state can be read and written: if overridden."""
        return type(self).physical_state is not Environment.physical_state

    def physical_state(self, state: State) -> jax.Array:
        """Returns the part of a state that a reference simulator has too, float `[N]`."""
        raise self._missing("physical_state")

    def with_physical_state(self, state: State, vector: jax.Array) -> State:
        """The state with the part that `physical_state` shows replaced, from float `[N]`."""
        raise self._missing("with_physical_state")

    @property
    def has_transition_model(self) -> bool:
        """Whether `transition_model` can be called: by default, if it is overridden."""
        return type(self).transition_model is not Environment.transition_model

    def transition_model(self, task: Task) -> TransitionModel:
        """Returns the outcomes of every action, where situations are discrete and few.

        Situation s is where `situation` says s; when an episode is cut off is left out.
        """
        raise self._missing("transition_model")

    def situation(self, state: State, task: Task) -> jax.Array:
        """Returns the number of the situation in `transition_model`, `int32[]`.

        By default it is the observation; an environment that hides a part of the situation from
        the agent overrides it.
        """
        return self.observe(state, task)

    def start_chances(self, task: Task, situations: int) -> jax.Array:
        """Returns how likely an episode starts in each situation, float `[situations]`.

        By default every episode of a task starts in the same one.
        """
        first = self.situation(self.initial(jax.random.key(0), task), task)
        return jax.nn.one_hot(first, situations)

    @property
    def sets_goals(self) -> bool:
        """Whether it sets a goal, and would pay for any other likewise: if `goal_reward` is there.

        Then observations are dictionaries with `achieved_goal` and `desired_goal` (and what else
        there is to see in `observation`), as Gymnasium-Robotics names them.
        """
        return type(self).goal_reward is not Environment.goal_reward

    def goal_reward(self, achieved: jax.Array, desired: jax.Array) -> jax.Array:
        """Returns the reward of a step that achieved this while that was desired, float `[]`."""
        raise self._missing("goal_reward")

    def _missing(self, method: str) -> NotImplementedError:
        kind, base = type(self), getattr(Environment, method)
        arguments = "" if isinstance(base, property) else f"({', '.join(_arguments(base))})"
        return NotImplementedError(
            f"{self.name} has no {method}: class {kind.__module__}.{kind.__qualname__} does not "
            f"define {method}{arguments}, which is to return {_RETURNED[method]}"
        )

    # The start of a trial, in two parts ------------------------------------------------------

    def sample_blueprint(self, key: jax.Array, params: Params) -> Any:
        """Returns the expensive part of a trial's start, which a bank may keep and hand out again.

        By default it is the whole start, a task with its first state. An environment whose cost
        lies in one part overrides this and `start`, so that everything else stays fresh.
        """
        task_key, state_key = jax.random.split(key)
        task = self.sample_task(task_key, params)
        return task, self.initial(state_key, task)

    def start(self, key: jax.Array, blueprint: Any, params: Params) -> tuple[Task, State]:
        """Returns a task and the state of its first episode, from a blueprint. Cheap."""
        del key, params
        return blueprint


# The door ----------------------------------------------------------------------------------------

_SOURCES = {
    "params": (Params, "env.default_params or env.make_params(...)"),
    "task": (Task, "env.sample_task(key, params)"),
    "state": (State, "env.initial(key, task) or env.reset(key, task)"),
}


@functools.cache
def _classes(env_class: type) -> dict[Any, Any]:
    """Returns the classes that an environment's class gives for `Params`, `Task` and `State`."""
    if env_class is Environment:
        return {kind: kind for kind, _ in _SOURCES.values()}
    classes: dict[Any, Any] = {}
    for base in vars(env_class).get("__orig_bases__", env_class.__bases__):
        origin = get_origin(base) or base
        if issubclass(origin, Environment):
            bound = dict(zip(getattr(origin, "__parameters__", ()), get_args(base), strict=False))
            classes |= {kind: bound.get(x, x) for kind, x in _classes(origin).items()}
    return classes


def _check_class(env: Environment, argument: str, value: object) -> None:
    kind, source = _SOURCES[argument]
    expected = _classes(type(env)).get(kind)
    if isinstance(expected, type) and expected is not Any and not isinstance(value, expected):
        accepted_values = f"{expected.__module__}.{expected.__qualname__}, as from {source}"
        raise ValueError(refusal(argument, value, accepted_values))


def _check_arguments(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the method, which refuses arguments of another kind before anything else."""
    _, *names = inspect.signature(method).parameters

    @functools.wraps(method)
    def call(self: Environment, *values: Any, **named: Any) -> Any:
        arguments = dict(zip(names, values, strict=False)) | named
        if "key" in arguments:
            check_key("key", arguments["key"])
        for argument in _SOURCES.keys() & arguments.keys():
            _check_class(self, argument, arguments[argument])
        if "action" in arguments:
            spaces.check_member(self.action_space(), arguments["action"], "action")
        return method(self, *values, **named)

    return call


def _check_arguments_of_move(move: Callable[..., Transition]) -> Callable[..., Transition]:
    """Returns `move` that refuses likewise, and is only ever given members of the action space.

    See `Environment.step`.
    """

    @functools.wraps(move)
    def call_move(
        self: Environment, state: ArrayTree, action: ArrayTree, noise: ArrayTree, task: ArrayTree
    ) -> Transition:
        _check_class(self, "state", state)
        _check_class(self, "task", task)
        space = self.action_space()
        member = spaces.check_member(space, action, "action")
        moved = move(self, state, spaces.nearest(space, member), noise, task)
        if not (isinstance(space, spaces.Box) and jnp.issubdtype(space.jax_dtype, jnp.floating)):
            return moved
        return moved._replace(reward=jnp.where(jnp.isnan(member).any(), jnp.nan, moved.reward))

    return call_move


_DOORS = dict.fromkeys(
    ("sample_task", "sample_blueprint", "start", "initial", "transition", "observe"),
    _check_arguments,
) | {"move": _check_arguments_of_move}
Environment.transition = _check_arguments(Environment.transition)
