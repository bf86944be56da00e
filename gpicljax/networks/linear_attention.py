"""Linear attention with a decaying memory: sequence models whose cost per token is constant.

The memory of a head is a matrix S. Every token lets it decay and writes one key-value pair to it,
S <- a S + b k v^T, and reads o = q S. By the delta rule it writes what the memory does not say yet,
S <- a S + b k (v - a k S)^T. Unrolled, chunks of tokens attend to each other directly and to all
that came before through S, so that the work is matrix products and grows linearly with the length.

Sources: Katharopoulos et al. (2020); the decay that the input chooses, one scalar per head, is that
of Dao & Gu (2024, "Mamba-2"), as are the short convolution and the output gate; the delta rule in
chunks: Yang et al. (2024), "Gated delta networks".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.scipy.linalg import solve_triangular

from gpicljax.networks.contract import Core
from gpicljax.networks.feedforward import dense


def decayed_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    log_decay: jax.Array,
    strength: jax.Array,
    starts: jax.Array,
    memory: jax.Array,
    chunk: int = 64,
    corrects: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Returns each token's read of the tokens up to itself, and the memory after the last.

    Args:
      query: float `[T, B, H, K]`.
      key: float `[T, B, H, K]`.
      value: float `[T, B, H, V]`.
      log_decay: float `[T, B, H]`, log of what token t leaves of the memory before it; at most 0.
      strength: float `[T, B, H]`, how much of its value token t writes.
      starts: `bool[T, B]`, token t begins with an empty memory.
      memory: float `[B, H, K, V]`, before the first token.
      chunk: tokens that attend to each other directly.
      corrects: whether what the memory holds at a key is subtracted from what is written there: the
        delta rule. Keys should have length 1.

    Returns:
      float `[T, B, H, V]` and float `[B, H, K, V]`.
    """
    length = query.shape[0]
    chunk = min(chunk, length)
    padding = -length % chunk

    def split_chunks(x: jax.Array) -> jax.Array:
        """`[T, B, ...]` -> `[chunks, chunk, B, ...]`; a padded token writes nothing."""
        x = jnp.pad(x, [(0, padding), *[(0, 0)] * (x.ndim - 1)])
        return x.reshape(-1, chunk, *x.shape[1:])

    earlier = jnp.tril(jnp.ones((chunk, chunk), bool))

    def attend_chunk(memory: jax.Array, x: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        query, key, value, log_decay, strength, starts = x
        decayed = jnp.cumsum(log_decay, axis=0).transpose(1, 2, 0)  # [B, H, C]
        trial = jnp.cumsum(starts, axis=0).T  # [B, C]
        same = (trial[:, :, None] == trial[:, None, :]) & earlier
        # Masked before the exponential: above the diagonal it could overflow.
        gap = jnp.where(same[:, None], decayed[..., :, None] - decayed[..., None, :], -jnp.inf)
        untouched = (trial == 0)[:, None]
        reach = jnp.where(untouched, jnp.exp(decayed), 0)  # [B, H, C]

        def read_memory(at: jax.Array) -> jax.Array:
            return jnp.einsum("ibhk,bhkv->ibhv", at, memory) * reach.transpose(2, 0, 1)[..., None]

        if corrects:
            # A token's correction depends on those before it: a triangular system of equations.
            overlap = jnp.einsum("ibhk,jbhk->bhij", key, key) * jnp.exp(gap)
            overlap = jnp.tril(overlap * strength.transpose(1, 2, 0)[..., None], -1)
            new = ((value - read_memory(key)) * strength[..., None]).transpose(1, 2, 0, 3)
            solved = solve_triangular(overlap, new, lower=True, unit_diagonal=True)
            value = solved.transpose(2, 0, 1, 3)
        else:
            value = value * strength[..., None]
        scores = jnp.einsum("ibhk,jbhk->bhij", query, key) * jnp.exp(gap)
        within = jnp.einsum("bhij,jbhv->ibhv", scores, value)
        last = (trial == trial[:, -1:])[:, None]
        left = jnp.where(last, jnp.exp(decayed[..., -1:] - decayed), 0)
        written = jnp.einsum("jbhk,bhj,jbhv->bhkv", key, left, value)
        return memory * reach[..., -1][..., None, None] + written, within + read_memory(query)

    parts = tuple(split_chunks(x) for x in (query, key, value, log_decay, strength, starts))
    memory, outputs = jax.lax.scan(attend_chunk, memory, parts)
    return outputs.reshape(-1, *outputs.shape[2:])[:length], memory


class LinearAttentionCarry(NamedTuple):
    """`memory` float `[B, H, K, V]`, and `recent` float `[B, conv - 1, C]` for the convolution."""

    memory: jax.Array
    recent: jax.Array


class LinearAttention(Core):
    """A layer of decayed attention with unit-length keys; `float[T, B, F] -> float[T, B, F]`.

    Attributes:
      heads: H.
      width: of keys, queries and values.
      convolution: tokens that the short causal convolution in front of them sees.
      chunk: see `decayed_attention`; it changes nothing but speed.
      corrects: whether memories are written by the delta rule, see `decayed_attention`.
    """

    heads: int = 4
    width: int = 16
    convolution: int = 4
    chunk: int = 64
    corrects: bool = False

    def initial_carry(self, batch: int) -> LinearAttentionCarry:
        """Returns an empty memory."""
        dtype, inner = jnp.result_type(float), self.heads * self.width
        return LinearAttentionCarry(
            jnp.zeros((batch, self.heads, self.width, self.width), dtype),
            jnp.zeros((batch, self.convolution - 1, 3 * inner), dtype),
        )

    def _convolve(
        self, x: jax.Array, starts: jax.Array, recent: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the causal convolution of every channel of its own, within trials."""
        length, channels = x.shape[0], x.shape[-1]
        kernel = self.param(
            "convolution",
            nn.initializers.variance_scaling(1.0, "fan_in", "uniform", in_axis=0, out_axis=()),
            (self.convolution, channels),
            x.dtype,
        )
        back = self.convolution - 1
        together = jnp.concatenate([recent.swapaxes(0, 1), x])
        trial = jnp.pad(jnp.cumsum(starts, axis=0), ((back, 0), (0, 0)))
        outputs = jnp.zeros_like(x)
        for k in range(self.convolution):  # k tokens ago
            place = slice(back - k, back - k + length)
            same_trial = (trial[place] == trial[back:])[..., None]
            outputs = outputs + jnp.where(same_trial, together[place], 0) * kernel[k]
        kept = jnp.where((trial[length:] == trial[-1:])[..., None], together[length:], 0)
        return nn.silu(outputs), kept.swapaxes(0, 1)

    @nn.compact
    def unroll(
        self, carry: LinearAttentionCarry, inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, LinearAttentionCarry]:
        """Inputs `[T, B, F]`, starts `bool[T, B]` -> outputs `[T, B, F]`, and the carry."""
        shape = (*inputs.shape[:2], self.heads, self.width)
        inner = self.heads * self.width
        mixed = dense(3 * inner, use_bias=False, name="project")(inputs)
        mixed, recent = self._convolve(mixed, starts, carry.recent)
        query, key, value = (x.reshape(shape) for x in jnp.split(mixed, 3, axis=-1))
        query, key = (
            x * jax.lax.rsqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-6) for x in (query, key)
        )
        # Heads start with half-lives from a few tokens to thousands.
        spread = lambda key, shape, dtype: jnp.linspace(-8.0, -1.0, self.heads, dtype=dtype)  # noqa: E731
        rate = dense(self.heads, bias_init=spread, name="decay")(inputs)
        strength = nn.sigmoid(dense(self.heads, name="write")(inputs))
        outputs, memory = decayed_attention(
            query,
            key,
            value,
            -nn.softplus(rate),
            strength,
            starts,
            carry.memory,
            self.chunk,
            self.corrects,
        )
        outputs = nn.RMSNorm(name="norm", param_dtype=inputs.dtype)(outputs)
        gate = nn.silu(dense(inner, use_bias=False, name="gate")(inputs))
        outputs = outputs.reshape(*inputs.shape[:2], inner) * gate
        outputs = dense(inputs.shape[-1], name="output")(outputs)
        return outputs, LinearAttentionCarry(memory, recent)


class LinearTransformer(Core):
    """Pre-norm blocks of linear attention and an MLP; `float[T, B, width] -> float[T, B, width]`.

    Attributes:
      layers: L.
      width: of the residual stream.
      heads: H of every layer.
      hidden: of the MLPs.
      chunk: see `decayed_attention`.
      corrects: whether memories are written by the delta rule.

    Example:
      >>> from gpicljax.networks.contract import as_network
      >>> network = as_network(LinearTransformer(layers=2, width=16, heads=2, hidden=32))
      >>> len(jax.eval_shape(lambda: network.initial_carry(4)))
      2
    """

    layers: int
    width: int
    heads: int
    hidden: int
    chunk: int = 64
    corrects: bool = False

    def setup(self) -> None:
        """The blocks."""
        size = self.width // self.heads
        norm = lambda: nn.LayerNorm(1e-5, param_dtype=jnp.result_type(float))  # noqa: E731
        self.mixers = [
            LinearAttention(self.heads, size, chunk=self.chunk, corrects=self.corrects)
            for _ in self._each
        ]
        self.norms = [norm() for _ in self._each]
        self.mlp_norms = [norm() for _ in self._each]
        self.widen = [dense(self.hidden) for _ in self._each]
        self.narrow = [dense(self.width) for _ in self._each]
        self.final_norm = norm()

    @property
    def _each(self) -> range:
        return range(self.layers)

    def initial_carry(self, batch: int) -> tuple[LinearAttentionCarry, ...]:
        """Returns the layers' memories."""
        layer = LinearAttention(self.heads, self.width // self.heads, parent=None)
        return tuple(layer.initial_carry(batch) for _ in self._each)

    def unroll(
        self, carry: Sequence[LinearAttentionCarry], inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, Any]:
        """Inputs `[T, B, width]`, starts `bool[T, B]` -> outputs `[T, B, width]`, and the carry."""
        x, carries = inputs, []
        for i in self._each:
            mixed, memory = self.mixers[i].unroll(carry[i], self.norms[i](x), starts)
            carries.append(memory)
            x = x + mixed
            x = x + self.narrow[i](nn.gelu(self.widen[i](self.mlp_norms[i](x)), approximate=False))
        return self.final_norm(x), tuple(carries)
