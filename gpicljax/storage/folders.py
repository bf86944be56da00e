"""Folders that are made with the first file in them."""

from __future__ import annotations

from pathlib import Path


def with_folder(path: Path) -> Path:
    """Returns the path of a file that is to be written, whose folder is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
