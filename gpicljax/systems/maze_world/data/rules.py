"""The rule-based agents beside the models: privileged ones, noisy or not, random ones, programs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.runtime import ENVIRONMENT_COMPILE, fast_jit, named_key
from gpicljax.runtime.dry_run import within_memory
from gpicljax.systems.maze_world.data.demonstrations import (
    Demonstration,
    MazeTrajectory,
    Noise,
    sample_trajectories,
)
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params, Task
from gpicljax.systems.maze_world.experts.privileged import Rule
from gpicljax.systems.maze_world.experts.programs import Kind, program_agent

NOISES = {"noise as in training": None, "noise of 1": 1.0}
"""Epsilon of the demonstrators whose episodes are shown to the models; None for their range."""
RULES = {
    "random": (0.0, 1.0),
    **{f"privileged, p = {100 * p:.0f} %": (p, 0.0) for p in (0, 0.05, 0.1, 0.25, 0.5, 1)},
}
"""Memory and share of random actions of the rule-based agents."""
PROGRAMS: tuple[Kind, ...] = get_args(Kind)
"""Beside them in navigation: two that need no map, and one that is told it."""
ORACLE: Kind = "knows the maze"
MAP_FREE = tuple(name for name in PROGRAMS if name != ORACLE)


class Rules:
    """Episodes of privileged agents, noisy and not, and of random ones, all in one program.

    Args:
      env: the environment.
      settings: of the episodes.
      sizes: of mazes to act in.
      rules: by which privileged agents choose.
      seed: of all draws.
      unseen: keys of the mazes in which all agents act, `uint32[N, 2]`.
      groups: of noisy demonstrators by name: keys of their mazes, and their epsilon.
      params_of: from size and length of an episode, and density, to the distribution.
    """

    def __init__(
        self,
        env: MazeWorld,
        settings: Demonstration,
        sizes: Sequence[int],
        rules: Sequence[Rule],
        seed: int,
        unseen: np.ndarray,
        groups: Mapping[str, tuple[np.ndarray, float | None]],
        params_of: Callable[..., Params],
    ) -> None:
        self._env, self._settings, self._params_of = env, settings, params_of
        self._sizes, self._rules, self._seed = sizes, rules, seed
        self._mazes = dict.fromkeys(RULES, unseen) | {
            name: maze_keys for name, (maze_keys, _) in groups.items()
        }
        self._epsilons = {name: epsilon for name, (_, epsilon) in groups.items()}
        self._play, self._program = functools.cache(self._play_all), functools.cache(self._compile)
        self.programs = functools.cache(self._play_programs)

    def demonstrations(self, name: str, size: int, *density: float) -> tuple[MazeTrajectory, Task]:
        """Noisy demonstrators' episodes `[N, ...]` in mazes of one size, and these mazes."""
        return self._play(size, self._rules[0], *density)[name]

    def mazes(self, size: int) -> Task:
        """Returns the unseen mazes of one size, leaves `[N, ...]`."""
        return self._play(size, self._rules[0])["random"][1]

    def all(self) -> dict[tuple[int, Rule], dict[str, MazeTrajectory]]:
        """Returns the episodes of all rules and of programs, by size and rule, then by name."""
        return {
            (size, rule): {name: episodes for name, (episodes, _) in self._play(size, rule).items()}
            | self.programs(size)
            for rule in self._rules
            for size in self._sizes
        }

    def _play_programs(self, size: int) -> dict[str, MazeTrajectory]:
        """Returns the programs' episodes in the unseen mazes, by name; none of survival."""
        if self._env.survival:
            return {}
        unseen, kinds = self._mazes["random"], PROGRAMS
        count = len(unseen)
        actor = program_agent(self._env, [kind for kind in kinds for _ in range(count)])

        def play(env_params: Params, keys: jax.Array) -> MazeTrajectory:
            key, tasks = named_key(self._seed, "programs"), jax.random.wrap_key_data(keys)
            options: Any = {"actor": actor, "tasks": tasks, "pictures": False}
            return sample_trajectories(
                key, self._env, env_params, len(keys), self._settings, **options
            )[0]

        program = within_memory(fast_jit(play, ENVIRONMENT_COMPILE), "the episodes of programs")
        env_params = self._params_of(size, self._settings.length)
        keys = np.concatenate([unseen] * len(kinds))
        trajectories = jax.device_get(program(env_params, keys))
        return {
            kind: jax.tree.map(lambda x, i=i: x[i * count : (i + 1) * count], trajectories)
            for i, kind in enumerate(kinds)
        }

    def _compile(self, rule: Rule) -> Callable[..., tuple[MazeTrajectory, Task]]:
        settings = dataclasses.replace(self._settings, rule=rule)

        def play(env_params: Params, keys: jax.Array, noise: Noise) -> tuple[MazeTrajectory, Task]:
            key, tasks = named_key(self._seed, "rules"), jax.random.wrap_key_data(keys)
            return sample_trajectories(
                key, self._env, env_params, len(keys), settings, tasks=tasks, noise=noise
            )

        return within_memory(fast_jit(play, ENVIRONMENT_COMPILE), "the episodes of rules")

    def _play_all(
        self, size: int, rule: Rule, *density: float
    ) -> dict[str, tuple[MazeTrajectory, Task]]:
        noises = [self._noise(name, len(mazes)) for name, mazes in self._mazes.items()]
        noise = jax.tree.map(lambda *x: jnp.concatenate(x), *noises)
        keys = np.concatenate(list(self._mazes.values()))
        env_params = self._params_of(size, self._settings.length, *density)
        trajectories = jax.device_get(self._program(rule)(env_params, keys, noise))
        by_name, end = {}, 0
        for name, mazes in self._mazes.items():
            rows = slice(end, end := end + len(mazes))
            by_name[name] = jax.tree.map(lambda x, rows=rows: x[rows], trajectories)
        return by_name

    def _noise(self, name: str, count: int) -> Noise:
        """Draws the noise of each agent of one kind."""
        draw = np.random.default_rng(self._seed)
        if name in RULES:
            memory, epsilon = RULES[name]
            drawn: Any = np.full(count, memory), np.full(count, epsilon), np.zeros(count)
        else:
            settings, fixed = self._settings, self._epsilons[name]
            drawn = (
                draw.uniform(*settings.probability, count),
                draw.uniform(*(settings.epsilon if fixed is None else (fixed, fixed)), count),
                draw.uniform(0, 1, count),
            )
        return Noise(*(jnp.asarray(x, jnp.result_type(float)) for x in drawn))
