"""Datasets in memory and on disk, replay, and task sets."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "hindsight",
        "replay",
        "shard_files",
        "shards",
        "transcripts",
        "transitions",
    ],
)
