"""A recurrent core whose memory is a matrix: fast weights with the delta rule."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.networks.contract import Core
from gpicljax.networks.feedforward import dense


def _unit(x: jax.Array) -> jax.Array:
    """SiLU, then unit length along the last axis."""
    x = nn.silu(x)
    return x * jax.lax.rsqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-6)


class DeltaMemory(Core):
    """Key-value memory W of H heads, written by the delta rule and read at every step.

    At each step, per head: read r = W q; then write W <- W + b (v - W k) k^T with a gate b in
    [0, 1]. Keys and queries have unit length, so that b = 1 replaces what the key held. The output
    is a dense layer over input and reads. Reading comes first: what is seen now cannot be its own
    memory.

    Attributes:
      size: of the output.
      heads: H.
      width: of keys and values.

    Source: Schlag, Irie & Schmidhuber (2021), the delta rule of fast weight programmers.

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(DeltaMemory(size=16, heads=2, width=8))
      >>> network.initial_carry(4).shape
      (4, 2, 8, 8)
    """

    size: int
    heads: int = 4
    width: int = 32

    def setup(self) -> None:
        """Projections to queries, keys, values and gates, and the output layer."""
        self.project = dense(3 * self.heads * self.width)
        self.gate = dense(self.heads)
        self.output = dense(self.size, kernel_init=nn.initializers.he_normal())

    def initial_carry(self, batch: int) -> jax.Array:
        """Returns an empty memory, float `[batch, heads, width, width]`."""
        shape = (batch, self.heads, self.width, self.width)
        return jnp.zeros(shape, jnp.result_type(float))

    def unroll(
        self, carry: jax.Array, inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """`float[T, B, F]`, `bool[T, B]` -> `float[T, B, size]`, and the memory."""
        shape = (*inputs.shape[:2], 3, self.heads, self.width)
        query, key, value = jnp.moveaxis(self.project(inputs).reshape(shape), 2, 0)
        query, key = _unit(query), _unit(key)
        gate = nn.sigmoid(self.gate(inputs))[..., None]
        keep = 1 - starts[..., None, None, None].astype(inputs.dtype)

        def tick(memory: jax.Array, x: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
            query, key, value, gate, keep = x
            memory = memory * keep
            # Products and sums rather than batched matrix products: B * H of them are too small.
            read = (memory * query[..., None, :]).sum(-1)
            held = (memory * key[..., None, :]).sum(-1)
            change = gate * (value - held)
            return memory + change[..., :, None] * key[..., None, :], read

        carry, reads = jax.lax.scan(tick, carry, (query, key, value, gate, keep))
        reads = reads.reshape(*inputs.shape[:2], self.heads * self.width)
        return nn.relu(self.output(jnp.concatenate([inputs, reads], axis=-1))), carry
