"""Demonstrations on disk: their metadata, which environments they fit, and how a folder is filled.

`shards.ShardReader` reads what `collect_trajectories` wrote; `demonstrations` says what is kept of
a step.

Source: appendix A.3 of the GPICL paper.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gpicljax.checks import check, check_array, check_at_least
from gpicljax.data.collection import Collection, collect_shards
from gpicljax.data.shards import ShardReader
from gpicljax.spaces import Discrete
from gpicljax.systems.maze_world.data.demonstrations import (
    Demonstration,
    MazeTrajectory,
    as_distributions,
    distributions,
    sample_trajectories,
)
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params
from gpicljax.typing import JsonObject

AS_IN_THE_PAPER = Demonstration()


def metadata(
    env: MazeWorld, params: Params | Sequence[Params], settings: Demonstration
) -> dict[str, Any]:
    """Returns the JSON card of stored episodes; `from_metadata` is its inverse."""
    return {
        "environment": "MazeWorld-v0",
        "static": dataclasses.asdict(env),
        "params": [
            {name: np.asarray(value).tolist() for name, value in dataclasses.asdict(p).items()}
            for p in as_distributions(params)
        ],
        "demonstration": dataclasses.asdict(settings),
    }


def from_metadata(about: JsonObject) -> tuple[MazeWorld, tuple[Params, ...], Demonstration]:
    """Returns the environment, distributions and settings that stored episodes were made with.

    Raises:
      ValueError: if the card is of something else.
    """
    try:
        static, settings = dict(about["static"]), dict(about["demonstration"])
        static["resolution"] = tuple(static["resolution"])
        for name in ("probability", "epsilon"):
            settings[name] = tuple(settings[name])
        env = MazeWorld(**static)
        params = tuple(env.make_params(**p) for p in about["params"])
        return env, params, Demonstration(**settings)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"about: got {about!r}; accepted: the card of Maze World's demonstrations"
        ) from error


def check_fits(about: JsonObject, env: MazeWorld) -> None:
    """Refuses an environment whose mazes or rules differ from those of the stored episodes.

    The mode, the actions, the size and the number of landmarks must be those of the card. The view
    and all that belongs to it (resolution, field of view, radius, textures, pose) may be others:
    frames are rendered from poses. Labels then still follow from what the demonstrators saw, as the
    card's environment says.

    Args:
      about: the card, such as `ShardReader.about`.
      env: the environment that is to render what is learnt from.

    Raises:
      ValueError: if something differs that must not, or the card is of something else.
    """
    stored = from_metadata(about)[0]
    for name in ("mode", "actions", "size", "max_landmarks"):
        value, stored_value = getattr(env, name), getattr(stored, name)
        check(
            value == stored_value,
            f"env.{name}",
            value,
            f"{stored_value!r}, as in the stored episodes",
        )


def collection_of_episodes(
    seed: int,
    env: MazeWorld,
    params: Params | Sequence[Params],
    *,
    episodes: int,
    episodes_per_shard: int = 1024,
    settings: Demonstration = AS_IN_THE_PAPER,
) -> Collection:
    """Returns the collection of a folder of episodes; arguments as of `collect_trajectories`."""
    choices = distributions(env, params, settings)
    check_at_least(1, episodes=episodes, episodes_per_shard=episodes_per_shard)
    about = metadata(env, choices, settings)
    short = dataclasses.replace(settings, length=min(settings.length, 1024))
    few = min(episodes_per_shard, 64)
    return Collection(
        record_name="episodes",
        about=about | {"seed": seed, "episodes_per_shard": episodes_per_shard},
        kind="environment",
        make=_compile(env, choices, episodes_per_shard, settings),
        seed=seed,
        shards=-(-episodes // episodes_per_shard),
        steps=episodes_per_shard * settings.length,
        sample=(_compile(env, choices, few, short), few * short.length),
    )


def collect_trajectories(
    path: str | Path,
    seed: int,
    env: MazeWorld,
    params: Params | Sequence[Params],
    *,
    episodes: int,
    episodes_per_shard: int = 1024,
    settings: Demonstration = AS_IN_THE_PAPER,
    report: Callable[[int, int], Any] = lambda done, total: None,
) -> Path:
    """Writes episodes to a folder, a shard at a time; goes on where it was interrupted.

    The episodes of shard i follow from `seed` and i alone. `shards.ShardReader` reads them.

    Args:
      path: the folder.
      seed: of everything.
      env: the environment.
      params: see `sample_trajectories`.
      episodes: how many there are to be; whole shards are written.
      episodes_per_shard: how many are made at once.
      settings: how they are made.
      report: called with the number of shards there are and there will be, at first and after each.

    Returns:
      The folder.

    Raises:
      ShardError: if the folder holds something else, or another writer is at work.
      OSError: if writing fails; what was written before is kept.
      ValueError: see `sample_trajectories`.

    Example:
      >>> def small_set(folder):
      ...     env = MazeWorld(size=9)
      ...     short = Demonstration(length=64)
      ...     params = env.default_params
      ...     return collect_trajectories(folder, 0, env, params, episodes=256, settings=short)
    """
    sizes = {"episodes": episodes, "episodes_per_shard": episodes_per_shard}
    collection = collection_of_episodes(seed, env, params, **sizes, settings=settings)
    return collect_shards(path, collection, report)


def stored_episodes(
    path: str | Path, env: MazeWorld, length: int
) -> tuple[MazeTrajectory, tuple[Params, ...]]:
    """Returns all episodes of a folder, to be learnt from in an environment.

    Args:
      path: the folder, see `collect_trajectories`.
      env: the environment that is to render them.
      length: T, their steps.

    Returns:
      Episodes, NumPy leaves `[N, ...]` (about 10 bytes a step), and the distributions that
      `task_of` is to be given.

    Raises:
      DamagedShardError: if anything is missing or damaged; it names the file.
      ValueError: if they are of another environment or length, see `check_fits`, or cannot have
        happened in it; then it names the array.

    Example:
      >>> def read(folder):
      ...     env = MazeWorld(size=9)
      ...     episodes, params = stored_episodes(folder, env, length=64)
      ...     return jax.vmap(lambda episode: task_of(env, params, episode))(episodes)
    """
    reader = ShardReader(path)
    check_fits(reader.about, env)
    _, params, settings = from_metadata(reader.about)
    accepted_values = f"{settings.length}, as in the stored episodes"
    check(length == settings.length, "length", length, accepted_values)
    arrays = reader.read(np.arange(len(reader)))
    _check_episodes(arrays, env, len(params), length)
    return MazeTrajectory(**dict.fromkeys(MazeTrajectory._fields) | arrays), params


def _check_episodes(arrays: Mapping[str, Any], env: MazeWorld, params: int, length: int) -> None:
    """Refuses arrays that do not fit episodes of this length in an environment."""
    needed = {"pose": length + 1, "action": length, "label": length, "reward": length}
    check(
        needed.keys() <= arrays.keys() <= {*MazeTrajectory._fields}, "path", [*arrays], "episodes"
    )
    for name, steps in needed.items():
        axis = -1 if name == "pose" else 1
        shape = np.shape(arrays[name])
        fits = len(shape) > 1 and shape[axis] == steps
        check_array(fits, name, arrays[name], f"[N, ...] with {steps} on axis {axis}")
    space, most = env.action_space(), {"distribution": params - 1, "length": length}
    if isinstance(space, Discrete):
        most |= {"action": space.n - 1, "label": space.n - 1}
    for name, values in arrays.items():
        for leaf in jax.tree.leaves(values):
            check_array(bool(np.isfinite(leaf).all()), name, leaf, "finite numbers")
        if name in most:
            fits = values.dtype.kind in "iu" and values.min() >= 0 and values.max() <= most[name]
            check_array(bool(fits), name, values, f"integers within 0 .. {most[name]}")


def _compile(
    env: MazeWorld, choices: tuple[Params, ...], episodes: int, settings: Demonstration
) -> Callable[[jax.Array], MazeTrajectory]:
    return jax.jit(lambda key: sample_trajectories(key, env, choices, episodes, settings)[0])
