"""Reading files that may be anything: pipes, devices, links to either, or far too large."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

MOST = 2**26
"""Bytes of a description in JSON, at most."""


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """The content of a regular file.

    Args:
      path: the file; a link is followed.
      most: bytes that it may have; any number if None.

    Raises:
      OSError: if it cannot be read, is no regular file (such as a pipe, which would never end), or
        is larger.

    Example:
      >>> read_bytes(Path("/dev/zero"))
      Traceback (most recent call last):
      OSError: [Errno 22] not a regular file: '/dev/zero'
    """
    # Opening a pipe would wait for its other end.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if most is not None and status.st_size > most:
            raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def read_json(path: Path) -> Any:
    """What a file in JSON says.

    Raises:
      OSError: as `read_bytes`.
      ValueError: if it is not JSON, or nested more deeply than can be read.
    """
    try:
        return json.loads(read_bytes(path, MOST).decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
