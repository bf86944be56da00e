"""Measures of streams of bytes: steps, answers and instances by task set."""

from gpicljax.systems.gradual_learning.measures.criteria import (
    CompletionTimes,
    completion_times,
    curriculum_orders,
    efficiency,
    forgetting,
    learns_gradually,
    retention,
    transfer,
)
from gpicljax.systems.gradual_learning.measures.entrants import Entrant, ranking
from gpicljax.systems.gradual_learning.measures.streams import play_streams, streams_of

__all__ = [
    "CompletionTimes",
    "Entrant",
    "completion_times",
    "curriculum_orders",
    "efficiency",
    "forgetting",
    "learns_gradually",
    "play_streams",
    "ranking",
    "retention",
    "streams_of",
    "transfer",
]
