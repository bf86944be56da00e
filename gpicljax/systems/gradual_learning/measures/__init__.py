"""Measures of streams of bytes: steps, answers and instances by task set."""

from gpicljax.systems.gradual_learning.measures.streams import (
    QUESTIONS,
    Streams,
    play_streams,
    streams_of,
)

__all__ = ["QUESTIONS", "Streams", "play_streams", "streams_of"]
