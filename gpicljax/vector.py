"""Layer 2: a batch of environments that owns tasks, resets, trial boundaries and key streams.

Trainers and evaluators see nothing else of an environment. Resets follow Gymnasium 1.x's
next-step rule: the terminal observation is seen; the following step ignores its action and
returns the first observation of the next episode with reward 0.

Starting an episode may be expensive and few instances need it at any one step, so nothing of it
sits in the step path behind a `select`: the instances that ended are *compacted*, i.e. gathered
into small groups for which alone the work is done (`_for_those`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

import chex
import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.environment import Environment
from gpicljax.interface import TimeStep

if TYPE_CHECKING:  # task sets live a floor above; this file is only handed one
    from gpicljax.data.task_set import TaskSet

Resets = Literal["fresh", "bank", "synchronous"]

_RENEWAL = 2**31


@struct.dataclass
class VectorState:
    """Everything the batch carries between steps.

    Attributes:
      keys: typed keys `[B]`, one stream per instance; instance i's stream does not depend on B.
      time: `int32[]`, steps since `init`.
      params: the distribution over tasks in force.
      task: the tasks, leaves `[B, ...]`.
      state: the environments' states, leaves `[B, ...]`.
      ended: `bool[B]`, the last step ended the instance's episode.
      episode: `int32[B]`, index of the episode within its trial.
      trial_time: `int32[]`, steps since the trials began (`"synchronous"` only).
      bank: blueprints `[P, ...]` (`"bank"` only).
      cursor: `int32[]`, next bank entry to be renewed.
    """

    keys: jax.Array
    time: jax.Array
    params: Any
    task: Any
    state: Any
    ended: jax.Array
    episode: jax.Array
    trial_time: jax.Array
    bank: Any
    cursor: jax.Array


def _select(condition: jax.Array, on_true: Any, on_false: Any) -> Any:
    """`where` over two pytrees; `condition` broadcasts from the left. Typed keys allowed."""

    def pick(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, on_true, on_false)


def _strong(leaf: Any) -> jax.Array:
    """An array of a definite dtype, of a Python number too; `params` are carried state."""
    if isinstance(leaf, bool | int | float):
        dtype = jnp.result_type(float) if isinstance(leaf, float) else jnp.int32
        return jnp.asarray(leaf, bool if isinstance(leaf, bool) else dtype)
    return jax.lax.convert_element_type(leaf, jnp.asarray(leaf).dtype)


def _for_those(need: jax.Array, current: Any, make: Callable[[jax.Array], Any], group: int) -> Any:
    """Replaces the entries of `current` marked by `need` with `make(indices)`, in groups.

    Args:
      need: `bool[B]`.
      current: pytree with leaves `[B, ...]`.
      make: maps `int32[group]` instance indices to a pytree with leaves `[group, ...]`; an index
        of B marks an unused place of the last group.
      group: instances per round; the number of rounds is `ceil(need.sum() / group)`.

    Returns:
      `current` with the marked entries replaced.
    """
    size = need.shape[0]

    def body(loop: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        need, current = loop
        (indices,) = jnp.nonzero(need, size=group, fill_value=size)
        indices = indices.astype(jnp.int32)
        fresh = make(indices)
        current = jax.tree.map(
            lambda c, f: c.at[indices].set(f.astype(c.dtype), mode="drop"), current, fresh
        )
        return need.at[indices].set(False, mode="drop"), current

    return jax.lax.while_loop(lambda loop: loop[0].any(), body, (need, current))[1]


@dataclasses.dataclass(frozen=True, eq=False)
class VectorEnv:
    """A batch of `num_envs` instances of one environment.

    Args:
      env: the environment.
      num_envs: batch size B.
      episodes_per_trial: episodes of one task before a new one is drawn.
      resets: where the tasks of new trials come from. `"fresh"`: each is drawn when a trial ends.
        `"bank"`: blueprints drawn at random from a pool, of which `renew` replaces a share.
        `"synchronous"`: all trials end together after `steps_per_trial` steps and `renew` starts
        the next ones; nothing is generated inside `step` but further episodes of the same task.
      params: the distribution over tasks; `env.default_params` if None.
      tasks: a finite set to draw from instead of the whole distribution.
      bank_size: blueprints P in the bank; by default `max(1024, 4 * num_envs)`.
      renew_share: share of the bank replaced by one `renew`.
      steps_per_trial: trial length for `"synchronous"`.
      group: how many ended instances are restarted together; by default about `num_envs / 16`.

    Raises:
      ValueError: for a bad size, or `params` that `env.validate` refuses.

    Example:
      >>> import gpicljax, jax, jax.numpy as jnp
      >>> vec = gpicljax.VectorEnv(gpicljax.make("BernoulliBandit-v0"), num_envs=8)
      >>> vstate, timestep = vec.init(jax.random.key(0))
      >>> vstate, timestep = vec.step(vstate, jnp.zeros(8, jnp.int32))
      >>> timestep.reward.shape
      (8,)
    """

    env: Environment
    num_envs: int
    episodes_per_trial: int = 1
    resets: Resets = "bank"
    params: Any = None
    tasks: TaskSet | None = None
    bank_size: int | None = None
    renew_share: float = 0.25
    steps_per_trial: int | None = None
    group: int | None = None

    def __post_init__(self) -> None:
        for field in ("num_envs", "episodes_per_trial", "bank_size", "steps_per_trial", "group"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ValueError(f"{field} = {value}: at least 1 is needed")
        if self.resets not in get_args(Resets):
            raise ValueError(f"resets = {self.resets!r}: choose from {get_args(Resets)}")
        if not 0 <= self.renew_share <= 1:
            raise ValueError(f"renew_share = {self.renew_share}: a share lies within [0, 1]")
        if (self.resets == "synchronous") != (self.steps_per_trial is not None):
            raise ValueError('steps_per_trial goes with resets="synchronous", and only with it')
        if self.params is None:
            object.__setattr__(self, "params", self.env.default_params)
        else:
            self.env.validate(self.params)

    # Generation ------------------------------------------------------------------------------

    def _blueprint(self, key: jax.Array, params: Any) -> Any:
        if self.tasks is None:
            return self.env.sample_blueprint(key, params)
        task_key, state_key = jax.random.split(key)
        task = self.env.sample_task(self.tasks.sample(task_key), params)
        return task, self.env.initial(state_key, task)

    def _blueprints(self, keys: jax.Array, params: Any) -> Any:
        # In tiles that stay in cache, and whose slowest member does not hold up the whole bank.
        return jax.lax.map(lambda key: self._blueprint(key, params), keys, batch_size=512)

    def _start(self, key: jax.Array, blueprint: Any, params: Any) -> tuple[Any, Any]:
        return blueprint if self.tasks is not None else self.env.start(key, blueprint, params)

    def _fresh(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        blueprint_key, start_key = jax.random.split(key)
        return self._start(start_key, self._blueprint(blueprint_key, params), params)

    def _from_bank(self, key: jax.Array, bank: Any, params: Any) -> tuple[Any, Any]:
        index_key, start_key = jax.random.split(key)
        # The bias of the remainder is below P / 2**32; `randint` takes three draws to avoid it.
        index = (jax.random.bits(index_key) % self._bank_size).astype(jnp.int32)
        return self._start(start_key, jax.tree.map(lambda x: x[index], bank), params)

    @property
    def _bank_size(self) -> int:
        return self.bank_size or max(1024, 4 * self.num_envs)

    @property
    def _group(self) -> int:
        return min(self.num_envs, self.group or max(8, self.num_envs // 16))

    # The public interface --------------------------------------------------------------------

    def init(self, key: jax.Array, params: Any = None) -> tuple[VectorState, TimeStep]:
        """Starts all trials.

        Args:
          key: a typed key.
          params: overrides the constructor's; may be traced, so that `vmap` runs a grid.

        Returns:
          The state and the first time step.
        """
        params = jax.tree.map(_strong, self.params if params is None else params)
        bank_key, instance_key = jax.random.split(key)
        keys = jax.vmap(lambda i: jax.random.fold_in(instance_key, i))(
            jnp.arange(self.num_envs, dtype=jnp.uint32)
        )
        bank = None
        if self.resets == "bank":
            bank = self._blueprints(jax.random.split(bank_key, self._bank_size), params)
        split = jax.vmap(jax.random.split)(keys)
        task, state = self._begin(split[:, 1], bank, params)
        vstate = VectorState(
            keys=split[:, 0],
            time=jnp.zeros((), jnp.int32),
            params=params,
            task=task,
            state=state,
            ended=jnp.zeros(self.num_envs, bool),
            episode=jnp.zeros(self.num_envs, jnp.int32),
            trial_time=jnp.zeros((), jnp.int32),
            bank=bank,
            cursor=jnp.zeros((), jnp.int32),
        )
        return vstate, self._first(vstate)

    def _begin(self, keys: jax.Array, bank: Any, params: Any) -> tuple[Any, Any]:
        if bank is None:
            return jax.vmap(self._fresh, (0, None))(keys, params)
        return jax.vmap(self._from_bank, (0, None, None))(keys, bank, params)

    def _first(self, vstate: VectorState) -> TimeStep:
        """The time step of a batch all of whose trials start now."""
        no, yes = jnp.zeros(self.num_envs, bool), jnp.ones(self.num_envs, bool)
        observation = jax.vmap(self.env.observe)(vstate.state, vstate.task)
        blank = jax.eval_shape(self._transition, vstate, self._no_action(vstate))
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (blank.reward, blank.info))
        return TimeStep(observation, zeros[0], no, no, yes, yes, zeros[1])

    def _no_action(self, vstate: VectorState) -> Any:
        space = self.env.action_space()
        action = space.sample(jax.random.key(0))
        return jax.tree.map(lambda a: jnp.zeros((self.num_envs, *a.shape), a.dtype), action)

    def _transition(self, vstate: VectorState, actions: Any) -> Any:
        keys = jax.vmap(lambda k: jax.random.fold_in(k, 2 * vstate.time))(vstate.keys)
        return jax.vmap(self.env.transition)(keys, vstate.state, actions, vstate.task)

    def step(self, vstate: VectorState, actions: Any) -> tuple[VectorState, TimeStep]:
        """Moves every instance by one step; those that ended start their next episode instead.

        Args:
          vstate: the state.
          actions: the actions, leaves `[B, ...]`; ignored where the last time step was `last`.

        Returns:
          The new state and time step.
        """
        chex.assert_tree_has_only_ndarrays(actions)
        chex.assert_tree_shape_prefix(actions, (self.num_envs,))
        moved, reward, terminated, truncated, info = self._transition(vstate, actions)
        ended = vstate.ended
        state = _select(ended, vstate.state, moved)

        # Instances that ended: a new task where the trial is over, else one more episode.
        synchronous = self.resets == "synchronous"
        over = vstate.episode + 1 >= self.episodes_per_trial
        new_trial = jnp.zeros_like(ended) if synchronous else ended & over
        new_episode = ended & ~new_trial
        reset_time = 2 * vstate.time + 1
        task = vstate.task

        def key_of(indices: jax.Array) -> jax.Array:
            return jax.vmap(lambda k: jax.random.fold_in(k, reset_time))(vstate.keys[indices])

        if synchronous or self.episodes_per_trial > 1:

            def next_episode(indices: jax.Array) -> Any:
                tasks = jax.tree.map(lambda x: x[indices], vstate.task)
                return jax.vmap(self.env.initial)(key_of(indices), tasks)

            state = _for_those(new_episode, state, next_episode, self._group)
        if not synchronous:

            def next_trial(indices: jax.Array) -> Any:
                return self._begin(key_of(indices), vstate.bank, vstate.params)

            task, state = _for_those(new_trial, (task, state), next_trial, self._group)

        trial_time = vstate.trial_time + 1
        terminated, truncated = terminated & ~ended, truncated & ~ended
        if synchronous:
            truncated = truncated | ((trial_time == self.steps_per_trial) & ~terminated)
        timestep = TimeStep(
            observation=jax.vmap(self.env.observe)(state, task),
            reward=_select(ended, jnp.zeros_like(reward), reward),
            terminated=terminated,
            truncated=truncated,
            episode_start=ended,
            trial_start=new_trial,
            info=_select(ended, jax.tree.map(jnp.zeros_like, info), info),
        )
        vstate = dataclasses.replace(
            vstate,
            time=vstate.time + 1,
            task=task,
            state=state,
            ended=terminated | truncated,
            episode=jnp.where(new_trial, 0, vstate.episode + new_episode),
            trial_time=trial_time,
        )
        return vstate, timestep

    def renew(self, vstate: VectorState, timestep: TimeStep) -> tuple[VectorState, TimeStep]:
        """What is generated between scans; trainers call it once per chunk.

        `"bank"`: replaces `renew_share` of the bank, oldest first. `"synchronous"`: starts new
        trials everywhere. `"fresh"`: nothing.

        Returns:
          The state, and the time step to act on next.
        """
        if self.resets == "fresh":
            return vstate, timestep
        # Apart from the keys of the coming step, whose subkeys have small numbers.
        seeds = jax.vmap(
            lambda k: jax.random.fold_in(jax.random.fold_in(k, 2 * vstate.time + 1), _RENEWAL)
        )(vstate.keys)
        if self.resets == "bank":
            count = round(self._bank_size * self.renew_share)
            if count == 0:
                return vstate, timestep
            keys = jax.random.split(seeds[0], count)
            new = self._blueprints(keys, vstate.params)
            places = (vstate.cursor + jnp.arange(count, dtype=jnp.int32)) % self._bank_size
            bank = jax.tree.map(lambda old, x: old.at[places].set(x), vstate.bank, new)
            cursor = (vstate.cursor + count) % self._bank_size
            return dataclasses.replace(vstate, bank=bank, cursor=cursor), timestep
        split = jax.vmap(jax.random.split)(seeds)
        task, state = self._begin(split[:, 1], None, vstate.params)
        vstate = dataclasses.replace(
            vstate,
            keys=split[:, 0],
            task=task,
            state=state,
            ended=jnp.zeros_like(vstate.ended),
            episode=jnp.zeros_like(vstate.episode),
            trial_time=jnp.zeros_like(vstate.trial_time),
        )
        return vstate, self._first(vstate)
