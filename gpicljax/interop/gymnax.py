"""gymnax's interface: `reset(key, params)`, `step(key, state, action, params)` that resets itself.

What gymnax calls params is here a distribution over tasks: a task is drawn at each reset.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.batching import Constant, restart, strip_weak_types
from gpicljax.checks import check, check_choice, missing, refusal
from gpicljax.environment import Environment, Info
from gpicljax.interop import _spaces
from gpicljax.typing import ArrayTree

try:
    from gymnax.environments import spaces as gymnax_spaces
except ImportError as error:
    raise missing("gymnax", "gymnax") from error


@struct.dataclass
class GymnaxParams:
    """Params in gymnax's sense; every leaf may be traced and batched.

    Attributes:
      distribution: the environment's own params, the distribution over tasks.
      max_steps_in_episode: `int32[]`, steps after which an episode is truncated at the latest.
        Trainers read it: rejax's evaluation plays at most so many steps.
    """

    distribution: Any
    max_steps_in_episode: jax.Array


@struct.dataclass
class GymnaxState:
    """An episode in progress, with its task.

    Attributes:
      task: the task.
      state: the environment's state.
      time: `int32[]`, steps taken.
      truncated: `bool[]`, the last step cut the episode off.
      previous: float `[n + 1]`, the last action (flat) and reward, zeros at the start; None unless
        they are part of the observation.
    """

    task: Any
    state: Any
    time: jax.Array
    truncated: jax.Array
    previous: jax.Array | None


# Not frozen: gymnax's GymnaxToVectorGymWrapper assigns a compiled `reset` and `step` to its copy.
@dataclasses.dataclass(unsafe_hash=True)
class GymnaxEnv:
    """An environment behind gymnax's interface; `to_gymnax` makes one.

    Hashable by value, so that equal ones share compiled programs. A `vmap` over `step` generates
    new tasks and episodes for the instances that ended only, and observes once, after the reset
    (twice in the 6-value form, if the caller uses `info["final_observation"]`).
    """

    env: Environment
    step_api: Literal[5, 6]
    defaults: Constant
    flatten_observation: bool
    observe_previous: bool

    @property
    def name(self) -> str:
        """The environment's name."""
        return self.env.name

    @property
    def default_params(self) -> GymnaxParams:
        """The params used when none are given."""
        return self.defaults.value

    def make_params(
        self, max_steps_in_episode: int | None = None, **overrides: Any
    ) -> GymnaxParams:
        """Params with some fields of the environment's replaced and checked; see `to_gymnax`."""
        return _with_limit(self.env, self.env.make_params(**overrides), max_steps_in_episode)

    @property
    def num_actions(self) -> int:
        """The number of actions, or of entries of a continuous action."""
        space = _spaces.joint_space(self.env.action_space())
        return space.n if isinstance(space, spaces.Discrete) else spaces.flat_size(space)

    def action_space(self, params: GymnaxParams | None = None) -> Any:
        """gymnax's Discrete (all combinations, where the native space is MultiDiscrete) or Box."""
        return _gymnax_space(_spaces.joint_space(self.env.action_space()))

    def observation_space(self, params: GymnaxParams | None = None) -> Any:
        """gymnax's class for what `reset` and `step` return."""
        space = self.env.observation_space()
        if not self.flatten_observation:
            return _gymnax_space(space)
        box = _spaces.flat_box(space)
        if self.observe_previous:
            width = box.shape[0] + self._previous_size
            box = spaces.Box(-np.inf, np.inf, (width,))
        return _gymnax_space(box)

    @functools.partial(jax.jit, static_argnames=("self",))
    def reset(self, key: jax.Array, params: GymnaxParams | None = None) -> tuple[Any, GymnaxState]:
        """Draws a task and starts an episode: the observation and the state."""
        return self.reset_env(key, self._params(params))

    @functools.partial(jax.jit, static_argnames=("self",))
    def step(
        self,
        key: jax.Array,
        state: GymnaxState,
        action: Any,
        params: GymnaxParams | None = None,
    ) -> tuple:
        """Runs one step; where it ends the episode, the state and observation are the next one's.

        Returns:
          `(observation, state, reward, done, info)`, or gymnax 1.x's `(observation, state, reward,
          terminated, truncated, info)`. `info` has the environment's own scalars, `terminated`,
          `truncated`, `discount` (0 where terminated, else 1), and in the 6-value form
          `final_observation`, the one that the step led to.
        """
        params = self._params(params)
        arrived, reward, terminated, info = self._move(
            jax.random.fold_in(key, 0), state, action, params
        )
        done = terminated | arrived.truncated
        following = restart(self._restart, done, key, arrived, params.distribution)
        observation = self._observe(following)
        if self.step_api == 5:
            return observation, following, reward, done, info
        info = {**info, "final_observation": self._observe(arrived)}
        return observation, following, reward, terminated, arrived.truncated, info

    def reset_env(self, key: jax.Array, params: GymnaxParams) -> tuple[Any, GymnaxState]:
        """`reset` without a compiled program of its own."""
        state = self._start(key, self._params(params).distribution)
        return self._observe(state), state

    def step_env(
        self, key: jax.Array, state: GymnaxState, action: Any, params: GymnaxParams
    ) -> tuple[Any, GymnaxState, jax.Array, jax.Array, Info]:
        """Runs one step that never resets.

        Returns:
          `(observation, state, reward, ended, info)`; `ended` is gymnax 1.x's `terminated` in the
          6-value form (`is_truncated` says the rest), and gymnax 0.x's `done` in the other.
        """
        moved, reward, terminated, info = self._move(key, state, action, self._params(params))
        ended = terminated if self.step_api == 6 else terminated | moved.truncated
        return self._observe(moved), moved, reward, ended, info

    def observe(self, key: jax.Array, state: GymnaxState, action: Any, params: GymnaxParams) -> Any:
        """Returns the observation of a state; the other arguments are gymnax's and unused."""
        del key, action, params
        return self._observe(state)

    def is_truncated(self, state: GymnaxState, params: GymnaxParams) -> jax.Array:
        """`bool[]`: the step that led here cut the episode off."""
        del params
        return state.truncated

    # -----------------------------------------------------------------------------------------

    @property
    def _previous_size(self) -> int:
        return spaces.flat_size(self.env.action_space()) + 1

    def _params(self, params: GymnaxParams | None) -> GymnaxParams:
        if params is None:
            return self.default_params
        if not isinstance(params, GymnaxParams):
            raise TypeError(refusal("params", params, "GymnaxParams, see make_params"))
        return strip_weak_types(params)

    def _start(self, key: jax.Array, distribution: Any) -> GymnaxState:
        task_key, state_key = jax.random.split(key)
        task = self.env.sample_task(task_key, distribution)
        return GymnaxState(
            task=task,
            state=self.env.initial(state_key, task),
            time=jnp.zeros((), jnp.int32),
            truncated=jnp.zeros((), bool),
            previous=jnp.zeros(self._previous_size) if self.observe_previous else None,
        )

    def _restart(self, key: jax.Array, distribution: Any) -> GymnaxState:
        # Another key than the step's, made for those alone that need it.
        return self._start(jax.random.fold_in(key, 1), distribution)

    def _move(
        self, key: jax.Array, state: GymnaxState, action: Any, params: GymnaxParams
    ) -> tuple[GymnaxState, jax.Array, jax.Array, Info]:
        space = self.env.action_space()
        action = _spaces.to_native(space, action)
        moved, reward, terminated, truncated, info = self.env.transition(
            key, state.state, action, state.task
        )
        time = state.time + 1
        truncated = truncated | (time >= params.max_steps_in_episode)
        previous = state.previous
        if self.observe_previous:
            previous = jnp.append(spaces.flatten(space, action), reward)
        info = {
            **info,
            "terminated": terminated,
            "truncated": truncated,
            "discount": 1 - terminated.astype(reward.dtype),
        }
        return GymnaxState(state.task, moved, time, truncated, previous), reward, terminated, info

    def _observe(self, state: GymnaxState) -> Any:
        observation = self.env.observe(state.state, state.task)
        if not self.flatten_observation:
            return observation
        observation = spaces.flatten(self.env.observation_space(), observation)
        if state.previous is None:
            return observation
        return jnp.concatenate([observation, state.previous])


def to_gymnax(
    env: Environment | str,
    step_api: Literal[5, 6] = 5,
    params: ArrayTree = None,
    *,
    max_steps_in_episode: int | None = None,
    flatten_observation: bool | None = None,
    observe_previous: bool = False,
) -> GymnaxEnv:
    """Puts an environment behind gymnax's interface.

    Args:
      env: an environment of one agent, or its id.
      step_api: 5 for what shipping trainers take, `(observation, state, reward, done, info)`; 6
        for gymnax 1.x, with `terminated` and `truncated`.
      params: the distribution over tasks; `env.default_params` if None. Traced or batched ones go
        into `GymnaxParams`, with the calls.
      max_steps_in_episode: the time limit in steps; by default `env.horizon(params)`, the
        environment's own.
      flatten_observation: whether an observation is one float vector, integers one-hot. By default
        it is unless it is a single array of numbers already (a Box).
      observe_previous: whether the last action and reward are appended to the (flat) observation,
        as in RL²; what an in-context learner goes by, and gymnax's trainers do not pass on.

    Raises:
      ValueError: for several agents, an unknown `step_api`, `params` that `env.validate` refuses,
        an environment that tells no time limit, or options that contradict each other.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.interop import to_gymnax
      >>> env = to_gymnax(gpicljax.make("FrozenLake-v1"), step_api=6)
      >>> observation, state = env.reset(jax.random.key(0), env.default_params)
      >>> observation.shape
      (16,)
    """
    env = _spaces.of_one_agent(env)
    check_choice("step_api", step_api, (5, 6))
    if flatten_observation is None:
        box = isinstance(env.observation_space(), spaces.Box)
        flatten_observation = observe_previous or not box
    flat = flatten_observation or not observe_previous
    check(flat, "flatten_observation", False, "True or None, with observe_previous")
    _spaces.joint_space(env.action_space())
    params = env.params_or_default(params)
    defaults = Constant.of(_with_limit(env, params, max_steps_in_episode))
    return GymnaxEnv(env, step_api, defaults, flatten_observation, observe_previous)


def _with_limit(env: Environment, params: ArrayTree, limit: Any) -> GymnaxParams:
    limit = env.horizon(params) if limit is None else limit
    fits = np.all(np.asarray(limit) >= 1)
    check(fits, "max_steps_in_episode", limit, "an integer >= 1")
    return GymnaxParams(params, jnp.asarray(limit, jnp.int32))


def _gymnax_space(space: spaces.Space) -> Any:
    """Returns gymnax's own class for a space, which trainers recognise with `isinstance`."""
    if isinstance(space, spaces.Discrete):
        return gymnax_spaces.Discrete(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return gymnax_spaces.Box(0, jnp.asarray(space.nvec) - 1, space.shape, jnp.int32)
    if isinstance(space, spaces.Box):
        return gymnax_spaces.Box(space.low, space.high, space.shape, space.jax_dtype)
    if isinstance(space, spaces.Dict):
        return gymnax_spaces.Dict({name: _gymnax_space(entry) for name, entry in space.items})
    raise TypeError(f"gymnax has no space like {space}")
