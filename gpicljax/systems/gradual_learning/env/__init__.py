"""ByteStream: gradual learning on one byte in, one byte out."""

from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream
from gpicljax.systems.gradual_learning.env.curriculum import (
    Curriculum,
    load_curriculum,
)
from gpicljax.systems.gradual_learning.env.tasks import NAMES, TASK_SETS, StreamTaskSet

__all__ = [
    "NAMES",
    "TASK_SETS",
    "ByteStream",
    "Curriculum",
    "StreamTaskSet",
    "load_curriculum",
]
