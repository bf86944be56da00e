"""Messages: regularisation, the reference's flat action ids, rule-based speakers, the channel."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gpicljax import random


def regularise(message: jax.Array) -> jax.Array:
    """Sets everything after the first end of sentence to 0. `int32[..., L]` in and out."""
    return jnp.where(jnp.cumprod(message != 0, axis=-1) != 0, message, 0)


def num_sentences(vocab_size: int, length: int) -> int:
    """M, the number of messages with up to `length` tokens: sum over k of V**k."""
    return sum(vocab_size**k for k in range(length + 1))


def sentence_tokens(sentence: jax.Array, vocab_size: int, length: int) -> jax.Array:
    """Returns the message of a sentence id in bijective base V.

    Args:
      sentence: `int32[]` in [0, num_sentences): sum over positions of token * V**position.
      vocab_size: V.
      length: L.

    Returns:
      `int32[L]`, tokens 1 .. V, then zeros.

    Source: the combined action space of the reference environment.
    """
    tokens = []
    for _ in range(length):
        token = jnp.where(sentence > 0, (sentence - 1) % vocab_size + 1, 0)
        tokens.append(token)
        sentence = (sentence - token) // vocab_size
    return jnp.stack(tokens).astype(jnp.int32)


def posdis_message(
    latents: jax.Array, length: int, *, offset: jax.Array, fixed_length: bool
) -> jax.Array:
    """The positionally disentangled language: position i tells latent value i (appendix C.2).

    Args:
      latents: `int32[N_dim]`, 0-based.
      length: L.
      offset: `int32[]`, first dimension told; a later round goes on where the channel was short.
      fixed_length: fill the unused positions with token 1 instead of ending the sentence.

    Returns:
      `int32[L]`.
    """
    places = jnp.arange(length) + offset
    exists = places < latents.shape[0]
    tokens = latents[jnp.minimum(places, latents.shape[0] - 1)] + 1
    return jnp.where(exists, tokens, int(fixed_length)).astype(jnp.int32)


def digitise(stimulus: jax.Array, vocab_size: int, length: int) -> jax.Array:
    """The cheating language of appendix D: position i tells the bin of the value x_i in [-1, 1].

    Args:
      stimulus: float `[..., N_dim]`.
      vocab_size: V equal bins, tokens 1 .. V.
      length: L >= N_dim.

    Returns:
      `int32[..., L]`.
    """
    bins = jnp.floor((stimulus + 1) / 2 * vocab_size).astype(jnp.int32)
    tokens = jnp.clip(bins, 0, vocab_size - 1) + 1
    spare = [(0, 0)] * (tokens.ndim - 1) + [(0, length - tokens.shape[-1])]
    return jnp.pad(tokens, spare)


def _ranks(values: jax.Array) -> jax.Array:
    """The rank of each entry along the last axis, ties by place: few entries, so no sort."""
    places = jnp.arange(values.shape[-1])
    entry, compared_entry = values[..., :, None], values[..., None, :]
    below = (compared_entry < entry) | ((compared_entry == entry) & (places < places[:, None]))
    return below.sum(-1, dtype=jnp.int32)


def sample_permutation(
    key: jax.Array, vocab_size: int, message_length: int, kind: str
) -> jax.Array:
    """Returns the channel: which token the listener hears for a token sent.

    Args:
      key: a typed key.
      vocab_size: tokens V besides the end of sentence.
      message_length: positions L.
      kind: `"shared"` (one bijection for all positions), `"position"` (one each) or `"none"`.

    Returns:
      `int32[L, V + 1]`; token 0, the end of sentence, always stands for itself.

    Source: section 3.1, vocabulary permutation.
    """
    shape = (message_length, vocab_size)
    if kind == "none":
        heard = jnp.broadcast_to(jnp.arange(vocab_size, dtype=jnp.int32), shape)
    else:
        rows = message_length if kind == "position" else 1
        heard = jnp.broadcast_to(_ranks(random.bits(key, (rows, vocab_size))), shape)
    return jnp.pad(heard + 1, ((0, 0), (1, 0)))
