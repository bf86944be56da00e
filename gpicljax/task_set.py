"""Finite sets of tasks, held as keys."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.checks import check, check_at_least
from gpicljax.storage.leaves import is_key
from gpicljax.typing import ArrayTree


@struct.dataclass
class TaskSet:
    """A finite set of tasks: the keys from which `env.sample_task(key, params)` makes them.

    Attributes:
      keys: typed keys `[N]`.

    Example:
      >>> import jax
      >>> seen, unseen = TaskSet.create(jax.random.key(0), 100).split(80)
      >>> len(seen), len(unseen)
      (80, 20)
    """

    keys: jax.Array

    @classmethod
    def create(cls, key: jax.Array, size: int) -> TaskSet:
        """Returns a set of `size` tasks. Raises ValueError if `size` is below 1."""
        check_at_least(1, size=size)
        return cls(jax.random.split(key, size))

    def __len__(self) -> int:
        return self.keys.shape[0]

    def split(self, first: int) -> tuple[TaskSet, TaskSet]:
        """Two disjoint sets: the first `first` tasks and the rest, e.g. seen and unseen ones.

        Raises:
          ValueError: unless both sets keep at least one task.
        """
        check(0 < first < len(self), "first", first, f"1 .. {len(self) - 1}")
        return TaskSet(self.keys[:first]), TaskSet(self.keys[first:])

    def take(self, indices: jax.Array) -> TaskSet:
        """Returns the tasks at `int32[M]` indices.

        Example:
          >>> import jax
          >>> len(TaskSet.create(jax.random.key(0), 100).take(jax.numpy.arange(10)))
          10
        """
        return TaskSet(self.keys[indices])

    def sample(self, key: jax.Array) -> jax.Array:
        """Returns the key of one task, drawn uniformly."""
        return self.keys[jax.random.randint(key, (), 0, len(self))]


def tasks_vary(tasks: ArrayTree) -> jax.Array:
    """Returns whether some tasks are not all the same.

    Args:
      tasks: leaves `[N, ...]`, of one distribution.

    Returns:
      `bool[]`.
    """
    data = [jax.random.key_data(x) if is_key(x) else x for x in jax.tree.leaves(tasks)]
    return functools.reduce(jnp.logical_or, [(x != x[:1]).any() for x in data], jnp.zeros((), bool))
