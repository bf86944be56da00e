"""Reading files that may be anything: pipes, devices, links to either, or far too large."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

MOST = 2**26
"""Bytes of a description in JSON, at most."""


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Returns the content of a regular file.

    Args:
      path: the file; a link is followed.
      most: bytes that it may have; any number if None.

    Raises:
      OSError: if it cannot be read, is no regular file (such as a pipe, which would never end), or
        is larger.
    """
    with open_regular(path) as file:
        if most is not None and os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
        return file.read()


def open_regular(path: Path) -> BinaryIO:
    """Returns a regular file, open for reading.

    Raises:
      OSError: if it cannot be read, or is no regular file.
    """
    # Opening a pipe would wait for its other end.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def visible_files(folder: Path, pattern: str) -> list[Path]:
    """Returns the paths below a folder that match a pattern, in order, without hidden ones.

    Systems leave hidden files beside others, such as `._book.txt` beside `book.txt`.
    """
    paths = ((path, path.relative_to(folder).parts) for path in folder.glob(pattern))
    return sorted(path for path, parts in paths if not any(x.startswith(".") for x in parts))


def read_json(path: Path) -> Any:
    """Returns the content of a JSON file.

    Raises:
      OSError: as `read_bytes`.
      ValueError: if it is not JSON, or nested more deeply than can be read.
    """
    try:
        return json.loads(read_bytes(path, MOST).decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
