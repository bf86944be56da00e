"""Independent runs side by side, and the one place that knows they are padded.

Seeds (of all cells of a grid) lie on the leading axis of every array, which devices share evenly:
where their number does not divide, some are run twice. What is logged, saved and measured holds
each once, so that a run goes on with any number of devices.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh

from gpicljax.runs.distributed import to_host
from gpicljax.runtime.mesh import shard_leading
from gpicljax.storage.leaves import is_key
from gpicljax.typing import ArrayTree

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Replicas:
    """The runs, and the devices that they run on.

    Attributes:
      names: of the runs, in order.
      mesh: the devices; see `devices_for`.
      copied: whether every device holds all runs; none is then surplus.
    """

    names: tuple[str, ...]
    mesh: Mesh
    copied: bool = False

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self.names)

    @property
    def places(self) -> np.ndarray:
        """The run of each replica on the devices, `int[replicas]`; surplus replicas repeat the
        first.

        Replicas are the smallest multiple of the number of devices that is enough.
        """
        devices = 1 if self.copied else self.mesh.size
        return np.arange(-(-self.count // devices) * devices) % self.count

    @property
    def has_surplus(self) -> bool:
        """Whether there are surplus replicas."""
        return len(self.places) > self.count

    def repeat(self, tree: T) -> T:
        """Returns the runs `[count, ...]` with the surplus replicas after them, `[replicas,
        ...]`.
        """
        places = self.places
        return jax.tree.map(lambda x: x[places], tree)

    def spread(self, tree: T) -> T:
        """Puts runs on the devices.

        Args:
          tree: pytree of arrays `[count, ...]`, the same in every process.

        Returns:
          The same with leaves `[replicas, ...]`, spread over the mesh.
        """
        return shard_leading(self.repeat(tree), self.mesh)

    def fetch(self, tree: ArrayTree) -> Any:
        """Brings runs back to the host, in every process.

        Args:
          tree: pytree of arrays `[replicas, ...]`.

        Returns:
          NumPy arrays `[count, ...]` (typed keys become their `uint32` data).
        """
        return jax.tree.map(lambda x: np.asarray(x)[: self.count], to_host(tree))

    def to_checkpoint(self, state: T) -> T:
        """Returns the content of a checkpoint of a state `[replicas, ...]`: every run once."""
        if not self.has_surplus:
            return state

        def once(leaf: jax.Array) -> Any:  # leaf by leaf: no device holds all of a state
            whole = self.fetch(leaf)
            key = is_key(leaf)
            return jax.random.wrap_key_data(whole, impl=jax.random.key_impl(leaf)) if key else whole

        return jax.tree.map(once, state)

    def checkpoint_template(self, state: T) -> T:
        """Returns the template of a checkpoint that replaces a state `[replicas, ...]`."""
        if not self.has_surplus:
            return state

        def like(leaf: jax.Array) -> Any:
            shape = (self.count, *leaf.shape[1:])
            return (
                jax.ShapeDtypeStruct(shape, leaf.dtype)
                if is_key(leaf)
                else np.empty(shape, leaf.dtype)
            )

        return jax.tree.map(like, state)

    def from_checkpoint(self, stored: T) -> T:
        """Returns the state `[replicas, ...]` of a checkpoint that `to_checkpoint` made."""
        return self.spread(stored) if self.has_surplus else stored
