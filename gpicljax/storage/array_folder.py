"""Folders that hold arrays and a card about them, written so that half a one cannot pass for whole.

`params.npz` has the arrays, the card (JSON) everything else and the arrays' checksum. The card is
written last: a folder without it was never finished.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.storage.atomic import to_json_text, write_atomically
from gpicljax.storage.leaves import named_leaves

ARRAYS = "params.npz"


class SavedError(RuntimeError):
    """Saved files are damaged, or do not fit their intended use.

    Example:
      >>> try:
      ...     read_folder(Path("nowhere"), "agent.json", 1, "saved agent")
      ... except SavedError as error:
      ...     print(error)
      nowhere holds no saved agent: agent.json is missing
    """


def named(part: str, tree: Any) -> dict[str, np.ndarray]:
    """The leaves of a pytree by name, below `part`."""
    return {f"{part}/{name}": np.asarray(leaf) for name, leaf in named_leaves(tree)}


def write_folder(
    folder: Path, file: str, card: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Writes arrays and card; what was in the folder is replaced.

    Args:
      folder: made if absent.
      file: name of the card.
      card: for JSON; it gets an entry `arrays`.
      arrays: by name.

    Raises:
      OSError: if a file cannot be written.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     write_folder(Path(folder), "agent.json", {"format": 1}, {"w": np.zeros(3)})
      ...     sorted(file.name for file in Path(folder).iterdir())
      ['agent.json', 'params.npz']
    """
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    content = stream.getvalue()
    about = {"file": ARRAYS, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    text = to_json_text({**card, "arrays": about}, indent=2) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    # What is replaced must not pass for whole in the meantime.
    (folder / file).unlink(missing_ok=True)
    write_atomically(folder / ARRAYS, content)
    write_atomically(folder / file, text)


def read_folder(
    folder: Path, file: str, version: int, what: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads card and arrays.

    Args:
      folder: what `write_folder` wrote.
      file: name of the card.
      version: the card's entry `format`.
      what: is looked for, in words.

    Returns:
      The card, and the arrays by name.

    Raises:
      SavedError: if a file is missing, damaged or of another version; it names the file.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     write_folder(Path(folder), "agent.json", {"format": 1}, {"w": np.ones(3)})
      ...     card, arrays = read_folder(Path(folder), "agent.json", 1, "an agent")
      >>> arrays["w"].tolist()
      [1.0, 1.0, 1.0]
    """
    card = _read_card(folder, file, version, what)
    path, expected = folder / ARRAYS, card["arrays"]
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SavedError(f"{path} cannot be read ({error.strerror})") from error
    if len(content) != expected["bytes"]:
        raise SavedError(f"{path} has {len(content)} bytes instead of {expected['bytes']}")
    if hashlib.sha256(content).hexdigest() != expected["sha256"]:
        raise SavedError(f"{path} has changed (its checksum differs)")
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return card, {name: stored[name] for name in stored.files}


def _read_card(folder: Path, file: str, version: int, what: str) -> dict[str, Any]:
    path = folder / file
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
        found, expected = card["format"], card["arrays"]
        _ = expected["bytes"], expected["sha256"]
    except FileNotFoundError as error:
        state = "was never finished" if (folder / ARRAYS).exists() else f"holds no {what}"
        raise SavedError(f"{folder} {state}: {file} is missing") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SavedError(f"{path} is damaged ({type(error).__name__}: {error})") from error
    if found != version:
        raise SavedError(f"{path} has format {found}; this version reads {version}")
    return card


def restore(folder: Path, arrays: Mapping[str, np.ndarray], part: str, like: Any) -> Any:
    """The arrays below `part` in the structure of `like`, in its dtypes.

    Raises:
      SavedError: if one is missing or has another shape.
    """
    leaves = []
    for name, leaf in named_leaves(like):
        value = arrays.get(f"{part}/{name}")
        if value is None or value.shape != jnp.shape(leaf):
            found = "nothing" if value is None else list(value.shape)
            raise SavedError(
                f"{folder / ARRAYS} has {found} at {part}/{name}; {list(jnp.shape(leaf))} is needed"
            )
        # Floats as wide as this process computes with.
        leaves.append(jnp.asarray(value, jnp.result_type(leaf)))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
