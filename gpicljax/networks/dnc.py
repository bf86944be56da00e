"""The differentiable neural computer: a controller that writes to and reads from a memory."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.networks.contract import Core
from gpicljax.networks.feedforward import dense
from gpicljax.networks.recurrent import lstm_cell, orthogonal_gates

# Added to squared lengths, so that an empty row is as similar to anything as to nothing.
_EPSILON = 1e-6
# Usage of which the logarithm is finite.
_FREE = 1e-30


class Links(NamedTuple):
    """The order in which rows were written.

    Attributes:
      after: float `[B, N, N]`, how far row i was written right after row j.
      latest: float `[B, N]`, how far a row is the one written last (the paper's precedence).
    """

    after: jax.Array
    latest: jax.Array


class DNCState(NamedTuple):
    """The carry of a `DNC`.

    Attributes:
      cell: float `[B, size]`, of the controller.
      hidden: float `[B, size]`, of the controller.
      memory: float `[B, N, width]`.
      usage: float `[B, N]`, between 0 (free) and 1.
      written: float `[B, N]`, where it was last written.
      read: float `[B, heads, N]`, where every head last read.
      reads: float `[B, heads, width]`, what it read.
      links: None without temporal links.
    """

    cell: jax.Array
    hidden: jax.Array
    memory: jax.Array
    usage: jax.Array
    written: jax.Array
    read: jax.Array
    reads: jax.Array
    links: Links | None


def content_weights(memory: jax.Array, keys: jax.Array, strengths: jax.Array) -> jax.Array:
    """Softmax over rows of their cosine with a key, times its strength.

    Args:
      memory: float `[..., N, width]`.
      keys: float `[..., H, width]`.
      strengths: float `[..., H]`.

    Returns:
      float `[..., H, N]`.

    Source: Graves et al. (2016), methods, "content-based addressing".
    """
    scale = jax.lax.rsqrt(jnp.square(memory).sum(-1) + _EPSILON)
    keys = keys * jax.lax.rsqrt(jnp.square(keys).sum(-1, keepdims=True) + _EPSILON)
    cosines = jnp.einsum("...hw,...nw->...hn", keys, memory) * scale[..., None, :]
    return jax.nn.softmax(cosines * strengths[..., None], axis=-1)


def allocation_weights(usage: jax.Array) -> jax.Array:
    """The freest row, as far as it is free; then the next, as far as the first is not; and so on.

    Args:
      usage: float `[..., N]`; of equal ones the first comes first.

    Returns:
      float `[..., N]` with a sum of at most 1.

    Source: Graves et al. (2016), methods, equation 1.
    """
    # Compared in pairs rather than sorted, which would scatter at each step; the product of usages
    # is a sum of logarithms, and that a matrix product.
    rows = jnp.arange(usage.shape[-1])
    row_usage, column_usage = usage[..., :, None], usage[..., None, :]
    freer = (column_usage < row_usage) | ((column_usage == row_usage) & (rows < rows[:, None]))
    logs = jnp.log(jnp.maximum(usage, _FREE))
    taken = jnp.einsum("...ij,...j->...i", freer.astype(usage.dtype), logs)
    return (1 - usage) * jnp.exp(taken)


def next_usage(usage: jax.Array, written: jax.Array, read: jax.Array, free: jax.Array) -> jax.Array:
    """Returns usage after the last write, without rows that reading heads set free.

    Args:
      usage: float `[..., N]`.
      written: float `[..., N]`, weights of the last write.
      read: float `[..., H, N]`, weights of the last reads.
      free: float `[..., H]`, free gates.

    Source: Graves et al. (2016), methods, "dynamic memory allocation".
    """
    retained = jnp.prod(1 - free[..., None] * read, axis=-2)
    return (usage + written - usage * written) * retained


def next_links(links: Links, written: jax.Array) -> Links:
    """Returns the order of writes after a write with these weights, float `[..., N]`.

    Source: Graves et al. (2016), methods, "temporal memory linkage".
    """
    i, j = written[..., :, None], written[..., None, :]
    after = (1 - i - j) * links.after + i * links.latest[..., None, :]
    after *= 1 - jnp.eye(written.shape[-1], dtype=written.dtype)
    latest = (1 - written.sum(-1, keepdims=True)) * links.latest + written
    return Links(after, latest)


class DNC(Core):
    """A controller with an external memory of N rows, one write head and some read heads.

    In this order, at each step: the LSTM controller reads the input and what was last read; from
    its hidden state it erases and writes at rows that it finds by their content or that are free;
    then every head reads, at rows that it finds by their content or (with links) that were written
    right after, or right before, those it read last. The output is linear in hidden state and
    reads.

    Without links a head finds rows by content alone, and the carry is smaller by N x N.

    Attributes:
      size: of the output, and of the controller.
      slots: N.
      width: of a row.
      heads: read heads.
      links: whether there are temporal links.

    Source: Graves et al. (2016), methods. The controller has one layer here; the length of an
    empty row is not zero but 0.001, for cosines and their gradients.

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(DNC(16, slots=8, width=4, heads=2))
      >>> network.initial_carry(5).links.after.shape
      (5, 8, 8)
      >>> inputs = jnp.zeros((7, 5, 3))  # [T, B, features]
      >>> params = jax.eval_shape(network.init, jax.random.key(0), inputs[0])
      >>> jax.eval_shape(network.unroll, params, None, inputs, None)[0].shape
      (7, 5, 16)
    """

    size: int
    slots: int = 64
    width: int = 32
    heads: int = 2
    links: bool = True

    def setup(self) -> None:
        """The controller, its interface to the memory, and the output layer."""
        dtype, kernel = jnp.result_type(float), nn.initializers.lecun_normal()
        read = self.heads * self.width
        self.inputs = dense(4 * self.size)
        self.recurrent = self.param("recurrent", orthogonal_gates(4), self.size)
        self.again = self.param("again", kernel, (read, 4 * self.size), dtype)
        shape = (self.size, sum(self._sizes()))
        self.interface = self.param("interface", kernel, shape, dtype)
        self.bias = self.param("bias", nn.initializers.zeros, shape[1:], dtype)
        self.output = dense(self.size)

    def _sizes(self) -> tuple[int, ...]:
        """Sizes of the interface: the write's key, vector, erasure and 3 gates; then the heads'."""
        w, h = self.width, self.heads
        return (w, w, w, 3, h * w, h, h, *([3 * h] if self.links else []))

    def initial_carry(self, batch: int) -> DNCState:
        """An empty memory that has not been read."""
        zeros = lambda *shape: jnp.zeros((batch, *shape), jnp.result_type(float))  # noqa: E731
        n = self.slots
        return DNCState(
            zeros(self.size),
            zeros(self.size),
            zeros(n, self.width),
            zeros(n),
            zeros(n),
            zeros(self.heads, n),
            zeros(self.heads, self.width),
            Links(zeros(n, n), zeros(n)) if self.links else None,
        )

    def unroll(
        self, carry: DNCState, inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, DNCState]:
        """`float[T, B, F]`, `bool[T, B]` -> `float[T, B, size]`, and the carry."""
        recurrent, read_weights, interface = self.recurrent, self.again, (self.interface, self.bias)

        def tick(
            carry: DNCState, x: tuple[jax.Array, jax.Array]
        ) -> tuple[DNCState, tuple[jax.Array, jax.Array]]:
            projected, keep = x
            carry = jax.tree.map(lambda c: c * keep.reshape(-1, *([1] * (c.ndim - 1))), carry)
            reads = carry.reads.reshape(keep.shape[0], -1)
            gates = projected + carry.hidden @ recurrent + reads @ read_weights
            cell, hidden = lstm_cell(carry.cell, gates)
            carry = self._access(carry, hidden @ interface[0] + interface[1])
            carry = carry._replace(cell=cell, hidden=hidden)
            return carry, (hidden, carry.reads.reshape(reads.shape))

        keep = 1 - starts.astype(inputs.dtype)
        carry, outputs = jax.lax.scan(tick, carry, (self.inputs(inputs), keep))
        return self.output(jnp.concatenate(outputs, axis=-1)), carry

    def _access(self, carry: DNCState, interface: jax.Array) -> DNCState:
        """Performs one write and one read of every head, by the interface `float[B, ...]`."""
        ends = [sum(self._sizes()[: i + 1]) for i in range(len(self._sizes()) - 1)]
        parts = jnp.split(interface, ends, axis=-1)
        key, vector, erase, gates, keys, strengths, free = parts[:7]
        strength, allocate, write = jnp.split(gates, 3, axis=-1)
        keys = keys.reshape(-1, self.heads, self.width)

        usage = next_usage(carry.usage, carry.written, carry.read, nn.sigmoid(free))
        allocate, write = nn.sigmoid(allocate), nn.sigmoid(write)
        by_content = content_weights(carry.memory, key[:, None], _oneplus(strength))[:, 0]
        free = allocation_weights(usage)
        written = write * (allocate * free + (1 - allocate) * by_content)
        kept = 1 - written[..., None] * nn.sigmoid(erase)[:, None]
        memory = carry.memory * kept + written[..., None] * vector[:, None]

        links = None
        read = content_weights(memory, keys, _oneplus(strengths))
        if self.links:
            assert carry.links is not None
            links = next_links(carry.links, written)
            modes = nn.softmax(parts[7].reshape(-1, self.heads, 3), axis=-1)
            before = jnp.einsum("bij,bhi->bhj", links.after, carry.read)
            after = jnp.einsum("bij,bhj->bhi", links.after, carry.read)
            read = modes[..., :1] * before + modes[..., 1:2] * read + modes[..., 2:] * after
        reads = jnp.einsum("bhn,bnw->bhw", read, memory)
        return carry._replace(
            memory=memory, usage=usage, written=written, read=read, reads=reads, links=links
        )


def _oneplus(x: jax.Array) -> jax.Array:
    """`1 + log(1 + exp(x))`."""
    return 1 + nn.softplus(x)
