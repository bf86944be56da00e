"""gpicljax: simulators and trainers for general-purpose in-context learning, in JAX."""

import lazy_loader

from gpicljax.environment import Environment, Step, Transition, TransitionModel
from gpicljax.interface import Agent, TimeStep, Trainer
from gpicljax.registration import make, register, registered
from gpicljax.task_set import TaskSet
from gpicljax.vector import VectorEnv

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Environment",
    "Step",
    "TaskSet",
    "TimeStep",
    "Trainer",
    "Transition",
    "TransitionModel",
    "VectorEnv",
    "__version__",
    "make",
    "register",
    "registered",
]

_PARTS = [
    "agents",
    "batching",
    "checks",
    "data",
    "envs",
    "evaluation",
    "interop",
    "llm",
    "networks",
    "play",
    "rollout",
    "runs",
    "runtime",
    "serve",
    "spaces",
    "storage",
    "studies",
    "systems",
    "testing",
    "viz",
    "wrappers",
]
__getattr__, _, _ = lazy_loader.attach(__name__, submodules=_PARTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS})
