"""Learners at the other end of a socket, `gpicljax serve ID`."""

from gpicljax.serve.command import serve
from gpicljax.serve.remote import RemoteLearners

__all__ = [
    "RemoteLearners",
    "serve",
]
