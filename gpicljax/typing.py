"""Names of types for annotations."""

from __future__ import annotations

from typing import Any, TypeAlias

ArrayTree: TypeAlias = Any
"""A pytree of arrays: parameters, memories, tasks, states, observations, actions."""
