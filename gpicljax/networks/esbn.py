"""The Emergent Symbol Binding Network: symbols bound to what is seen, and rules over symbols."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.networks import ring
from gpicljax.networks.contract import Core
from gpicljax.networks.feedforward import dense
from gpicljax.networks.recurrent import lstm_cell, orthogonal_gates


class Bindings(NamedTuple):
    """The carry of an `ESBN`: its controller, and the pairs stored in the trial so far.

    Attributes:
      cell: float `[B, size]`.
      hidden: float `[B, size]`.
      pairs: float `[B, slots, keys + values]`; see `ring` for the order.
      written: `int32[B]`, how many have been stored.
    """

    cell: jax.Array
    hidden: jax.Array
    pairs: jax.Array
    written: jax.Array


class ESBN(Core):
    """A controller that sees no input, only the keys that it bound to similar inputs before.

    An input is encoded as a value z. Among the pairs (k, v) that were stored before, those with a
    large product v . z are retrieved: under the softmax of the products, the mean key and the
    mean confidence, `sigmoid(gain v . z + bias)`, both times a gate. The LSTM controller reads
    them and nothing else; it outputs the gate and the key, not negative, with which the next input
    is stored. The output is its hidden state, so that what is learnt over keys holds for inputs
    never seen. Give heads that need the input itself a path beside this core.

    Attributes:
      size: of the controller, and of the output.
      keys: width of keys.
      values: width of values.
      slots: pairs kept; the oldest are overwritten. The paper keeps all.

    Source: Webb, Sinha & Cohen (2021), section 3.2 and algorithm 1, with widths of 512, 256 and
    128. There the controller answers to what it retrieved one step before, and makes one step more
    at the end of a sequence; here it goes on as soon as it has retrieved, from zeros, which is the
    same recurrence with its first step, a constant, left out. The encoder is one linear layer
    (theirs lies before this core), and there is no normalisation over the sequence (section 3.1),
    which looks ahead.

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(ESBN(16, keys=8, values=4, slots=32))
      >>> inputs = jnp.ones((7, 5, 3))  # [T, B, features]
      >>> params = jax.eval_shape(network.init, jax.random.key(0), inputs[0])
      >>> outputs, memory = jax.eval_shape(network.unroll, params, None, inputs, None)
      >>> outputs.shape, memory.pairs.shape, memory.written.shape
      ((7, 5, 16), (5, 32, 12), (5,))
    """

    size: int
    keys: int = 64
    values: int = 32
    slots: int = 64

    def setup(self) -> None:
        """The encoder, confidence, and the controller with its outputs."""
        dtype, kernel = jnp.result_type(float), nn.initializers.lecun_normal()
        zeros, unit = nn.initializers.zeros, nn.initializers.ones
        self.encoder = dense(self.values)
        self.confidence = (
            self.param("gain", unit, (), dtype),
            self.param("bias", zeros, (), dtype),
        )
        self.controller = (
            self.param("retrieved", kernel, (self.keys + 1, 4 * self.size), dtype),
            self.param("recurrent", orthogonal_gates(4), self.size),
            self.param("controller_bias", zeros, (4 * self.size,), dtype),
        )
        self.says = (
            self.param("says", kernel, (self.size, self.keys + 1), dtype),
            self.param("says_bias", zeros, (self.keys + 1,), dtype),
        )

    def initial_carry(self, batch: int) -> Bindings:
        """Returns the empty memory."""
        zeros = jnp.zeros((batch, self.size), jnp.result_type(float))
        pairs = jnp.zeros((batch, self.slots, self.keys + self.values), zeros.dtype)
        return Bindings(zeros, zeros, pairs, jnp.zeros(batch, jnp.int32))

    def unroll(
        self, carry: Bindings, inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, Bindings]:
        """`float[T, B, F]`, `bool[T, B]` -> hidden states `float[T, B, size]`, and the carry."""
        (retrieved, recurrent, bias), (key_weights, key_bias) = self.controller, self.says
        gain, offset = self.confidence
        write = jnp.ones(starts.shape, bool)
        visible = ring.view(carry.written, write, starts, self.slots).visible
        # What is similar does not depend on the controller: it leaves the recurrence, and so do
        # the keys of earlier sequences.
        value = self.encoder(inputs).swapaxes(0, 1)
        old_keys, old_values = jnp.split(carry.pairs, [self.keys], axis=-1)
        stored = jnp.concatenate([old_values, value], axis=1)
        products = jnp.einsum("btv,bnv->btn", value, stored)
        weights = ring.attend(products, visible)
        confidence = nn.sigmoid(gain * jnp.where(visible, products, 0) + offset)
        confidence = (weights * confidence).sum(-1, keepdims=True)
        earlier = jnp.einsum("bts,bsk->btk", weights[..., : self.slots], old_keys)
        weights = weights[..., self.slots :]
        first = lambda x: x.swapaxes(0, 1)  # noqa: E731

        def tick(
            carry: tuple[jax.Array, ...], x: tuple[jax.Array, ...]
        ) -> tuple[tuple[jax.Array, ...], jax.Array]:
            cell, hidden, keys = carry
            t, keep, weights, earlier, confidence = x
            cell, hidden = cell * keep, hidden * keep
            written = hidden @ key_weights + key_bias
            key, gate = nn.relu(written[:, :-1]), nn.sigmoid(written[:, -1:])
            key_read = earlier + (weights[..., None] * keys).sum(1)
            read = gate * jnp.concatenate([key_read, confidence], axis=-1)
            keys = jax.lax.dynamic_update_index_in_dim(keys, key, t, 1)
            cell, hidden = lstm_cell(cell, read @ retrieved + hidden @ recurrent + bias)
            return (cell, hidden, keys), hidden

        length, batch = starts.shape
        keep = 1 - starts[..., None].astype(value.dtype)
        start = carry.cell, carry.hidden, jnp.zeros((batch, length, self.keys), value.dtype)
        steps = jnp.arange(length), keep, first(weights), first(earlier), first(confidence)
        (cell, hidden, keys), outputs = jax.lax.scan(tick, start, steps)
        pairs = jnp.concatenate([keys, value], axis=-1)
        pairs, written = ring.store(carry.pairs, carry.written, pairs, write, starts)
        return outputs, Bindings(cell, hidden, pairs, written)
