"""gpicljax: simulators and trainers for general-purpose in-context learning, in JAX."""

import importlib
from typing import Any

from gpicljax import spaces
from gpicljax.environment import Environment, Step, Transition
from gpicljax.interface import Agent, TimeStep, Trainer
from gpicljax.registration import make, register, registered
from gpicljax.task_set import TaskSet
from gpicljax.vector import VectorEnv, VectorState

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Environment",
    "Step",
    "TaskSet",
    "TimeStep",
    "Trainer",
    "Transition",
    "VectorEnv",
    "VectorState",
    "__version__",
    "make",
    "register",
    "registered",
    "spaces",
]

_LAZY = (
    "agents",
    "data",
    "envs",
    "evaluation",
    "interop",
    "networks",
    "play",
    "rollout",
    "runtime",
    "storage",
    "viz",
)


def __getattr__(name: str) -> Any:
    """Imports a part of the package when it is first asked for, as `gpicljax.agents`."""
    if name in _LAZY:
        return importlib.import_module(f"gpicljax.{name}")
    raise AttributeError(f"module 'gpicljax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
