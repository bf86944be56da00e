"""Wrappers that draw tasks of their own, which batches recognise."""

from __future__ import annotations

from typing import Any

import jax

from gpicljax.environment import Environment, Params, State, Task
from gpicljax.wrappers.wrapper import Wrapper


class OwnTasks(Wrapper[Params, Task, State]):
    """A wrapper with `sample_task` and `initial` of its own: a trial's start is made of these."""

    def sample_blueprint(self, key: jax.Array, params: Params) -> Any:
        """Returns a task of this one's, with its first state."""
        return Environment.sample_blueprint(self, key, params)

    def start(self, key: jax.Array, blueprint: Any, params: Params) -> tuple[Task, State]:
        """Returns the blueprint."""
        return Environment.start(self, key, blueprint, params)
