"""Maze World: navigation and survival in random mazes, seen in three dimensions."""

import lazy_loader

__getattr__, _, _ = lazy_loader.attach(
    __name__, submodules=["env", "experts", "data", "measures", "figures", "studies"]
)
__all__: list[str] = []
