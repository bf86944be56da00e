"""Gymnasium's interface for one environment: compiled inside, NumPy outside.

Importing this module enters all registered ids in Gymnasium's own registry, below `gpicljax/`; in
one line, `gymnasium.make("gpicljax.interop.gymnasium:gpicljax/MountainCar-v0")`.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import jax
import numpy as np

from gpicljax import spaces
from gpicljax.batching import Constant
from gpicljax.checks import JAX_PROCESS, check, check_at_least, check_choice, missing, refusal
from gpicljax.environment import Environment
from gpicljax.interop._spaces import of_one_agent
from gpicljax.registration import make, registered, registered_id
from gpicljax.typing import ArrayTree, Dataclass

try:
    import gymnasium
    from gymnasium.envs.registration import EnvSpec
    from gymnasium.error import ResetNeeded
except ImportError as error:
    raise missing("gymnasium", "interop") from error

ParamsOrChanges: TypeAlias = Dataclass | tuple[ArrayTree, ...] | Mapping[str, ArrayTree] | None
"""Params, or a dictionary of the fields of the default ones to change."""

RENDER_FPS = 4
_jit = functools.partial(jax.jit, static_argnums=0)


@jax.jit
def _keys(root: jax.Array, resets: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the keys of a reset: of its task, should it be a new one, and of its episode."""
    task_key, episode_key = jax.random.split(jax.random.fold_in(root, resets))
    return task_key, episode_key


@_jit
def _sample_task(env: Environment, key: jax.Array, params: ArrayTree) -> Any:
    return env.sample_task(key, params)


@_jit
def _reset(env: Environment, key: jax.Array, task: ArrayTree) -> tuple[Any, Any]:
    return env.reset(key, task)


@_jit
def _step(
    env: Environment, key: jax.Array, time: Any, state: ArrayTree, action: Any, task: ArrayTree
) -> tuple[Any, jax.Array, Any]:
    """Returns the next state and time, and what the caller gets."""
    observation, state, *rest = env.step(jax.random.fold_in(key, time), state, action, task)
    return state, time + 1, (observation, *rest)


@_jit
def _render(env: Environment, state: ArrayTree, task: ArrayTree) -> jax.Array:
    return env.render(state, task)


class _Spec(EnvSpec):
    """A specification that says why it cannot be written as JSON."""

    def to_json(self) -> str:
        """Returns the specification in JSON, as Gymnasium's own does.

        Raises:
          ValueError: unless the environment is one of the registered ids, without options.
        """
        env, params = self.kwargs["env"], self.kwargs["params"]
        named = isinstance(env, str) and (params is None or isinstance(params, dict))
        accepted_values = (
            "one of gpicljax.registered() without options, and params that are a dataclass"
        )
        check(named, "env", env, f"{accepted_values}, for a specification in JSON")
        return super().to_json()


def _changes(env: Environment, params: ArrayTree) -> Any:
    """Returns the fields that differ from the default params, as numbers and lists; None if none
    do.
    """
    default = env.default_params
    if Constant.of(params) == Constant.of(default):
        return None
    if not dataclasses.is_dataclass(params):
        return params
    pairs = {
        f.name: (getattr(params, f.name), getattr(default, f.name))
        for f in dataclasses.fields(params)
    }
    return {
        name: np.asarray(a).tolist() for name, (a, b) in pairs.items() if not np.array_equal(a, b)
    }


class GymnasiumEnv(gymnasium.Env):
    """An environment behind Gymnasium's interface; `to_gymnasium` makes one.

    Attributes:
      env: the environment.
      params: the distribution over tasks; may be replaced between episodes (a curriculum).
      task: the task in force, None before the first reset.
      state: the environment's state, None before the first reset.
      episode_key: typed key of the episode: it starts from `initial(episode_key, task)`, and the
        noise of step t = 0, 1, ... has `fold_in(episode_key, t)`.
    """

    def __init__(
        self,
        env: Environment,
        params: ArrayTree,
        episodes_per_trial: int | None,
        render_mode: str | None,
    ) -> None:
        JAX_PROCESS.enter()
        self.env = env
        self.params = params
        self.episodes_per_trial = episodes_per_trial
        self.metadata = {"render_modes": render_modes(env), "render_fps": RENDER_FPS}
        self.render_mode = render_mode
        self._native_observations = env.observation_space()
        self._native_actions = env.action_space()
        self.observation_space = observations_of(env, params)
        self.action_space = gymnasium_space(self._native_actions)
        self.spec = _Spec(
            "gpicljax/" + "-".join(re.findall(r"[\w:.]+", env.name)),  # no brackets in ids
            "gpicljax.interop.gymnasium:to_gymnasium",
            kwargs={
                "env": registered_id(env) or env,
                "params": _changes(env, params),
                "episodes_per_trial": episodes_per_trial,
            },
            vector_entry_point="gpicljax.interop.gymnasium_vector:to_gymnasium_vector",
        )
        self.task = self.state = self.episode_key = None
        self._root: jax.Array | None = None
        self._resets = self._episode = 0
        self._time = np.int32(0)
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode, of a new task unless the trial goes on.

        Args:
          seed: seeds tasks and episodes, and starts a new trial.
          options: `{"task_key": an integer or a typed key}` starts a trial of the task that is
            drawn from this key.

        Returns:
          The observation and `{"trial_start": bool}`.
        """
        JAX_PROCESS.enter()
        is_valid = seed is None or (isinstance(seed, int | np.integer) and seed >= 0)
        check(is_valid, "seed", seed, "an integer >= 0, or None")
        super().reset(seed=None if seed is None else int(seed))
        options = options or {}
        is_known = set(options) <= {"task_key"}
        check(is_known, "options", options, "{'task_key': an integer or a typed key}")
        if seed is not None or self._root is None:
            self._root = jax.random.key(int(self.np_random.integers(2**31)))
            self._resets, self.task = 0, None
        self._resets += 1
        task_key, self.episode_key = _keys(self._root, np.int32(self._resets))
        over = self.episodes_per_trial is not None and self._episode >= self.episodes_per_trial
        trial_start = self.task is None or over or "task_key" in options
        if trial_start:
            task_key = options.get("task_key", task_key)
            if not isinstance(task_key, jax.Array):
                task_key = jax.random.key(task_key)
            self.task = _sample_task(self.env, task_key, self.params)
            self._episode = 0
        self._episode += 1
        observation, self.state = _reset(self.env, self.episode_key, self.task)
        self._time = np.int32(0)
        self._over = False
        return to_numpy(self._native_observations, observation), {"trial_start": trial_start}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Runs one step; raises ResetNeeded if the episode is over, ValueError for a bad action."""
        if self._over:
            raise ResetNeeded("the episode is over, or none has begun: call reset()")
        action = to_action(self._native_actions, action)
        self.state, self._time, out = _step(
            self.env, self.episode_key, self._time, self.state, action, self.task
        )
        observation, reward, terminated, truncated, info = to_host(out)
        terminated, truncated = bool(terminated), bool(truncated)
        self._over = terminated or truncated
        return (
            to_numpy(self._native_observations, observation),
            float(reward),
            terminated,
            truncated,
            jax.tree.map(lambda x: x.item(), info),
        )

    def render(self) -> Any:
        """A picture `uint8[H, W, 3]` or the situation in words, by `render_mode`; None without."""
        if self.render_mode is None:
            return None
        if self._root is None:
            raise ResetNeeded("nothing to render: call reset()")
        if self.render_mode == "ansi":
            return self.env.describe(self.state, self.task)
        return np.array(_render(self.env, self.state, self.task))


def to_gymnasium(
    env: Environment | str,
    params: ParamsOrChanges = None,
    *,
    episodes_per_trial: int | None = 1,
    render_mode: Literal["rgb_array", "ansi"] | None = None,
    **static: Any,
) -> GymnasiumEnv:
    """Puts an environment behind Gymnasium's interface.

    Every call is one compiled program, so a step costs tens of microseconds however simple the
    environment: for throughput take `to_gymnasium_vector` or `VectorEnv`.

    Worker processes, such as those of `gymnasium.vector.AsyncVectorEnv`, must be started with
    `context="spawn"`: JAX has threads, and a process that is forked from one that uses it hangs.

    Args:
      env: an environment of one agent, or its id.
      params: the distribution over tasks, or a dictionary of the fields to change; by default
        `env.default_params`.
      episodes_per_trial: episodes of one task before `reset` draws a new one; None keeps the first
        until a reset is seeded or given a `task_key`.
      render_mode: `"rgb_array"` (where the environment draws), `"ansi"` (words) or None.
      **static: of an id, what `gpicljax.make` is given besides, such as `size=15`.

    Raises:
      ValueError: for several agents, options where `env` is no id, an unknown render mode,
        `episodes_per_trial` below 1, or `params` that `env.validate` refuses.

    Example:
      >>> import gpicljax
      >>> from gpicljax.interop import to_gymnasium
      >>> env = to_gymnasium(gpicljax.make("FrozenLake-v1"))
      >>> env.reset(seed=0)
      (np.int64(0), {'trial_start': True})
    """
    env, params = prepare(env, params, render_mode, static)
    check_at_least(1, episodes_per_trial=episodes_per_trial)
    return GymnasiumEnv(env, params, episodes_per_trial, render_mode)


def _make_registered(env: str, render_mode: str | None = None, **options: Any) -> GymnasiumEnv:
    """Returns the adapter of an id for `gymnasium.make`.

    Others, such as Stable-Baselines3, ask every environment for pictures. One that draws none has
    no mode then; `gymnasium.make` has warned of it.
    """
    static = {k: v for k, v in options.items() if k not in ("params", "episodes_per_trial")}
    if render_mode == "rgb_array" and not make(env, **static).can_render:
        render_mode = None
    return to_gymnasium(env, render_mode=render_mode, **options)  # type: ignore[arg-type]


# Shared with the vector adapter ----------------------------------------------------------------


def prepare(
    env: Environment | str,
    params: ParamsOrChanges,
    render_mode: str | None,
    static: Mapping[str, Any],
) -> tuple[Environment, Any]:
    """Returns the environment and the params to use, once they and the mode are checked."""
    JAX_PROCESS.enter()  # before the first computation, which would hang after a fork
    fits = isinstance(env, str) or not static
    check(fits, "options", [*static], "none beside an environment; static options beside an id")
    env = of_one_agent(make(env, **static) if isinstance(env, str) else env)
    check_choice("render_mode", render_mode, [*render_modes(env), None])
    if isinstance(params, Mapping):
        params = env.make_params(**params)
    return env, env.params_or_default(params)


def render_modes(env: Environment) -> list[str]:
    """`"ansi"` always; `"rgb_array"` where there is space to show."""
    return ["rgb_array", "ansi"] if env.can_render else ["ansi"]


def gymnasium_space(space: spaces.Space) -> gymnasium.Space:
    """Gymnasium's class for a space.

    Boxes of booleans (masks) become MultiBinary. Infinite bounds become half the largest finite
    number of the dtype: Gymnasium's checker wants bounds, and its `sample` needs their distance.
    """
    if isinstance(space, spaces.Discrete):
        return gymnasium.spaces.Discrete(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return gymnasium.spaces.MultiDiscrete(list(space.nvec))
    if isinstance(space, spaces.Dict):
        return gymnasium.spaces.Dict({name: gymnasium_space(entry) for name, entry in space.items})
    if not isinstance(space, spaces.Box):
        raise TypeError(f"Gymnasium has no space like {space}")
    dtype = np.dtype(space.jax_dtype)
    if dtype.kind == "b":
        return gymnasium.spaces.MultiBinary(space.shape)
    low, high = space.low, space.high
    if np.issubdtype(dtype, np.floating):
        largest = float(np.finfo(dtype).max) / 2
        low, high = max(low, -largest), min(high, largest)
    return gymnasium.spaces.Box(low, high, space.shape, dtype.type)


def observations_of(env: Environment, params: ArrayTree) -> gymnasium.Space:
    """Returns the space of observations, with the bounds that they have under these params."""
    space = env.observation_space()
    bounds = env.observation_bounds(params)
    if bounds is None or not isinstance(space, spaces.Box):
        return gymnasium_space(space)
    dtype = np.dtype(space.jax_dtype)
    low, high = (np.asarray([float(x) for x in end], dtype) for end in bounds)
    return gymnasium.spaces.Box(low, high, dtype=dtype.type)


def to_host(tree: ArrayTree) -> Any:
    """The leaves as NumPy arrays; `jax.device_get` takes three times as long for small ones."""
    return jax.tree.map(np.asarray, tree)


def to_numpy(space: spaces.Space, value: Any) -> Any:
    """An observation, or a batch of them, as a member of `converted(space)`, free to be written."""
    if isinstance(space, spaces.Dict):
        return {name: to_numpy(entry, value[name]) for name, entry in space.items}
    if isinstance(space, spaces.Discrete) and np.ndim(value) == 0:
        return np.int64(value)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return np.array(value, np.int64)
    value = np.array(value)
    return value.astype(np.int8) if value.dtype == bool else value


def to_action(space: Any, action: Any, batch: tuple[int, ...] = ()) -> np.ndarray:
    """Returns an action, or a batch of them, as the environment takes it.

    Raises:
      ValueError: for an action of another shape, or discrete choices that do not exist. Numbers
        beyond the bounds of a Box are the environment's to clip.
    """
    array = np.asarray(action)
    shape = getattr(space, "shape", None)
    if shape is not None and array.shape == (*batch, *shape):
        if isinstance(space, spaces.Box):
            return array.astype(space.jax_dtype)
        counts = space.n if isinstance(space, spaces.Discrete) else np.asarray(space.nvec)
        integer = np.issubdtype(array.dtype, np.integer)
        if integer and ((array >= 0) & (array < counts)).all():
            return array.astype(np.int32)
    several = f"a batch {[*batch]} of members" if batch else "a member"
    raise ValueError(refusal("action", action, f"{several} of {space}"))


for _id in registered():
    gymnasium.register(
        f"gpicljax/{_id}",
        "gpicljax.interop.gymnasium:_make_registered",
        vector_entry_point="gpicljax.interop.gymnasium_vector:to_gymnasium_vector",
        kwargs={"env": _id},
    )
