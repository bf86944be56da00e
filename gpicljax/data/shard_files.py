"""The files of a store of shards: manifest, arrays and lock."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from gpicljax.checks import Process
from gpicljax.storage.atomic import sync_folder
from gpicljax.storage.checked_json import read_checked_json, write_checked_json
from gpicljax.storage.lock import LockedError
from gpicljax.storage.manifest import MANIFEST, Files, find_problems

CHUNK_BYTES = 64 * 1024
"""About how much is decoded to read one record, before compression."""


class ShardError(RuntimeError):
    """A store cannot be used as requested.

    Example:
      >>> try:
      ...     read_manifest("nowhere")
      ... except ShardError as error:
      ...     print(error)
      nowhere holds no store: manifest.json is missing
    """


class DamagedShardError(ShardError):
    """Files of a store are missing, truncated or changed; the message names them."""


class StoreLockedError(ShardError, LockedError):
    """Another process writes to the store."""


class Leaf(NamedTuple):
    """One array of a record: its name (`.` between levels), shape and dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class Shard(NamedTuple):
    """One shard: its folder's name, its number of records, and size and SHA-256 of its files."""

    name: str
    records: int
    files: Files


class Manifest(NamedTuple):
    """The manifest of a store; `leaves` is empty until there is a shard."""

    about: dict[str, Any]
    leaves: tuple[Leaf, ...]
    shards: tuple[Shard, ...]


def read_manifest(path: str | Path) -> Manifest:
    """Reads the manifest of a store.

    Raises:
      DamagedShardError: if the manifest is missing, damaged or of another version.
    """
    file = Path(path) / MANIFEST
    try:
        content = read_checked_json(file)
        return Manifest(
            content["about"],
            tuple(Leaf(v["name"], tuple(v["shape"]), v["dtype"]) for v in content["leaves"]),
            tuple(
                Shard(v["name"], v["records"], {n: (f[0], f[1]) for n, f in v["files"].items()})
                for v in content["shards"]
            ),
        )
    except FileNotFoundError as error:
        raise DamagedShardError(f"{path} holds no store: {MANIFEST} is missing") from error
    except ValueError as error:
        raise DamagedShardError(str(error)) from error
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise DamagedShardError(f"{file} is damaged ({type(error).__name__}: {error})") from error


def find_damage(path: str | Path, *, checksums: bool = True) -> dict[str, str]:
    """Compares the files of a store with its manifest.

    Args:
      path: the store's folder.
      checksums: compare the content of every file too, not only its size.

    Returns:
      By the names of damaged shards, what is wrong with which of their files.
    """
    damage: dict[str, str] = {}
    for shard in read_manifest(path).shards:
        lines = find_problems(Path(path) / shard.name, shard.files, checksums=checksums)
        if lines:
            damage[shard.name] = "\n".join(lines)
    return damage


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Replaces the manifest in one step, durable once this returns."""
    content = {
        "about": manifest.about,
        "records": sum(shard.records for shard in manifest.shards),
        "leaves": [leaf._asdict() for leaf in manifest.leaves],
        "shards": [shard._asdict() for shard in manifest.shards],
    }
    write_checked_json(path / MANIFEST, content)


in_one_process = Process("TensorStore")


def tensorstore() -> Any:
    """Returns the library, imported with the first store."""
    import tensorstore

    in_one_process.enter()
    return tensorstore


def array_spec(folder: Path) -> dict[str, Any]:
    """Returns the specification by which TensorStore finds an array."""
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder.absolute()}/"}}


def write_arrays(folder: Path, table: Mapping[str, NDArray[Any]], shard: str) -> None:
    """Writes arrays `[N, ...]` by name, durable once this returns.

    The shard's name is in the description of each, whose checksum is always compared: so shards of
    one size that have changed places are noticed.

    Raises:
      OSError: if the disk refuses.
    """
    folder.mkdir()
    store = tensorstore()
    try:
        writes = []
        for name, value in table.items():
            spec = array_spec(folder / name) | {
                "metadata": _metadata(value) | {"attributes": {"shard": shard}},
                # So that a missing file is damage, and not a way to say zero.
                "store_data_equal_to_fill_value": True,
            }
            array = store.open(spec, create=True, open=False).result()
            writes.append(array.write(value))
        for write in writes:
            write.result()
    except ValueError as error:  # as which TensorStore reports what the disk refuses
        raise OSError(f"{folder} cannot be written: {error}") from error
    for inner in (path for path in folder.rglob("*") if path.is_dir()):
        sync_folder(inner)
    sync_folder(folder)


def _metadata(value: NDArray[Any]) -> dict[str, Any]:
    shape, size = list(value.shape), value.dtype.itemsize
    record = max(1, value[0].nbytes)
    # The most records that fill a chunk and divide the shard evenly.
    most = max(1, min(shape[0], CHUNK_BYTES // record))
    rows = next(n for n in range(most, 0, -1) if shape[0] % n == 0)
    little = {"name": "bytes", "configuration": {"endian": "little"}} if size > 1 else "bytes"
    compressed = {
        "name": "blosc",
        "configuration": {
            "cname": "zstd",
            "clevel": 5,
            "shuffle": "shuffle",
            "typesize": size,
            "blocksize": 0,
        },
    }
    index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    chunks = {
        "chunk_shape": [rows, *shape[1:]],
        "codecs": [little, compressed, {"name": "crc32c"}],
        "index_codecs": index,
    }
    return {
        "shape": shape,
        "data_type": str(value.dtype),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "codecs": [{"name": "sharding_indexed", "configuration": chunks}],
    }
