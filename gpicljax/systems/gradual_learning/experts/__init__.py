"""Agents that are not trained: an oracle, a solver, a teacher, and nulls."""

from gpicljax.systems.gradual_learning.experts.answering import oracle, solver, teacher_agent
from gpicljax.systems.gradual_learning.experts.prediction import suffix_predictor

__all__ = [
    "oracle",
    "solver",
    "suffix_predictor",
    "teacher_agent",
]
