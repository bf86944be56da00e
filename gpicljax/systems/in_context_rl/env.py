"""Tasks of in-context RL: those for training, those held out, and the evaluation's own four."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax import spaces
from gpicljax.environment import Environment
from gpicljax.envs import cliff_walking, dark_room, frozen_lake, key_to_door
from gpicljax.envs.frozen_lake import LETTERS, MAPS
from gpicljax.registration import make
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
ENDS_ARE_GOALS = ("CliffWalking-v1",)
"""Ids of environments in which every move costs, and an episode ends at its goal alone."""
ROOMS, ROOM_SIZE = ("dark-room", "key-to-door"), 9
"""The families of dark rooms, and the side of a room."""
PADDED = 48, 10
"""Situations and actions of the space that all families fit into."""


def _number(cells: jax.Array, held_out: Sequence[Sequence[int]]) -> jax.Array:
    """Returns a number of a map `int32[...]`; 0 for the maps that are held out."""
    flat = cells.ravel()
    weights = jnp.asarray(np.random.default_rng(0).integers(0, 2**31, flat.size), jnp.uint32)
    number = (flat.astype(jnp.uint32) * weights).sum() // 2**7
    return jnp.where((flat == jnp.asarray(held_out)).all(1).any(), 0, number)


def lake_number(task: frozen_lake.Task) -> jax.Array:
    """Returns a number of a lake's map; 0 for the maps of the evaluation."""
    rows = MAPS["4x4"], CUSTOM
    return _number(task.cells, [[LETTERS.index(x) for x in "".join(tiles)] for tiles in rows])


def corridor_number(task: cliff_walking.Task) -> jax.Array:
    """Returns a number of a corridor with its cliff; 0 for that of the evaluation."""
    usual = [4, 12, 3, 3, 1, 10, 3, 0]
    size = jnp.stack([task.rows, task.columns])
    return _number(jnp.concatenate([size, task.cliff, task.start]), [usual])


def room_number(task: dark_room.Task) -> jax.Array:
    """Returns a number of a dark room, by its goal; -1 where that is the start."""
    number = _number(task.goal, [[-1, -1]]).astype(jnp.int32)
    return jnp.where((task.goal == task.size // 2).all(), -1, number)


def key_number(task: key_to_door.Task) -> jax.Array:
    """Returns a number of a dark room with a key and a door, by both."""
    return _number(jnp.concatenate([task.key_cell, task.door]), [[-1, -1, -1, -1]])


def is_bandit(env: Environment) -> bool:
    """Returns whether these are (trials of) bandits: a single situation."""
    observations = env.observation_space()
    situations = observations["now"] if isinstance(observations, spaces.Dict) else observations
    return situations == spaces.Discrete(1)


def trial_settings(actions: int, padded: bool) -> TrialSettings:
    """Returns settings of whole trials, in the space that all families fit into or in their own."""
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
      parts: one in so many numbers is held out.
    """

    env_id: str
    static: tuple[tuple[str, Any], ...] = ()
    params: tuple[tuple[str, Any], ...] = ()
    number: Callable[[Any], Any] | None = None
    held_out: bool = False
    parts: int = 8

    @property
    def ends_are_goals(self) -> bool:
        """Returns whether goals are counted: moves cost, and episodes end at a goal alone."""
        return self.env_id in ENDS_ARE_GOALS

    @property
    def env(self) -> Environment:
        """Returns the environment of one episode."""
        env = make(self.env_id, **dict(self.static))
        if self.number is None:
            return env
        return HeldOutTasks(env, self.number, self.held_out, self.parts)

    def trials(self, actions: int, padded: bool = False) -> tuple[Environment, Any]:
        """Returns whole trials of solved tasks, and the params."""
        settings = trial_settings(actions, padded)
        solved = WithOptimalActions(
            self.env, settings.choices, actions=actions, counts_ends=self.ends_are_goals
        )
        env = settings.wrap(solved)
        return env, env.make_params(**dict(self.params))


def _lakes(held_out: bool, **params: Any) -> Tasks:
    static = ("size", 4), ("is_slippery", False)
    return Tasks(LAKE, static, (("permute_actions", True), *params.items()), lake_number, held_out)


def family_tasks(family: Family, held_out: bool) -> Tasks:
    """Returns the tasks that a family trains on, or is tested on."""
    if family == "two-arms":
        return Tasks(TWO_ARMS) if held_out else Tasks(TEN_ARMS, (("num_arms", 2),))
    if family == "ten-arms":
        return Tasks(TEN_ARMS)
    if family == "cliffs":
        params = {"permute_actions": True, "random_cliff": True, "turn": True}
        params |= {"rows": (2, 4), "columns": (4, 12)}
        return Tasks(CLIFF, (), tuple(params.items()), corridor_number, held_out)
    if family == "dark-room":
        return Tasks(DARK_ROOM, number=room_number, held_out=held_out, parts=4)
    if family == "key-to-door":
        # So that the door can be opened as often as there is time for.
        return Tasks(KEY_TO_DOOR, (), (("door_ends", True),), key_number, held_out, 4)
    if family == "any-mdp":
        return Tasks(ANY_MDP)  # no table is ever drawn twice
    if family == "lakes-anywhere":
        return _lakes(held_out, anywhere=True)
    assert family != "mixture", "a mixture has no environment of its own"
    return _lakes(held_out, **({"success_rate": 1 / 3} if family == "lakes-slippery" else {}))


def mixed_trials(actions: int) -> tuple[Environment, Any]:
    """Returns all families, padded, each as likely as the others; bandits of two to ten arms."""
    arms = [Tasks(TEN_ARMS, (("num_arms", n),)) for n in range(2, 11)]
    families = "lakes", "lakes-anywhere", "lakes-slippery", "cliffs"
    bandits = [task_set.trials(actions, padded=True) for task_set in arms]
    mazes = [
        family_tasks(family, held_out=False).trials(actions, padded=True) for family in families
    ]

    def mix(pairs: list[tuple[Environment, ArrayTree]]) -> tuple[Environment, Any]:
        return TaskMixture(tuple(env for env, _ in pairs)), tuple(params for _, params in pairs)

    return mix([mix(bandits), *mazes])


def training_trials(family: Family, actions: int) -> tuple[Environment, Any]:
    """Returns the whole trials that a family trains on, and their params."""
    if family == "mixture":
        return mixed_trials(actions)
    return family_tasks(family, held_out=False).trials(actions)


def _held_out(*families: Any) -> dict[str, Tasks]:
    return {family: family_tasks(family, held_out=True) for family in families}


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
    """Returns the tests of a family's agents."""
    lakes = "4x4", "custom"
    extra_tests = {"lakes": lakes, "lakes-anywhere": lakes, "cliffs": ("CliffWalking",)}
    names = tuple(_MIXED_TESTS) if family == "mixture" else (family, *extra_tests.get(family, ()))
    return {name: TESTS[name] for name in names}
