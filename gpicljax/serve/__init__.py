"""Learners at the other end of a socket, `gpicljax serve ID`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["command", "remote"])
