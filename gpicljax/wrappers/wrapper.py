"""Environments made of others: frame stacks, repeated actions, statistics of episodes.

Each is an `Environment` around another one, and nests. What a learner needs running statistics for,
as normalised observations and rewards, is a switch of the trainers, which see the whole batch.

Example:
  >>> import gpicljax
  >>> env = FrameStackObservation(ActionRepeat(gpicljax.make("MountainCar-v0"), 4), 3)
  >>> env.observation_space().shape
  (6,)
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Count
from gpicljax.environment import NO_LIMIT, Environment, Params, State, Task, Transition
from gpicljax.spaces import Space
from gpicljax.typing import ArrayTree


def _forward(name: str) -> Any:
    """Returns `Environment`'s method of this name, which calls the wrapped environment's."""

    @functools.wraps(getattr(Environment, name))
    def forward(self: Wrapper, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.env, name)(*args, **kwargs)

    return forward


def _forward_state(name: str) -> Any:
    """Returns likewise a method of a state and a task, which unpacks both."""

    @functools.wraps(getattr(Environment, name))
    def forward(self: Wrapper, state: Any, task: Any) -> Any:
        return getattr(self.env, name)(self.inner(state), self.inner_task(task))

    return forward


@dataclasses.dataclass(frozen=True)
class Wrapper(Environment[Params, Task, State]):
    """An environment that behaves as another one where a subclass does not say otherwise.

    Params and tasks are the other's; so are states, unless a subclass packs them with `outer` and
    `after`, and unpacks them with `inner`. One with tasks of its own overrides `inner_task` and
    `sample_task`. One that draws tasks or starts of its own overrides
    `sample_blueprint` and `start` too.

    Attributes:
      env: the other one.

    Example:
      >>> import gpicljax
      >>> class Frugal(Wrapper):
      ...     def after(self, state, moved, task):
      ...         return moved._replace(reward=moved.reward - 0.1)
      >>> env = Frugal(gpicljax.make("CliffWalking-v1"))
      >>> env.num_agents, env.observation_space()
      (None, Discrete(n=48))
    """

    env: Environment

    def inner(self, state: State) -> Any:
        """Returns the wrapped environment's state in one of this one's."""
        return state

    def inner_task(self, task: Task) -> Any:
        """Returns the wrapped environment's task in one of this one's."""
        return task

    def outer(self, inner: Any, task: Task) -> State:
        """Returns this wrapper's state when an episode starts, from the wrapped one's."""
        del task
        return inner

    def after(self, state: State, moved: Transition, task: Task) -> Transition:
        """Returns this wrapper's step, from the state before and the wrapped environment's step."""
        del state, task
        return moved

    @property
    def name(self) -> str:
        """Returns the wrapped environment's name, with the wrapper around it."""
        return f"{type(self).__name__}({self.env.name})"

    @property
    def num_agents(self) -> int | None:
        """The other environment's number of agents; None for a single one."""
        return self.env.num_agents

    @property
    def default_params(self) -> Params:
        """The other environment's default params."""
        return self.env.default_params

    @property
    def can_render(self) -> bool:
        """Whether the wrapped environment draws pictures."""
        return self.env.can_render

    @property
    def explanation(self) -> str | None:
        """The wrapped environment's task in words."""
        return self.env.explanation

    @property
    def controls(self) -> tuple[tuple[str, str], ...]:
        """The wrapped environment's keys."""
        return self.env.controls

    make_params = _forward("make_params")
    validate = _forward("validate")
    horizon = _forward("horizon")
    observation_bounds = _forward("observation_bounds")
    sample_task = _forward("sample_task")
    sample_blueprint = _forward("sample_blueprint")
    action_space = _forward("action_space")
    observation_space = _forward("observation_space")
    symbols = _forward("symbols")
    observe = _forward_state("observe")
    situation = _forward_state("situation")
    privileged = _forward_state("privileged")
    describe = _forward_state("describe")
    render = _forward_state("render")

    def start(self, key: jax.Array, blueprint: Any, params: Params) -> tuple[Task, State]:
        """Draws the wrapped environment's task and state, packed by `outer`."""
        task, state = self.env.start(key, blueprint, params)
        return task, self.outer(state, task)

    def initial(self, key: jax.Array, task: Task) -> State:
        """Draws the wrapped environment's first state, packed by `outer`."""
        return self.outer(self.env.initial(key, self.inner_task(task)), task)

    @property
    def _moves(self) -> bool:
        """Returns whether the wrapped environment has `move`; else it has `transition` alone."""
        return type(self.env).move is not Environment.move

    def draw_noise(self, key: jax.Array, state: State, task: Task) -> Any:
        """Draws the wrapped environment's noise; the key, if its dynamics take none."""
        if not self._moves:
            return key
        return self.env.draw_noise(key, self.inner(state), self.inner_task(task))

    def move(self, state: State, action: Any, noise: Any, task: Task) -> Transition:
        """Takes the wrapped environment's step, completed by `after`."""
        inner, inner_task = self.inner(state), self.inner_task(task)
        if self._moves:
            moved = self.env.move(inner, action, noise, inner_task)
        else:
            moved = self.env.transition(noise, inner, action, inner_task)
        return self.after(state, moved, task)

    @property
    def has_symbols(self) -> bool:
        """Whether the wrapped environment's trials can be written as symbols."""
        return self.env.has_symbols

    @property
    def has_transition_model(self) -> bool:
        """False: what is around it may change them."""
        return False

    @property
    def has_physical_state(self) -> bool:
        """False: a reference simulator knows nothing of what is around it."""
        return False


def innermost(env: Environment) -> Environment:
    """Returns the environment within all wrappers."""
    while isinstance(env, Wrapper):
        env = env.env
    return env


@dataclasses.dataclass(frozen=True)
class ActionRepeat(Wrapper[Params, Task, State]):
    """Every action is taken several times, or until the episode ends; rewards add up.

    `info` is that of the last step taken. The noise of a step is a key, from which that of each
    step within it is drawn.

    Attributes:
      times: how often, at least 1.

    Example:
      >>> import gpicljax
      >>> env = ActionRepeat(gpicljax.make("MountainCar-v0"), times=4)
      >>> int(env.horizon())
      50
    """

    times: Count

    def draw_noise(self, key: jax.Array, state: State, task: Task) -> jax.Array:
        """Returns the key."""
        del state, task
        return key

    def move(self, state: State, action: Any, noise: jax.Array, task: Task) -> Transition:
        """Up to `times` steps of the wrapped environment."""
        keys = jax.random.split(noise, self.times)
        first = self.env.transition(keys[0], state, action, task)

        def again(moved: Transition, key: jax.Array) -> tuple[Transition, None]:
            following = self.env.transition(key, moved.state, action, task)
            following = following._replace(reward=moved.reward + following.reward)
            over = moved.terminated | moved.truncated
            return jax.tree.map(lambda a, b: jnp.where(over, a, b), moved, following), None

        return jax.lax.scan(again, first, keys[1:])[0]

    def horizon(self, params: Params | None = None) -> Any:
        """Returns the wrapped environment's horizon in steps of this one."""
        steps = self.env.horizon(params)
        with jax.ensure_compile_time_eval():  # as concrete as it was
            return jnp.where(steps == NO_LIMIT, steps, -(-steps // self.times))


@struct.dataclass
class EpisodeState:
    """A state of `RecordEpisodeStatistics`.

    Attributes:
      inner: the wrapped environment's state.
      total: float `[]` (with several agents `[A]`), rewards of the episode so far.
      length: `int32[]`, its steps.
    """

    inner: Any
    total: jax.Array
    length: jax.Array


@dataclasses.dataclass(frozen=True)
class RecordEpisodeStatistics(Wrapper[Params, Task, EpisodeState]):
    """`info["episode"]` is a dictionary with the episode's `return` and `length` up to now.

    Example:
      >>> import gpicljax
      >>> env = RecordEpisodeStatistics(gpicljax.make("CliffWalking-v1"))
      >>> def one_step(key):
      ...     task = env.sample_task(key, env.default_params)
      ...     observation, state = env.reset(key, task)
      ...     return env.step(key, state, 0, task).info["episode"]
      >>> sorted(jax.eval_shape(one_step, jax.random.key(0)))
      ['length', 'return']
    """

    def inner(self, state: EpisodeState) -> Any:
        """Returns the wrapped environment's state."""
        return state.inner

    def outer(self, inner: ArrayTree, task: Task) -> EpisodeState:
        """Nothing summed up."""
        del task
        shape = () if self.num_agents is None else (self.num_agents,)
        none = jnp.zeros(shape, jnp.result_type(float))
        return EpisodeState(inner, none, jnp.zeros((), jnp.int32))

    def after(self, state: EpisodeState, moved: Transition, task: Task) -> Transition:
        """Returns the wrapped environment's steps, summed up."""
        del task
        total, length = state.total + moved.reward, state.length + 1
        info = moved.info | {"episode": {"return": total, "length": length}}
        return moved._replace(state=EpisodeState(moved.state, total, length), info=info)


@struct.dataclass
class StackState:
    """A state of `FrameStackObservation`.

    Attributes:
      inner: the wrapped environment's state.
      frames: the observations that are seen, the newest last.
    """

    inner: Any
    frames: Any


@dataclasses.dataclass(frozen=True)
class FrameStackObservation(Wrapper[Params, Task, StackState]):
    """The last few observations at once, side by side along their last axis, the newest last.

    A picture `uint8[H, W, C]` becomes `[H, W, size * C]`; a number, a vector; a category, several
    choices; each agent's apart where there are several. An `action_mask` is not stacked: only the
    newest is seen, for that is what is legal. An episode starts with its first observation in all
    places.

    Attributes:
      size: how many, at least 1.

    Example:
      >>> import gpicljax
      >>> FrameStackObservation(gpicljax.make("MountainCar-v0"), size=4).observation_space().shape
      (8,)
    """

    size: Count

    def inner(self, state: StackState) -> Any:
        """Returns the wrapped environment's state."""
        return state.inner

    def outer(self, inner: ArrayTree, task: Task) -> StackState:
        """Returns the first observation, stacked on itself."""
        observation = self.env.observe(inner, task)
        return StackState(inner, jax.tree.map(lambda x: jnp.stack([x] * self.size), observation))

    def after(self, state: StackState, moved: Transition, task: Task) -> Transition:
        """Returns the wrapped environment's step; the newest observation replaces the oldest."""
        observation = self.env.observe(moved.state, task)
        frames = jax.tree.map(
            lambda old, new: jnp.concatenate([old[1:], new[None]]), state.frames, observation
        )
        return moved._replace(state=StackState(moved.state, frames))

    def observe(self, state: StackState, task: Task) -> Any:
        """Returns the observations, side by side."""
        del task

        def concatenate(frames: jax.Array) -> jax.Array:
            if frames.ndim == 1:
                return frames
            return jnp.concatenate(list(frames), axis=-1)

        merge = concatenate if self.num_agents is None else jax.vmap(concatenate, in_axes=1)
        observation = jax.tree.map(merge, state.frames)
        if isinstance(observation, dict) and "action_mask" in observation:
            observation["action_mask"] = state.frames["action_mask"][-1]
        return observation

    def observation_space(self, task: Task | None = None) -> Space:
        """Returns the wrapped space, `size` times along the last axis."""
        space, agents = self.env.observation_space(task), self.num_agents
        if agents is None:
            return self._stack_space(space)
        return spaces.repeat(self._stack_space(spaces.of_one_agent(space, agents)), agents)

    def observation_bounds(self, params: Params) -> tuple[Any, Any] | None:
        """Returns the wrapped bounds, `size` times."""
        bounds = self.env.observation_bounds(params)
        return None if bounds is None else ([*bounds[0]] * self.size, [*bounds[1]] * self.size)

    def _stack_space(self, space: Space) -> Space:
        if isinstance(space, spaces.Dict):
            return spaces.Dict.of(
                {n: s if n == "action_mask" else self._stack_space(s) for n, s in space.items}
            )
        if isinstance(space, spaces.Discrete):
            return spaces.MultiDiscrete((space.n,) * self.size)
        if isinstance(space, spaces.MultiDiscrete):
            return spaces.MultiDiscrete(_repeat(space.nvec, self.size))
        assert isinstance(space, spaces.Box)
        last = space.shape[-1] if space.shape else 1
        return dataclasses.replace(space, shape=(*space.shape[:-1], self.size * last))


def _repeat(nvec: Any, size: int) -> Any:
    """Returns the numbers of choices, `size` times along the last axis of the nested tuples."""
    if isinstance(nvec[0], tuple):
        return tuple(_repeat(row, size) for row in nvec)
    return tuple(nvec) * size
