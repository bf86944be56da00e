"""One step of an agent in its environments, and the three drivers that repeat it.

| driver | for | how |
|---|---|---|
| `rollout` | trainers | a fixed number of steps, one `lax.scan` |
| `play` | evaluations, films, datasets | until so many trials are over, by trial and episode |
| `host_play` | who cannot be traced: a language model, a person, a remote learner | a Python loop |

All draw an agent's choices from the instances' own keys: from the same state they give the same
episodes, whatever the batch. No other loop over environments exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import check, check_at_least
from gpicljax.interface import Agent, Moment, Record, TimeStep
from gpicljax.spaces import Space
from gpicljax.vector import VectorEnv, VectorState

Keep = Callable[[Record], Any]
"""What is to be kept of a step, leaves `[B, ...]`; what is not kept is not computed twice."""


class RolloutState(NamedTuple):
    """Where a rollout stands: environments, the time step to act on, the agent's memory."""

    vstate: VectorState
    timestep: TimeStep
    carry: Any


def start_rollout(
    key: jax.Array, vec: VectorEnv, agent: Agent, env_params: Any = None
) -> RolloutState:
    """Starts the environments and the agent's memory.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
      >>> vec = gpicljax.VectorEnv(env, 8, resets="fresh")
      >>> start = lambda key: start_rollout(key, vec, random_agent(env))
      >>> state = jax.eval_shape(start, jax.random.key(0))
      >>> state.timestep.observation.shape
      (8, 1)
    """
    vstate, timestep = vec.init(key, env_params)
    return RolloutState(vstate, timestep, agent.initial_carry(vec.num_envs))


def agent_step(
    vec: VectorEnv, agent: Agent, params: Any, state: RolloutState
) -> tuple[RolloutState, Record]:
    """The agent acts once in every instance.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
      >>> vec, agent = gpicljax.VectorEnv(env, 8, resets="fresh"), random_agent(env)
      >>> def first_step(key):
      ...     return agent_step(vec, agent, (), start_rollout(key, vec, agent))
      >>> state, record = jax.eval_shape(first_step, jax.random.key(0))
      >>> record.action.shape
      (8,)
    """
    vstate, timestep, carry = state
    action, aux, carry = agent.act(vec.choice_keys(vstate), params, carry, timestep)
    next_vstate, next_timestep = vec.step(vstate, action)
    record = Record(vstate, timestep, action, aux, next_vstate, next_timestep)
    return RolloutState(next_vstate, next_timestep, carry), record


def rollout(
    vec: VectorEnv,
    agent: Agent,
    params: Any,
    state: RolloutState,
    length: int,
    keep: Keep = lambda record: (record.timestep, record.action, record.aux),
) -> tuple[RolloutState, Any]:
    """Lets an agent act for `length` steps, in one `lax.scan`.

    Args:
      vec: the batch of environments.
      agent: the agent.
      params: the agent's parameters.
      state: where to go on from.
      length: steps.
      keep: what to stack of each step; time step, action and aux by default.

    Returns:
      The state to go on from, and what was kept with leaves `[length, B, ...]`.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
      >>> vec, agent = gpicljax.VectorEnv(env, 8, resets="fresh"), random_agent(env)
      >>> @jax.jit
      ... def some(key):
      ...     start = start_rollout(key, vec, agent)
      ...     return rollout(vec, agent, (), start, 5, lambda record: record.next_timestep.reward)
      >>> state, rewards = some(jax.random.key(0))
      >>> rewards.shape
      (5, 8)
    """

    def body(state: RolloutState, _: None) -> tuple[RolloutState, Any]:
        state, record = agent_step(vec, agent, params, state)
        return state, keep(record)

    return jax.lax.scan(body, state, None, length)


def advance(
    vec: VectorEnv, agent: Agent, params: Any, state: RolloutState, steps: jax.Array | int
) -> RolloutState:
    """Lets an agent act for so many steps, of which nothing is kept; their number may be traced.

    Args:
      vec: the batch of environments.
      agent: the agent.
      params: the agent's parameters.
      state: where to go on from.
      steps: `int32[]`.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
      >>> vec, agent = gpicljax.VectorEnv(env, 8, resets="fresh"), random_agent(env)
      >>> def later(key, steps):
      ...     return advance(vec, agent, (), start_rollout(key, vec, agent), steps)
      >>> jax.eval_shape(later, jax.random.key(0), 5).timestep.reward.shape
      (8,)
    """
    return jax.lax.fori_loop(
        0, steps, lambda _, state: agent_step(vec, agent, params, state)[0], state
    )


class Played(NamedTuple):
    """Whole episodes, trial by trial: N trials of E episodes of up to T steps.

    Attributes:
      records: what was kept of every step, leaves `[N, E, T, ...]`; zeros beyond an episode's end.
      length: `int32[N, E]`, steps; 0 for an episode that did not begin.
      terminated: `bool[N, E]`, the episode came to its end.
      truncated: `bool[N, E]`, the environment cut it off. Neither: it was longer than T, or had
        no time to end.
    """

    records: Any
    length: Any
    terminated: Any
    truncated: Any


def play(
    vec: VectorEnv,
    agent: Agent,
    params: Any,
    state: RolloutState,
    *,
    max_steps: int,
    trials: int = 1,
    keep: Keep = lambda record: record.next_timestep.reward,
    slot: Callable[[Record], jax.Array] | None = None,
    slots: int | None = None,
    add: bool = False,
    limit: int | None = None,
) -> Played:
    """Lets an agent act until every instance has played so many whole trials.

    The number of trials per instance is fixed, so that long episodes count as often as they occur;
    counting what ends first would favour short ones. The loop ends when all trials have.

    With one trial each, `resets="synchronous"` (and `steps_per_trial` beyond what is played) saves
    the program that draws further tasks: who is through plays on, unrecorded, on the task it has.

    Args:
      vec: the batch of environments.
      agent: the agent.
      params: the agent's parameters.
      state: from `start_rollout`: all trials begin here.
      max_steps: T, the longest episode to be recorded.
      trials: of each instance.
      keep: what to record of a step; its reward by default.
      slot: `record -> int32[B]`, where on the last axis of the records a step belongs; out of
        range, it is not recorded. By default its number within the episode.
      slots: size of that axis; `max_steps` by default.
      add: whether steps in one slot are added up, as for a return; else the last one counts.
      limit: steps after which the loop ends at the latest, those from one episode into the next
        included; by default as many as the longest episodes to be recorded need.

    Returns:
      The trials, N = `num_envs * trials`, those of an instance one after the other.

    Raises:
      ValueError: if a count is below 1.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
      >>> vec = gpicljax.VectorEnv(env, 8, resets="fresh", params=env.make_params(horizon=5))
      >>> agent = random_agent(env)
      >>> @jax.jit
      ... def episodes(key):
      ...     return play(vec, agent, (), start_rollout(key, vec, agent), max_steps=5)
      >>> played = episodes(jax.random.key(0))
      >>> played.records.shape, played.length.tolist()[0]
      ((8, 1, 5), [5])
    """
    size = max_steps if slots is None else slots
    check_at_least(1, max_steps=max_steps, trials=trials, slots=size)
    instances, episodes = jnp.arange(vec.num_envs), vec.episodes_per_trial
    shape = (vec.num_envs, trials, episodes)

    def step(state: RolloutState) -> tuple[RolloutState, Record, Any]:
        state, record = agent_step(vec, agent, params, state)
        return state, record, keep(record)

    kept = jax.eval_shape(step, state)[2]
    zeros = lambda x: jnp.zeros((*shape, size, *x.shape[1:]), x.dtype)  # noqa: E731
    no = jnp.zeros(shape, bool)
    played = Played(jax.tree.map(zeros, kept), jnp.zeros(shape, jnp.int32), no, no)
    none = jnp.zeros(vec.num_envs, jnp.int32)
    if limit is None:
        limit = trials * episodes * (max_steps + 1)

    def unfinished(loop: tuple[jax.Array, RolloutState, jax.Array, Played]) -> jax.Array:
        time, _, trial, _ = loop
        return (trial < trials).any() & (time < limit)

    def body(loop: tuple[jax.Array, RolloutState, jax.Array, Played]) -> Any:
        time, state, trial, played = loop
        state, record, kept = step(state)
        episode, after = record.vstate.episode, record.next_timestep
        acted = ~record.timestep.last
        # Writes beyond the last trial, episode or slot are dropped. The step into the next episode
        # has no action of its own.
        number = played.length.at[instances, trial, episode].get(mode="fill", fill_value=0)
        counts = acted & (number < max_steps)
        which = instances, jnp.where(counts, trial, trials), episode
        place = *which, number if slot is None else slot(record)

        def write(table: jax.Array, x: jax.Array) -> jax.Array:
            at = table.at[place]
            return at.add(x, mode="drop") if add else at.set(x, mode="drop")

        played = Played(
            records=jax.tree.map(write, played.records, kept),
            length=played.length.at[which].add(1, mode="drop"),
            terminated=played.terminated.at[which].max(after.terminated, mode="drop"),
            truncated=played.truncated.at[which].max(after.truncated, mode="drop"),
        )
        over = acted & after.last & (episode + 1 >= episodes)
        return time + 1, state, trial + over, played

    loop = jnp.zeros((), jnp.int32), state, none, played
    played = jax.lax.while_loop(unfinished, body, loop)[-1]
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), played)


# On the host ----------------------------------------------------------------------------------


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
        """Objects like `Instance`, with `moment`, `step` and `record`, as their trials begin."""
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
      As `play`, NumPy arrays; `records` is None if no step was taken.

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
                records = jax.tree.map(
                    lambda x: np.zeros((*shape, max_steps, *x.shape[1:]), x.dtype), kept
                )
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
        shapes = jax.eval_shape(keep, instances[0].blank_record)
        records = jax.tree.map(
            lambda x: np.zeros((*shape, max_steps, *x.shape[1:]), x.dtype), shapes
        )
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


def forgetful(agent: Agent, when: Callable[[TimeStep], jax.Array]) -> Agent:
    """The agent with its memory cleared wherever `when(timestep)`, `bool[B]`: an ablation.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.bandits import ucb1
      >>> agent = ucb1(gpicljax.make("BernoulliBandit-v0").action_space())
      >>> without_memory = forgetful(agent, lambda timestep: timestep.reward == timestep.reward)
    """

    def act(keys: jax.Array, params: Any, carry: Any, timestep: TimeStep) -> Any:
        start = timestep.trial_start | when(timestep)
        return agent.act(keys, params, carry, timestep._replace(trial_start=start))

    return agent._replace(act=act)


def panel(agents: Sequence[Agent]) -> Agent:
    """Several agents on the same episodes: the first acts, all tell what they would do.

    Where no decision changes what comes next, one pass compares them all.

    Args:
      agents: the agents, with the same parameters (none, for rules).

    Returns:
      The agent; its `aux` has `decisions`, `[B, len(agents), ...]`.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("FrozenLake-v1")
      >>> vec, two = gpicljax.VectorEnv(env, 8), panel([random_agent(env)] * 2)
      >>> def first_step(key):
      ...     return agent_step(vec, two, None, start_rollout(key, vec, two))[1]
      >>> jax.eval_shape(first_step, jax.random.key(0)).aux["decisions"].shape
      (8, 2)
    """

    def act(keys: jax.Array, params: Any, carry: Any, timestep: TimeStep) -> Any:
        each = zip(agents, carry, strict=True)
        acted = [agent.act(keys, params, memory, timestep) for agent, memory in each]
        decisions = jnp.stack([action for action, _, _ in acted], axis=1)
        return decisions[:, 0], {"decisions": decisions}, tuple(memory for *_, memory in acted)

    return Agent(lambda batch: tuple(agent.initial_carry(batch) for agent in agents), act)


def by_instance(agents: Sequence[Agent], which: Any) -> Agent:
    """Several agents in one batch: each instance has the one of its number.

    All of them watch every instance; so agents that are cheap beside the environment are compared
    in one program.

    Args:
      agents: the agents, with the same parameters (none, for rules).
      which: `int[B]`, number of each instance's agent.

    Returns:
      The agent; its `aux` is empty.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("FrozenLake-v1")
      >>> always = Agent(lambda batch: (), lambda keys, _, carry, step: (jnp.zeros(4, int), {}, ()))
      >>> both = by_instance([random_agent(env), always], which=[1, 0, 1, 0])
      >>> vec = gpicljax.VectorEnv(env, 4)
      >>> def first_step(key):
      ...     return agent_step(vec, both, None, start_rollout(key, vec, both))[1]
      >>> jax.eval_shape(first_step, jax.random.key(0)).action.shape
      (4,)
    """
    own = np.asarray(which)

    def act(keys: jax.Array, params: Any, carry: Any, timestep: TimeStep) -> Any:
        each = zip(agents, carry, strict=True)
        acted = [agent.act(keys, params, memory, timestep) for agent, memory in each]
        actions = [action for action, _, _ in acted]
        action = jax.tree.map(lambda *x: jnp.stack(x)[own, jnp.arange(len(own))], *actions)
        return action, {}, tuple(memory for *_, memory in acted)

    return Agent(lambda batch: tuple(agent.initial_carry(batch) for agent in agents), act)
