"""The tables and figures of `maze_world.py`."""

from __future__ import annotations

from gpicljax.runtime import Outcome, Report


def report(outcome: Outcome) -> Report:
    """Tables and figures of an outcome."""
    return Report("", {})
