"""Records of one shape on disk, such as episodes, in shards that are whole or not there at all.

A store is a folder: `manifest.json` and one folder per shard, with one zarr array per leaf (written
by TensorStore: compressed, a CRC-32C checksum per chunk). A shard counts from the moment at which
the manifest names it, with the size and the SHA-256 of every file; what an interrupted writer left
beside it is never read.

```python
with ShardWriter("mazes", about={"size": 15}) as writer:
    while len(writer.shards) < 100:  # goes on where an earlier process was stopped
        writer.append(episodes(seed=len(writer.shards)))  # leaves [N, ...]
reader = ShardReader("mazes")
for batch in reader.batches(64, seed=0):  # leaves [64, ...]
    ...
```
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpicljax.checks import check, check_array, check_at_least
from gpicljax.data.shard_files import (
    DamagedShardError,
    Leaf,
    Manifest,
    Shard,
    ShardError,
    StoreLockedError,
    array_spec,
    find_damage,
    in_one_process,
    read_manifest,
    tensorstore,
    write_arrays,
    write_manifest,
)
from gpicljax.storage.atomic import sync_folder
from gpicljax.storage.leaves import is_key
from gpicljax.storage.lock import Held, LockedError, exclusive
from gpicljax.storage.manifest import MANIFEST, describe_files
from gpicljax.storage.nested import differences
from gpicljax.typing import JsonObject


class StoreMismatchError(ShardError):
    """The store was made with another configuration, or holds records of another shape."""


class ShardWriter:
    """Adds shards to a store. One writer at a time.

    Args:
      path: the store's folder; made if absent.
      about: what the records are, for JSON. A store that exists must have been made with the same.
      lock: of the folder, where the caller holds it, and goes on to hold it.

    Raises:
      StoreMismatchError: if `about` differs; the message says where.
      StoreLockedError: if another writer is at work.
      DamagedShardError: if the manifest is damaged, or missing beside shards.
      TypeError: if JSON cannot say `about`.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     with ShardWriter(folder, {"what": "episodes"}) as writer:
      ...         writer.append({"reward": np.zeros((4, 10))})
      ...         writer.num_records
      4
    """

    def __init__(
        self,
        path: str | Path,
        about: JsonObject | None = None,
        *,
        lock: Held | None = None,
    ) -> None:
        """Opens or makes the store; see the class."""
        self.path = Path(path)
        expected = json.loads(json.dumps(dict(about or {})))
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = Held(None) if lock is not None else exclusive(self.path)
        except LockedError as error:
            raise StoreLockedError(f"another writer is at work: {error}") from error
        try:
            self._manifest = self._open(expected)
        except BaseException:
            self.close()
            raise

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The finished shards."""
        return self._manifest.shards

    @property
    def num_records(self) -> int:
        """The number of records in finished shards."""
        return sum(shard.records for shard in self.shards)

    def append(self, records: Any) -> None:
        """Writes one shard; it is durable and part of the store once this returns.

        Args:
          records: pytree of arrays `[N, ...]` with names at every level (dictionaries, named
            tuples, dataclasses), N >= 1. All shards hold leaves of equal names, shapes and dtypes.

        Raises:
          ValueError: if the leaves have no common N >= 1, or cannot be stored.
          StoreMismatchError: if they differ from those of earlier shards.
          OSError: if writing fails. The store is as it was before.
        """
        table, count = _table(records)
        leaves = tuple(Leaf(n, a.shape[1:], str(a.dtype)) for n, a in table.items())
        _compare(self.path, self._manifest.leaves or leaves, leaves)
        name = f"shard-{len(self.shards):06d}"
        folder, unfinished = self.path / name, self.path / f".{name}.tmp"
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            write_arrays(unfinished, table, name)
            shard = Shard(name, count, describe_files(unfinished))
            if folder.exists():  # never named by the manifest
                shutil.rmtree(folder)
            os.rename(unfinished, folder)
            sync_folder(self.path)
            new = Manifest(self._manifest.about, leaves, (*self.shards, shard))
            write_manifest(self.path, new)
        except OSError:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        self._manifest = new

    def close(self) -> None:
        """Lets other writers in."""
        self._lock.close()

    def __enter__(self) -> ShardWriter:
        """Returns the writer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the writer."""
        self.close()

    def _open(self, expected: dict[str, Any]) -> Manifest:
        if not (self.path / MANIFEST).exists():
            if any(self.path.glob("shard-*")):
                raise DamagedShardError(f"{self.path / MANIFEST} is missing beside its shards")
            manifest = Manifest(expected, (), ())
            write_manifest(self.path, manifest)
            return manifest
        manifest = read_manifest(self.path)
        lines = differences(manifest.about, expected)
        if lines:
            raise StoreMismatchError(
                f"{self.path} was made with another configuration (stored -> wanted):"
                + "".join(f"\n  {line}" for line in lines)
            )
        for leftover in self.path.glob(".*.tmp"):
            if leftover.is_dir():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()
        return manifest


class ShardReader:
    """Reads the records of a store, numbered through all its shards.

    Opening compares the sizes of all files with the manifest; a changed byte shows when it is read
    (each chunk has its checksum), or in `find_damage`. New shards are seen by a new reader.

    A reader can be sent to worker processes that are started with "spawn". In a process that is
    forked from one that reads or writes shards, TensorStore's threads are missing: reading is
    refused there.

    Args:
      path: the store's folder.
      skip_damaged: leave damaged shards out instead of refusing the store. All checksums are then
        compared at once (about a second per gigabyte), so that no damage shows later.

    Attributes:
      path: the store's folder.
      manifest: what the store says of itself.
      skipped: shards left out, by name, with what is wrong with each.
      num_skipped: how many records they had.

    Raises:
      DamagedShardError: if there is damage (and `skip_damaged` is false), or no manifest; it names
        every damaged file.
      RuntimeError: from reading in a forked process.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     with ShardWriter(folder) as writer:
      ...         writer.append({"reward": np.arange(4.0)})
      ...     ShardReader(folder).read([3, 1])["reward"].tolist()
      [3.0, 1.0]
    """

    def __init__(self, path: str | Path, *, skip_damaged: bool = False) -> None:
        """Opens the store; see the class."""
        self.path = Path(path)
        self.manifest = read_manifest(self.path)
        self.skipped = find_damage(self.path, checksums=skip_damaged)
        if self.skipped and not skip_damaged:
            raise DamagedShardError("\n".join(self.skipped.values()))
        whole = [shard for shard in self.manifest.shards if shard.name not in self.skipped]
        self.num_skipped = sum(s.records for s in self.manifest.shards) - sum(
            s.records for s in whole
        )
        self._names = [shard.name for shard in whole]
        self._ends = np.cumsum([shard.records for shard in whole], dtype=np.int64)
        self._arrays: dict[tuple[int, str], Any] = {}

    @property
    def about(self) -> dict[str, Any]:
        """Returns the store's description, as it was given to the writer."""
        return self.manifest.about

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Returns one record, leaves `[...]`; a negative index counts from the end."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"index: got {index}; accepted: below the {len(self)} records")
        return jax.tree.map(lambda x: x[0], self.read([index % len(self)]))

    def read(self, indices: ArrayLike) -> dict[str, Any]:
        """Some records, stacked.

        Args:
          indices: `int[B]`, each within `0 .. len(self) - 1`.

        Returns:
          Nested dictionaries of arrays `[B, ...]`.

        Raises:
          DamagedShardError: if what is read has been damaged; it names the file.
          IndexError: if an index is out of range.
        """
        return self._finish(self._start(np.asarray(indices)))

    def batches(
        self, batch_size: int, *, seed: int, epoch: int = 0, start: int = 0
    ) -> Iterator[dict[str, Any]]:
        """Returns all records in random order, each once; those that fill no batch are left out.

        The next batch is read while the caller works on the last one.

        Args:
          batch_size: B, at most the number of records.
          seed: of the order.
          epoch: another order of the same seed.
          start: batches to leave out at the beginning, to go on after a break.

        Returns:
          An iterator over nested dictionaries of arrays `[B, ...]`.

        Raises:
          ValueError: if B is not within 1 .. number of records, or `start` is negative.
        """
        fits = 1 <= batch_size <= len(self)
        check(fits, "batch_size", batch_size, f"1 .. {len(self)} records")
        check_at_least(0, start=start)
        order = np.random.default_rng((seed, epoch)).permutation(len(self))
        count = len(self) // batch_size
        return self._batches(order[: count * batch_size].reshape(count, batch_size)[start:])

    def _batches(self, order: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
        coming = [self._start(indices) for indices in order[:1]]
        for following in [*order[1:], None]:
            current = coming.pop() if coming else None
            if following is not None:
                coming.append(self._start(following))
            if current is not None:
                yield self._finish(current)

    def _start(self, indices: NDArray[Any]) -> tuple[int, list[tuple[Any, ...]]]:
        if indices.ndim != 1 or indices.size == 0 or indices.dtype.kind not in "iu":
            raise IndexError(
                f"indices: got {indices.dtype}{list(indices.shape)}; accepted: int[B], B >= 1"
            )
        if indices.min() < 0 or indices.max() >= len(self):
            raise IndexError(
                f"indices: got {indices.min()} .. {indices.max()}; accepted: 0 .. {len(self) - 1}"
            )
        shard_of = np.searchsorted(self._ends, indices, side="right")
        pending = []
        for shard in np.unique(shard_of):
            places = np.flatnonzero(shard_of == shard)
            first = self._ends[shard - 1] if shard else 0
            for leaf in self.manifest.leaves:
                folder = self.path / self._names[shard] / leaf.name
                with _name_damage(folder):
                    array = self._array(int(shard), leaf, folder)
                    pending.append((leaf, places, folder, array[indices[places] - first].read()))
        return len(indices), pending

    def _finish(self, started: tuple[int, list[tuple[Any, ...]]]) -> dict[str, Any]:
        count, pending = started
        out = {
            leaf.name: np.empty((count, *leaf.shape), _dtype(leaf.dtype))
            for leaf in self.manifest.leaves
        }
        for leaf, places, folder, future in pending:
            with _name_damage(folder):
                out[leaf.name][places] = future.result()
        return _nest(out)

    def _array(self, shard: int, leaf: Leaf, folder: Path) -> Any:
        in_one_process.enter()
        if (shard, leaf.name) not in self._arrays:
            array = tensorstore().open(array_spec(folder), open=True, read=True).result()
            if (array.shape[1:], str(array.dtype.numpy_dtype)) != (leaf.shape, leaf.dtype):
                raise DamagedShardError(f"{folder / 'zarr.json'} does not fit {MANIFEST}")
            self._arrays[shard, leaf.name] = array
        return self._arrays[shard, leaf.name]


def _table(records: Any) -> tuple[dict[str, NDArray[Any]], int]:
    """Returns the leaves by name, and their common leading axis."""
    table: dict[str, NDArray[Any]] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(records)[0]:
        parts = [jax.tree_util.keystr((step,), simple=True) for step in path]
        name = ".".join(parts)
        plain = parts and all(re.fullmatch(r"[A-Za-z0-9_-]+", part) for part in parts)
        check(plain, "records", name, "leaves with names of letters, digits, _ and -")
        check(not is_key(leaf), f"records.{name}", leaf, "the key data of keys")
        table[name] = np.asarray(leaf)
        numbers = table[name].dtype.kind not in "OSUM" and table[name].size > 0
        check_array(numbers, f"records.{name}", table[name], "arrays of numbers, not empty")
    counts = {array.shape[:1] for array in table.values()}
    if len(counts) != 1 or () in counts:
        shapes = ", ".join(f"{name}{list(array.shape)}" for name, array in table.items())
        raise ValueError(f"records: got {shapes or 'nothing'}; accepted: leaves [N, ...] of one N")
    return table, counts.pop()[0]


def _dtype(name: str) -> Any:
    return jax.numpy.dtype(name)  # which knows bfloat16, too


def _nest(table: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in table.items():
        *outer, last = name.split(".")
        place = out
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return out


def _compare(path: Path, stored: Sequence[Leaf], received: Sequence[Leaf]) -> None:
    def leaf_shapes(leaves: Sequence[Leaf]) -> dict[str, str]:
        return {leaf.name: f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves}

    lines = differences(leaf_shapes(stored), leaf_shapes(received), show=str)
    if lines:
        raise StoreMismatchError(
            f"{path} holds other records (stored -> given):"
            + "".join(f"\n  {line}" for line in lines)
        )


@contextlib.contextmanager
def _name_damage(folder: Path) -> Iterator[None]:
    """Names the array that could not be read in the error."""
    try:
        yield
    except ValueError as error:  # as which TensorStore reports damaged and unreadable files
        raise DamagedShardError(f"{folder} cannot be read: {error}") from error
