"""Steps computed ahead, as far as a learner stays silent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from gpicljax.batching import select
from gpicljax.rollout.host import HostBatch, Instance
from gpicljax.rollout.traced import Keep
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv


class AheadBatch(HostBatch):
    """A batch in which one action is usual.

    With every step, those that would follow if the usual action came next are computed, which costs
    little more; they are thrown away where another action comes.

    Args:
      vec: the batch of environments.
      keep: what to keep of a step.
      usual: the action, of one instance.
      ready: is called when all is compiled, before the instances start.

    Attributes:
      usual: the action, leaves `[1, ...]`.
      instances: those that `start` has given.
    """

    ahead = 16

    def __init__(
        self,
        vec: VectorEnv,
        keep: Keep,
        usual: ArrayTree,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.usual = jax.tree.map(lambda x: np.asarray(x)[None], usual)
        self.ready = ready
        self.instances: Sequence[Instance] = ()
        super().__init__(vec, keep)

    def start(self, key: jax.Array, env_params: Any = None, task: Any = None) -> list[Instance]:
        """The instances at the start of their trials, after steps for which all is compiled."""
        self.compile(key, jax.tree.map(lambda x: x[0], self.usual))
        self.ready()
        self.instances = started = super().start(key, env_params, task)
        return started

    def foresees(self, action: ArrayTree) -> bool:
        """Returns whether it is the usual one."""
        pairs = zip(jax.tree.leaves(action), jax.tree.leaves(self.usual), strict=True)
        return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)

    def later(self, number: jax.Array, action: ArrayTree) -> ArrayTree:
        """Returns the usual action after the first step."""
        return select(number == 0, action, self.usual)
