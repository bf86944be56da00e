"""Trials of exactly so many actions, as environments of one episode."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Count
from gpicljax.environment import Params, Task, Transition
from gpicljax.spaces import Space
from gpicljax.symbols import END, Entry, SymbolCode
from gpicljax.typing import ArrayTree
from gpicljax.wrappers.with_optimal_actions import SolvedTask, WithOptimalActions
from gpicljax.wrappers.wrapper import Wrapper


@struct.dataclass
class TrialState:
    """A state of `Trial`.

    Attributes:
      inner: the wrapped environment's state.
      actions: `int32[]`, taken so far.
      steps: `int32[]`, those of the episode in progress.
      before: where the last action was taken, an observation of the wrapped environment.
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
class Trial(Wrapper[Params, Task, TrialState]):
    """A trial of exactly so many actions, as one episode: those inside follow each other at once.

    Batches reset with a step of its own, whose action is ignored: where every pull ends an episode
    that is every second one. Here every action counts, and episodes cost nothing but their start.
    What a learner needs to know of an episode's end is observed:

    | entry | |
    |---|---|
    | `now` | what the wrapped environment shows: where the coming action is taken |
    | `before` | the same, where the last action was taken |
    | `reached` | the same, what that led to: `now`, unless an episode ended |
    | `terminated`, `truncated` | `bool[]`, it ended there, or was cut off |
    | `elapsed` | float `[1]`, share of the trial's actions that are taken |
    | `action_mask` | as in `now`, where there is one |

    At the start of a trial the first three are the same. The trial is truncated after its last
    action. `agents.acting.within_trial` lets agents of the wrapped environment act in it.

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
        """Returns the wrapped environment's state."""
        return state.inner

    def _begin(self, key: jax.Array, inner: ArrayTree, task: Task) -> TrialState:
        observation = self.env.observe(inner, task)
        zero, false = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        return TrialState(inner, zero, zero, observation, observation, false, false, key)

    def start(self, key: jax.Array, blueprint: Any, params: Params) -> tuple[Task, TrialState]:
        """Draws the wrapped environment's task and state, with no action taken."""
        start_key, noise_key = jax.random.split(key)
        task, inner = self.env.start(start_key, blueprint, params)
        return task, self._begin(noise_key, inner, task)

    def initial(self, key: jax.Array, task: Task) -> TrialState:
        """Returns the first episode's start."""
        start_key, noise_key = jax.random.split(key)
        return self._begin(noise_key, self.env.initial(start_key, task), task)

    def draw_noise(self, key: jax.Array, state: TrialState, task: Task) -> jax.Array:
        """A key; the trial's own for this step of every episode, where noise is replayed."""
        del task
        return jax.random.fold_in(state.noise, state.steps) if self.replay_noise else key

    def move(self, state: TrialState, action: Any, noise: jax.Array, task: Task) -> Transition:
        """Runs a step of the wrapped environment, and the next episode's start where one ends."""
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
        false = jnp.zeros((), bool)
        return Transition(after, moved.reward, false, after.actions >= self.actions, moved.info)

    def privileged(self, state: TrialState, task: Task) -> Any:
        """Returns the wrapped environment's; of solved tasks, the best with the actions left."""
        if isinstance(self.env, WithOptimalActions) and isinstance(task, SolvedTask):
            return self.env.best_actions(state.inner, task, self.actions - state.actions)
        return super().privileged(state, task)

    def horizon(self, params: Params | None = None) -> Any:
        """Returns the trial's actions."""
        del params
        return np.asarray(self.actions, np.int32)

    def observe(self, state: TrialState, task: Task) -> dict[str, Any]:
        """See the class."""
        current = self.env.observe(state.inner, task)
        observation = {
            "now": current,
            "before": state.before,
            "reached": state.reached,
            "terminated": state.terminated,
            "truncated": state.truncated,
            "elapsed": (state.actions.astype(jnp.result_type(float)) / self.actions)[None],
        }
        masked = isinstance(current, dict) and "action_mask" in current
        return observation | {"action_mask": current["action_mask"]} if masked else observation

    def observation_space(self, task: Task | None = None) -> Space:
        """See the class."""
        return trial_space(self.env.observation_space(task))

    def observation_bounds(self, params: Params) -> None:
        """None: those of a dictionary are not told."""
        del params

    def symbols(self) -> SymbolCode:
        """Returns the wrapped environment's code; where an episode ends, its end is written, too.

        Where nothing is observed, episodes have no ends to be told.
        """
        code = self.env.symbols()
        if not code.observation:
            return code
        end = Entry(marker=END, is_shown=_has_ended)
        reached = [_entry_of(entry, "reached", _has_ended) for entry in code.observation]
        now = [_entry_of(entry, "now", None) for entry in code.observation]
        return dataclasses.replace(code, observation=(*reached, end, *now))


def _has_ended(observation: dict[str, jax.Array]) -> jax.Array:
    return observation["terminated"] | observation["truncated"]


def _entry_of(
    entry: Entry, name: str, condition: Callable[[dict[str, jax.Array]], jax.Array] | None
) -> Entry:
    """Returns the entry, read from a part of the observation; shown if the condition holds, too."""

    def is_shown(observation: dict[str, jax.Array]) -> jax.Array:
        shown = jnp.ones((), bool) if condition is None else condition(observation)
        return shown if entry.is_shown is None else shown & entry.is_shown(observation[name])

    is_always_shown = condition is None and entry.is_shown is None
    return dataclasses.replace(
        entry,
        read=lambda observation: entry.read(observation[name]),
        is_shown=None if is_always_shown else is_shown,
    )


def trial_space(inner_space: Space) -> spaces.Dict:
    """Returns the observation space of `Trial` for that of the environment inside."""
    flag = spaces.Box(0, 1, (), "bool")
    entries: dict[str, Space] = {"now": inner_space, "before": inner_space, "reached": inner_space}
    entries |= {"terminated": flag, "truncated": flag, "elapsed": spaces.Box(0.0, 1.0, (1,))}
    if isinstance(inner_space, spaces.Dict) and "action_mask" in inner_space.spaces:
        entries["action_mask"] = inner_space["action_mask"]
    return spaces.Dict.of(entries)
