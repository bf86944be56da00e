"""Feed-forward modules: MLP, the contract without a memory, and a regression head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.typing import ArrayTree

Activation = Literal["relu", "tanh"]


def dense(size: int, **options: Any) -> nn.Dense:
    """A dense layer whose parameters have JAX's default float type (Linen's default is float32)."""
    return nn.Dense(size, param_dtype=jnp.result_type(float), **options)


class MLP(nn.Module):
    """Dense layers, each followed by an activation; `float[..., F] -> float[..., sizes[-1]]`.

    If `normalise`, what a layer gives to its activation has mean 0 and variance 1.
    """

    sizes: Sequence[int]
    activation: Callable[[jax.Array], jax.Array] = nn.relu
    normalise: bool = False

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """Applies the module to the last axis."""
        for size in self.sizes:
            inputs = dense(size, kernel_init=nn.initializers.he_normal())(inputs)
            if self.normalise:
                inputs = jax.nn.standardize(inputs, epsilon=1e-6)
            inputs = self.activation(inputs)
        return inputs


class FeedForward(nn.Module):
    """`networks.contract` for modules without a memory: their carry is empty, `()`.

    Subclasses implement `__call__(inputs) -> outputs`, over any leading axes.

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> class Doubling(FeedForward):
      ...     def __call__(self, inputs):
      ...         return 2 * inputs
      >>> as_network(Doubling()).initial_carry(4)
      ()
    """

    def initial_carry(self, batch: int) -> tuple[()]:
        """Returns the empty carry."""
        del batch
        return ()

    def unroll(self, carry: ArrayTree, inputs: ArrayTree, starts: jax.Array) -> tuple[Any, Any]:
        """Inputs `[T, B, ...]` -> outputs `[T, B, ...]`, and the empty carry."""
        # As one axis: the weights' gradient is a plain matrix product then, and twice as fast.
        shape = starts.shape
        outputs = self(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), inputs))
        return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), outputs), carry

    def step(self, carry: ArrayTree, inputs: ArrayTree, start: jax.Array) -> tuple[Any, Any]:
        """Inputs `[B, ...]` -> outputs `[B, ...]`, and the empty carry."""
        del start
        return self(inputs), carry


class Predictor(nn.Module):
    """A two-layer regression head; `float[..., F] -> float[..., size]`."""

    size: int
    hidden: int = 512

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """Applies the module to the last axis."""
        return dense(self.size)(nn.relu(dense(self.hidden)(inputs)))
