"""Learning histories on disk, and an environment that replays them.

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
from gpicljax.typing import ArrayTree, JsonObject
from gpicljax.wrappers.trial import Trial, trial_space

CONTENT = "learning histories"
"""The content that the card of a folder of histories states."""


class History(NamedTuple):
    """N histories of T actions.

    Attributes:
      now: `int32[N, T]`, the situation before each action.
      reached: `int32[N, T]`, the situation after each action.
      action: `int32[N, T]`.
      reward: float `[N, T]`.
      terminated: `bool[N, T]`, whether an episode ended there.
      truncated: `bool[N, T]`, whether it was cut off there.
      task: the task that was learnt, leaves `[N, ...]`.
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
    """Plays histories of an agent that learns within trials, each of its own task.

    Args:
      key: typed key.
      env: trials, as long as the histories; discrete situations.
      env_params: the distribution over tasks.
      agent: an agent for these trials.
      count: N.
    """
    vec = single_trial_batch(env, count, env.actions)

    def stored_fields(record: Record) -> dict[str, Any]:
        before, after = record.timestep.observation, record.next_timestep
        next_observation = after.observation
        fields = {"now": before["now"], "action": record.action, "reward": after.reward}
        return fields | {
            name: next_observation[name] for name in ("reached", "terminated", "truncated")
        }

    start = start_rollout(key, vec, agent, env_params)
    played = play(vec, agent, (), start, max_steps=env.actions, keep=stored_fields)
    steps = jax.tree.map(lambda x: x[:, 0], played.records)
    return History(task=start.vstate.task, **steps)


@struct.dataclass
class HistoryParams:
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


def load_histories(path: str | Path) -> tuple[HistoryParams, dict[str, Any]]:
    """Returns all histories of a folder, and the folder's description.

    Raises:
      DamagedShardError: if anything is missing or damaged; it names the file.
      ValueError: if the folder holds something else, or nothing, or what cannot have happened in
        the environment that it names; it names the array.
    """
    reader = ShardReader(path)
    names = [field.name for field in dataclasses.fields(HistoryParams)]
    leaf_names = {leaf.name for leaf in reader.manifest.leaves}
    check(leaf_names >= set(names), "histories", str(path), "a folder of in_context_rl_histories")
    arrays = reader.read(np.arange(len(reader)))
    _check_histories({name: arrays[name] for name in names}, reader.about)
    return HistoryParams(**{name: jnp.asarray(arrays[name]) for name in names}), reader.about


def _check_histories(arrays: Mapping[str, np.ndarray], about: JsonObject) -> None:
    """Refuses arrays `[N, T]` that do not fit the spaces of the environment that was learnt."""
    env_id, static = about.get("environment"), about.get("static")
    # A folder may come from anywhere: its names import nothing.
    is_known = isinstance(env_id, str) and is_registered(env_id) and isinstance(static, Mapping)
    check(is_known, "environment", env_id, "the id of a registered environment, with its options")
    env = make(str(env_id), **dict(static or {}))
    situations, choices = env.observation_space(), env.action_space()
    if not isinstance(situations, spaces.Discrete) or not isinstance(choices, spaces.Discrete):
        expected = "one with numbered situations and actions"
        raise ValueError(refusal("environment", env_id, expected))
    shape = len(arrays["action"]), about.get("actions")
    counts = {"now": situations.n, "reached": situations.n, "action": choices.n}
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
class StoredHistories(Environment[HistoryParams, HistoryParams, Position]):
    """An environment of parts of stored histories, to imitate; actions have no effect.

    A task is a part of one history, uniformly any of that length. What is observed and paid is what
    the history says, and `privileged` has its action as `optimal: bool[A]`, which
    `agents.acting.optimal_agent` tells.

    Attributes:
      situation_space: observation space of the environment inside.
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
        expected = f"at most {self.length}, the actions of the histories"
        check(self.actions <= self.length, "actions", self.actions, expected)

    @property
    def default_params(self) -> HistoryParams:
        """Returns histories in which nothing happens, of the shapes of the stored ones."""
        zeros = jnp.zeros((self.count, self.length), jnp.int32)
        rewards = jnp.zeros(zeros.shape, jnp.result_type(float))
        return HistoryParams(zeros, zeros, zeros, rewards, zeros.astype(bool), zeros.astype(bool))

    def horizon(self, params: HistoryParams | None = None) -> Any:
        """Returns the number of actions of a trial."""
        del params
        return np.asarray(self.actions, np.int32)

    def sample_task(self, key: jax.Array, params: HistoryParams) -> HistoryParams:
        """Draws a part of one of the histories, leaves `[actions]`."""
        number_key, start_key = jax.random.split(key)
        number = jax.random.randint(number_key, (), 0, self.count, jnp.int32)
        latest = self.length - self.actions
        start = jax.random.randint(start_key, (), 0, latest + 1, jnp.int32)

        def part(x: jax.Array) -> jax.Array:
            return jax.lax.dynamic_slice(x, (number, start), (1, self.actions))[0]

        return jax.tree.map(part, params)

    def initial(self, key: jax.Array, task: HistoryParams) -> Position:
        """Returns the beginning of the part."""
        del key, task
        return Position(jnp.zeros((), jnp.int32))

    def move(
        self, state: Position, action: jax.Array, noise: tuple[()], task: HistoryParams
    ) -> Transition:
        """Returns the outcome in the history, whatever the action."""
        steps = state.steps + 1
        false = jnp.zeros((), bool)
        reward = task.reward[jnp.minimum(state.steps, self.actions - 1)]
        return Transition(Position(steps), reward, false, steps >= self.actions, {})

    def observe(self, state: Position, task: HistoryParams) -> dict[str, Any]:
        """Returns the observation of `wrappers.Trial`."""
        first, last = state.steps == 0, jnp.maximum(state.steps - 1, 0)
        situation = task.now[jnp.minimum(state.steps, self.actions - 1)]
        return {
            "now": situation,
            "before": jnp.where(first, situation, task.now[last]),
            "reached": jnp.where(first, situation, task.reached[last]),
            "terminated": task.terminated[last] & ~first,
            "truncated": task.truncated[last] & ~first,
            "elapsed": (state.steps.astype(task.reward.dtype) / self.actions)[None],
        }

    def action_space(self, task: HistoryParams | None = None) -> spaces.Discrete:
        """Returns the space of actions of the environment inside."""
        return spaces.Discrete(self.choices)

    def observation_space(self, task: HistoryParams | None = None) -> spaces.Space:
        """Returns the space of observations of `wrappers.Trial`."""
        return trial_space(self.situation_space)

    def privileged(self, state: Position, task: HistoryParams) -> dict[str, jax.Array]:
        """Returns `optimal`: `bool[A]`, the history's action."""
        action = task.action[jnp.minimum(state.steps, self.actions - 1)]
        return {"optimal": jnp.arange(self.choices) == action}

    def describe(self, state: Position, task: HistoryParams) -> str:
        """Returns the number of actions gone through, and their rewards so far."""
        steps = int(state.steps)
        paid = float(np.asarray(task.reward)[:steps].sum())
        return f"{steps} of {self.actions} actions of a history, which paid {paid:g} so far"


def stored_histories(
    folder: Path, family: str, trials: Environment, actions: int
) -> tuple[StoredHistories, HistoryParams]:
    """Returns an environment of a folder's histories, and its params.

    Args:
      folder: the folder.
      family: family of tasks that the histories are to be of.
      trials: the trials of that family.
      actions: actions of a trial.

    Raises:
      ValueError: if the histories are of another family, or shorter.
    """
    assert isinstance(trials, Trial)
    params, about = load_histories(folder)
    same = about.get("family") == family
    check(same, "histories", about.get("family"), f"those of the family {family}")
    count, length = params.action.shape
    accepted_values = f"at most {length}, those of the histories"
    check(actions <= length, "actions", actions, accepted_values)
    inner, choices = trials.env.observation_space(), trials.action_space()
    assert isinstance(inner, spaces.Discrete) and isinstance(choices, spaces.Discrete)
    return StoredHistories(inner, choices.n, count, length, actions), params
