"""Parameters that an adapter holds, so that it can still be compared and hashed by value."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.batching import strip_weak_types


@dataclasses.dataclass(frozen=True, eq=False)
class Constant:
    """A pytree of concrete numbers and arrays, equal to another one with the same content.

    Attributes:
      tree: the pytree, its leaves as NumPy arrays of a definite dtype.
    """

    tree: Any

    @classmethod
    def of(cls, tree: Any) -> Constant:
        """Makes one from a pytree of concrete leaves."""
        return cls(jax.tree.map(np.asarray, strip_weak_types(tree)))

    @property
    def value(self) -> Any:
        """The pytree, its leaves as JAX arrays."""
        return jax.tree.map(jnp.asarray, self.tree)

    def _content(self) -> tuple:
        leaves, structure = jax.tree.flatten(self.tree)
        return structure, tuple((leaf.shape, leaf.dtype.str, leaf.tobytes()) for leaf in leaves)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())
