"""What is said when a library that language models' tasks are for is not installed."""

from __future__ import annotations


def missing_inspect() -> ImportError:
    """The error where Inspect AI is not there, with the command that brings it."""
    return ModuleNotFoundError(
        'inspect_ai is not installed: pip install "gpicljax[llm]", or inspect_ai alone',
        name="inspect_ai",
    )
