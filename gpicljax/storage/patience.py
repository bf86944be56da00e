"""A limit on how long a failing disk is retried."""

from __future__ import annotations

import time


class Patience:
    """Counts failures in a row, until there are many of them and they have lasted.

    Where work is fast, a count alone would be reached in a moment that soon passes.

    Args:
      failures: how many it takes.
      seconds: how long after the first of them the last comes, at least.
    """

    def __init__(self, failures: int = 3, seconds: float = 30.0) -> None:
        self.failures, self.seconds = failures, seconds
        self.count, self._since = 0, 0.0

    def fails(self) -> bool:
        """Counts a failure; returns whether it is the last to be borne."""
        if not self.count:
            self._since = time.monotonic()
        self.count += 1
        return self.count >= self.failures and time.monotonic() - self._since >= self.seconds

    def succeeds(self) -> None:
        """Begins to count anew."""
        self.count = 0


def in_a_line(error: BaseException) -> str:
    """Returns an error in one line: its type and the first line of what it says."""
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first[:300]}"
