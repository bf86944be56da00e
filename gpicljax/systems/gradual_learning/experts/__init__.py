"""Agents that are not trained: an oracle, a solver, a teacher, and nulls."""

from gpicljax.systems.gradual_learning.experts.answering import (
    oracle,
    solver,
    suffix_predictor,
    teacher_agent,
)

__all__ = [
    "oracle",
    "solver",
    "suffix_predictor",
    "teacher_agent",
]
