"""Gradual learning (General AI Challenge): task after task on a stream of bytes."""

import lazy_loader

__getattr__, _, _ = lazy_loader.attach(
    __name__, submodules=["env", "experts", "measures", "figures", "studies"]
)
__all__: list[str] = []
