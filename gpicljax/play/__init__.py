"""Playing an environment by hand, `gpicljax play ID`, and replaying what was played."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["browser", "command", "game", "replay", "stream", "terminal"]
)
