"""Seconds spent on compilation, and traces of single chunks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

COMPILATION = "/jax/core/compile/"
PROFILE_SECONDS = 2.0
"""Most seconds of a chunk to trace: on a CPU, one second is about 100 MB of events."""


class CompileClock:
    """Adds up what this process spends on tracing, lowering and compiling, while it is open.

    Reading a program from the compilation cache counts as well. Use as a context manager.
    """

    def __init__(self) -> None:
        """Starts at 0."""
        self._spans: list[tuple[float, float]] = []

    def __enter__(self) -> CompileClock:
        """Starts listening to JAX."""
        jax.monitoring.register_event_time_span_listener(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        """Stops listening."""
        # Other code (a test, say) may have cleared all listeners meanwhile.
        with contextlib.suppress(AssertionError, ValueError):
            jax.monitoring.unregister_event_time_span_listener(self._hear)

    def take(self) -> float:
        """Seconds since the last call; spans that overlap (nested, or in threads) count once."""
        spans, self._spans = sorted(self._spans), []
        total, until = 0.0, float("-inf")
        for start, end in spans:
            total += max(0.0, end - max(start, until))
            until = max(until, end)
        return total

    def _hear(self, event: str, start_time: float, end_time: float, **kwargs: Any) -> None:
        if event.startswith(COMPILATION):
            self._spans.append((start_time, end_time))


@contextlib.contextmanager
def profile(
    folder: Path, *, seconds: float = PROFILE_SECONDS, report: Callable[[str], None] = print
) -> Iterator[None]:
    """Writes a JAX profiler trace of what runs inside the context; never fails because of it.

    Args:
      folder: where to; a sub-folder per trace is made in it.
      seconds: tracing stops after this long, even if the context stays open.
      report: where the message goes: what has been written and how to open it, or what went wrong.

    Yields:
      Nothing.
    """
    lock = threading.Lock()
    outcome: list[Exception | None] = []

    def stop() -> None:
        with lock:
            if not outcome:
                try:
                    jax.profiler.stop_trace()
                    outcome.append(None)
                except Exception as error:  # whatever the profiler says, training goes on
                    outcome.append(error)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    try:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # the host only waits for the chunk
        jax.profiler.start_trace(folder, profiler_options=options)
        timer.start()
    except Exception as error:
        outcome.append(error)
    try:
        yield
    finally:
        timer.cancel()
        stop()
        if outcome[0] is None:
            report(
                f"profile: {folder}; drop its newest *.trace.json.gz onto https://ui.perfetto.dev, "
                f"or `pip install xprof` and `xprof --logdir {folder}`"
            )
        else:
            report(f"warning: could not profile ({outcome[0]}); going on without")
