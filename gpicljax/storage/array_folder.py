"""Folders that hold arrays and a card about them, written so that half a one cannot pass for whole.

`params.npz` has the arrays, the card (JSON) everything else and the arrays' checksum. The card is
written last: a folder without it was never finished.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.storage.atomic import to_json_text, write_atomically
from gpicljax.storage.leaves import named_leaves
from gpicljax.storage.reading import read_bytes, read_json
from gpicljax.typing import ArrayTree, JsonObject

ARRAYS = "params.npz"
_KINDS = (np.bool_, np.integer, np.floating, np.complexfloating)


class SavedError(RuntimeError):
    """Saved files are damaged, or do not fit their intended use.

    Example:
      >>> try:
      ...     read_folder(Path("nowhere"), "agent.json", 1, "saved agent")
      ... except SavedError as error:
      ...     print(error)
      nowhere holds no saved agent: agent.json is missing
    """


class Arrays(Mapping[str, np.ndarray]):
    """Arrays of an archive by name, each decompressed when it is asked for.

    Args:
      path: of the archive, for errors.
      content: the archive.

    Raises:
      SavedError: if it is damaged, here or when an array is read.
    """

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        with self._damage("the archive"):
            self._archive = zipfile.ZipFile(io.BytesIO(content))
            self._members = {x.filename.removesuffix(".npy"): x for x in self._archive.infolist()}

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of an array, which is not decompressed for it."""
        with self._damage(name), self._archive.open(self._members[name]) as file:
            shape, dtype = _header(file)
            size = math.prod(shape) * dtype.itemsize
            if dtype.hasobject or self._members[name].file_size != file.tell() + size:
                raise ValueError(f"its header says {dtype}{[*shape]}")
            return shape

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._members:
            raise KeyError(name)
        self.shape(name)
        with self._damage(name), self._archive.open(self._members[name]) as file:
            return np.lib.format.read_array(file, allow_pickle=False)

    def __contains__(self, name: object) -> bool:  # Mapping's own would read the array
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    @contextlib.contextmanager
    def _damage(self, name: str) -> Iterator[None]:
        try:
            yield
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, MemoryError) as error:
            raise SavedError(f"{self._path} is damaged at {name} ({error})") from error
        except (NotImplementedError, RuntimeError, OverflowError) as error:  # other ways to pack
            raise SavedError(f"{self._path} cannot be read at {name} ({error})") from error


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    reads = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in reads:
        raise ValueError(f"format {version}")
    shape, _, dtype = reads[version](file)
    return shape, dtype


def name_leaves(part: str, tree: ArrayTree) -> dict[str, np.ndarray]:
    """Returns the leaves of a pytree by name, below `part`."""
    return {f"{part}/{name}": np.asarray(leaf) for name, leaf in named_leaves(tree)}


def write_folder(
    folder: Path, file: str, card: JsonObject, arrays: Mapping[str, np.ndarray]
) -> None:
    """Writes arrays and card; what was in the folder is replaced.

    Args:
      folder: made if absent.
      file: name of the card.
      card: for JSON; it gets an entry `arrays`.
      arrays: by name.

    Raises:
      OSError: if a file cannot be written.
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
    folder: Path, file: str, version: int, content_name: str
) -> tuple[dict[str, Any], Arrays]:
    """Reads card and arrays.

    Args:
      folder: what `write_folder` wrote.
      file: name of the card.
      version: the card's entry `format`.
      content_name: name of what the folder holds, for messages.

    Returns:
      The card, and the arrays by name, none of which takes memory before it is asked for.

    Raises:
      SavedError: if a file is missing, damaged or of another version; it names the file.
    """
    card = _read_card(folder, file, version, content_name)
    path, expected = folder / ARRAYS, card["arrays"]
    try:
        if (size := path.stat().st_size) != expected["bytes"]:
            raise SavedError(f"{path} has {size} bytes instead of {expected['bytes']}")
        content = read_bytes(path)
    except OSError as error:
        raise SavedError(f"{path} cannot be read ({error.strerror})") from error
    if hashlib.sha256(content).hexdigest() != expected["sha256"]:
        raise SavedError(f"{path} has changed (its checksum differs)")
    return card, Arrays(path, content)


def _read_card(folder: Path, file: str, version: int, content: str) -> dict[str, Any]:
    path = folder / file
    try:
        card = read_json(path)
        found_format, expected = card["format"], card["arrays"]
        _ = expected["bytes"], expected["sha256"]
    except FileNotFoundError as error:
        state = "was never finished" if (folder / ARRAYS).exists() else f"holds no {content}"
        raise SavedError(f"{folder} {state}: {file} is missing") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SavedError(f"{path} is damaged ({type(error).__name__}: {error})") from error
    if found_format != version:
        raise SavedError(f"{path} has format {found_format}; this version reads {version}")
    return card


def restore(folder: Path, arrays: Arrays, part: str, like: Any) -> Any:
    """Returns the arrays below `part` in the structure of `like`, in its dtypes.

    Raises:
      SavedError: if one is missing, is of another shape or holds another kind of numbers, or if
        there are others.
    """
    leaves, required = [], {f"{part}/{name}": leaf for name, leaf in named_leaves(like)}
    for name, leaf in required.items():
        shape = arrays.shape(name) if name in arrays else None
        if shape != jnp.shape(leaf):
            has = "nothing" if shape is None else list(shape)
            raise SavedError(
                f"{folder / ARRAYS} has {has} at {name}; {list(jnp.shape(leaf))} is needed"
            )
        value, dtype = arrays[name], jnp.result_type(leaf)
        if not any(jnp.issubdtype(value.dtype, k) and jnp.issubdtype(dtype, k) for k in _KINDS):
            raise SavedError(f"{folder / ARRAYS} has {value.dtype} at {name}; {dtype} is needed")
        # Floats as wide as this process computes with.
        leaves.append(jnp.asarray(value, dtype))
    for name in arrays:
        if name.startswith(f"{part}/") and name not in required:
            raise SavedError(f"{folder / ARRAYS} has {name}, which is not needed")
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
