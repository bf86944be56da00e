"""Environments stepped from Python, for whoever cannot be traced: `host_play` and its instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import check, check_at_least
from gpicljax.interface import Agent, Moment, Record, TimeStep
from gpicljax.rollout.traced import Keep, Played
from gpicljax.spaces import Space
from gpicljax.vector import VectorEnv, VectorState

GIVE_UP: Literal["give up"] = "give up"
"""Instead of an action: nothing more is played in this instance."""

HostAgent = Callable[[Mapping[int, Moment]], Mapping[int, Any]]
"""From the moments of all instances that wait, by number, to the actions of one or more of them.

An instance that gets no action yet is asked about again, together with others that wait by then:
so one agent may think about many instances at once, and answer when it can. For one that gets
`GIVE_UP` it is never asked again.
"""


class Instance:
    """One instance of a batch, stepped from Python.

    Attributes:
      moment: what it waits for an action on.
      record: its last step, leaves `[1, ...]`; None before the first.
      kept: what was to be kept of that step, leaves `[1, ...]`.

    Example:
      >>> def three_pulls(instance):
      ...     return [float(instance.step(arm).reward) for arm in range(3)]
      >>> def of_all(key, vec):
      ...     return [three_pulls(instance) for instance in HostBatch(vec).start(key)]
    """

    def __init__(
        self, step: Any, space: Space, vstate: VectorState, timestep: TimeStep, moment: Moment
    ) -> None:
        self._step, self._space = step, space
        self._vstate, self._timestep, self.moment = vstate, timestep, moment
        self.record: Record | None = None
        self.kept: Any = None

    @property
    def state(self) -> Any:
        """The environment's state, unbatched."""
        return _first(self._vstate.state)

    @property
    def task(self) -> Any:
        """The environment's task, unbatched."""
        return _first(self._vstate.task)

    @property
    def blank_record(self) -> Record:
        """What a step is like, leaves `[1, ...]`, before one is taken; nothing happens in it."""
        space = self._space
        action = jax.tree.map(lambda x: jnp.zeros_like(x)[None], space.sample(jax.random.key(0)))
        return Record(self._vstate, self._timestep, action, {}, self._vstate, self._timestep)

    def step(self, action: Any) -> TimeStep:
        """Acts once; returns what is seen then, unbatched."""
        # One program a step, and no array operation beside it: each would cost as much as it does.
        batched = jax.tree.map(lambda x: np.asarray(x)[None], action)
        vstate, timestep = self._vstate, self._timestep
        after = self._step(vstate, timestep, batched)
        self._vstate, self._timestep, self.moment, self.kept = after
        self.record = Record(vstate, timestep, batched, {}, self._vstate, self._timestep)
        return self.moment.timestep


def _first(tree: Any) -> Any:
    return jax.tree.map(lambda x: x[0], tree)


class HostSource(Protocol):
    """Where `host_play` gets its instances from: a `HostBatch`, or another simulator's adapter.

    Attributes:
      num_envs: how many there are.
      episodes_per_trial: of each.
    """

    @property
    def num_envs(self) -> int:
        """How many instances there are."""
        ...

    @property
    def episodes_per_trial(self) -> int:
        """Episodes of each trial."""
        ...

    def start(self, key: jax.Array, env_params: Any = None) -> Sequence[Any]:
        """The instances as their trials begin: `moment`, `step`, `record`, `blank_record`."""
        ...


class HostBatch:
    """A batch whose instances are stepped one by one from Python; compiles once.

    Args:
      vec: the batch of environments.
      keep: what to keep of a step; nothing by default.

    Example:
      >>> import gpicljax
      >>> vec = gpicljax.VectorEnv(gpicljax.make("BernoulliBandit-v0"), 2, resets="fresh")
      >>> first, second = HostBatch(vec).start(jax.random.key(0))
      >>> first.record is None
      True
    """

    def __init__(self, vec: VectorEnv, keep: Keep = lambda record: ()) -> None:
        """Prepares the programs; see the class."""
        self.vec = vec
        one = vec.part(vec.num_envs)
        self.num_envs, self.episodes_per_trial = vec.num_envs, vec.episodes_per_trial

        def waiting(vstate: VectorState, timestep: TimeStep) -> Moment:
            return Moment(_first(timestep), one.choice_keys(vstate)[0])

        def step(vstate: VectorState, timestep: TimeStep, action: Any) -> Any:
            after, seen = one.step(vstate, action)
            kept = keep(Record(vstate, timestep, action, {}, after, seen))
            return after, seen, waiting(after, seen), kept

        self._init = jax.jit(vec.init)
        self._waiting, self._step = jax.jit(waiting), jax.jit(step)

    def start(self, key: jax.Array, env_params: Any = None, task: Any = None) -> list[Instance]:
        """The instances at the start of their trials; arguments as of `VectorEnv.init`."""
        vstate, timestep = self._init(key, env_params, task)
        owned = self.vec.partition(True, False)

        def instance(i: int) -> Instance:
            def cut(tree: Any) -> Any:
                return jax.tree.map(lambda x: x[i : i + 1], tree)

            mine = jax.tree.map(lambda own, part: cut(part) if own else part, owned, vstate)
            seen, space = cut(timestep), self.vec.env.action_space()
            return Instance(self._step, space, mine, seen, self._waiting(mine, seen))

        return [instance(i) for i in range(self.vec.num_envs)]


def host_play(
    key: jax.Array,
    vec: VectorEnv | HostSource,
    agent: HostAgent,
    *,
    max_steps: int,
    trials: int = 1,
    keep: Keep = lambda record: record.next_timestep.reward,
    env_params: Any = None,
) -> Played:
    """`play` in Python, for agents that cannot be traced and answer when they can.

    Args:
      key: a typed key, for the environments; `start_rollout` with it starts the same episodes.
      vec: the batch of environments, or what stands for one.
      agent: see `HostAgent`.
      max_steps: T, the longest episode to be recorded.
      trials: of each instance.
      keep: what to record of a step; `aux` is empty here.
      env_params: distribution over tasks; the batch's own if None.

    Returns:
      As `play`, NumPy arrays.

    Raises:
      ValueError: if a count is below 1, or the agent answers for nobody, or for one not asked.

    Example:
      >>> import gpicljax, jax
      >>> env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
      >>> vec = gpicljax.VectorEnv(env, 2, resets="fresh", params=env.make_params(horizon=3))
      >>> def always_the_first(moments):
      ...     return {instance: 0 for instance in moments}
      >>> played = host_play(jax.random.key(0), vec, always_the_first, max_steps=3)
      >>> played.records.shape, played.length.tolist()
      ((2, 1, 3), [[3], [3]])
    """
    check_at_least(1, max_steps=max_steps, trials=trials)

    def marked(record: Record) -> Any:
        after = record.next_timestep
        return keep(record), (after.terminated, after.truncated), record.vstate.episode

    compiled = isinstance(vec, VectorEnv)
    batch: Any = HostBatch(vec, marked) if isinstance(vec, VectorEnv) else vec
    mark = jax.jit(marked)
    instances = batch.start(key, env_params)
    shape = (vec.num_envs, trials, vec.episodes_per_trial)
    length = np.zeros(shape, np.int32)
    terminated, truncated = np.zeros(shape, bool), np.zeros(shape, bool)
    trial = np.zeros(vec.num_envs, int)
    time = np.zeros(vec.num_envs, int)
    over = np.zeros(vec.num_envs, bool)
    limit = trials * vec.episodes_per_trial * (max_steps + 1)
    records: Any = None

    def blank(kept: Any) -> Any:
        return jax.tree.map(lambda x: np.zeros((*shape, max_steps, *x.shape[1:]), x.dtype), kept)

    while waiting := [i for i in range(vec.num_envs) if trial[i] < trials and time[i] < limit]:
        answers = agent({i: instances[i].moment for i in waiting})
        some = answers and set(answers) <= set(waiting)
        check(some, "agent", sorted(answers), f"actions for one or more of {waiting}")
        for i, action in answers.items():
            if isinstance(action, str) and action == GIVE_UP:
                trial[i] = trials
                continue
            instances[i].step(action)
            outcome = instances[i].kept if compiled else mark(instances[i].record)
            kept, (ended, cut), episode = jax.device_get(outcome)
            if records is None:
                records = blank(kept)
            time[i] += 1
            began, over[i] = over[i], ended[0] | cut[0]
            if began:
                continue
            which = i, trial[i], episode[0]
            if length[which] < max_steps:
                place = *which, length[which]
                jax.tree.map(
                    lambda table, x, place=place: table.__setitem__(place, x[0]), records, kept
                )
                length[which] += 1
                terminated[which], truncated[which] = ended[0], cut[0]
            trial[i] += bool(over[i]) and episode[0] + 1 >= vec.episodes_per_trial
    if records is None:  # everybody gave up at once
        records = blank(jax.eval_shape(keep, instances[0].blank_record))
    played = Played(records, length, terminated, truncated)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), played)


def on_host(agent: Agent, params: Any) -> HostAgent:
    """An agent of pure functions as one on the host: all that wait are answered in turn.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.bandits import ucb1
      >>> answer = on_host(ucb1(gpicljax.make("BernoulliBandit-v0").action_space()), params=())
      >>> answer({})
      {}
    """
    act = jax.jit(agent.act)
    carries: dict[int, Any] = {}

    def answer(moments: Mapping[int, Moment]) -> dict[int, Any]:
        actions = {}
        for i, (timestep, key) in moments.items():
            carry = carries.get(i, agent.initial_carry(1))
            batched = jax.tree.map(lambda x: x[None], (key, timestep))
            action, _, carries[i] = act(batched[0], params, carry, batched[1])
            actions[i] = _first(action)
        return actions

    return answer
