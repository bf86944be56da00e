"""Recurrent cores with `initial_carry`, `step` and `unroll`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.networks.contract import Core
from gpicljax.networks.feedforward import dense
from gpicljax.typing import ArrayTree


def orthogonal(key: jax.Array, size: int) -> jax.Array:
    """Returns a random orthogonal matrix (Haar measure), float `[size, size]`.

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


def orthogonal_gates(gates: int) -> Callable[[jax.Array, int], jax.Array]:
    """Initialises the recurrent weights of `gates` gates, `(key, size) -> float[size, gates size]`.

    Orthogonal per gate, as is usual.
    """

    def draw(key: jax.Array, size: int) -> jax.Array:
        keys = jax.random.split(key, gates)
        return jnp.concatenate(jax.vmap(orthogonal, (0, None))(keys, size), axis=1)

    return draw


def lstm_cell(cell: jax.Array, gates: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the next cell and hidden state, float `[..., size]` each.

    Args:
      cell: float `[..., size]`.
      gates: float `[..., 4 size]`, before their activation: input, forget, candidate, output.

    Source: Hochreiter & Schmidhuber (1997); the forget gate is that of Gers et al. (2000).
    """
    i, f, g, o = jnp.split(gates, 4, axis=-1)
    cell = nn.sigmoid(f) * cell + nn.sigmoid(i) * jnp.tanh(g)
    return cell, nn.sigmoid(o) * jnp.tanh(cell)


class RecurrentLayer(Core):
    """Base class of recurrent layers."""

    size: int


class LSTMLayer(RecurrentLayer):
    """One LSTM layer whose input projection leaves the recurrence.

    The gates of all T inputs are computed in one matrix product, so the scan holds the recurrent
    product only. Same function and parameter count as `flax.linen.OptimizedLSTMCell`.
    """

    def setup(self) -> None:
        """Gates in the order input, forget, candidate, output."""
        self.inputs = dense(4 * self.size, use_bias=False)
        self.recurrent = self.param("recurrent", orthogonal_gates(4), self.size)
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
            cell, hidden = lstm_cell(cell, projected + hidden @ recurrent)
            return (cell, hidden), hidden

        projected = self.inputs(inputs) + self.bias
        keep = 1 - starts[..., None].astype(projected.dtype)
        carry, hidden = jax.lax.scan(tick, carry, (projected, keep))
        return hidden, carry


class GRULayer(RecurrentLayer):
    """One layer of gated recurrent units whose input projection leaves the recurrence.

    With a reset gate r and an update gate z, `h <- z h + (1 - z) tanh(W x + U (r h))`. The reset
    comes before the product, as in the paper; `flax.linen.GRUCell` and cuDNN reset behind it.

    Source: Cho et al. (2014), section 2.3, equations 5 to 8; biases are added here.
    """

    def setup(self) -> None:
        """Gates in the order reset, update, candidate."""
        self.inputs = dense(3 * self.size)
        self.recurrent = self.param("recurrent", orthogonal_gates(3), self.size)

    def initial_carry(self, batch: int) -> jax.Array:
        """Returns the hidden state, zeros `float[batch, size]`."""
        return jnp.zeros((batch, self.size), jnp.result_type(float))

    def unroll(
        self, carry: jax.Array, inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """`float[T, B, F]`, `bool[T, B]` -> hidden states `float[T, B, size]`, and the carry."""
        gates, candidate = jnp.split(self.recurrent, [2 * self.size], axis=1)

        def tick(hidden: jax.Array, x: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            projected, keep = x
            hidden = hidden * keep
            gate_inputs, new = jnp.split(projected, [2 * self.size], axis=-1)
            reset, update = jnp.split(nn.sigmoid(gate_inputs + hidden @ gates), 2, axis=-1)
            new = jnp.tanh(new + (reset * hidden) @ candidate)
            hidden = update * hidden + (1 - update) * new
            return hidden, hidden

        projected = self.inputs(inputs)
        keep = 1 - starts[..., None].astype(projected.dtype)
        carry, hidden = jax.lax.scan(tick, carry, (projected, keep))
        return hidden, carry


class RecurrentStack(Core):
    """Recurrent layers, each reading the one below; the output is the last one's hidden state."""

    sizes: Sequence[int]
    layer: ClassVar[type[RecurrentLayer]]

    def setup(self) -> None:
        """One layer per size."""
        self.layers = [self.layer(size) for size in self.sizes]

    def initial_carry(self, batch: int) -> tuple[Any, ...]:
        """Returns the layers' carries."""
        return tuple(self.layer(size, parent=None).initial_carry(batch) for size in self.sizes)

    def unroll(
        self, carry: Sequence[ArrayTree], inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, tuple[ArrayTree, ...]]:
        """`float[T, B, F]`, `bool[T, B]` -> `float[T, B, sizes[-1]]`, and the carry."""
        carries = []
        for layer, layer_carry in zip(self.layers, carry, strict=True):
            inputs, layer_carry = layer.unroll(layer_carry, inputs, starts)
            carries.append(layer_carry)
        return inputs, tuple(carries)


class LSTMStack(RecurrentStack):
    """LSTM layers, each reading the one below; the output is the last one's hidden state.

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(LSTMStack((32, 16)))
      >>> jax.tree.leaves(network.initial_carry(4))[0].shape
      (4, 32)
    """

    layer: ClassVar[type[RecurrentLayer]] = LSTMLayer


class GRUStack(RecurrentStack):
    """Layers of gated recurrent units; see `GRULayer`.

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(GRUStack((32, 16)))
      >>> [carry.shape for carry in network.initial_carry(4)]
      [(4, 32), (4, 16)]
    """

    layer: ClassVar[type[RecurrentLayer]] = GRULayer
