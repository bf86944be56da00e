"""Networks that read vectors and predict vectors: a projection, any core, and a head."""

from __future__ import annotations

from typing import Any

import jax
from flax import linen as nn

from gpicljax.networks.layers import Linear, default_float, scaled_uniform
from gpicljax.typing import ArrayTree


class AroundCore(nn.Module):
    """Base class of a core between an input layer, `read`, and a head, `write`.

    Attributes:
      core: a module with `initial_carry`, `step` and `unroll` over vectors; a transformer with one
        token per step.
    """

    core: Any

    def write(self, features: jax.Array) -> jax.Array:
        """Vectors `[..., width]` -> float `[..., O]`."""
        raise NotImplementedError

    def read(self, inputs: jax.Array) -> jax.Array:
        """Inputs `[..., F]`, or whatever a subclass reads -> vectors `[..., width]`."""
        raise NotImplementedError

    @property
    def reads_none(self) -> bool:
        """See `networks.contract.as_network`."""
        return getattr(self.core, "reads_none", False)

    def initial_carry(self, batch: int) -> Any:
        """Returns the core's carry."""
        return self.core.initial_carry(batch)

    def unroll(
        self, carry: ArrayTree, inputs: jax.Array, starts: jax.Array | None
    ) -> tuple[jax.Array, Any]:
        """Inputs `[T, B, ...]`, starts `bool[T, B]` -> float `[T, B, O]`, and the carry."""
        features, carry = self.core.unroll(carry, self.read(inputs), starts)
        return self.write(features), carry

    def step(self, carry: ArrayTree, inputs: jax.Array, start: jax.Array) -> tuple[jax.Array, Any]:
        """Inputs `[B, ...]`, start `bool[B]` -> float `[B, O]`, and the carry."""
        features, carry = self.core.step(carry, self.read(inputs), start)
        return self.write(features), carry


class VectorModel(AroundCore):
    """Vectors to vectors, with one core in between.

    Attributes:
      core: see `AroundCore`.
      outputs: O, size of what is predicted at each step.
      width: of the projection.
    """

    outputs: int
    width: int

    def setup(self) -> None:
        """The projection and the head."""
        self.projection = Linear(self.width, scaled_uniform(), default_float())
        self.head = Linear(self.outputs, scaled_uniform(), default_float())

    def read(self, inputs: jax.Array) -> jax.Array:
        """Returns the projection."""
        return self.projection(inputs)

    def write(self, features: jax.Array) -> jax.Array:
        """Returns the head."""
        return self.head(features)
