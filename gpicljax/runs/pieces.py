"""Work that is done in pieces, each of which is stored in the run's folder once it is whole.

A piece is a file in JSON with a checksum, the configuration that it was made with, and its own
name: one that is damaged, of another run or in another's place is refused by its name.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gpicljax.checks import check
from gpicljax.runs.config_json import describe_difference, to_json
from gpicljax.runs.run_directory import IRRELEVANT, RunDirectory, RunError
from gpicljax.storage.atomic import to_json_text
from gpicljax.storage.checked_json import read_checked_json, write_checked_json
from gpicljax.storage.folders import with_folder

K = TypeVar("K")
T = TypeVar("T")


def complete_pieces(
    run: RunDirectory,
    pieces: Mapping[str, K],
    make: Callable[[K], Any],
    read: Callable[[K, Any], T],
) -> dict[str, T]:
    """Returns the pieces of a run's work; those that are not there yet are made and stored.

    All that are there are read before the first is made. A piece that has just been made is read as
    a stored one, so that both are the same.

    Args:
      run: the open run.
      pieces: what each is, by a name such as `lives/plain_0`; its file is `<name>.json` in the
        run's folder.
      make: makes a piece: nested mappings and lists of numbers, strings and arrays.
      read: the result, from what JSON made of a piece; a `ValueError` or `TypeError` refuses it.

    Raises:
      RunError: for a stored piece that is damaged, or was made with another configuration, apart
        from fields that may change when the run goes on; it names the file.
      OSError: if a file cannot be read or written.
    """
    completed: dict[str, T] = {}
    for name, piece in pieces.items():
        with contextlib.suppress(FileNotFoundError):
            completed[name] = _read_piece(run, name, functools.partial(read, piece))
    for name in [name for name in pieces if name not in completed]:
        content = json.loads(to_json_text(make(pieces[name])))
        completed[name] = read(pieces[name], content)
        about = {"piece": name, "config": to_json(run.config)}
        file = with_folder(run.path / f"{name}.json")
        write_checked_json(file, {**about, "content": content})
    return {name: completed[name] for name in pieces}


def _read_piece(run: RunDirectory, name: str, read: Callable[[Any], T]) -> T:
    file, ignore = run.path / f"{name}.json", (*IRRELEVANT, "name", *(run.config.free or ()))
    try:
        stored = read_checked_json(file)
        check(stored["piece"] == name, "piece", stored["piece"], name)
        lines = describe_difference(stored["config"], to_json(run.config), ignore)
        check(not lines, "config", "; ".join(lines), "that of this run")
        return read(stored["content"])
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"a piece of the run cannot be used ({error}); delete {file} to have it made anew"
        ) from error
