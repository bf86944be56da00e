"""Turning a request to stop into a clean exit."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

STOPPING = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """The signal that has asked the process to stop, if any."""

    def __init__(self) -> None:
        """Starts without a request."""
        self.signal: signal.Signals | None = None


def exit_code(number: signal.Signals) -> int:
    """Returns the exit code of a process ended by a signal: 143 for SIGTERM, 130 for SIGINT."""
    return 128 + number.value


@contextlib.contextmanager
def catch_stop() -> Iterator[StopRequest]:
    """Records SIGTERM and SIGINT instead of dying from them, while the context is open.

    A second signal has its usual effect at once. Outside the main thread, where Python cannot
    handle signals, nothing is caught.

    Yields:
      The request; its `signal` is set when one arrives.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handle(number: int, _: FrameType | None) -> None:
        request.signal = signal.Signals(number)
        restore()
        heard = f"\n{request.signal.name}: saving as soon as possible; again to stop at once\n"
        # Past Python's buffers: the signal may have come while one of them was being written.
        with contextlib.suppress(OSError):
            os.write(2, heard.encode())

    def restore() -> None:
        for stopping, handler in previous.items():
            signal.signal(stopping, signal.SIG_DFL if handler is None else handler)

    previous = {number: signal.getsignal(number) for number in STOPPING}
    for number in STOPPING:
        signal.signal(number, handle)
    try:
        yield request
    finally:
        restore()
