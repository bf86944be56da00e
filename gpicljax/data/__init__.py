"""Datasets in memory and on disk, replay, and task sets."""

import lazy_loader

from gpicljax.data.shard_files import ShardError
from gpicljax.data.shards import ShardReader, ShardWriter

__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["transcripts"])

__all__ = [
    "ShardError",
    "ShardReader",
    "ShardWriter",
]
