"""One writer at a time: a lock that the kernel releases when its process ends, however it ends."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from filelock import FileLock, Timeout

from gpicljax.storage.reading import read_bytes

LOCK = ".lock"
_HOLDER = ".lock-holder"
# A process that only looks (`is_locked`) holds the lock for a moment.
_PATIENCE = 0.1


class LockedError(RuntimeError):
    """Another process, or another user of the folder in this one, holds the lock."""


class Held:
    """A lock that is held, or that the file system cannot give."""

    def __init__(self, lock: FileLock | None) -> None:
        self._lock = lock

    def close(self) -> None:
        """Lets others in."""
        if self._lock is not None:
            self._lock.release()


def exclusive(folder: Path) -> Held:
    """Takes the lock of a folder.

    File systems without locks are used without: better unguarded than unusable.

    Raises:
      LockedError: if another process holds it; names the process.
    """
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=_PATIENCE, poll_interval=_PATIENCE / 4)
    except Timeout as error:
        holder = "unknown"
        with contextlib.suppress(OSError):
            holder = read_bytes(folder / _HOLDER, 100).decode("utf-8", "replace").strip() or holder
        raise LockedError(f"{folder} is in use by another process (number {holder})") from error
    except (OSError, NotImplementedError) as error:
        print(f"note: {folder} cannot be locked ({error}); do not open it twice")
        return Held(None)
    with contextlib.suppress(OSError):
        (folder / _HOLDER).write_text(f"{os.getpid()}\n")
    return Held(lock)


def is_locked(folder: Path) -> bool:
    """Returns whether a process holds the lock of a folder; False where that cannot be known."""
    if not (folder / LOCK).is_file():
        return False
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except (OSError, NotImplementedError):
        return False
    lock.release()
    return False
