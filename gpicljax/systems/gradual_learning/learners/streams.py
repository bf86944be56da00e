"""Byte streams to be written as symbols."""

from __future__ import annotations

from gpicljax.agents.symbol_lessons import StreamTask
from gpicljax.systems.gradual_learning import experts
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.env.tasks import NAMES

MAPPINGS = NAMES[5:16]
"""Mappings whose feedback teaches, from micro5.2 on."""


def mappings() -> StreamTask:
    """Returns streams of mappings in random order; a solver that knows the task sets teaches."""
    env = ByteStream(families=("mapping",))
    params = env.make_params(curriculum=Curriculum(MAPPINGS, "mixture", repeats=2))
    teacher = experts.teacher_agent()
    nulls = {"suffix predictor": experts.suffix_predictor()}
    told = experts.oracle(), "knows the answers"
    return StreamTask(env, params, env, params, teacher, 440, "reward per step", nulls, told)
