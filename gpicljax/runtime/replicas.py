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
    """Which runs there are, and which devices they run on.

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
        """How many runs there are."""
        return len(self.names)

    @property
    def places(self) -> np.ndarray:
        """Which run each replica on the devices holds, `int[replicas]`; surplus replicas repeat
        the first.

        Replicas are the smallest multiple of the number of devices that is enough.
        """
        devices = 1 if self.copied else self.mesh.size
        return np.arange(-(-self.count // devices) * devices) % self.count

    @property
    def padded(self) -> bool:
        """Whether there are surplus replicas."""
        return len(self.places) > self.count

    def repeated(self, tree: T) -> T:
        """Runs `[count, ...]` and the surplus replicas after them, `[replicas, ...]`."""
        places = self.places
        return jax.tree.map(lambda x: x[places], tree)

    def spread(self, tree: T) -> T:
        """Puts runs on the devices.

        Args:
          tree: pytree of arrays `[count, ...]`, the same in every process.

        Returns:
          The same with leaves `[replicas, ...]`, spread over the mesh.
        """
        return shard_leading(self.repeated(tree), self.mesh)

    def fetch(self, tree: ArrayTree) -> Any:
        """Brings runs back to the host, in every process.

        Args:
          tree: pytree of arrays `[replicas, ...]`.

        Returns:
          NumPy arrays `[count, ...]` (typed keys become their `uint32` data).
        """
        return jax.tree.map(lambda x: np.asarray(x)[: self.count], to_host(tree))

    def stored(self, state: T) -> T:
        """What a checkpoint holds of a state `[replicas, ...]`: every run once."""
        if not self.padded:
            return state

        def once(leaf: jax.Array) -> Any:  # leaf by leaf: no device holds all of a state
            whole = self.fetch(leaf)
            key = is_key(leaf)
            return jax.random.wrap_key_data(whole, impl=jax.random.key_impl(leaf)) if key else whole

        return jax.tree.map(once, state)

    def stored_like(self, state: T) -> T:
        """What to ask a checkpoint for, to replace a state `[replicas, ...]`; see `restored`."""
        if not self.padded:
            return state

        def like(leaf: jax.Array) -> Any:
            shape = (self.count, *leaf.shape[1:])
            return (
                jax.ShapeDtypeStruct(shape, leaf.dtype)
                if is_key(leaf)
                else np.empty(shape, leaf.dtype)
            )

        return jax.tree.map(like, state)

    def restored(self, stored: T) -> T:
        """The state `[replicas, ...]` that `stored` made a checkpoint of."""
        return self.spread(stored) if self.padded else stored
