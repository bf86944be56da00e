"""Trials as environments: so many actions in a row, in spaces that different tasks share.

Wrappers (see `wrappers`) for agents that learn within a trial: `Trial` makes one episode of a whole
trial, `Padded` gives small tasks the spaces of large ones, `Mixture` draws each task from one of
several environments, `Part` holds tasks out, and `Solved` solves each task as it is drawn, for
teachers and oracles.

Example:
  >>> import gpicljax
  >>> lake = Padded(Trial(gpicljax.make("FrozenLake-v1"), 200), observations=48, actions=10)
  >>> bandit = gpicljax.make("BanditTwoArmedHighLowFixed-v0")
  >>> env = Mixture((lake, Padded(Trial(bandit, 200), observations=48, actions=10)))
  >>> env.action_space(), int(env.horizon())
  (Discrete(n=10), 200)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Count, Share, check
from gpicljax.environment import Environment, Outcomes, Transition
from gpicljax.spaces import Space
from gpicljax.wrappers import Wrapper

__all__ = ["Mixture", "Padded", "Part", "Solved", "Trial", "action_values"]


@struct.dataclass
class TrialState:
    """A state of `Trial`.

    Attributes:
      inner: the other environment's.
      actions: `int32[]`, taken so far.
      steps: `int32[]`, those of the episode in progress.
      before: where the last action was taken, an observation of the other environment.
      reached: what it led to.
      terminated: `bool[]`, that was the end of an episode.
      truncated: `bool[]`, the episode was cut off there.
      noise: typed key, from which all noise of the trial is drawn where it is replayed.
    """

    inner: Any
    actions: jax.Array
    steps: jax.Array
    before: Any
    reached: Any
    terminated: jax.Array
    truncated: jax.Array
    noise: jax.Array


@dataclasses.dataclass(frozen=True)
class Trial(Wrapper):
    """A trial of exactly so many actions, as one episode: those inside follow each other at once.

    Batches reset with a step of its own, whose action is ignored: where every pull ends an episode
    that is every second one. Here every action counts, and episodes cost nothing but their start.
    What a learner needs to know of an episode's end is observed:

    | entry | |
    |---|---|
    | `now` | what the other environment shows: where the coming action is taken |
    | `before` | the same, where the last action was taken |
    | `reached` | the same, what that led to: `now`, unless an episode ended |
    | `terminated`, `truncated` | `bool[]`, it ended there, or was cut off |
    | `elapsed` | float `[1]`, share of the trial's actions that are taken |
    | `action_mask` | as in `now`, where there is one |

    At the start of a trial the first three are the same. The trial is truncated after its last
    action. `agents.acting.within_trial` lets agents of the other environment act in it.

    Attributes:
      actions: of a trial.
      replay_noise: whether every episode of a trial has the same start and the same noise, as if it
        were reset with the same seed each time: a flaw of the reference of the in-context RL
        evaluation.

    Example:
      >>> import gpicljax
      >>> env = Trial(gpicljax.make("BanditTwoArmedHighLowFixed-v0"), actions=200)
      >>> int(env.horizon()), list(env.observation_space().spaces)
      (200, ['now', 'before', 'reached', 'terminated', 'truncated', 'elapsed'])
    """

    actions: Count
    replay_noise: bool = False

    def inner(self, state: TrialState) -> Any:
        """The other environment's state."""
        return state.inner

    def _begun(self, key: jax.Array, inner: Any, task: Any) -> TrialState:
        seen = self.env.observe(inner, task)
        none, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        return TrialState(inner, none, none, seen, seen, no, no, key)

    def start(self, key: jax.Array, blueprint: Any, params: Any) -> tuple[Any, Any]:
        """As the other's, with no action taken."""
        start_key, noise_key = jax.random.split(key)
        task, inner = self.env.start(start_key, blueprint, params)
        return task, self._begun(noise_key, inner, task)

    def initial(self, key: jax.Array, task: Any) -> Any:
        """The first episode's start."""
        start_key, noise_key = jax.random.split(key)
        return self._begun(noise_key, self.env.initial(start_key, task), task)

    def draw_noise(self, key: jax.Array, state: TrialState, task: Any) -> jax.Array:
        """A key; the trial's own for this step of every episode, where noise is replayed."""
        del task
        return jax.random.fold_in(state.noise, state.steps) if self.replay_noise else key

    def move(self, state: TrialState, action: Any, noise: jax.Array, task: Any) -> Transition:
        """A step of the other environment, and the next episode's start where one ends."""
        step_key, start_key = jax.random.split(noise)
        if self.replay_noise:
            start_key = state.noise
        before = self.env.observe(state.inner, task)
        moved = self.env.transition(step_key, state.inner, action, task)
        over = moved.terminated | moved.truncated
        fresh = self.env.initial(start_key, task)
        inner = jax.tree.map(lambda a, b: jnp.where(over, a, b), fresh, moved.state)
        after = TrialState(
            inner=inner,
            actions=state.actions + 1,
            steps=jnp.where(over, 0, state.steps + 1),
            before=before,
            reached=self.env.observe(moved.state, task),
            terminated=moved.terminated,
            truncated=moved.truncated & ~moved.terminated,
            noise=state.noise,
        )
        no = jnp.zeros((), bool)
        return Transition(after, moved.reward, no, after.actions >= self.actions, moved.info)

    def horizon(self, params: Any = None) -> Any:
        """The trial's actions."""
        del params
        return np.asarray(self.actions, np.int32)

    def observe(self, state: TrialState, task: Any) -> dict[str, Any]:
        """See the class."""
        now = self.env.observe(state.inner, task)
        seen = {
            "now": now,
            "before": state.before,
            "reached": state.reached,
            "terminated": state.terminated,
            "truncated": state.truncated,
            "elapsed": (state.actions.astype(jnp.result_type(float)) / self.actions)[None],
        }
        masked = isinstance(now, dict) and "action_mask" in now
        return seen | {"action_mask": now["action_mask"]} if masked else seen

    def observation_space(self, task: Any = None) -> Space:
        """See the class."""
        one = self.env.observation_space(task)
        flag = spaces.Box(0, 1, (), "bool")
        entries = {"now": one, "before": one, "reached": one}
        entries |= {"terminated": flag, "truncated": flag, "elapsed": spaces.Box(0.0, 1.0, (1,))}
        if isinstance(one, spaces.Dict) and "action_mask" in one.spaces:
            entries["action_mask"] = one["action_mask"]
        return spaces.Dict.of(entries)

    def observation_bounds(self, params: Any) -> None:
        """None: those of a dictionary are not told."""
        del params


@dataclasses.dataclass(frozen=True)
class Padded(Wrapper):
    """The spaces of a larger environment, with a mask of the actions that exist.

    So one agent acts in several environments of different sizes. Observations are discrete, or a
    dictionary: then every discrete entry is padded. One that is not a dictionary becomes the entry
    `state`. `action_mask: bool[actions]` says which actions exist; one that does not stands for the
    last that does.

    Attributes:
      observations: of the larger space of observations.
      actions: of the larger space of actions.

    Example:
      >>> import gpicljax
      >>> env = Padded(gpicljax.make("BanditTwoArmedHighLowFixed-v0"), observations=48, actions=10)
      >>> env.action_space(), env.observation_space()["state"]
      (Discrete(n=10), Discrete(n=48))
    """

    observations: Count
    actions: Count

    def __post_init__(self) -> None:
        super().__post_init__()
        actions = self.env.action_space()
        fits = isinstance(actions, spaces.Discrete) and actions.n <= self.actions
        check(fits, "actions", self.actions, f"as many as {self.env.name} has, {actions}, or more")
        for entry in self._entries.values():
            if isinstance(entry, spaces.Discrete):
                accepted = f"as many as {self.env.name} has, {entry}, or more"
                check(entry.n <= self.observations, "observations", self.observations, accepted)

    @property
    def _entries(self) -> dict[str, Space]:
        space = self.env.observation_space()
        return space.spaces if isinstance(space, spaces.Dict) else {"state": space}

    def observe(self, state: Any, task: Any) -> dict[str, Any]:
        """The other's, and the mask."""
        seen = self.env.observe(self.inner(state), task)
        seen = seen if isinstance(seen, dict) else {"state": seen}
        count = self.env.action_space().n  # type: ignore[attr-defined]
        mask = jnp.arange(self.actions) < count
        if "action_mask" in seen:
            inner = jnp.pad(seen["action_mask"], (0, self.actions - seen["action_mask"].shape[0]))
            mask = mask & inner
        return seen | {"action_mask": mask}

    def move(self, state: Any, action: Any, noise: Any, task: Any) -> Transition:
        """The other's step."""
        count = self.env.action_space().n  # type: ignore[attr-defined]
        return super().move(state, jnp.minimum(action, count - 1), noise, task)

    def action_space(self, task: Any = None) -> Space:
        """The larger one."""
        del task
        return spaces.Discrete(self.actions)

    def observation_space(self, task: Any = None) -> Space:
        """The larger one."""
        del task
        wide = spaces.Discrete(self.observations)
        entries = {
            name: wide if isinstance(entry, spaces.Discrete) else entry
            for name, entry in self._entries.items()
        }
        return spaces.Dict.of(entries | {"action_mask": spaces.Box(0, 1, (self.actions,), "bool")})

    def observation_bounds(self, params: Any) -> None:
        """None: those of a dictionary are not told."""
        del params


# Tasks that are held out -------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Part(Wrapper):
    """A part of the tasks: those to train on, or those that are held out.

    Tasks are drawn again until one is in the part. Which are held out is decided by a number that
    the task itself gives, so that no task is ever in both, however often it is drawn.

    Attributes:
      number: `task -> uint32[]` (or int32), the same for what counts as the same task; one in
        `parts` is held out, and so is every task whose number is 0.
      held_out: whether this is the part that is held out.
      parts: see `number`.

    Example:
      >>> import gpicljax
      >>> lakes = gpicljax.make("FrozenLake-v1", size=4)
      >>> def holes(task):
      ...     return (task.cells == 2).sum()
      >>> few = Part(lakes, holes, held_out=True, parts=3)
      >>> keys = jax.random.split(jax.random.key(0), 20)
      >>> tasks = jax.jit(jax.vmap(few.sample_task, (0, None)))(keys, few.default_params)
      >>> set((jax.vmap(holes)(tasks) % 3).tolist())
      {0}
    """

    number: Callable[[Any], jax.Array]
    held_out: bool = False
    parts: Count = 8

    def sample_task(self, key: jax.Array, params: Any) -> Any:
        """As the other's, if it is in this part."""

        def fits(task: Any) -> jax.Array:
            number = self.number(task)
            return (number % self.parts == 0) == self.held_out

        def again(loop: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
            key, draw_key = jax.random.split(loop[0])
            return key, self.env.sample_task(draw_key, params)

        first = again((key, None))
        return jax.lax.while_loop(lambda loop: ~fits(loop[1]), again, first)[1]

    def sample_blueprint(self, key: jax.Array, params: Any) -> Any:
        """A task of this part, with its first state."""
        return Environment.sample_blueprint(self, key, params)

    def start(self, key: jax.Array, blueprint: Any, params: Any) -> tuple[Any, Any]:
        """The blueprint."""
        del key, params
        return blueprint

    @property
    def has_outcomes(self) -> bool:
        """As the other's."""
        return self.env.has_outcomes

    def outcomes(self, task: Any) -> Outcomes:
        """As the other's."""
        return self.env.outcomes(task)


# Solved tasks ------------------------------------------------------------------------------------


def action_values(
    outcomes: Outcomes, discount: float = 0.99, tolerance: float = 1e-6, sweeps: int = 1000
) -> jax.Array:
    """The value of every action in every situation of a known task, by value iteration.

    Args:
      outcomes: what every action leads to.
      discount: of the episode's rewards; nothing follows an episode's end.
      tolerance: largest change of a sweep after which it ends.
      sweeps: the most there are.

    Returns:
      float `[S, A]`.

    Source: Bellman (1957); Sutton & Barto (2018), section 4.4.

    Example:
      >>> one = jnp.ones((1, 2, 1))
      >>> outcomes = Outcomes(one, 0 * one.astype(int), 2 * one, one.astype(bool))
      >>> jax.jit(action_values)(outcomes).tolist()
      [[2.0, 2.0]]
    """
    expected = (outcomes.chance * outcomes.reward).sum(-1)
    onward = jnp.where(outcomes.over, 0, discount * outcomes.chance)

    def sweep(values: jax.Array) -> jax.Array:
        return expected + (onward * values.max(-1)[outcomes.following]).sum(-1)

    def unfinished(loop: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        before, after, count = loop
        return (jnp.abs(after - before).max() > tolerance) & (count < sweeps)

    loop = jnp.zeros_like(expected), sweep(jnp.zeros_like(expected)), jnp.ones((), jnp.int32)
    return jax.lax.while_loop(
        unfinished, lambda loop: (loop[1], sweep(loop[1]), loop[2] + 1), loop
    )[1]


@struct.dataclass
class SolvedTask:
    """A task of `Solved`.

    Attributes:
      inner: the other environment's.
      optimal: `bool[S, width]`, the actions that are best in every situation.
    """

    inner: Any
    optimal: jax.Array


@dataclasses.dataclass(frozen=True)
class Solved(Wrapper):
    """Tasks that are solved as they are drawn: what is privileged says which actions are best.

    `privileged` is a dictionary with `optimal: bool[width]`, the best actions here, which an oracle
    takes and a student may be taught; see `agents.acting.oracle_agent`. Best is the greatest
    discounted return of the episode, by value iteration over `Environment.outcomes`.

    Attributes:
      width: of `optimal`, where it is to be padded; as many as there are actions if None.
      discount: see `action_values`.

    Example:
      >>> import gpicljax
      >>> env = Solved(gpicljax.make("FrozenLake-v1", is_slippery=False))
      >>> @jax.jit
      ... def best_at_the_start(key):
      ...     task = env.sample_task(key, env.default_params)
      ...     return env.privileged(env.initial(key, task), task)["optimal"]
      >>> best_at_the_start(jax.random.key(0)).tolist()
      [False, True, True, False]
    """

    width: Count | None = None
    discount: Share = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        accepted = "an environment that tells the outcomes of all actions"
        check(self.env.has_outcomes, "env", self.env.name, accepted)

    def _solved(self, task: Any) -> SolvedTask:
        values = action_values(self.env.outcomes(task), self.discount)
        best = values >= values.max(-1, keepdims=True) - 1e-5
        more = max((self.width or 0) - best.shape[1], 0)
        return SolvedTask(task, jnp.pad(best, ((0, 0), (0, more))))

    def sample_task(self, key: jax.Array, params: Any) -> SolvedTask:
        """As the other's, solved."""
        return self._solved(self.env.sample_task(key, params))

    def sample_blueprint(self, key: jax.Array, params: Any) -> Any:
        """A task, solved, with its first state."""
        return Environment.sample_blueprint(self, key, params)

    def start(self, key: jax.Array, blueprint: Any, params: Any) -> tuple[Any, Any]:
        """The blueprint."""
        del key, params
        return blueprint

    def initial(self, key: jax.Array, task: SolvedTask) -> Any:
        """As the other's."""
        return self.env.initial(key, task.inner)

    def draw_noise(self, key: jax.Array, state: Any, task: SolvedTask) -> Any:
        """As the other's."""
        return super().draw_noise(key, state, task.inner)

    def move(self, state: Any, action: Any, noise: Any, task: SolvedTask) -> Transition:
        """As the other's."""
        return super().move(state, action, noise, task.inner)

    def observe(self, state: Any, task: SolvedTask) -> Any:
        """As the other's."""
        return self.env.observe(state, task.inner)

    def privileged(self, state: Any, task: SolvedTask) -> dict[str, jax.Array]:
        """`optimal`: `bool[width]`, the best actions here."""
        return {"optimal": task.optimal[self.env.observe(state, task.inner)]}

    def describe(self, state: Any, task: SolvedTask) -> str:
        """As the other's."""
        return self.env.describe(state, task.inner)

    def render(self, state: Any, task: SolvedTask) -> jax.Array:
        """As the other's."""
        return self.env.render(state, task.inner)


# Several environments ----------------------------------------------------------------------------


@struct.dataclass
class MixtureTask:
    """A task of `Mixture`.

    Attributes:
      which: `int32[]`, the environment it is from.
      tasks: one of each environment; those of the others stand for nothing.
    """

    which: jax.Array
    tasks: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Mixture(Environment):
    """Tasks from one of several environments with the same spaces, each as likely as the others.

    A batch computes the step of every one of them for each instance: it is for a few small ones.
    Params are a tuple of theirs; states too. `info` is empty.

    Attributes:
      envs: the environments.

    Raises:
      ValueError: unless their spaces are the same.

    Example:
      >>> import gpicljax
      >>> names = "BanditTwoArmedHighLowFixed-v0", "BanditTwoArmedLowLowFixed-v0"
      >>> env = Mixture(tuple(gpicljax.make(name) for name in names))
      >>> jax.eval_shape(env.sample_task, jax.random.key(0), env.default_params).which.shape
      ()
    """

    envs: tuple[Environment, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check(len(self.envs) > 0, "envs", self.envs, "one or more environments")
        for spaces_of in (lambda e: e.observation_space(), lambda e: e.action_space()):
            first = spaces_of(self.envs[0])
            for env in self.envs:
                given = spaces_of(env)
                check(given == first, "envs", f"{env.name} with {given}", f"spaces like {first}")

    @property
    def name(self) -> str:
        """Those of all."""
        return f"Mixture({', '.join(env.name for env in self.envs)})"

    @property
    def default_params(self) -> tuple[Any, ...]:
        """Theirs."""
        return tuple(env.default_params for env in self.envs)

    def validate(self, params: Any) -> None:
        """Raises ValueError for params that one of them refuses."""
        fits = isinstance(params, tuple) and len(params) == len(self.envs)
        check(fits, "params", params, f"a tuple of {len(self.envs)}")
        for env, each in zip(self.envs, params, strict=True):
            env.validate(each)

    def params_or_default(self, params: Any) -> Any:
        """Params for one batch."""
        if params is None:
            return self.default_params
        self.validate(params)
        return params

    def sample_task(self, key: jax.Array, params: Any) -> MixtureTask:
        """A task of each, and which counts."""
        which_key, key = jax.random.split(key)
        which = jax.random.randint(which_key, (), 0, len(self.envs), jnp.int32)
        each = zip(self.envs, params, strict=True)
        return MixtureTask(which, tuple(env.sample_task(key, p) for env, p in each))

    def initial(self, key: jax.Array, task: MixtureTask) -> tuple[Any, ...]:
        """The start of each."""
        each = zip(self.envs, task.tasks, strict=True)
        return tuple(env.initial(key, one) for env, one in each)

    def _one(self, task: MixtureTask, values: list[Any]) -> Any:
        """Of values of the same shapes, that of the task's environment."""
        chosen = values[0]
        for number, value in enumerate(values[1:], 1):
            here = task.which == number
            chosen = jax.tree.map(lambda a, b, here=here: jnp.where(here, b, a), chosen, value)
        return chosen

    def draw_noise(self, key: jax.Array, state: Any, task: Any) -> jax.Array:
        """The key."""
        del state, task
        return key

    def move(self, state: Any, action: Any, noise: Any, task: MixtureTask) -> Transition:
        """A step of each, of which one counts."""
        each = zip(self.envs, state, task.tasks, strict=True)
        moved = [env.transition(noise, inner, action, one) for env, inner, one in each]
        dtype = jnp.result_type(float)
        seen = [(m.reward.astype(dtype), m.terminated, m.truncated) for m in moved]
        reward, terminated, truncated = self._one(task, seen)
        return Transition(tuple(m.state for m in moved), reward, terminated, truncated, {})

    def horizon(self, params: Any = None) -> Any:
        """The longest of theirs."""
        each = zip(self.envs, self.params_or_default(params), strict=True)
        return np.max(np.stack([np.asarray(env.horizon(p)) for env, p in each]), axis=0)

    def observe(self, state: Any, task: MixtureTask) -> Any:
        """What the task's environment shows."""
        each = zip(self.envs, state, task.tasks, strict=True)
        return self._one(task, [env.observe(inner, one) for env, inner, one in each])

    def privileged(self, state: Any, task: MixtureTask) -> Any:
        """What the task's environment tells; all must tell the same, as `Solved` ones do."""
        each = zip(self.envs, state, task.tasks, strict=True)
        return self._one(task, [env.privileged(inner, one) for env, inner, one in each])

    def action_space(self, task: Any = None) -> Space:
        """That of all."""
        return self.envs[0].action_space()

    def observation_space(self, task: Any = None) -> Space:
        """That of all."""
        return self.envs[0].observation_space()

    def describe(self, state: Any, task: MixtureTask) -> str:
        """The situation in the task's environment."""
        number = int(task.which)
        return self.envs[number].describe(state[number], task.tasks[number])
