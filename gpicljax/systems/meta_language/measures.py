"""What a language can be told from its context without having learnt to learn: adaptive n-grams.

A model of a new language is compared with them at every position: they start from nothing, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpicljax.checks import check_array, check_at_least

__all__ = ["adaptive_ngram"]


def adaptive_ngram(tokens: ArrayLike, order: int, vocab_size: int) -> NDArray[np.float64]:
    """Nats per token of an n-gram model that counts as it goes, blended over all lower orders.

    At each position the distribution after the last k tokens is
    p_k(x) = (c_k(x) + d_k p_{k-1}(x)) / (n_k + d_k), from the counts c_k so far of what followed
    the same k tokens, their sum n_k and the number d_k of different ones among them; p_{-1} is
    uniform. Where nothing has followed yet, p_k = p_{k-1}. Each token is counted after it has been
    predicted.

    Args:
      tokens: int `[N, T + 1]`; the first token of a sequence is given, not predicted.
      order: k of the longest context; 0 predicts by frequency alone (a unigram).
      vocab_size: V.

    Returns:
      `float64[N, T]`, -log p of each predicted token.

    Raises:
      ValueError: if `tokens` has another shape or values outside the vocabulary, or `order` < 0.

    Source: Witten & Bell (1991), method C, as an interpolation; the blending of orders is that of
    prediction by partial matching (Cleary & Witten, 1984).

    Example:
      >>> import numpy as np
      >>> text = np.tile([0, 1, 2], 30)[None]
      >>> nats = adaptive_ngram(text, order=1, vocab_size=3)
      >>> nats.shape, bool(nats[0, -1] < 0.2)
      ((1, 89), True)
    """
    x = np.asarray(tokens)
    whole = x.ndim == 2 and x.shape[1] >= 2
    check_array(whole, "tokens", x, "int[N, T + 1] with T of at least 1")
    check_at_least(0, order=order)
    x = x.astype(np.int64)
    if x.min() < 0 or x.max() >= vocab_size:
        raise ValueError(f"tokens: got {x.min()} to {x.max()}; accepted: 0 to {vocab_size - 1}")
    count, length = x.shape[0], x.shape[1] - 1
    instance = np.arange(count)
    contexts = [_context_numbers(x, k) for k in range(order + 1)]
    tables = [np.zeros((count, numbers.max() + 1, vocab_size), np.uint16) for numbers in contexts]
    nats = np.empty((count, length))
    for t in range(length):
        following = x[:, t + 1]
        chance = np.full(count, 1 / vocab_size)
        for k, (numbers, table) in enumerate(zip(contexts, tables, strict=True)):
            if t + 1 < k:
                break  # there are no k tokens yet
            place = instance, numbers[:, t]
            counts = table[place]
            kinds = (counts > 0).sum(-1)
            seen = counts.sum(-1, dtype=np.int64)
            blended = (counts[instance, following] + kinds * chance) / np.maximum(seen + kinds, 1)
            chance = np.where(seen > 0, blended, chance)
            table[(*place, following)] += 1
        nats[:, t] = -np.log(chance)
    return nats


def _context_numbers(x: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Numbers of the last k tokens before each predicted one, equal where these are: `[N, T]`."""
    length = x.shape[1] - 1
    numbers = np.zeros((x.shape[0], length), np.int64)
    for back in range(k):
        # What lies before the sequence is like no token.
        earlier = np.full_like(numbers, -1)
        earlier[:, back:] = x[:, : length - back]
        pairs = np.stack([numbers, earlier], axis=-1)
        for i, row in enumerate(pairs):
            numbers[i] = np.unique(row, axis=0, return_inverse=True)[1].ravel()
    return numbers
