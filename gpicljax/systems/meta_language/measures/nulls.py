"""Predictors that start from nothing with every text: the nulls that trained models are held to.

Adaptive n-grams count, a softmax regression learns a table of logits for each of the latest tokens,
a mixture weighs them all by how well they have predicted the text so far, and an online memory does
all of this with rates that its authors chose. None is trained, and none has information about the
language.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike, NDArray

from gpicljax.checks import check_array, check_at_least
from gpicljax.networks.contract import Network, as_network
from gpicljax.networks.online_memory import OnlineMemory
from gpicljax.typing import ArrayTree

ORDERS = 6
"""The n-grams look at 0 .. 5 tokens."""
SLOTS = 7
"""Tokens that the softmax regression looks at: all that can matter in a language of n = 8."""
REGRESSIONS = ((0.4, 0.55), (0.4, 0.8), (0.8, 0.55), (0.8, 0.8))
"""Learning rate of the newest token's table, and by what it falls with each token further back."""
SHARE = 0.05
"""Share of the mixture's weights that is spread anew after every token."""
GROUP = 8
"""Sequences that a network reads at a time."""
BLOCK = 64
"""Texts that are counted at a time, which bounds the memory of the tables."""


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
    return adaptive_ngrams(tokens, order, vocab_size)[-1]


def adaptive_ngrams(tokens: ArrayLike, order: int, vocab_size: int) -> NDArray[np.float64]:
    """Nats per token of `adaptive_ngram` for all orders to `order`: `float64[order + 1, N, T]`."""
    x = np.asarray(tokens)
    whole = x.ndim == 2 and x.shape[1] >= 2
    check_array(whole, "tokens", x, "int[N, T + 1] with T of at least 1")
    check_at_least(0, order=order)
    x = x.astype(np.int64)
    if x.min() < 0 or x.max() >= vocab_size:
        raise ValueError(f"tokens: got {x.min()} to {x.max()}; accepted: 0 to {vocab_size - 1}")
    blocks = [_adaptive_nats(x[i : i + BLOCK], order, vocab_size) for i in range(0, len(x), BLOCK)]
    return np.concatenate(blocks, axis=1)


def _adaptive_nats(x: NDArray[np.int64], order: int, vocab_size: int) -> NDArray[np.float64]:
    """Returns the result of `adaptive_ngrams` for checked tokens."""
    count, length = x.shape[0], x.shape[1] - 1
    instance = np.arange(count)
    contexts = _context_numbers(x, order)
    tables = [np.zeros((count, numbers.max() + 1, vocab_size), np.uint16) for numbers in contexts]
    chances = np.empty((order + 1, count, length))
    for t in range(length):
        following = x[:, t + 1]
        chance = np.full(count, 1 / vocab_size)
        for k, (numbers, table) in enumerate(zip(contexts, tables, strict=True)):
            if t + 1 >= k:  # else there are no k tokens yet
                place = instance, numbers[:, t]
                counts = table[place]
                kinds = (counts > 0).sum(-1)
                total = counts.sum(-1, dtype=np.int64)
                blended = (counts[instance, following] + kinds * chance) / np.maximum(
                    total + kinds, 1
                )
                chance = np.where(total > 0, blended, chance)
                table[(*place, following)] += 1
            chances[k, :, t] = chance
    return -np.log(chances)


def _context_numbers(x: NDArray[np.int64], order: int) -> list[NDArray[np.int64]]:
    """Returns, for k up to `order`, numbers of the last k tokens before each token, `[N, T]`.

    They are equal in a sequence where these tokens are.
    """
    length, kinds = x.shape[1] - 1, x.max() + 2
    contexts = [np.zeros((x.shape[0], length), np.int64)]
    for back in range(order):
        # What lies before the sequence is like no token.
        earlier = np.zeros_like(contexts[0])
        earlier[:, back:] = x[:, : length - back] + 1
        pairs = contexts[-1] * kinds + earlier
        contexts.append(np.stack([np.unique(row, return_inverse=True)[1] for row in pairs]))
    return contexts


def next_token_chances(tokens: ArrayLike, order: int, vocab_size: int) -> NDArray[np.float64]:
    """Returns the predictions of `adaptive_ngram` after a text int `[T]`: `float64[vocab_size]`."""
    x = np.asarray(tokens, np.int64)
    chances = np.full(vocab_size, 1 / vocab_size)
    after = np.ones(len(x), bool)  # the places whose last k tokens before them are the text's last
    for k in range(min(order, len(x)) + 1):
        if k:
            after[:k] = False
            after[k:] &= x[: len(x) - k] == x[-k]
        counts = np.bincount(x[1:][after[1:]], minlength=vocab_size)
        kinds = np.count_nonzero(counts)
        if kinds:
            chances = (counts + kinds * chances) / (counts.sum() + kinds)
    return chances


@functools.partial(jax.jit, static_argnames=("slots", "vocab_size"))
def softmax_regression(
    tokens: jax.Array, rate: float, decay: float, slots: int, vocab_size: int
) -> jax.Array:
    """Nats per token of a softmax regression that learns as it goes.

    The logits of the next token are a sum of tables, one for each of the latest `slots` tokens, as
    they are in a language, but of unknown order. They start at 0. After each token the rows
    that were used take a step down the gradient of its nats.

    Args:
      tokens: int `[N, T + 1]`; the first token of a sequence is given, and before it is nothing.
      rate: step size for the newest token's table.
      decay: the step size of each table is so many times that of the token after it.
      slots: tokens that are looked at.
      vocab_size: V.

    Returns:
      Float `[N, T]`.
    """
    ages = jnp.arange(slots)
    rates = rate * decay ** ages[:, None]

    def one(text: jax.Array) -> jax.Array:
        def step(state: tuple[jax.Array, jax.Array], token: jax.Array) -> tuple[Any, jax.Array]:
            tables, context = state
            log_probs = jax.nn.log_softmax(tables[ages, context].sum(0))
            slope = jnp.exp(log_probs) - jax.nn.one_hot(token, vocab_size)
            tables = tables.at[ages, context].add(-rates * slope)
            return (tables, jnp.append(token, context[:-1])), -log_probs[token]

        # A row of its own stands for what lies before the text.
        tables = jnp.zeros((slots, vocab_size + 1, vocab_size))
        context = jnp.full(slots, vocab_size, jnp.int32).at[0].set(text[0])
        return jax.lax.scan(step, (tables, context), text[1:])[1]

    return jax.vmap(one)(tokens.astype(jnp.int32))


def mixture(nats: ArrayLike, share: float = SHARE) -> NDArray[np.float64]:
    """Nats per token of several predictors together, weighed by their predictions so far.

    Their probabilities are averaged with weights that start equal. After each token a predictor's
    weight is multiplied by the probability that it gave the token; then `share` of all weights is
    spread equally, so that a predictor that was bad at first can come back.

    Args:
      nats: `float[K, N, T]` of K predictors.
      share: in [0, 1).

    Returns:
      `float64[N, T]`.

    Source: the fixed share of Herbster & Warmuth (1998).
    """
    x = np.moveaxis(np.asarray(nats, np.float64), -1, 0)
    weights = np.full(x.shape[1:], 1 / x.shape[1])
    mixed = np.empty((x.shape[0], x.shape[2]))
    for t, step_nats in enumerate(x):
        best = step_nats.min(0)  # taken out, so that nothing underflows
        joint = weights * np.exp(best - step_nats)
        total = joint.sum(0)
        mixed[t] = best - np.log(total)
        weights = (1 - share) * joint / total + share / len(step_nats)
    return mixed.T


def chosen_elsewhere(nats: NDArray[Any], part: slice) -> NDArray[np.int64]:
    """Returns the predictor of each sequence that is best on others of its kind: `int64[N]`.

    Sequences at even places get the best of those at odd places, and the other way round.

    Args:
      nats: float `[K, N, T]` of K predictors, N >= 2.
      part: positions over which the mean is taken.
    """
    means = nats[:, :, part].mean(-1, dtype=np.float64)
    by_parity = [means[:, parity::2].mean(-1).argmin() for parity in (0, 1)]
    return np.asarray(by_parity)[1 - np.arange(nats.shape[1]) % 2]


def continued_by_counting(
    prompts: NDArray[Any],
    length: int,
    order: int,
    vocab_size: int,
    temperature: float,
) -> NDArray[np.int64]:
    """Continues prompts int `[N, T]` as the `adaptive_ngram` expects, which goes on counting.

    Args:
      prompts: the texts so far.
      length: tokens to draw.
      order: of the n-gram.
      vocab_size: V.
      temperature: the chances are raised to the power of 1 / temperature.

    Returns:
      `int64[N, length]`.
    """
    draw, total = np.random.default_rng(0), prompts.shape[1]
    texts = np.concatenate([prompts, np.zeros((len(prompts), length), np.int64)], axis=1)
    for text in texts:
        for t in range(total, total + length):
            chances = next_token_chances(text[:t], order, vocab_size) ** (1 / temperature)
            text[t] = draw.choice(vocab_size, p=chances / chances.sum())
    return texts[:, total:]


def nats_by(network: Network, params: ArrayTree, tokens: jax.Array) -> jax.Array:
    """Returns a network's nats of each token but the first.

    Args:
      network: from tokens to logits of the next one.
      params: its parameters.
      tokens: int `[N, T + 1]`.

    Returns:
      Float `[N, T]`.
    """
    count = tokens.shape[0]
    padded = jnp.pad(tokens, ((0, -count % GROUP), (0, 0)))

    def some(tokens: jax.Array) -> jax.Array:
        tokens = tokens.T.astype(jnp.int32)
        logits, _ = network.unroll(params, None, tokens[:-1], None)
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[1:]).T

    nats = jax.lax.map(some, padded.reshape(-1, GROUP, tokens.shape[1]))
    return nats.reshape(-1, nats.shape[-1])[:count]


@functools.partial(jax.jit, static_argnums=1)
def untrained_online_memory(tokens: jax.Array, vocab_size: int) -> jax.Array:
    """Returns the nats, float `[N, T]`, of an online memory with the rates that it starts from.

    It shows what there is before any training, as its gate then weighs experts by their losses
    alone.

    Args:
      tokens: int `[N, T + 1]`.
      vocab_size: V.
    """
    network = as_network(OnlineMemory(vocab_size))
    params = network.init(jax.random.key(0), tokens[:1, 0].astype(jnp.int32))
    return nats_by(network, params, tokens)


class Nulls(NamedTuple):
    """Nats per token of all predictors that need no training, on the same sequences.

    Attributes:
      ngrams: `float64[ORDERS, N, T]`, of adaptive n-grams that look at 0, 1, .. tokens.
      regressions: `float64[len(REGRESSIONS), N, T]`, of softmax regressions.
      mixture: `float64[N, T]`, of all of these together.
      online: `float64[N, T]`, of an online memory that is not trained.
    """

    ngrams: NDArray[np.float64]
    regressions: NDArray[np.float64]
    mixture: NDArray[np.float64]
    online: NDArray[np.float64]


def nulls(tokens: NDArray[Any], vocab_size: int) -> Nulls:
    """Runs all predictors on sequences int `[N, T + 1]`."""
    ngrams = adaptive_ngrams(tokens, ORDERS - 1, vocab_size)
    by_rate = [softmax_regression(tokens, *rates, SLOTS, vocab_size) for rates in REGRESSIONS]
    regressions = np.asarray(by_rate, np.float64)
    mixed = mixture(np.concatenate([ngrams, regressions]))
    online = np.asarray(untrained_online_memory(jnp.asarray(tokens), vocab_size), np.float64)
    return Nulls(ngrams, regressions, mixed, online)
