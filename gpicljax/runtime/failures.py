"""Faults that end a run without being a bug: a line on standard error, and the exit code 1."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator

import jax

from gpicljax.data.shard_files import ShardError
from gpicljax.runs.checkpoints import CheckpointError
from gpicljax.runs.metrics import MetricsError
from gpicljax.runs.progress import lenient_output
from gpicljax.runs.run_directory import RunError
from gpicljax.runtime.dry_run import TooLargeError
from gpicljax.runtime.signals import exit_code
from gpicljax.storage import SavedError
from gpicljax.storage.lock import LockedError

FAILURES = (
    *(RunError, CheckpointError, MetricsError, TooLargeError),
    *(ShardError, SavedError, LockedError, OSError),
)


@contextlib.contextmanager
def failures_reported(*others: type[Exception]) -> Iterator[None]:
    """Turns what may go wrong with runs, logs, checkpoints and files into a message and an exit.

    Args:
      *others: what may go wrong besides, where the context holds one thing only.

    Raises:
      SystemExit: with code 1, after the message on stderr, for those errors; with code 130 after
        Ctrl-C.
    """
    with lenient_output():
        try:
            yield
        except (*FAILURES, *others) as error:
            print(f"error: {error}", file=sys.stderr)
            raise SystemExit(1) from error
        except KeyboardInterrupt:
            if jax.process_count() > 1:  # the others must not wait for this one
                raise
            print("stopped by SIGINT: what has been saved is kept", file=sys.stderr)
            raise SystemExit(exit_code(signal.SIGINT)) from None
