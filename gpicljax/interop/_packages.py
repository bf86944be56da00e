"""What is said when a library that an adapter is for is not installed."""

from __future__ import annotations


def missing(package: str) -> ImportError:
    """The error for a package that is not there, with the command that brings it."""
    return ModuleNotFoundError(
        f'{package} is not installed: pip install "gpicljax[interop]", or {package} alone',
        name=package,
    )
