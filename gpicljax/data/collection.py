"""Records that are made and stored a shard at a time, until all are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax

from gpicljax.checks import check
from gpicljax.data.shard_files import read_manifest
from gpicljax.data.shards import ShardWriter
from gpicljax.storage.lock import Held
from gpicljax.storage.manifest import MANIFEST


class Collection(NamedTuple):
    """The plan of a collection of records in a folder.

    Attributes:
      record_name: name of the records, a word in the plural.
      about: what they are, for JSON; see `ShardWriter`.
      kind: the entry of `about` that all collections of this kind have in common.
      make: the records of a shard, from its key.
      seed: of everything; the records of shard i follow from it and i alone.
      shards: how many there are to be.
      steps: of all records of a shard.
      sample: a part of a shard for a dry run, from a key, and its steps; by default a whole one.
    """

    record_name: str
    about: Mapping[str, Any]
    kind: str
    make: Callable[[jax.Array], Any]
    seed: int
    shards: int
    steps: int
    sample: tuple[Callable[[jax.Array], Any], int] | None = None

    def recognise(self, path: Path) -> None:
        """Refuses a folder that holds no collection of this kind.

        Raises:
          DamagedShardError: if it holds none at all.
          ValueError: if it holds one of another kind.
        """
        kind = read_manifest(path).about.get(self.kind)
        check(kind == self.about[self.kind], self.kind, kind, str(self.about[self.kind]))

    def lacks_shards(self, path: Path) -> bool:
        """Returns whether a folder still lacks shards.

        Raises:
          DamagedShardError: if its manifest is damaged.
        """
        stored = read_manifest(path).shards if (path / MANIFEST).exists() else ()
        return len(stored) < self.shards


def collect_shards(
    path: str | Path,
    collection: Collection,
    report: Callable[[int, int], Any] = lambda done, total: None,
    lock: Held | None = None,
) -> Path:
    """Writes records to a folder, a shard at a time; goes on where it was interrupted.

    Args:
      path: the folder; one that exists must have been made with the same `about`.
      collection: what there is to be.
      report: called with the number of shards there are and there will be, at first and after each.
      lock: of the folder, where the caller holds it.

    Raises:
      ShardError: if the folder holds something else, or another writer is at work.
      OSError: if writing fails; what was written before is kept.
    """
    with ShardWriter(path, collection.about, lock=lock) as writer:
        report(len(writer.shards), collection.shards)
        while len(writer.shards) < collection.shards:
            root = jax.random.key(collection.seed)
            writer.append(collection.make(jax.random.fold_in(root, len(writer.shards))))
            report(len(writer.shards), collection.shards)
    return Path(path)
