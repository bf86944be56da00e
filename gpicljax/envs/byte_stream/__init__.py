"""ByteStream: gradual learning on one byte in, one byte out."""

from gpicljax.envs.byte_stream.curriculum import (
    Curriculum,
    load_curriculum,
    predecessors,
    save_curriculum,
)
from gpicljax.envs.byte_stream.env import ByteStream, Params, State, Task
from gpicljax.envs.byte_stream.tasks import NAMES, TASKS, TaskSet

__all__ = [
    "NAMES",
    "TASKS",
    "ByteStream",
    "Curriculum",
    "Params",
    "State",
    "Task",
    "TaskSet",
    "load_curriculum",
    "predecessors",
    "save_curriculum",
]
