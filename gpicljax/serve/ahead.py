"""Steps computed ahead, as far as a learner stays silent."""

from __future__ import annotations

import jax
import numpy as np

from gpicljax.batching import select
from gpicljax.rollout.host import HostBatch
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

    Attributes:
      usual: the action, leaves `[1, ...]`.
    """

    ahead = 16

    def __init__(self, vec: VectorEnv, keep: Keep, usual: ArrayTree) -> None:
        self.usual = jax.tree.map(lambda x: np.asarray(x)[None], usual)
        super().__init__(vec, keep)

    def foresees(self, action: ArrayTree) -> bool:
        """Whether it is the usual one."""
        pairs = zip(jax.tree.leaves(action), jax.tree.leaves(self.usual), strict=True)
        return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)

    def later(self, number: jax.Array, action: ArrayTree) -> ArrayTree:
        """The usual action after the first step."""
        return select(number == 0, action, self.usual)
