"""Environments stepped from Python, for agents that cannot be traced: `host_play`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import check, check_at_least
from gpicljax.interface import ActionRequest, Agent, Record, TimeStep
from gpicljax.rollout.packing import Packed, pack
from gpicljax.rollout.traced import Keep, PlayedEpisodes
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv, VectorState

GIVE_UP: Literal["give up"] = "give up"
"""Instead of an action: nothing more is played in this instance."""

HostAgent = Callable[[Mapping[int, ActionRequest]], Mapping[int, Any]]
"""Function from the requests of all waiting instances, by number, to actions for some of them.

It answers at least one instance. It is called again for an instance without an action, together
with the others that wait by then. So one agent may work on many instances at once, and answer when
it can. After `GIVE_UP` it is not called again for that instance.

Example:
  >>> def always_the_first(requests):
  ...     return {instance: 0 for instance in requests}
  >>> agent: HostAgent = always_the_first
  >>> agent({3: ActionRequest(None, lambda: jax.random.key(0))})
  {3: 0}
"""


class _Position(NamedTuple):
    """The position of an instance: one of the steps that were computed together.

    Attributes:
      vstates: states, rows `[K, ...]`, and
      outcomes: what is seen of them, and what was to be kept, rows `[K, ...]`.
      host_rows: the rows of `outcomes` in NumPy.
      step: which one of them it is.
    """

    vstates: Packed
    outcomes: Packed
    host_rows: list[np.ndarray]
    step: int

    @property
    def timestep_and_kept(self) -> tuple[TimeStep, Any]:
        """Returns the time step, and what `keep` returned for the step that led to it."""
        return self.outcomes.layout.unpack([row[self.step] for row in self.host_rows])


def _position(vstates: Packed, news: Packed, step: int) -> _Position:
    # One array for each dtype comes over, and what is in it is looked at where it lies.
    return _Position(vstates, news, [np.asarray(row) for row in news.rows], step)


class Instance:
    """One instance of a batch, stepped from Python.

    Args:
      batch: the batch it belongs to.
      vstates: where it stands, and
      news: what is seen there, as the batch's programs give them.
    """

    def __init__(self, batch: HostBatch, vstates: Packed, news: Packed) -> None:
        """Looks at where it stands; see the class."""
        self._batch = batch
        self._before: tuple[_Position, Any] | None = None
        # The last place of its row: nothing was worked out from there yet.
        self._arrive(_position(vstates, news, batch.ahead - 1))

    def _arrive(self, place: _Position) -> None:
        self._place = place
        self._timestep, self._kept = place.timestep_and_kept

    @property
    def request(self) -> ActionRequest:
        """Returns the request for the instance's next action: NumPy arrays and a typed key."""
        place = self._place
        return ActionRequest(self._timestep, lambda: self._batch.choice_key(place))

    @property
    def state(self) -> Any:
        """The environment's state, unbatched."""
        return _first(self._batch.state_of(self._place).state)

    @property
    def task(self) -> Any:
        """The environment's task, unbatched."""
        return _first(self._batch.state_of(self._place).task)

    @property
    def last_kept(self) -> Any:
        """Returns what `keep` returned for the last step, leaves `[1, ...]`; zeros before the
        first.
        """
        return self._kept

    @property
    def record(self) -> Record | None:
        """Its last step, leaves `[1, ...]`; None before the first."""
        return None if self._before is None else self._record(*self._before)

    @property
    def blank_record(self) -> Record:
        """Returns a record of zeros, leaves `[1, ...]`, as before the first step."""
        action = self._batch.vec.env.action_space().sample(jax.random.key(0))
        return self._record(self._place, _one(jax.tree.map(jnp.zeros_like, action)))

    def _record(self, place: _Position, action: ArrayTree) -> Record:
        before, after = self._batch.state_of(place), self._batch.state_of(self._place)
        return Record(
            before, _one(place.timestep_and_kept[0]), action, {}, after, _one(self._timestep)
        )

    def step(self, action: ArrayTree) -> TimeStep:
        """Acts once; returns what is seen then, unbatched NumPy arrays."""
        # One program a step, and no array operation beside it: each would cost as much as it does.
        # A copy is recorded: agents reuse their arrays.
        batched = jax.tree.map(lambda x: np.array(x)[None], action)
        place = self._place
        self._before = place, batched
        if place.step + 1 < self._batch.ahead and self._batch.foresees(batched):
            self._arrive(place._replace(step=place.step + 1))
        else:
            self._arrive(_position(*self._batch.step(place, batched), 0))
        return self._timestep


def _one(tree: ArrayTree) -> Any:
    return jax.tree.map(lambda x: x[None], tree)


def _first(tree: ArrayTree) -> Any:
    return jax.tree.map(lambda x: x[0], tree)


class HostSimulator(Protocol):
    """The interface by which `host_play` starts instances: of a `HostBatch`, or another
    simulator's.

    Attributes:
      num_envs: how many there are.
      episodes_per_trial: of each.
    """

    @property
    def num_envs(self) -> int:
        """Returns the number of instances."""
        ...

    @property
    def episodes_per_trial(self) -> int:
        """Episodes of each trial."""
        ...

    def start(self, key: jax.Array, env_params: ArrayTree = None) -> Sequence[Any]:
        """The instances as their trials begin: `request`, `step`, `record`, `blank_record`."""
        ...

    def close(self) -> None:
        """Frees what the instances hold; nothing is played in them any more."""
        ...


class HostBatch:
    """A batch whose instances are stepped one by one from Python; compiles once.

    Args:
      vec: the batch of environments.
      keep: what to keep of a step; nothing by default.

    Attributes:
      vec: see above.
      num_envs: how many instances there are.
      episodes_per_trial: of each.
      ahead: how many steps are computed at once; 1, unless a subclass foresees actions.

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("BernoulliBandit-v0"), 2, resets="fresh")
      >>> first, second = HostBatch(vec).start(jax.random.key(0))
      >>> first.record is None
      True
    """

    ahead = 1

    def __init__(self, vec: VectorEnv, keep: Keep = lambda record: ()) -> None:
        """Prepares the programs; see the class."""
        self.vec = vec
        self.num_envs, self.episodes_per_trial = vec.num_envs, vec.episodes_per_trial
        single, owned = vec.part(vec.num_envs), vec.partition(True, False)

        def after(vstate: VectorState, timestep: TimeStep, action: ArrayTree) -> Any:
            state, next_timestep = single.step(vstate, action)
            return (
                state,
                next_timestep,
                keep(Record(vstate, timestep, action, {}, state, next_timestep)),
            )

        def pack_outcome(
            vstate: VectorState, timestep: TimeStep, kept: Any
        ) -> tuple[Packed, Packed]:
            return pack(vstate), pack((_first(timestep), kept))

        def enter(vstate: VectorState, timestep: TimeStep, i: jax.Array) -> Any:
            def select(tree: ArrayTree) -> Any:
                return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, i, 1), tree)

            own_state = jax.tree.map(lambda own, part: select(part) if own else part, owned, vstate)
            own_timestep, action = (
                select(timestep),
                _one(vec.env.action_space().sample(jax.random.key(0))),
            )
            kept = jax.eval_shape(lambda: after(own_state, own_timestep, action)[2])
            blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), kept)
            return jax.tree.map(
                lambda x: jnp.broadcast_to(x, (self.ahead, *x.shape)),
                pack_outcome(own_state, own_timestep, blank),
            )

        def step(vstates: Packed, news: Packed, k: jax.Array, action: ArrayTree) -> Any:
            start = jax.tree.map(lambda x: x[k], (vstates, news))

            def body(carry: tuple[Packed, Packed], number: jax.Array) -> Any:
                vstate, (timestep, _) = (part.tree for part in carry)
                carry = pack_outcome(*after(vstate, _one(timestep), self.later(number, action)))
                return carry, carry

            return jax.lax.scan(body, start, jnp.arange(self.ahead))[1]

        self._init, self._enter, self._step = jax.jit(vec.init), jax.jit(enter), jax.jit(step)
        self._opened = jax.jit(lambda vstates, k: jax.tree.map(lambda x: x[k], vstates).tree)
        self._choice_keys = jax.jit(single.choice_keys)

    def foresees(self, action: ArrayTree) -> bool:
        """Returns whether the step with this action, leaves `[1, ...]`, is computed already."""
        del action
        return False

    def later(self, number: jax.Array, action: ArrayTree) -> ArrayTree:
        """The action of each of the steps that are computed at once: `action` in number 0."""
        del number
        return action

    def step(self, place: _Position, action: ArrayTree) -> tuple[Packed, Packed]:
        """From one place to those that an action leads to."""
        return self._step(place.vstates, place.outcomes, np.int32(place.step), action)

    def state_of(self, place: _Position) -> VectorState:
        """Returns the state of a batch of one."""
        return self._opened(place.vstates, np.int32(place.step))

    def choice_key(self, place: _Position) -> jax.Array:
        """Returns the typed key for the choice of an action there."""
        return self._choice_keys(self.state_of(place))[0]

    def start(
        self, key: jax.Array, env_params: ArrayTree = None, task: ArrayTree = None
    ) -> list[Instance]:
        """Returns the instances at the start of their trials; arguments as of `VectorEnv.init`."""
        begun = self._init(key, env_params, task)
        return [Instance(self, *self._enter(*begun, np.int32(i))) for i in range(self.num_envs)]

    def compile(self, key: jax.Array, action: ArrayTree) -> None:
        """Takes steps of which nothing is left, so that none waits for the compiler later.

        Args:
          key: a typed key.
          action: of one instance, in the dtypes in which actions will come.
        """
        instance = HostBatch.start(self, key)[0]
        for _ in range(self.ahead + 1):
            instance.step(action)

    def close(self) -> None:
        """Nothing: instances of JAX hold nothing open."""


def host_play(
    key: jax.Array,
    vec: VectorEnv | HostSimulator,
    agent: HostAgent,
    *,
    max_steps: int,
    trials: int = 1,
    keep: Keep = lambda record: record.next_timestep.reward,
    env_params: ArrayTree = None,
    batch_of: Callable[[VectorEnv, Keep], HostBatch] = HostBatch,
) -> PlayedEpisodes:
    """`play` in Python, for agents that cannot be traced and answer when they can.

    Args:
      key: a typed key, for the environments; `start_rollout` with it starts the same episodes.
      vec: the batch of environments, or what stands for one.
      agent: see `HostAgent`.
      max_steps: T, the longest episode to be recorded.
      trials: of each instance.
      keep: what to record of a step; `aux` is empty here.
      env_params: distribution over tasks; the batch's own if None.
      batch_of: makes the batch that is stepped from Python; of no effect on what is played.

    Returns:
      As `play`, NumPy arrays.

    Raises:
      ValueError: if a count is below 1, or the agent answers for no instance, or for one not asked.

    Example:
      >>> import gpicljax, jax
      >>> env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
      >>> vec = gpicljax.VectorEnv(env, 2, resets="fresh", params=env.make_params(horizon=3))
      >>> def always_the_first(requests):
      ...     return {instance: 0 for instance in requests}
      >>> played = host_play(jax.random.key(0), vec, always_the_first, max_steps=3)
      >>> played.records.shape, played.length.tolist()
      ((2, 1, 3), [[3], [3]])
    """
    check_at_least(1, max_steps=max_steps, trials=trials)

    def keep_with_ends(record: Record) -> Any:
        after = record.next_timestep
        return keep(record), (after.terminated, after.truncated), record.vstate.episode

    if isinstance(vec, VectorEnv):
        batch = batch_of(vec, keep_with_ends)
        instances = batch.start(key, env_params)
        return _play_all(
            batch, instances, agent, max_steps, trials, lambda instance: instance.last_kept, keep
        )
    mark = jax.jit(keep_with_ends)
    outcome = lambda one: jax.device_get(mark(one.record))  # noqa: E731
    try:
        instances = vec.start(key, env_params)
        return _play_all(vec, instances, agent, max_steps, trials, outcome, keep)
    finally:
        vec.close()


def _play_all(
    batch: HostBatch | HostSimulator,
    instances: Sequence[Any],
    agent: HostAgent,
    max_steps: int,
    trials: int,
    outcome: Callable[[Any], Any],
    keep: Keep,
) -> PlayedEpisodes:
    """`host_play` in instances at the start of their trials.

    `outcome` of an instance says what its last step is recorded as, how it ended, and its episode.
    """
    shape = (batch.num_envs, trials, batch.episodes_per_trial)
    length = np.zeros(shape, np.int32)
    terminated, truncated = np.zeros(shape, bool), np.zeros(shape, bool)
    trial = np.zeros(batch.num_envs, int)
    time = np.zeros(batch.num_envs, int)
    over = np.zeros(batch.num_envs, bool)
    limit = trials * batch.episodes_per_trial * (max_steps + 1)
    records: Any = None

    def blank(kept: Any) -> Any:
        return jax.tree.map(lambda x: np.zeros((*shape, max_steps, *x.shape[1:]), x.dtype), kept)

    while waiting := [i for i in range(batch.num_envs) if trial[i] < trials and time[i] < limit]:
        answers = agent({i: instances[i].request for i in waiting})
        is_valid = answers and set(answers) <= set(waiting)
        check(is_valid, "agent", sorted(answers), f"actions for one or more of {waiting}")
        for i, action in answers.items():
            if isinstance(action, str) and action == GIVE_UP:
                trial[i] = trials
                continue
            instances[i].step(action)
            kept, (ended, cut), episode = outcome(instances[i])
            if records is None:
                records = blank(kept)
            time[i] += 1
            began, over[i] = over[i], ended[0] | cut[0]
            if began:
                continue
            row = i, trial[i], episode[0]
            if length[row] < max_steps:
                place = *row, length[row]
                jax.tree.map(
                    lambda table, x, place=place: table.__setitem__(place, x[0]), records, kept
                )
                length[row] += 1
                terminated[row], truncated[row] = ended[0], cut[0]
            trial[i] += bool(over[i]) and episode[0] + 1 >= batch.episodes_per_trial
    if records is None:  # every instance gave up at once
        records = blank(jax.eval_shape(keep, instances[0].blank_record))
    played = PlayedEpisodes(records, length, terminated, truncated)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), played)


def as_host_agent(agent: Agent, params: ArrayTree) -> HostAgent:
    """Returns an agent of pure functions as one on the host: all that wait are answered in turn.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.bandits import ucb1
      >>> arms = gpicljax.make("BernoulliBandit-v0").action_space()
      >>> answer = as_host_agent(ucb1(arms), params=())
      >>> answer({})
      {}
    """
    act = jax.jit(agent.act)
    carries: dict[int, Any] = {}

    def answer(requests: Mapping[int, ActionRequest]) -> dict[int, Any]:
        actions = {}
        for i, request in requests.items():
            carry = carries.get(i, agent.initial_carry(1))
            batched = jax.tree.map(lambda x: x[None], (request.key, request.timestep))
            action, _, carries[i] = act(batched[0], params, carry, batched[1])
            actions[i] = _first(action)
        return actions

    return answer
