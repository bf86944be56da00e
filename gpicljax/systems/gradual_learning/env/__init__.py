"""ByteStream: gradual learning on one byte in, one byte out."""

from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream, Params, State, Task
from gpicljax.systems.gradual_learning.env.curriculum import (
    Curriculum,
    load_curriculum,
    predecessors,
    save_curriculum,
)
from gpicljax.systems.gradual_learning.env.pool import words
from gpicljax.systems.gradual_learning.env.replay import Line, ReplayResult, replay
from gpicljax.systems.gradual_learning.env.tasks import (
    ALL_NAMES,
    ARITHMETIC_NAMES,
    BLOCKS_NAMES,
    FAMILIES,
    NAMES,
    TASK_SETS,
    StreamTaskSet,
)

__all__ = [
    "ALL_NAMES",
    "ARITHMETIC_NAMES",
    "BLOCKS_NAMES",
    "FAMILIES",
    "NAMES",
    "TASK_SETS",
    "ByteStream",
    "Curriculum",
    "Line",
    "Params",
    "State",
    "Task",
    "StreamTaskSet",
    "ReplayResult",
    "load_curriculum",
    "predecessors",
    "replay",
    "save_curriculum",
    "words",
]
