"""Dual-coding episodic memory: vision and language, each found by the other."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.networks import ring
from gpicljax.networks.contract import Core
from gpicljax.networks.event_store import Event
from gpicljax.networks.feedforward import dense
from gpicljax.networks.recurrent import LSTMLayer

# Cosines that differ by less than this, times the difference in age, count as equal.
_PER_AGE = 1e-5


class Codes(NamedTuple):
    """The carry of a `DualCoding`: its controller, and the pairs stored in the trial so far.

    Attributes:
      controller: cell and hidden state, float `[B, size]` each.
      pairs: float `[B, slots, 2 width]`, the codes of key and value; see `ring` for the order.
      written: `int32[B]`, how many have been stored.
    """

    controller: Any
    pairs: jax.Array
    written: jax.Array


class DualCoding(Core):
    """A memory of pairs of codes in which either code finds the other, read by an LSTM.

    A step has two streams, language and vision, say: the key and the value of an `Event`, or
    twice the same vector. Each is encoded by a linear layer of its own, and the pair is stored,
    in an event where it says `write`. The language of a step asks for visions and its vision for
    language: every head makes a query of one code, finds the pairs stored before whose same code
    is nearest (by cosine; among equal ones the latest), and weights their other codes by the
    softmax of the cosines times a learnt strength. The weighted codes attend to one another and
    are summed. The LSTM reads both codes of the step and all heads' sums.

    Attributes:
      size: of the LSTM, and of the output.
      slots: pairs kept; the oldest are overwritten.
      width: of a code.
      heads: for each of the two directions.
      nearest: pairs that a head finds, at most as many as there are slots.

    Source: Hill et al. (2021), Dual-Coding Episodic Memory; cosines, the nearest k, and
    self-attention over what is found are theirs. Queries are made from the codes of the step, as
    the Meta-Referential Games paper's agents do (appendix C.1), and not from the LSTM's state:
    all reads of a sequence leave the recurrence. The strength is one number per head. Both
    directions are read always; writing is by the event, where theirs is at every step.

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(DualCoding(16, slots=32, width=8, heads=2))
      >>> event = Event(jnp.ones((5, 3)), jnp.ones((5, 2)), jnp.ones(5, bool))
      >>> params = jax.eval_shape(network.init, jax.random.key(0), event)
      >>> carry = network.initial_carry(5)
      >>> outputs, memory = jax.eval_shape(network.step, params, carry, event, jnp.ones(5, bool))
      >>> outputs.shape, memory.pairs.shape, memory.written.shape
      ((5, 16), (5, 32, 16), (5,))
    """

    size: int
    slots: int = 64
    width: int = 32
    heads: int = 4
    nearest: int = 6

    def setup(self) -> None:
        """Encoders, queries with their strengths, self-attention, the LSTM."""
        self.encoders = [dense(self.width) for _ in range(2)]
        self.queries = [dense(self.heads * self.width) for _ in range(2)]
        shape, dtype = (2, self.heads), jnp.result_type(float)
        self.strength = self.param("strength", nn.initializers.constant(2.0), shape, dtype)
        self.attention = [dense(3 * self.width, use_bias=False) for _ in range(2)]
        self.controller = LSTMLayer(self.size)

    def initial_carry(self, batch: int) -> Codes:
        """Returns the empty memory."""
        pairs = jnp.zeros((batch, self.slots, 2 * self.width), jnp.result_type(float))
        controller = LSTMLayer(self.size, parent=None).initial_carry(batch)
        return Codes(controller, pairs, jnp.zeros(batch, jnp.int32))

    def unroll(
        self, carry: Codes, inputs: Event | jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, Codes]:
        """Events or vectors `[T, B, ...]`, `bool[T, B]` -> `float[T, B, size]`, and the carry."""
        if isinstance(inputs, Event):
            write = inputs.write
            # An event of a key alone is coded twice, as a vector is.
            streams = (inputs.key, inputs.value if inputs.value.shape[-1] else inputs.key)
        else:
            write, streams = jnp.ones(starts.shape, bool), (inputs, inputs)
        codes = [encode(x) for encode, x in zip(self.encoders, streams, strict=True)]
        fresh = jnp.concatenate(codes, axis=-1).swapaxes(0, 1)
        view = ring.view(carry.written, write, starts, self.slots)
        stored = jnp.split(jnp.concatenate([carry.pairs, fresh], axis=1), 2, axis=-1)
        reads = [self._read(i, codes[i], stored[i], stored[1 - i], view) for i in range(2)]
        heard = jnp.concatenate([*codes, *reads], axis=-1)
        outputs, controller = self.controller.unroll(carry.controller, heard, starts)
        pairs, written = ring.store(carry.pairs, carry.written, fresh, write, starts)
        return outputs, Codes(controller, pairs, written)

    def _read(
        self, stream: int, code: jax.Array, same: jax.Array, counterpart: jax.Array, view: ring.View
    ) -> jax.Array:
        """Returns the reads of codes `[T, B, width]` of one stream, `float[T, B, heads width]`.

        Codes of the same and of the other stream are float `[B, N, width]`.
        """
        query = self.queries[stream](code).reshape(*code.shape[:2], self.heads, self.width)
        cosines = jnp.einsum("tbhw,bnw->bthn", _unit(query), _unit(same))
        # Otherwise, equal codes would be chosen among by rounding.
        rank = jax.lax.stop_gradient(cosines) - _PER_AGE * view.age[:, :, None]
        rank = jnp.where(view.visible[:, :, None], rank, -jnp.inf)
        best, place = jax.lax.top_k(rank, min(self.nearest, self.slots))
        present = best > -jnp.inf
        strength = nn.softplus(self.strength[stream])[:, None]
        nearest = jnp.take_along_axis(cosines, place, axis=-1)
        weights = ring.attend(strength * nearest, present)
        batch = jnp.arange(code.shape[1])[:, None, None, None]
        neighbours = weights[..., None] * counterpart[batch, place]  # [B, T, heads, nearest, width]
        queries, keys, values = jnp.split(self.attention[stream](neighbours), 3, axis=-1)
        scores = jnp.einsum("bthiw,bthjw->bthij", queries, keys) / self.width**0.5
        mixed = jnp.einsum("bthij,bthjw->bthiw", ring.attend(scores, present[..., None, :]), values)
        read = jnp.where(present[..., None], mixed, 0).sum(-2)
        return read.swapaxes(0, 1).reshape(*code.shape[:2], -1)


def _unit(x: jax.Array) -> jax.Array:
    """Unit length along the last axis."""
    return x * jax.lax.rsqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-6)
