"""Texts of random words: every text has a lexicon of its own, with frequent words and rare ones.

Languages of the generator have no words. Natural text has: a letter depends on where the word
began, and a few words make up most of a text. These texts have that much of it, and nothing of any
human language.

Source: frequencies fall with a power of a word's rank, as in Zipf (1949); the rest is this
project's.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

WORDS = 512
"""Words of the largest lexicon."""
LONGEST = 9
"""Letters of the longest word."""


def sample_lexicon_text(key: jax.Array, length: int, vocab_size: int) -> jax.Array:
    """Draws a lexicon, and a text of its words.

    Args:
      key: a typed key.
      length: L, tokens to draw.
      vocab_size: V, at least 13: a space and 12 letters or more. Which token stands for which of
        them is random.

    Returns:
      Tokens, `int32[L + 1]`; the text begins anywhere within a word.

    Example:
      >>> text = sample_lexicon_text(jax.random.key(0), length=60, vocab_size=32)
      >>> text.shape, len(set(text.tolist())) <= 32
      ((61,), True)
    """
    words_key, mean_key, size_key, count_key, power_key, text_key, start_key, map_key = (
        jax.random.split(key, 8)
    )
    words = _draw_words(words_key, vocab_size)
    mean = jax.random.uniform(mean_key, minval=1.5, maxval=5.0)
    sizes = jnp.minimum(1 + jax.random.poisson(size_key, mean, (WORDS,)), LONGEST)
    log_count = jax.random.uniform(count_key, minval=jnp.log(8.0), maxval=jnp.log(1.0 * WORDS))
    power = jax.random.uniform(power_key, minval=0.0, maxval=1.2)
    rank = jnp.arange(1, WORDS + 1)
    log_share = jnp.where(rank <= jnp.exp(log_count), -power * jnp.log(rank), -jnp.inf)
    # A word and its space are two tokens or more.
    spoken = jax.random.categorical(text_key, log_share, shape=(length // 2 + LONGEST,))
    ends = jnp.cumsum(sizes[spoken] + 1)
    place = jnp.arange(length + 1) + jax.random.randint(start_key, (), 0, LONGEST)
    number = jnp.searchsorted(ends, place, side="right")
    word = spoken[number]
    letter = place - ends[number] + sizes[word] + 1
    symbol = jnp.where(letter < sizes[word], words[word, jnp.minimum(letter, LONGEST - 1)], 0)
    return jax.random.permutation(map_key, vocab_size)[symbol].astype(jnp.int32)


def _draw_words(key: jax.Array, vocab_size: int) -> jax.Array:
    """Returns words as chains of letters, `int32[WORDS, LONGEST]`; symbol 0 is the space."""
    letters_key, pair_key, sharpness_key, letter_key, chain_key = jax.random.split(key, 5)
    letters = jax.random.randint(letters_key, (), 12, vocab_size)
    sharpness = jax.random.uniform(sharpness_key, minval=0.5, maxval=2.0)
    logits = sharpness * jax.random.normal(pair_key, (vocab_size, vocab_size))
    logits = logits + 1.3 * jax.random.normal(letter_key, (vocab_size,))
    symbol = jnp.arange(vocab_size)
    logits = jnp.where((symbol >= 1) & (symbol <= letters), logits, -jnp.inf)

    def chain(before: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        after = jax.random.categorical(key, logits[before])
        return after, after

    start = jnp.zeros((WORDS,), jnp.int32)
    return jax.lax.scan(chain, start, jax.random.split(chain_key, LONGEST))[1].T
