"""The six published systems, one folder each; no folder imports another."""

import lazy_loader

_SYSTEMS = [
    "gradual_learning",
    "in_context_rl",
    "maze_world",
    "mental_modelling",
    "meta_language",
    "meta_rg",
]
__getattr__, _, _ = lazy_loader.attach(__name__, submodules=_SYSTEMS)
__all__: list[str] = []
