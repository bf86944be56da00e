"""Recurrent cores with `initial_carry`, `step` and `unroll`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.networks.feedforward import dense


def orthogonal(key: jax.Array, size: int) -> jax.Array:
    """A random orthogonal matrix (Haar measure), float `[size, size]`.

    Gram-Schmidt on a Gaussian matrix, each column twice. Linen's initialiser calls LAPACK, whose
    batched kernel waits for the thread pool that it runs on: with two threads, seeds under `vmap`
    can lock up for good (jaxlib 0.10.2).
    """
    columns = jax.random.normal(key, (size, size), jnp.result_type(float))

    def settle(i: jax.Array, columns: jax.Array) -> jax.Array:
        column = columns[i]
        done = jnp.where((jnp.arange(size) < i)[:, None], columns, 0)
        for _ in range(2):
            column = column - (done @ column) @ done
        return columns.at[i].set(column / jnp.linalg.norm(column))

    return jax.lax.fori_loop(0, size, settle, columns)


class LSTMLayer(nn.Module):
    """One LSTM layer whose input projection leaves the recurrence.

    The gates of all T inputs are computed in one matrix product, so the scan holds the recurrent
    product only. Same function and parameter count as `flax.linen.OptimizedLSTMCell`.
    """

    size: int

    def setup(self) -> None:
        """Gates in the order input, forget, candidate, output."""
        self.inputs = dense(4 * self.size, use_bias=False)
        self.recurrent = self.param(
            "recurrent",
            # Orthogonal per gate, as is usual for the recurrent weights.
            lambda key: jnp.concatenate(
                jax.vmap(orthogonal, (0, None))(jax.random.split(key, 4), self.size), axis=1
            ),
        )
        self.bias = self.param(
            "bias", nn.initializers.zeros, (4 * self.size,), jnp.result_type(float)
        )

    def initial_carry(self, batch: int) -> tuple[jax.Array, jax.Array]:
        """Cell and hidden state, zeros `float[batch, size]` each."""
        zeros = jnp.zeros((batch, self.size), jnp.result_type(float))
        return zeros, zeros

    def unroll(
        self, carry: tuple[jax.Array, jax.Array], inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        """`float[T, B, F]`, `bool[T, B]` -> hidden states `float[T, B, size]`, and the carry."""
        recurrent = self.recurrent

        def tick(
            carry: tuple[jax.Array, jax.Array], x: tuple[jax.Array, jax.Array]
        ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            projected, keep = x
            cell, hidden = carry[0] * keep, carry[1] * keep
            i, f, g, o = jnp.split(projected + hidden @ recurrent, 4, axis=-1)
            cell = nn.sigmoid(f) * cell + nn.sigmoid(i) * jnp.tanh(g)
            hidden = nn.sigmoid(o) * jnp.tanh(cell)
            return (cell, hidden), hidden

        projected = self.inputs(inputs) + self.bias
        keep = 1 - starts[..., None].astype(projected.dtype)
        carry, hidden = jax.lax.scan(tick, carry, (projected, keep))
        return hidden, carry

    def step(self, carry: Any, inputs: jax.Array, start: jax.Array) -> tuple[jax.Array, Any]:
        """One step: `float[B, F]`, `bool[B]` -> `float[B, size]`, and the carry."""
        hidden, carry = self.unroll(carry, inputs[None], start[None])
        return hidden[0], carry


class LSTMStack(nn.Module):
    """LSTM layers, each reading the one below; the output is the last one's hidden state.

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(LSTMStack((32, 16)))
      >>> jax.tree.leaves(network.initial_carry(4))[0].shape
      (4, 32)
    """

    sizes: Sequence[int]

    def setup(self) -> None:
        """One layer per size."""
        self.layers = [LSTMLayer(size) for size in self.sizes]

    def initial_carry(self, batch: int) -> tuple[Any, ...]:
        """The layers' carries."""
        return tuple(LSTMLayer(size, parent=None).initial_carry(batch) for size in self.sizes)

    def unroll(self, carry: Any, inputs: jax.Array, starts: jax.Array) -> tuple[jax.Array, Any]:
        """`float[T, B, F]`, `bool[T, B]` -> `float[T, B, sizes[-1]]`, and the carry."""
        carries = []
        for layer, layer_carry in zip(self.layers, carry, strict=True):
            inputs, layer_carry = layer.unroll(layer_carry, inputs, starts)
            carries.append(layer_carry)
        return inputs, tuple(carries)

    def step(self, carry: Any, inputs: jax.Array, start: jax.Array) -> tuple[jax.Array, Any]:
        """One step: `float[B, F]`, `bool[B]` -> `float[B, sizes[-1]]`, and the carry."""
        outputs, carry = self.unroll(carry, inputs[None], start[None])
        return outputs[0], carry
