"""Gymnasium's interface for a batch, on top of `gpicljax.VectorEnv`."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import jax
import numpy as np

from gpicljax.batching import select
from gpicljax.checks import JAX_PROCESS, check, check_at_least, check_choice, missing
from gpicljax.environment import Environment
from gpicljax.interface import TimeStep
from gpicljax.interop import gymnasium as single
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv, VectorState

try:
    import gymnasium
    from gymnasium.error import ResetNeeded
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise missing("gymnasium", "interop") from error

_jit = functools.partial(jax.jit, static_argnums=0)


@_jit
def _init(vec: VectorEnv, key: jax.Array, params: ArrayTree) -> tuple[VectorState, TimeStep]:
    return vec.init(key, params)


@functools.partial(_jit, donate_argnums=1)
def _step(vec: VectorEnv, vstate: VectorState, actions: Any) -> tuple[VectorState, TimeStep]:
    return vec.step(vstate, actions)


@functools.partial(_jit, donate_argnums=1)
def _step_and_restart(
    vec: VectorEnv, vstate: VectorState, actions: Any
) -> tuple[VectorState, TimeStep, TimeStep]:
    """Runs a step, and at once the reset of the instances that it ended.

    Returns:
      The state, the time step that the actions led to, and the one to act on next.
    """
    vstate, arrived = vec.step(vstate, actions)

    def restart(vstate: VectorState, arrived: TimeStep) -> tuple[VectorState, TimeStep]:
        # The batch's own next step resets what has ended; what has not is put back. So is the
        # time: of its keys only those of resets were used, which no other step at this time needs.
        after, first = vec.step(vstate, actions)
        keep = functools.partial(select, arrived.last)
        fields = ("task", "state", "ended", "episode")
        merged = {f: keep(getattr(after, f), getattr(vstate, f)) for f in fields}
        following = arrived._replace(
            observation=keep(first.observation, arrived.observation),
            episode_start=first.episode_start,
            trial_start=first.trial_start,
        )
        return dataclasses.replace(vstate, **merged), following

    vstate, following = jax.lax.cond(
        arrived.last.any(), restart, lambda *unchanged: unchanged, vstate, arrived
    )
    return vstate, arrived, following


@functools.partial(_jit, donate_argnums=1)
def _renew(vec: VectorEnv, vstate: VectorState, timestep: TimeStep) -> VectorState:
    return vec.renew(vstate, timestep)[0]


@_jit
def _render(env: Environment, state: ArrayTree, task: ArrayTree) -> jax.Array:
    return jax.vmap(env.render)(state, task)


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv):
    """A batch behind Gymnasium's interface; `to_gymnasium_vector` makes one.

    Attributes:
      vec: the batch.
      state: its state, None before the first reset.
    """

    def __init__(
        self,
        vec: VectorEnv,
        autoreset_mode: AutoresetMode,
        renew_every: int,
        render_mode: str | None,
    ) -> None:
        JAX_PROCESS.enter()
        self.vec = vec
        # The state carries the params: one set of compiled programs serves all of them.
        self._programs = dataclasses.replace(vec, params=None)
        self.num_envs = vec.num_envs
        self.autoreset_mode = autoreset_mode
        self.renew_every = renew_every
        self.render_mode = render_mode
        self.metadata = {
            "render_modes": single.render_modes(vec.env),
            "render_fps": single.RENDER_FPS,
            "autoreset_mode": autoreset_mode,
        }
        self._native_observations = vec.env.observation_space()
        self._native_actions = vec.env.action_space()
        self.single_observation_space = single.observations_of(vec.env, vec.params)
        self.single_action_space = single.gymnasium_space(self._native_actions)
        self.observation_space = batch_space(self.single_observation_space, vec.num_envs)
        self.action_space = batch_space(self.single_action_space, vec.num_envs)
        self.state: VectorState | None = None
        self._root: jax.Array | None = None
        self._resets = self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts all trials anew.

        Args:
          seed: one integer for the whole batch; every instance has a stream of its own.
          options: none are known.

        Returns:
          The observations and `{"trial_start": bool[B]}`.
        """
        JAX_PROCESS.enter()
        whole = seed is None or (isinstance(seed, int | np.integer) and seed >= 0)
        check(whole, "seed", seed, "one integer >= 0 for the whole batch, or None")
        super().reset(seed=None if seed is None else int(seed))
        check(not options, "options", options, "none")
        if seed is not None or self._root is None:
            self._root = jax.random.key(int(self.np_random.integers(2**31)))
            self._resets = 0
        self._resets += 1
        key = jax.random.fold_in(self._root, self._resets)
        self.state, timestep = _init(self._programs, key, self.vec.params)
        self._steps = 0
        timestep = single.to_host(timestep)
        return self._observations(timestep), _trial_starts(timestep)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Runs one step of every instance.

        Args:
          actions: members of `action_space`; with next-step reset those of the instances that
            ended are ignored.

        Returns:
          Observations, rewards float `[B]`, terminations and truncations `bool[B]`, and infos: an
          array for each name, with a mask under `_name`. With same-step reset, `final_obs` and
          `final_info` describe where the instances that ended came to.

        Raises:
          gymnasium.error.ResetNeeded: before the first reset.
          ValueError: for actions that are not members of `action_space`.
        """
        if self.state is None:
            raise ResetNeeded("no episode has begun: call reset()")
        actions = single.to_action(self._native_actions, actions, (self.num_envs,))
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            self.state, arrived, following = _step_and_restart(self._programs, self.state, actions)
        else:
            self.state, arrived = _step(self._programs, self.state, actions)
            following = arrived
        self._steps += 1
        if self.vec.resets == "bank" and self._steps % self.renew_every == 0:
            self.state = _renew(self._programs, self.state, following)
        if following is arrived:
            arrived = following = single.to_host(arrived)
            infos = _mask(arrived.info, ~arrived.episode_start)
        else:
            arrived, following = single.to_host((arrived, following))
            infos = _mask(arrived.info, ~arrived.last)
            infos |= self._final(arrived)
        if following.episode_start.any():
            infos |= _trial_starts(following)
        return (
            self._observations(following),
            np.array(arrived.reward),
            np.array(arrived.terminated),
            np.array(arrived.truncated),
            infos,
        )

    def render(self) -> tuple[Any, ...] | None:
        """Returns every instance's picture or words, by `render_mode`; None without."""
        if self.render_mode is None:
            return None
        if self.state is None:
            raise ResetNeeded("nothing to render: call reset()")
        state, task, env = self.state.state, self.state.task, self.vec.env
        if self.render_mode == "rgb_array":
            return tuple(np.array(_render(env, state, task)))
        instances = [jax.tree.map(lambda x, i=i: x[i], (state, task)) for i in range(self.num_envs)]
        return tuple(env.describe(state, task) for state, task in instances)

    def _observations(self, timestep: TimeStep) -> Any:
        return single.to_numpy(self._native_observations, timestep.observation)

    def _final(self, arrived: TimeStep) -> dict[str, Any]:
        """Returns `final_obs`, an object array of observations or None, and `final_info`, with
        masks.
        """
        ended = arrived.last
        if not ended.any():
            return {}
        observations = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(ended):
            observation = jax.tree.map(lambda x, i=i: x[i], arrived.observation)
            observations[i] = single.to_numpy(self._native_observations, observation)
        return {
            "final_obs": observations,
            "_final_obs": ended,
            "final_info": _mask(arrived.info, ended),
            "_final_info": ended,
        }


def _mask(values: dict[str, Any], mask: Any) -> dict[str, Any]:
    """Returns each array, zero where the mask is false, and the mask under `_name`; nested ones
    too.
    """
    if not mask.any():
        return {}
    infos = {
        name: _mask(value, mask)
        if isinstance(value, dict)
        else np.where(mask, value, np.zeros_like(value))
        for name, value in values.items()
    }
    return infos | {f"_{name}": mask.copy() for name in values}


def _trial_starts(timestep: TimeStep) -> dict[str, Any]:
    return _mask({"trial_start": timestep.trial_start}, timestep.episode_start)


def to_gymnasium_vector(
    env: Environment | str,
    num_envs: int,
    params: single.ParamsOrChanges = None,
    *,
    episodes_per_trial: int = 1,
    resets: Literal["fresh", "bank"] = "fresh",
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    renew_every: int = 64,
    render_mode: Literal["rgb_array", "ansi"] | None = None,
    **options: Any,
) -> GymnasiumVectorEnv:
    """Puts a `VectorEnv` behind Gymnasium's interface.

    Args:
      env: an environment of one agent, or its id.
      num_envs: batch size B.
      params: the distribution over tasks; `env.default_params` if None.
      episodes_per_trial: episodes of one task before a new one is drawn.
      resets: see `VectorEnv`. `"synchronous"` has no counterpart in Gymnasium.
      autoreset_mode: `"NextStep"`, as `VectorEnv` and Gymnasium do by default, or `"SameStep"`:
        the observation is the next episode's, and the last one's is in `infos["final_obs"]`.
      renew_every: steps between renewals of the bank, for `resets="bank"`.
      render_mode: `"rgb_array"` (where the environment draws), `"ansi"` (words) or None.
      **options: further options of `VectorEnv`, such as `tasks` and `bank_size`; all others are
        those of an id, as `gpicljax.make` takes them.

    Raises:
      ValueError: for several agents or an option that does not fit.

    Example:
      >>> import gpicljax
      >>> from gpicljax.interop import to_gymnasium_vector
      >>> envs = to_gymnasium_vector(gpicljax.make("FrozenLake-v1"), num_envs=3)
      >>> observations, infos = envs.reset(seed=0)
      >>> observations
      array([0, 0, 0])
    """
    vector_options = {field.name for field in dataclasses.fields(VectorEnv)}
    static = {name: options.pop(name) for name in [*options] if name not in vector_options}
    env, params = single.prepare(env, params, render_mode, static)
    check_choice("resets", resets, ("fresh", "bank"))
    modes = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]
    if autoreset_mode not in modes:
        check_choice("autoreset_mode", autoreset_mode, [mode.value for mode in modes])
    check_at_least(1, renew_every=renew_every)
    vec = VectorEnv(
        env,
        num_envs,
        episodes_per_trial=episodes_per_trial,
        resets=resets,
        params=params,
        **options,
    )
    return GymnasiumVectorEnv(vec, AutoresetMode(autoreset_mode), renew_every, render_mode)
