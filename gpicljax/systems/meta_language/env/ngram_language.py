"""The random n-gram generator: its parameters, and the tables they amount to.

The generator is a network with one hidden layer whose slots are added up behind the tanh, so each
of the last n tokens adds a vector of its own to the logits. A language therefore is a table of
logits for each slot and token, and a step needs no matrix product: `tables_of` is exact.

Source: Algorithm 1 and Table 2 of the GPICL paper; the slot weights are its reference code's.
"""

from __future__ import annotations

import itertools
import math
from typing import Literal

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.checks import check_at_least

SlotWeights = Literal["reference", "uniform"]


@struct.dataclass
class Theta:
    """The parameters of a generator; entry a of a leading `[N]` is for the token of age a.

    The newest token has age 0. Slots that a language of lower order lacks are drawn, but not used.

    Attributes:
      embedding: float `[V, E]`.
      weights: float `[N, E, H]`.
      biases: float `[N, H]`.
      output: float `[H, V]`.
      output_bias: float `[V]`.
    """

    embedding: jax.Array
    weights: jax.Array
    biases: jax.Array
    output: jax.Array
    output_bias: jax.Array


def parameter_count(
    order: int, vocab_size: int = 32, embedding_size: int = 32, hidden_size: int = 64
) -> int:
    """Returns how many numbers define a language of order n: 3104 + 2112 n by default.

    Source: Table 2 of the GPICL paper, which gives 7K, 11K and 19K for n = 2, 4 and 8.

    Raises:
      ValueError: if `order` is below 1.
    """
    check_at_least(1, order=order)
    slots = order * (embedding_size + 1) * hidden_size
    return vocab_size * embedding_size + slots + (hidden_size + 1) * vocab_size


def sample_theta(
    key: jax.Array,
    sigma: jax.Array,
    max_order: int,
    vocab_size: int,
    embedding_size: int,
    hidden_size: int,
) -> Theta:
    """Draws every parameter from a normal distribution of standard deviation `sigma: float[]`."""
    shapes = {
        "embedding": (vocab_size, embedding_size),
        "output": (hidden_size, vocab_size),
        "output_bias": (vocab_size,),
        "weights": (max_order, embedding_size, hidden_size),
        "biases": (max_order, hidden_size),
    }
    sizes = [math.prod(shape) for shape in shapes.values()]
    drawn = sigma * jax.random.normal(key, (sum(sizes),), jnp.result_type(float))
    parts = jnp.split(drawn, list(itertools.accumulate(sizes[:-1])))
    named = zip(shapes.items(), parts, strict=True)
    return Theta(**{name: part.reshape(shape) for (name, shape), part in named})


def num_slots(max_order: int, slot_weights: SlotWeights) -> int:
    """Returns how many of the last tokens can matter: under `reference`, the oldest does not."""
    return max(1, max_order - (slot_weights == "reference"))


def weights_of_slots(order: jax.Array, num: int, slot_weights: SlotWeights) -> jax.Array:
    """The weight of each slot's hidden activations, float `[num]`, from the newest to the oldest.

    The k-th oldest of the n slots (k = 0 .. n - 1) weighs k / n under `reference`, so that the
    oldest token has no influence, and 1 / n under `uniform`. Slots beyond n weigh nothing.
    """
    ages = jnp.arange(num, dtype=jnp.int32)
    weights = order - 1 - ages if slot_weights == "reference" else jnp.ones_like(ages)
    dtype = jnp.result_type(float)
    return jnp.where(ages < order, weights, 0).astype(dtype) / order.astype(dtype)


def tables_of(theta: Theta, order: jax.Array, slot_weights: SlotWeights) -> jax.Array:
    """Returns each token's contribution to the logits of the next, float `[slots, V, V]`.

    Entry `[a, x]` is the contribution of token x at age a; the output bias is part of age 0. The
    logits that follow a context are the sum over its ages, see `logits_after`.
    """
    num = num_slots(theta.weights.shape[0], slot_weights)
    # Accelerators round products to fewer bits unless asked not to: other languages, then.
    exact = jax.lax.Precision.HIGHEST
    weights = theta.weights[:num]
    inside = jnp.einsum("ve,aeh->avh", theta.embedding, weights, precision=exact)
    hidden = jnp.tanh(inside + theta.biases[:num, None])
    hidden = hidden * weights_of_slots(order, num, slot_weights)[:, None, None]
    logits = jnp.matmul(hidden, theta.output, precision=exact)
    return logits.at[0].add(theta.output_bias)


def logits_after(tables: jax.Array, context: jax.Array) -> jax.Array:
    """Logits of the next token, float `[V]`, after `context: int[slots]`, the latest token last."""
    ages = jnp.arange(tables.shape[0])
    return tables[ages, context[::-1]].sum(0)


def log_probs_of(logits: jax.Array, scale: jax.Array) -> jax.Array:
    """Returns log-softmax of logits scaled to mean 0 and deviation `scale`, float `[..., V]`."""
    centred = logits - logits.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    tiny = jnp.finfo(logits.dtype).tiny
    return jax.nn.log_softmax(centred * (scale * jax.lax.rsqrt(jnp.maximum(variance, tiny))))


def log_likelihood(tables: jax.Array, scale: jax.Array, tokens: jax.Array) -> jax.Array:
    """Log-probability of each token but the first, given all before it, float `[L]`.

    Args:
      tables: float `[slots, V, V]`.
      scale: float `[]`.
      tokens: int `[L + 1]`; what comes before the first counts as token 0.
    """
    slots, length = tables.shape[0], tokens.shape[0] - 1
    padded = jnp.pad(tokens.astype(jnp.int32), (slots - 1, 0))
    logits = tables[0, padded[slots - 1 :][:length]]
    for age in range(1, slots):
        logits = logits + tables[age, padded[slots - 1 - age :][:length]]
    log_probs = log_probs_of(logits, scale)
    return jnp.take_along_axis(log_probs, tokens[1:, None].astype(jnp.int32), axis=1)[:, 0]
