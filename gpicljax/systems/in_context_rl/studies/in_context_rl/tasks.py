"""Tasks of in-context RL: what is trained on, what is held out, and the evaluation's own four."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax import spaces
from gpicljax.environment import Environment
from gpicljax.envs.frozen_lake import LETTERS, MAPS
from gpicljax.systems.in_context_rl.measures import ENDS_ARE_GOALS
from gpicljax.typing import ArrayTree
from gpicljax.wrappers.held_out_tasks import HeldOutTasks
from gpicljax.wrappers.settings import TrialSettings
from gpicljax.wrappers.task_mixture import TaskMixture
from gpicljax.wrappers.with_optimal_actions import WithOptimalActions

Family = Literal[
    "two-arms",
    "ten-arms",
    "lakes",
    "lakes-anywhere",
    "lakes-slippery",
    "cliffs",
    "dark-room",
    "key-to-door",
    "any-mdp",
    "mixture",
]
Test = Literal[
    "two-arms",
    "ten-arms",
    "lakes",
    "lakes-anywhere",
    "lakes-slippery",
    "cliffs",
    "4x4",
    "custom",
    "CliffWalking",
    "dark-room",
    "key-to-door",
    "any-mdp",
]
LAKE, CLIFF = "FrozenLake-v1", "CliffWalking-v1"
DARK_ROOM, KEY_TO_DOOR, ANY_MDP = "DarkRoom-v0", "KeyToDoor-v0", "AnyMDP-v0"
TWO_ARMS, TEN_ARMS = "BanditTwoArmedHighLowFixed-v0", "BanditTenArmedRandomFixed-v0"
CUSTOM = "SFFF", "FHFH", "FFFH", "GFFH"
"""The evaluation's second lake; its goal is three moves below the start."""
PADDED = 48, 10
"""Situations and actions of the space that all families fit into."""


def _number(cells: ArrayTree, held_out: Any) -> Any:
    """A number of a map `int32[...]`; 0 for the maps (a batch of them) that are always held out."""
    flat = cells.ravel()
    weights = jnp.asarray(np.random.default_rng(0).integers(0, 2**31, flat.size), jnp.uint32)
    number = (flat.astype(jnp.uint32) * weights).sum() // 2**7
    return jnp.where((flat == jnp.asarray(held_out)).all(1).any(), 0, number)


def lake_number(task: ArrayTree) -> Any:
    """A number of a lake's map; 0 for the maps of the evaluation."""
    rows = MAPS["4x4"], CUSTOM
    return _number(task.cells, [[LETTERS.index(x) for x in "".join(each)] for each in rows])


def corridor_number(task: ArrayTree) -> Any:
    """A number of a corridor with its cliff; 0 for that of the evaluation."""
    usual = [4, 12, 3, 3, 1, 10, 3, 0]
    size = jnp.stack([task.rows, task.columns])
    return _number(jnp.concatenate([size, task.cliff, task.start]), [usual])


def room_number(task: ArrayTree) -> Any:
    """A number of a dark room, by its goal."""
    return _number(task.goal, [[-1, -1]])


def key_number(task: ArrayTree) -> Any:
    """A number of a dark room with a key and a door, by both."""
    return _number(jnp.concatenate([task.key_cell, task.door]), [[-1, -1, -1, -1]])


def is_bandit(env: Environment) -> bool:
    """Whether these are (trials of) bandits: a single situation."""
    seen = env.observation_space()
    now = seen["now"] if isinstance(seen, spaces.Dict) else seen
    return now == spaces.Discrete(1)


def trial_settings(actions: int, padded: bool) -> TrialSettings:
    """Whole trials, in the space that all families fit into or in their own."""
    return TrialSettings(actions, *PADDED) if padded else TrialSettings(actions)


@dataclasses.dataclass(frozen=True)
class Tasks:
    """Tasks to train on or to be tested on.

    Attributes:
      env_id: of the environment of one episode.
      static: its options.
      params: those of its params that are not the default.
      number: of a task, see `trials.Part`; all tasks if None.
      held_out: whether the part is the one that is held out.
    """

    env_id: str
    static: tuple[tuple[str, Any], ...] = ()
    params: tuple[tuple[str, Any], ...] = ()
    number: Callable[[Any], Any] | None = None
    held_out: bool = False

    @property
    def ends_are_goals(self) -> bool:
        """Whether every move costs, and an episode ends at its goal alone: goals are counted."""
        return self.env_id in ENDS_ARE_GOALS

    @property
    def env(self) -> Environment:
        """The environment of one episode."""
        env = gpicljax.make(self.env_id, **dict(self.static))
        return env if self.number is None else HeldOutTasks(env, self.number, self.held_out)

    def trials(self, actions: int, padded: bool = False) -> tuple[Environment, Any]:
        """Whole trials of solved tasks, and the params."""
        settings = trial_settings(actions, padded)
        env = settings.around(WithOptimalActions(self.env, width=settings.choices))
        return env, env.make_params(**dict(self.params))


def _lakes(held_out: bool, **params: Any) -> Tasks:
    static = ("size", 4), ("is_slippery", False)
    return Tasks(LAKE, static, (("permute_actions", True), *params.items()), lake_number, held_out)


def tasks(family: Family, held_out: bool) -> Tasks:
    """What a family trains on, or what it is tested on."""
    if family == "two-arms":
        return Tasks(TWO_ARMS) if held_out else Tasks(TEN_ARMS, (("num_arms", 2),))
    if family == "ten-arms":
        return Tasks(TEN_ARMS)
    if family == "cliffs":
        params = {"permute_actions": True, "random_cliff": True, "turn": True}
        params |= {"rows": (2, 4), "columns": (4, 12)}
        return Tasks(CLIFF, (), tuple(params.items()), corridor_number, held_out)
    if family == "dark-room":
        return Tasks(DARK_ROOM, number=room_number, held_out=held_out)
    if family == "key-to-door":
        # So that the door can be opened as often as there is time for.
        return Tasks(KEY_TO_DOOR, (), (("door_ends", True),), key_number, held_out)
    if family == "any-mdp":
        return Tasks(ANY_MDP)  # no table is ever drawn twice
    if family == "lakes-anywhere":
        return _lakes(held_out, anywhere=True)
    assert family != "mixture", "a mixture has no environment of its own"
    return _lakes(held_out, **({"success_rate": 1 / 3} if family == "lakes-slippery" else {}))


def mixed_trials(actions: int) -> tuple[Environment, Any]:
    """All families, padded, each as likely as the others; bandits of two to ten arms."""
    arms = [Tasks(TEN_ARMS, (("num_arms", n),)) for n in range(2, 11)]
    families = "lakes", "lakes-anywhere", "lakes-slippery", "cliffs"
    bandits = [each.trials(actions, padded=True) for each in arms]
    others = [tasks(family, held_out=False).trials(actions, padded=True) for family in families]

    def mixed(pairs: list[tuple[Environment, Any]]) -> tuple[Environment, Any]:
        return TaskMixture(tuple(env for env, _ in pairs)), tuple(params for _, params in pairs)

    return mixed([mixed(bandits), *others])


def training_trials(family: Family, actions: int) -> tuple[Environment, Any]:
    """What a family trains on: whole trials, and their params."""
    if family == "mixture":
        return mixed_trials(actions)
    return tasks(family, held_out=False).trials(actions)


def _held_out(*families: Any) -> dict[str, Tasks]:
    return {family: tasks(family, held_out=True) for family in families}


_MIXED_TESTS = _held_out(
    "two-arms", "ten-arms", "lakes", "lakes-anywhere", "lakes-slippery", "cliffs"
) | {
    "4x4": Tasks(LAKE, (("map_name", "4x4"), ("is_slippery", False))),
    "custom": Tasks(LAKE, (("description", CUSTOM), ("is_slippery", False))),
    "CliffWalking": Tasks(CLIFF, (), (), corridor_number, True),
}
TESTS: dict[str, Tasks] = _MIXED_TESTS | _held_out("dark-room", "key-to-door", "any-mdp")
"""All that agents are tested on: unseen tasks of every family, and the evaluation's own, with the
actions in their usual order."""


def own_tests(family: Family) -> dict[str, Tasks]:
    """What a family's agents are tested on."""
    lakes = "4x4", "custom"
    more = {"lakes": lakes, "lakes-anywhere": lakes, "cliffs": ("CliffWalking",)}
    names = tuple(_MIXED_TESTS) if family == "mixture" else (family, *more.get(family, ()))
    return {name: TESTS[name] for name in names}
