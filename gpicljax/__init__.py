"""gpicljax: simulators and trainers for general-purpose in-context learning, in JAX."""

from gpicljax import spaces
from gpicljax.environment import Environment, Step, Transition
from gpicljax.interface import Agent, TimeStep
from gpicljax.registration import make, register, registered
from gpicljax.rollout import rollout
from gpicljax.task_set import TaskSet
from gpicljax.vector import VectorEnv, VectorState

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Environment",
    "Step",
    "TaskSet",
    "TimeStep",
    "Transition",
    "VectorEnv",
    "VectorState",
    "__version__",
    "make",
    "register",
    "registered",
    "rollout",
    "spaces",
]
