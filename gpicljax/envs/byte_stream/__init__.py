"""ByteStream: gradual learning on one byte in, one byte out."""

from gpicljax.envs.byte_stream import experts
from gpicljax.envs.byte_stream.curriculum import (
    Curriculum,
    load_curriculum,
    predecessors,
    save_curriculum,
)
from gpicljax.envs.byte_stream.env import ByteStream, Params, State, Task
from gpicljax.envs.byte_stream.pool import words
from gpicljax.envs.byte_stream.replay import Line, Transcript, replay
from gpicljax.envs.byte_stream.tasks import (
    ALL_NAMES,
    ARITHMETIC_NAMES,
    BLOCKS_NAMES,
    FAMILIES,
    NAMES,
    TASKS,
    TaskSet,
)

__all__ = [
    "ALL_NAMES",
    "ARITHMETIC_NAMES",
    "BLOCKS_NAMES",
    "FAMILIES",
    "NAMES",
    "TASKS",
    "ByteStream",
    "Curriculum",
    "Line",
    "Params",
    "State",
    "Task",
    "TaskSet",
    "Transcript",
    "experts",
    "load_curriculum",
    "predecessors",
    "replay",
    "save_curriculum",
    "words",
]
