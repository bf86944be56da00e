"""Layer 2: a batch of environments that owns tasks, resets, trial boundaries and key streams.

Trainers and evaluators see nothing else of an environment. Resets follow Gymnasium 1.x's
next-step rule: the terminal observation is seen; the following step ignores its action and
returns the first observation of the next episode with reward 0.

Starting an episode may be expensive and few instances need it at any one step. On a CPU the
instances that ended are *compacted*, i.e. gathered into small groups for which alone the work is
done. On an accelerator, every instance takes a next start and a `select` keeps those that go on,
unless starts are expensive (`update_compacted`). A bank makes them cheap.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.core import Tracer

from gpicljax import spaces
from gpicljax.batching import Constant, strip_weak_types, unshare, update_compacted
from gpicljax.checks import JAX_PROCESS, Count, Share, check, check_fields
from gpicljax.environment import Environment, Transition
from gpicljax.interface import TimeStep, prefix_of
from gpicljax.random import check_key
from gpicljax.registration import resolve
from gpicljax.task_set import TaskSet
from gpicljax.testing import check_interface
from gpicljax.typing import ArrayTree

Resets = Literal["fresh", "bank", "synchronous"]

# Numbers of an instance's subkeys: 2 t for the noise of step t, 2 t + 1 for the reset after it, and
# from here on 2 t for the agent's choice at it and 2 t + 1 for a renewal after it.
_CHOICE = 2**31
# The number of the key of an instance's first trial.
_FIRST = 2**31 - 1
# Of `init`'s key, entry i of the bank has number _ENTRY + i, and instance i number i.
_ENTRY = 2**31
# The number of a reset's subkey that no environment's own splitting reaches.
_START = 2**32 - 1


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
      bank: blueprints, arrays of each as one row, `[P, N]` (`"bank"` only).
      bank_key: typed key `[]` of its renewals (`"bank"` only).
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
    bank_key: Any
    cursor: jax.Array


def _fold_in(keys: jax.Array, number: jax.typing.ArrayLike) -> jax.Array:
    """Returns the subkeys of this number, `[B]`."""
    return jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)


@dataclasses.dataclass(frozen=True, eq=False)
class VectorEnv:
    """A batch of `num_envs` instances of one environment.

    A stream has 2**30 steps: the keys of later ones are those that earlier choices had.

    It is compared by value, with the numbers of `params` and `tasks`: equal batches share compiled
    programs of which they are static arguments.

    Args:
      env: the environment, or its id.
      num_envs: batch size B.
      episodes_per_trial: episodes of one task before a new one is drawn.
      resets: where the tasks of new trials come from; None is `"fresh"`, or `"bank"` where a
        `bank_size` is given. `"fresh"`: each is drawn when a trial ends. `"bank"`: blueprints drawn
        at random from a pool, of which `renew` replaces a share. That costs less where starts are
        expensive and trials short; without `renew` the pool stays as it is, so that no more than
        `bank_size` blueprints are ever met. `"synchronous"`: all trials end together after
        `steps_per_trial` steps and `renew` starts the next ones; nothing is generated inside `step`
        but further episodes of the same task.
      params: the distribution over tasks; `env.default_params` if None.
      tasks: a finite set to draw from instead of the whole distribution.
      bank_size: blueprints P in the bank; by default `max(1024, 4 * num_envs)`.
      renew_share: share of the bank replaced by one `renew`.
      steps_per_trial: trial length for `"synchronous"`.
      group: how many ended instances are restarted together; by default about `num_envs / 16`.
      privileged: whether time steps carry what `env.privileged` says: for experts, oracles and
        teachers, never for learners.

    Raises:
      ValueError: for an unknown id, a bad size, `params` that `env.validate` refuses, or an
        environment whose shapes or dtypes are not as `testing.check_interface` wants them.

    Example:
      >>> import gpicljax, jax, jax.numpy as jnp
      >>> vec = gpicljax.VectorEnv(gpicljax.make("BernoulliBandit-v0"), num_envs=8)
      >>> vstate, timestep = vec.init(jax.random.key(0))
      >>> vstate, timestep = vec.step(vstate, jnp.zeros(8, jnp.int32))
      >>> timestep.reward.shape
      (8,)
    """

    env: Environment
    num_envs: Count
    episodes_per_trial: Count = 1
    resets: Resets | None = None
    params: Any = None
    tasks: TaskSet | None = None
    bank_size: Count | None = None
    renew_share: Share = 0.25
    steps_per_trial: Count | None = None
    group: Count | None = None
    privileged: bool = False

    def __post_init__(self) -> None:
        JAX_PROCESS.enter()
        object.__setattr__(self, "env", resolve(self.env))
        check_fields(self)
        check_interface(self.env)
        if self.resets is None:
            object.__setattr__(self, "resets", "fresh" if self.bank_size is None else "bank")
        steps = self.steps_per_trial
        fits = (self.resets == "synchronous") == (steps is not None)
        check(fits, "steps_per_trial", steps, 'an integer with resets="synchronous", else None')
        object.__setattr__(self, "params", self.env.params_or_default(self.params))

    def __repr__(self) -> str:
        """Returns all that is not the default; params and tasks without their numbers."""
        parts = [repr(self.env), f"num_envs={self.num_envs}"]
        for field in dataclasses.fields(self)[2:]:
            value = getattr(self, field.name)
            if field.name in ("params", "tasks"):
                if value is not None and (field.name == "tasks" or not self._default_params):
                    parts.append(f"{field.name}=...")
            elif value != field.default:
                parts.append(f"{field.name}={value!r}")
        return f"VectorEnv({', '.join(parts)})"

    @functools.cached_property
    def _default_params(self) -> bool:
        default = self.env.default_params
        if any(isinstance(x, Tracer) for x in jax.tree.leaves((self.params, default))):
            return False
        return Constant.of(self.params) == Constant.of(default)

    @functools.cached_property
    def _content(self) -> tuple[Any, ...]:
        """Returns all fields for comparison, arrays by their numbers."""
        arrays = self.params, self.tasks and jax.random.key_data(self.tasks.keys)
        if any(isinstance(x, Tracer) for x in jax.tree.leaves(arrays)):
            return (object(),)  # like no other
        kind = self.tasks and self.tasks.keys.dtype
        sizes = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return *(sizes | {"params": None, "tasks": None}).values(), kind, Constant.of(arrays)

    def __eq__(self, value: object) -> bool:
        if self is value:  # in every call of a program of which it is a static argument
            return True
        return isinstance(value, VectorEnv) and self._content == value._content

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self._content)

    # Generation ------------------------------------------------------------------------------

    def _blueprint(self, key: jax.Array, params: ArrayTree) -> Any:
        if self.tasks is None:
            return self.env.sample_blueprint(key, params)
        task_key, state_key = jax.random.split(key)
        task = self.env.sample_task(self.tasks.sample(task_key), params)
        return task, self.env.initial(state_key, task)

    def _blueprints(self, keys: jax.Array, params: ArrayTree) -> Any:
        def rows(key: jax.Array) -> Any:
            # A TPU stores arrays in tiles of 8 x 128, which small last axes would leave empty.
            return jax.tree.map(
                lambda x: x.reshape(-1) if jnp.ndim(x) > 1 else x, self._blueprint(key, params)
            )

        # In tiles that stay in cache, and whose slowest member does not hold up the whole bank.
        return jax.lax.map(rows, keys, batch_size=512)

    @functools.cached_property
    def _blueprint_shapes(self) -> Any:
        return jax.eval_shape(self._blueprint, jax.random.key(0), self.params)

    def _start(self, key: jax.Array, blueprint: Any, params: ArrayTree) -> tuple[Any, Any]:
        if self.tasks is not None:
            return blueprint
        return self.env.start(jax.random.fold_in(key, _START), blueprint, params)

    def _fresh(self, key: jax.Array, params: ArrayTree) -> tuple[Any, Any]:
        return self._start(key, self._blueprint(key, params), params)

    def _from_bank(
        self, key: jax.Array, index: jax.Array, bank: ArrayTree, params: ArrayTree
    ) -> Any:
        blueprint = jax.tree.map(
            lambda x, like: x[index].reshape(like.shape), bank, self._blueprint_shapes
        )
        return self._start(key, blueprint, params)

    def _draw_entries(self, keys: jax.Array) -> jax.Array:
        """Returns a bank entry for each key, `int32[B]`.

        A key from which nothing else is drawn is random words already. The bias of the remainder is
        below P / 2**32.
        """
        words = jax.random.key_data(keys)[..., -1]
        return (words % np.uint32(self._bank_size)).astype(jnp.int32)

    @property
    def _bank_size(self) -> int:
        return self.bank_size or max(1024, 4 * self.num_envs)

    @property
    def _group(self) -> int:
        return min(self.num_envs, self.group or max(8, self.num_envs // 16))

    # The public interface --------------------------------------------------------------------

    def init(
        self, key: jax.Array, params: ArrayTree = None, task: ArrayTree = None
    ) -> tuple[VectorState, TimeStep]:
        """Starts all trials.

        Args:
          key: a typed key.
          params: overrides the constructor's; may be traced, so that `vmap` runs a grid.
          task: the tasks of the first trials, leaves `[B, ...]`; drawn if None.

        Returns:
          The state and the first time step.

        Raises:
          ValueError: for what is no key.

        Example:
          >>> import gpicljax, jax
          >>> vec = gpicljax.VectorEnv(gpicljax.make("BernoulliBandit-v0"), num_envs=8)
          >>> vstate, timestep = jax.eval_shape(vec.init, jax.random.key(0))
          >>> timestep.observation.shape, timestep.trial_start.shape
          ((8, 1), (8,))
        """
        check_key("key", key)
        params = strip_weak_types(self.params if params is None else params)
        # All from one call, which takes long to compile: instances, renewals, bank entries.
        entries = self._bank_size if self.resets == "bank" else 0
        numbers = np.concatenate([np.arange(self.num_envs), _ENTRY - 1 + np.arange(entries + 1)])
        subkeys = jax.vmap(lambda number: jax.random.fold_in(key, number))(
            numbers.astype(np.uint32)
        )
        keys, renewal_key = subkeys[: self.num_envs], subkeys[self.num_envs]
        bank = None
        if entries:
            bank = self._blueprints(subkeys[self.num_envs + 1 :], params)
        first = _fold_in(keys, _FIRST)
        if task is not None:
            state = jax.vmap(self.env.initial)(first, task)
        else:
            # As good as drawn, while the bank is new.
            index = jnp.arange(self.num_envs, dtype=jnp.int32) % self._bank_size
            task, state = self._begin(first, index, bank, params)
        vstate = VectorState(
            keys=keys,
            time=jnp.zeros((), jnp.int32),
            params=params,
            task=task,
            state=state,
            ended=jnp.zeros(self.num_envs, bool),
            episode=jnp.zeros(self.num_envs, jnp.int32),
            trial_time=jnp.zeros((), jnp.int32),
            bank=bank,
            bank_key=None if bank is None else renewal_key,
            cursor=jnp.zeros((), jnp.int32),
        )
        return unshare((vstate, self._first(vstate)), key, self.params, params, task)

    def _begin(
        self, keys: jax.Array, index: jax.Array | None, bank: ArrayTree, params: ArrayTree
    ) -> tuple[Any, Any]:
        if bank is None or index is None:
            return jax.vmap(self._fresh, (0, None))(keys, params)
        return jax.vmap(self._from_bank, (0, 0, None, None))(keys, index, bank, params)

    def _first(self, vstate: VectorState) -> TimeStep:
        """Returns the time step of a batch all of whose trials start now."""
        false, true = jnp.zeros(self.num_envs, bool), jnp.ones(self.num_envs, bool)
        observed = self._observe(vstate.state, vstate.task)
        blank = jax.eval_shape(self._transition, vstate, self._no_action(vstate))
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (blank.reward, blank.info))
        return TimeStep(observed[0], zeros[0], false, false, true, true, zeros[1], observed[1])

    def _observe(self, state: ArrayTree, task: ArrayTree) -> tuple[Any, Any]:
        """Returns observations, and the privileged information where it is asked for."""
        privileged = jax.vmap(self.env.privileged)(state, task) if self.privileged else None
        return jax.vmap(self.env.observe)(state, task), privileged

    def _no_action(self, vstate: VectorState) -> Any:
        space = self.env.action_space()
        action = space.sample(jax.random.key(0))
        return jax.tree.map(lambda a: jnp.zeros((self.num_envs, *a.shape), a.dtype), action)

    def _transition(self, vstate: VectorState, actions: ArrayTree) -> Any:
        keys = _fold_in(vstate.keys, 2 * vstate.time)
        return jax.vmap(self.env.transition)(keys, vstate.state, actions, vstate.task)

    def step(self, vstate: VectorState, actions: ArrayTree) -> tuple[VectorState, TimeStep]:
        """Moves every instance by one step; those that ended start their next episode instead.

        Args:
          vstate: the state.
          actions: the actions, leaves `[B, ...]`; ignored where the last time step was `last`. What
            is refused, and what becomes of values out of range, says `Environment.step`.

        Returns:
          The new state and time step.

        Raises:
          ValueError: for what is no state of a batch, and actions of another shape or kind of dtype
            than `B` members of the action space.
        """
        check(isinstance(vstate, VectorState), "vstate", vstate, "the state that init or step gave")
        actions = spaces.check_member(self.env.action_space(), actions, "actions", (self.num_envs,))
        moved = self._transition(vstate, actions)
        ended = vstate.ended

        # Instances that ended: a new task where the trial is over, else one more episode.
        synchronous = self.resets == "synchronous"
        over = vstate.episode + 1 >= self.episodes_per_trial
        new_trial = jnp.zeros_like(ended) if synchronous else ended & over
        new_episode = ended & ~new_trial
        reset_time = 2 * vstate.time + 1
        task = vstate.task

        def key_of(indices: jax.Array) -> jax.Array:
            return _fold_in(vstate.keys[indices], reset_time)

        def start_transition(indices: jax.Array, state: ArrayTree) -> Transition:
            """Returns the start of an episode, with reward 0 and no news.

            Reward, flags and info are written along with the state, and not chosen afterwards: XLA
            copies all tasks in every step unless whatever reads them is needed by the loop that
            replaces some.
            """
            nothing = jax.tree.map(
                lambda x: jnp.zeros((indices.size, *x.shape[1:]), x.dtype),
                moved._replace(state=None),
            )
            return nothing._replace(state=state)

        if synchronous or self.episodes_per_trial > 1:

            def next_episode(indices: jax.Array) -> Any:
                tasks = jax.tree.map(lambda x: x[indices], vstate.task)
                return start_transition(indices, jax.vmap(self.env.initial)(key_of(indices), tasks))

            moved = update_compacted(new_episode, moved, next_episode, self._group)
        if not synchronous:

            def next_trial(indices: jax.Array) -> Any:
                keys = key_of(indices)
                index = None if vstate.bank is None else self._draw_entries(keys)
                task, state = self._begin(keys, index, vstate.bank, vstate.params)
                return task, start_transition(indices, state)

            task, moved = update_compacted(new_trial, (task, moved), next_trial, self._group)

        state, reward, terminated, truncated, info = moved
        trial_time = vstate.trial_time + 1
        if synchronous:
            truncated = truncated | ((trial_time == self.steps_per_trial) & ~terminated)
        observation, privileged = self._observe(state, task)
        timestep = TimeStep(
            observation=observation,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            episode_start=ended,
            trial_start=new_trial,
            info=info,
            privileged=privileged,
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

    def choice_keys(self, vstate: VectorState) -> jax.Array:
        """Typed keys `[B]` for an agent's choices at this step, one from each instance's stream.

        Unlike the parts of a key for the whole batch, they depend on neither B nor how the batch is
        spread over devices.
        """
        return _fold_in(vstate.keys, np.uint32(_CHOICE) + 2 * vstate.time.astype(jnp.uint32))

    # A batch spread over devices -------------------------------------------------------------

    def part(self, count: int) -> VectorEnv:
        """Returns the batch of one of `count` devices: an equal part of the instances, the whole
        bank.

        Raises:
          ValueError: if `count` does not divide `num_envs`.
        """
        divides = count >= 1 and self.num_envs % count == 0
        check(divides, "count", count, f"a divisor of num_envs = {self.num_envs}")
        bank_size = self._bank_size if self.resets == "bank" else self.bank_size
        return dataclasses.replace(self, num_envs=self.num_envs // count, bank_size=bank_size)

    @staticmethod
    def partition(batch: object, whole: object) -> VectorState:
        """A prefix of `VectorState`: `batch` at what instances own, `whole` at what they share.

        With partition specs it says how `shard_map` spreads the state over devices.
        """
        return prefix_of(
            VectorState,
            keys=batch,
            time=whole,
            params=whole,
            task=batch,
            state=batch,
            ended=batch,
            episode=batch,
            trial_time=whole,
            bank=whole,
            bank_key=whole,
            cursor=whole,
        )

    def renew(self, vstate: VectorState, timestep: TimeStep) -> tuple[VectorState, TimeStep]:
        """Generates tasks between scans; trainers call it once per chunk.

        `"bank"`: replaces `renew_share` of the bank, oldest first. `"synchronous"`: starts new
        trials everywhere. `"fresh"`: nothing.

        Returns:
          The state, and the time step to act on next.
        """
        if self.resets == "fresh":
            return vstate, timestep
        if self.resets == "bank":
            count = round(self._bank_size * self.renew_share)
            if count == 0:
                return vstate, timestep
            keys = jax.random.split(jax.random.fold_in(vstate.bank_key, vstate.time), count)
            new = self._blueprints(keys, vstate.params)
            places = (vstate.cursor + jnp.arange(count, dtype=jnp.int32)) % self._bank_size
            bank = jax.tree.map(lambda old, x: old.at[places].set(x), vstate.bank, new)
            cursor = (vstate.cursor + count) % self._bank_size
            return dataclasses.replace(vstate, bank=bank, cursor=cursor), timestep
        number = np.uint32(_CHOICE + 1) + 2 * vstate.time.astype(jnp.uint32)
        task, state = self._begin(_fold_in(vstate.keys, number), None, None, vstate.params)
        vstate = dataclasses.replace(
            vstate,
            task=task,
            state=state,
            ended=jnp.zeros_like(vstate.ended),
            episode=jnp.zeros_like(vstate.episode),
            trial_time=jnp.zeros_like(vstate.trial_time),
        )
        return vstate, self._first(vstate)
