"""A user's own Gymnasium environments as a batch for `rollout.host_play`.

So whatever plays on the host, language models among them, plays there too, and is measured by the
same functions. What is seen is a trial of so many actions, as `wrappers.Trial` shows it.

Example:
  >>> import gymnasium
  >>> from gpicljax.systems.in_context_rl.measures.trials import (
  ...     keep_trial_step, measure_trials, trial_records)
  >>> from gpicljax.rollout import host_play
  >>> batch = from_gymnasium(lambda: gymnasium.make("CliffWalking-v1"), num_envs=2, actions=5)
  >>> def always_up(requests):
  ...     return {instance: 0 for instance in requests}
  >>> played = host_play(jax.random.key(0), batch, always_up, max_steps=5, keep=keep_trial_step)
  >>> measure_trials(trial_records(played)).total_return.tolist()
  [-5.0, -5.0]
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax import spaces
from gpicljax.checks import check, check_at_least, missing, refusal
from gpicljax.interface import ActionRequest, Record, TimeStep
from gpicljax.random import check_key
from gpicljax.typing import ArrayTree
from gpicljax.wrappers.trial import trial_space

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise missing("gymnasium", "interop") from error


class HostState(NamedTuple):
    """The state of the batch, as a record has it.

    Attributes:
      episode: `int32[1]`, always 0: a trial is one episode.
    """

    episode: Any


class _Space(NamedTuple):
    """A space of Gymnasium's and the native one.

    Attributes:
      native: the space.
      foreign: Gymnasium's.
    """

    native: spaces.Space
    foreign: Any

    def read(self, value: Any) -> Any:
        """Returns a member of theirs as a native one: a copy, as environments reuse their arrays.

        Raises:
          ValueError: for an observation that is not in the space that the environment declares.
        """
        accepted_values = f"a member of the environment's observation_space, {self.foreign}"
        if isinstance(self.native, spaces.Discrete):
            number = _number("observation", value) - int(self.foreign.start)
            check(number in range(self.native.n), "observation", value, accepted_values)
            return np.asarray(number, np.int32)
        dtype = np.int32 if isinstance(self.native, spaces.MultiDiscrete) else None
        try:
            copied = np.array(value, dtype or self.native.jax_dtype)  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            raise ValueError(refusal("observation", value, accepted_values)) from None
        shape = self.native.shape  # type: ignore[attr-defined]
        check(copied.shape == shape, "observation.shape", copied.shape, f"{shape}")
        check(self._holds(copied), "observation", value, accepted_values)
        return copied

    def _holds(self, value: np.ndarray) -> bool:
        """Whether all entries are within their bounds, as far as the array's dtype can tell."""
        if isinstance(self.native, spaces.MultiDiscrete):
            low, high = 0, self.foreign.nvec - 1
        elif isinstance(self.foreign, gymnasium.spaces.Box):
            low, high = (x.astype(value.dtype) for x in (self.foreign.low, self.foreign.high))
        else:
            low, high = 0, 1
        return bool(((value >= low) & (value <= high)).all())

    def write(self, value: Any) -> Any:
        """Returns an agent's action as a member of theirs.

        Continuous actions beyond their bounds stand for the nearest ones within, as everywhere.

        Raises:
          ValueError: for other actions that are not in the space.
        """
        accepted_values = f"a member of the action space, {self.native}"
        if isinstance(self.native, spaces.Discrete):
            number = _number("action", value)
            check(number in range(self.native.n), "action", value, accepted_values)
            return int(number) + int(self.foreign.start)
        array = np.asarray(value)
        sound = array.dtype.kind in "biuf" and bool(np.isfinite(array).all())
        check(sound and array.size == np.prod(self.foreign.shape), "action", value, accepted_values)
        array = array.reshape(self.foreign.shape)
        if isinstance(self.foreign, gymnasium.spaces.Box):
            return np.clip(array, self.foreign.low, self.foreign.high).astype(self.foreign.dtype)
        check(self._holds(array), "action", value, accepted_values)
        return array.astype(self.foreign.dtype)


def native_space(space: Any, argument: str = "space") -> spaces.Space:
    """The native space like one of Gymnasium's; a Box whose bounds differ is an `UnevenBox`.

    Raises:
      ValueError: for another kind than Discrete, MultiDiscrete, MultiBinary and Box.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return spaces.Discrete(int(space.n))
    if isinstance(space, gymnasium.spaces.MultiDiscrete) and not np.any(space.start):
        return spaces.MultiDiscrete(_to_tuples(space.nvec.tolist()))
    if isinstance(space, gymnasium.spaces.MultiBinary):
        return spaces.Box(0, 1, tuple(space.shape), "int8")
    accepted_values = "Gymnasium's Discrete, MultiDiscrete from 0, MultiBinary or Box"
    check(isinstance(space, gymnasium.spaces.Box), argument, space, accepted_values)
    assert isinstance(space, gymnasium.spaces.Box)
    dtype = np.dtype(space.dtype)
    # 64-bit numbers are what JAX makes of them.
    kept = None if dtype.kind == "f" else str(jnp.zeros((), dtype).dtype)
    low, high = float(space.low.min()), float(space.high.max())
    bounds = tuple(zip(space.low.ravel().tolist(), space.high.ravel().tolist(), strict=True))
    if len(set(bounds)) > 1:
        return spaces.UnevenBox(low, high, tuple(space.shape), kept, bounds)
    return spaces.Box(low, high, tuple(space.shape), kept)


def _to_tuples(value: Any) -> Any:
    return tuple(_to_tuples(x) for x in value) if isinstance(value, list) else value


def _number(name: str, value: Any) -> float:
    """Returns a number, also where it comes as an array of one entry."""
    array = np.asarray(value)
    check(array.size == 1 and array.dtype.kind in "biuf", name, value, "one number")
    return array.reshape(()).item()


def _one(tree: ArrayTree) -> Any:
    """With a batch axis."""
    return jax.tree.map(lambda x: np.asarray(x)[None], tree)


class GymnasiumInstance:
    """One trial in a Gymnasium environment, as `rollout.Instance` is one of a batch.

    Attributes:
      record: its last step, leaves `[1, ...]`; None before the first.
    """

    def __init__(self, batch: GymnasiumBatch, env: Any, key: jax.Array) -> None:
        """Resets the environment."""
        self._batch, self._env, self._key = batch, env, key
        self._seed = int(jax.random.randint(jax.random.fold_in(key, 2**31), (), 0, 2**31 - 1))
        self.record: Record | None = None
        self._time = 0
        observation = self._reset(first=True)
        self._timestep = self._make_timestep(
            observation, observation, observation, 0.0, False, False
        )

    def _reset(self, first: bool = False) -> Any:
        seeded = first or self._batch.replay_noise
        returned = self._env.reset(seed=self._seed if seeded else None)
        pair = isinstance(returned, tuple) and len(returned) == 2
        check(pair, "reset", returned, "two values, (observation, info)")
        return self._batch.observations.read(returned[0])

    def _make_timestep(
        self, current: Any, before: Any, reached: Any, reward: float, over: bool, cut: bool
    ) -> TimeStep:
        dtype = jnp.result_type(float)
        observation = {
            "now": current,
            "before": before,
            "reached": reached,
            "terminated": np.asarray(over),
            "truncated": np.asarray(cut and not over),
            "elapsed": np.asarray([self._time / self._batch.actions], dtype),
        }
        first, last = self._time == 0, self._time >= self._batch.actions
        flags: Any = [np.asarray(flag) for flag in (False, last, first, first)]
        paid: Any = np.asarray(reward, dtype)
        return TimeStep(observation, paid, *flags, info={})

    @property
    def request(self) -> ActionRequest:
        """Returns the request for the instance's next action."""
        key, time = self._key, self._time
        return ActionRequest(self._timestep, lambda: jax.random.fold_in(key, time))

    @property
    def blank_record(self) -> Record:
        """Returns a record of zeros, as before the first step."""
        zero = np.zeros(1, np.int32)
        action = jax.tree.map(lambda x: np.zeros((1, *x.shape), x.dtype), self._batch.no_action)
        timestep = _one(self._timestep)
        return Record(HostState(zero), timestep, action, {}, HostState(zero), timestep)  # type: ignore[arg-type]

    def step(self, action: Any) -> TimeStep:
        """Acts once; where an episode ends, the next one begins at once."""
        check(self._time < self._batch.actions, "step", "another action", "none: the trial is over")
        before, blank = self._timestep, self.blank_record
        returned = self._env.step(self._batch.choices.write(action))
        accepted_values = "five values, (observation, reward, terminated, truncated, info)"
        check(isinstance(returned, tuple) and len(returned) == 5, "step", returned, accepted_values)
        observation, reward, over, cut, _ = returned
        self._time += 1
        reached = self._batch.observations.read(observation)
        current = self._reset() if over or cut else reached
        previous = before.observation["now"]
        paid, ended = _number("reward", reward), bool(_number("terminated", over))
        check(bool(np.isfinite(paid)), "reward", reward, "a finite number")
        cut = bool(_number("truncated", cut))
        self._timestep = self._make_timestep(current, previous, reached, paid, ended, cut)
        action = np.array(action, self._batch.no_action.dtype)
        self.record = blank._replace(action=action[None], next_timestep=_one(self._timestep))
        return self._timestep


class GymnasiumBatch:
    """Trials in Gymnasium environments; see `from_gymnasium`.

    Attributes:
      num_envs: how many trials there are.
      episodes_per_trial: 1: episodes within are not told apart by `host_play`.
      actions: of a trial.
      replay_noise: see `from_gymnasium`.
      name: that of the environment.
    """

    def __init__(
        self, make: Callable[[], Any], num_envs: int, actions: int, replay_noise: bool
    ) -> None:
        """See `from_gymnasium`."""
        self.num_envs, self.episodes_per_trial = num_envs, 1
        self.actions, self.replay_noise = actions, replay_noise
        self._make = make
        self._open: list[Any] = []
        weakref.finalize(self, _close_all, self._open)
        env = make()
        is_env = isinstance(env, gymnasium.Env)
        check(is_env, "make", type(env).__name__, "a function that makes a gymnasium.Env")
        named = inspect.signature(env.unwrapped.reset).parameters
        seeded = "seed" in named or any(x.kind == x.VAR_KEYWORD for x in named.values())
        check(seeded, "reset", f"reset({', '.join(named)})", "reset(*, seed=None, options=None)")
        kind = native_space(env.observation_space, "observation_space")
        self.observations = _Space(kind, env.observation_space)
        self.choices = _Space(native_space(env.action_space, "action_space"), env.action_space)
        self.name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        self.no_action = np.asarray(self.choices.native.sample(jax.random.key(0)))
        env.close()

    def __repr__(self) -> str:
        return f"from_gymnasium({self.name}, num_envs={self.num_envs}, actions={self.actions})"

    def action_space(self) -> spaces.Space:
        """Returns the native space of actions."""
        return self.choices.native

    def observation_space(self) -> spaces.Dict:
        """The native space of what is seen, as `wrappers.Trial` has it."""
        return trial_space(self.observations.native)

    def start(self, key: jax.Array, env_params: ArrayTree = None) -> list[GymnasiumInstance]:
        """Returns all trials at their start, each seeded from the key and its number.

        Environments of an earlier start are closed.
        """
        check_key("key", key)
        check(env_params is None, "env_params", env_params, "None: there is no distribution")
        self.close()
        instances = []
        for i in range(self.num_envs):
            self._open.append(self._make())
            instances.append(GymnasiumInstance(self, self._open[-1], jax.random.fold_in(key, i)))
        return instances

    def close(self) -> None:
        """Closes the environments, as `host_play` does at its end, and the collector of garbage."""
        _close_all(self._open)


def _close_all(environments: list[Any]) -> None:
    while environments:
        environments.pop().close()


def from_gymnasium(
    make: Callable[[], Any], num_envs: int, actions: int, replay_noise: bool = False
) -> GymnasiumBatch:
    """Gymnasium environments as a batch of trials for `rollout.host_play`.

    An environment is seeded once, at the start of its trial; its later episodes go on from there,
    so that no noise is replayed.

    Args:
      make: makes an environment, with discrete, multi-discrete or Box spaces; called once for each
        trial, and once to look at its spaces.
      num_envs: trials.
      actions: of each, whatever episodes they make up.
      replay_noise: whether every reset has the same seed, as in the reference of the in-context RL
        evaluation.

    Returns:
      The batch.

    Raises:
      ValueError: for counts below 1, what is no environment, or spaces of another kind.

    Example:
      >>> batch = from_gymnasium(lambda: gymnasium.make("MountainCar-v0"), num_envs=2, actions=200)
      >>> batch.observation_space()["now"].shape
      (2,)
    """
    check_at_least(1, num_envs=num_envs, actions=actions)
    return GymnasiumBatch(make, num_envs, actions, replay_noise)
