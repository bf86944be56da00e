"""Learning histories on disk, and an environment that goes through them again.

A history is all that an agent sees and does while it learns one task, from its first action to its
last. Algorithm Distillation (Laskin et al., 2022) imitates such histories, so that what is learnt
is the learning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Count, check, check_array, refusal
from gpicljax.data.shards import ShardReader
from gpicljax.environment import Environment, Transition
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.interface import Agent
from gpicljax.registration import is_registered, make
from gpicljax.rollout import Record, play, start_rollout
from gpicljax.typing import ArrayTree
from gpicljax.wrappers.trial import Trial, trial_space

WHAT = "learning histories"
"""What a folder of histories says that it holds."""


class History(NamedTuple):
    """N histories of T actions.

    Attributes:
      now: `int32[N, T]`, where each action is taken.
      reached: `int32[N, T]`, what it leads to.
      action: `int32[N, T]`.
      reward: float `[N, T]`.
      terminated: `bool[N, T]`, an episode ended there.
      truncated: `bool[N, T]`, it was cut off there.
      task: what was learnt, leaves `[N, ...]`.
    """

    now: Any
    reached: Any
    action: Any
    reward: Any
    terminated: Any
    truncated: Any
    task: Any


def play_histories(
    key: jax.Array, env: Trial, env_params: ArrayTree, agent: Agent, count: int
) -> History:
    """Histories of an agent without parameters that learns within trials, each of its own task.

    Args:
      key: typed key.
      env: trials, as long as the histories; discrete situations.
      env_params: the distribution over tasks.
      agent: an agent for these trials.
      count: N.
    """
    vec = single_trial_batch(env, count, env.actions)

    def keep(record: Record) -> dict[str, Any]:
        before, after = record.timestep.observation, record.next_timestep
        seen = after.observation
        kept = {"now": before["now"], "action": record.action, "reward": after.reward}
        return kept | {name: seen[name] for name in ("reached", "terminated", "truncated")}

    start = start_rollout(key, vec, agent, env_params)
    played = play(vec, agent, (), start, max_steps=env.actions, keep=keep)
    steps = jax.tree.map(lambda x: x[:, 0], played.records)
    return History(task=start.vstate.task, **steps)


@struct.dataclass
class Stored:
    """The distribution over histories: all of a folder, equally likely.

    Attributes:
      now: `int32[N, T]`, as in `History`, likewise all others.
      reached: `int32[N, T]`.
      action: `int32[N, T]`.
      reward: float `[N, T]`.
      terminated: `bool[N, T]`.
      truncated: `bool[N, T]`.
    """

    now: jax.Array
    reached: jax.Array
    action: jax.Array
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array


def load_histories(path: str | Path) -> tuple[Stored, dict[str, Any]]:
    """All histories of a folder, and what the folder says of itself.

    Raises:
      DamagedShardError: if anything is missing or damaged; it names the file.
      ValueError: if the folder holds something else, or nothing, or what cannot have happened in
        the environment that it names; it names the array.
    """
    reader = ShardReader(path)
    names = [field.name for field in dataclasses.fields(Stored)]
    known = {leaf.name for leaf in reader.manifest.leaves}
    check(known >= set(names), "histories", str(path), "a folder of in_context_rl_histories")
    found = reader.read(np.arange(len(reader)))
    _check_histories({name: found[name] for name in names}, reader.about)
    return Stored(**{name: jnp.asarray(found[name]) for name in names}), reader.about


def _check_histories(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Refuses arrays `[N, T]` that do not fit the spaces of the environment that was learnt."""
    env_id, static = about.get("environment"), about.get("static")
    # A folder may come from anywhere: its names import nothing.
    known = isinstance(env_id, str) and is_registered(env_id) and isinstance(static, Mapping)
    check(known, "environment", env_id, "the id of a registered environment, with its options")
    env = make(str(env_id), **dict(static or {}))
    seen, choices = env.observation_space(), env.action_space()
    if not isinstance(seen, spaces.Discrete) or not isinstance(choices, spaces.Discrete):
        accepted = "one with numbered situations and actions"
        raise ValueError(refusal("environment", env_id, accepted))
    shape = len(arrays["action"]), about.get("actions")
    counts = {"now": seen.n, "reached": seen.n, "action": choices.n}
    kinds = {"reward": "f", "terminated": "b", "truncated": "b"} | dict.fromkeys(counts, "iu")
    for name, kind in kinds.items():
        value, n = arrays[name], counts.get(name)
        words = f"within 0 .. {n - 1}" if n else {"f": "finite", "b": "bool"}[kind]
        fine = value.shape == shape and value.dtype.kind in kind and np.isfinite(value).all()
        fine = fine and (n is None or (value.min() >= 0 and value.max() < n))
        check_array(fine, name, value, f"{words}, [N, {shape[1]}]")


@struct.dataclass
class Position:
    """A state of `StoredHistories`.

    Attributes:
      steps: `int32[]`, actions gone through.
    """

    steps: jax.Array


@dataclasses.dataclass(frozen=True)
class StoredHistories(Environment[Stored, Stored, Position]):
    """Parts of stored histories as trials, to imitate: what is played does not matter.

    A task is a part of one history, uniformly any of that length. What is observed and paid is what
    the history says, and `privileged` has its action as `optimal: bool[A]`, which
    `agents.acting.optimal_agent` tells.

    Attributes:
      situation_space: what the environment inside shows.
      choices: A, its actions.
      count: N, the histories there are.
      length: T, their actions.
      actions: of a trial, at most T.

    Raises:
      ValueError: if trials are longer than the histories.
    """

    situation_space: spaces.Discrete
    choices: Count
    count: Count
    length: Count
    actions: Count

    def __post_init__(self) -> None:
        super().__post_init__()
        accepted = f"at most {self.length}, the actions of the histories"
        check(self.actions <= self.length, "actions", self.actions, accepted)

    @property
    def default_params(self) -> Stored:
        """Histories in which nothing happens, of the shapes there are."""
        none = jnp.zeros((self.count, self.length), jnp.int32)
        paid = jnp.zeros(none.shape, jnp.result_type(float))
        return Stored(none, none, none, paid, none.astype(bool), none.astype(bool))

    def horizon(self, params: Stored | None = None) -> Any:
        """The trial's actions."""
        del params
        return np.asarray(self.actions, np.int32)

    def sample_task(self, key: jax.Array, params: Stored) -> Stored:
        """A part of one of the histories, leaves `[actions]`."""
        which_key, start_key = jax.random.split(key)
        which = jax.random.randint(which_key, (), 0, self.count, jnp.int32)
        latest = self.length - self.actions
        start = jax.random.randint(start_key, (), 0, latest + 1, jnp.int32)

        def part(x: jax.Array) -> jax.Array:
            return jax.lax.dynamic_slice(x, (which, start), (1, self.actions))[0]

        return jax.tree.map(part, params)

    def initial(self, key: jax.Array, task: Stored) -> Position:
        """At the part's beginning."""
        del key, task
        return Position(jnp.zeros((), jnp.int32))

    def move(
        self, state: Position, action: jax.Array, noise: tuple[()], task: Stored
    ) -> Transition:
        """What the history says, whatever the action."""
        steps = state.steps + 1
        no = jnp.zeros((), bool)
        reward = task.reward[jnp.minimum(state.steps, self.actions - 1)]
        return Transition(Position(steps), reward, no, steps >= self.actions, {})

    def observe(self, state: Position, task: Stored) -> dict[str, Any]:
        """As `wrappers.Trial`."""
        first, last = state.steps == 0, jnp.maximum(state.steps - 1, 0)
        now = task.now[jnp.minimum(state.steps, self.actions - 1)]
        return {
            "now": now,
            "before": jnp.where(first, now, task.now[last]),
            "reached": jnp.where(first, now, task.reached[last]),
            "terminated": task.terminated[last] & ~first,
            "truncated": task.truncated[last] & ~first,
            "elapsed": (state.steps.astype(task.reward.dtype) / self.actions)[None],
        }

    def action_space(self, task: Stored | None = None) -> spaces.Discrete:
        """That of the environment inside."""
        return spaces.Discrete(self.choices)

    def observation_space(self, task: Stored | None = None) -> spaces.Space:
        """As of `wrappers.Trial`."""
        return trial_space(self.situation_space)

    def privileged(self, state: Position, task: Stored) -> dict[str, jax.Array]:
        """`optimal`: `bool[A]`, the history's action."""
        action = task.action[jnp.minimum(state.steps, self.actions - 1)]
        return {"optimal": jnp.arange(self.choices) == action}

    def describe(self, state: Position, task: Stored) -> str:
        """How much of the history has been gone through, and what it has paid."""
        steps = int(state.steps)
        paid = float(np.asarray(task.reward)[:steps].sum())
        return f"{steps} of {self.actions} actions of a history, which paid {paid:g} so far"
