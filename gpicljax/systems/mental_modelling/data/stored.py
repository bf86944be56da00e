"""Episodes on disk: folders of our own, and files in the layout of the reference.

A folder holds the arrays and a card with all else, each with a checksum (`storage.array_folder`).
The reference keeps a file per episode: `states`, `actions` and `rewards` of every step,
`episodic_return`, and `achieved_goals` and `desired_goals` where there are goals; an axis for a
vector environment of one is kept in it.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpicljax import spaces
from gpicljax.checks import check
from gpicljax.storage.array_folder import SavedError, read_folder, write_folder
from gpicljax.storage.reading import read_bytes
from gpicljax.systems.mental_modelling.data.episodes import Episodes, episodes_from_arrays

FORMAT = 1
CARD = "episodes.json"
_ARRAYS = (
    "states",
    "actions",
    "rewards",
    "length",
    "returns",
    "achieved_goals",
    "desired_goals",
)
_NEEDED = ("states", "actions", "rewards")
_GOALS = ("achieved_goals", "desired_goals")


def save_episodes(folder: str | Path, episodes: Episodes) -> None:
    """Writes episodes to a folder; earlier content is replaced.

    Raises:
      OSError: if a file cannot be written.

    Example:
      >>> import tempfile
      >>> one = episodes_from_arrays(
      ...     [np.zeros((5, 2))],
      ...     [np.zeros(5, int)],
      ...     [np.ones(5)],
      ...     environment="Walk",
      ...     action_space=spaces.Discrete(2),
      ...     agent="walker",
      ... )
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     save_episodes(folder, one)
      ...     load_episodes(folder).agents
      ('walker',)
    """
    space = episodes.action_space
    if isinstance(space, spaces.Discrete):
        about: dict[str, Any] = {"n": space.n}
    else:
        about = {"low": float(space.low), "high": float(space.high), "shape": [*space.shape]}
    card = {
        "format": FORMAT,
        "environment": episodes.environment,
        "action_space": about,
        "num_states": episodes.num_states,
        "agents": [*episodes.agents],
        "checkpoints": [*episodes.checkpoints],
    }
    arrays = {name: getattr(episodes, name) for name in _ARRAYS}
    present_arrays = {name: value for name, value in arrays.items() if value is not None}
    write_folder(Path(folder), CARD, card, present_arrays)


def load_episodes(folder: str | Path) -> Episodes:
    """Reads a folder that `save_episodes` wrote.

    Raises:
      SavedError: if a file is missing, damaged, of another version or of something else.

    Example:
      >>> load_episodes("nowhere")
      Traceback (most recent call last):
      gpicljax.storage.array_folder.SavedError: nowhere holds no episodes: ...
    """
    folder = Path(folder)
    card, arrays = read_folder(folder, CARD, FORMAT, "episodes")
    try:
        about = card["action_space"]
        return Episodes(
            environment=card["environment"],
            action_space=spaces.Discrete(about["n"])
            if "n" in about
            else spaces.Box(about["low"], about["high"], tuple(about["shape"])),
            num_states=card["num_states"],
            agents=tuple(card["agents"]),
            checkpoints=tuple(card["checkpoints"]),
            **arrays,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SavedError(f"{folder / CARD} is damaged ({type(error).__name__}: {error})") from error


def read_npz(
    paths: str | Path | Sequence[str | Path],
    *,
    environment: str,
    action_space: spaces.Discrete | spaces.Box,
    agent: str,
    checkpoint: str = "",
    num_states: int | None = None,
) -> Episodes:
    """Reads a user's own episodes in the reference's layout, a file each.

    Nothing in them is run: pickled objects are refused. Arrays of other names are left alone.

    Args:
      paths: one or more files.
      environment: the environment's id.
      action_space: space of the actions.
      agent: a name.
      checkpoint: a hash of its weights, if there is one.
      num_states: number of states, where they are numbered.

    Raises:
      SavedError: for a file that is missing, damaged or of something else; it names the file.
      ValueError: for what does not fit the environment, see `Episodes`; episodes are numbered in
        the order of `paths`.
    """
    files = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    check(len(files) > 0, "paths", paths, "one or more files")
    arrays_by_file = [_read_arrays(path) for path in files]
    goals: dict[str, Any] = {}
    for name in _GOALS:
        has_name = [name in arrays for arrays in arrays_by_file]
        if any(has_name):
            incomplete_file = files[has_name.index(False)] if not all(has_name) else None
            if incomplete_file is not None:
                raise SavedError(f"{incomplete_file} has no {name}, which other files have")
            goals[name] = [arrays[name] for arrays in arrays_by_file]
    steps = {name: [arrays[name] for arrays in arrays_by_file] for name in _NEEDED}
    returns = [
        float(arrays["episodic_return"].ravel()[0])
        if "episodic_return" in arrays
        else float(arrays["rewards"].sum())
        for arrays in arrays_by_file
    ]
    return episodes_from_arrays(
        steps["states"],
        steps["actions"],
        steps["rewards"],
        environment=environment,
        action_space=action_space,
        agent=agent,
        checkpoint=checkpoint,
        num_states=num_states,
        returns=returns,
        **goals,
    )


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Reads the arrays of a file that belong to an episode."""
    try:
        stored = np.load(io.BytesIO(read_bytes(path)), allow_pickle=False)
        if not isinstance(stored, np.lib.npyio.NpzFile):
            raise SavedError(f"{path} is no .npz file of an episode")
        names = (*_NEEDED, *_GOALS, "episodic_return")
        arrays = {name: stored[name] for name in names if name in stored.files}
    except SavedError:
        raise
    except OSError as error:
        raise SavedError(f"{path} cannot be read ({error.strerror or error})") from error
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise SavedError(f"{path} is damaged or no .npz file of arrays ({error})") from error
    missing = [name for name in _NEEDED if name not in arrays]
    if missing:
        raise SavedError(f"{path} has {', '.join(stored.files)}, but no {', '.join(missing)}")
    if any(x.dtype.kind not in "fiu" or x.size == 0 for x in arrays.values()):
        raise SavedError(f"{path} has entries that are no numbers, or empty")
    return arrays
