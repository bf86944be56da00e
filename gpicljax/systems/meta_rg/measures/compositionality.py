"""Measures of compositionality of messages: topographic similarity, posdis, bosdis.

Messages and meanings are tables of N rows that belong together, from any speaker: a rule, an agent
that learns, a language model. All three measures run under `jit` and `vmap`; `counts` says how
often each row occurs, so that one program serves all parts of a space (a row that occurs 0 times is
left out), and thousands of repetitions cost no more than the rows that differ. Shuffled messages
(`messages[permutation]`) give the null of each measure.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from gpicljax.checks import check, check_choice
from gpicljax.systems.meta_rg.measures.information import (
    as_counts,
    as_table,
    entropy,
    joint,
    mean_where,
    mutual_information,
    num_levels,
    two_greatest,
)

Distance = Literal["edit", "hamming"]

_BLOCK = 512  # rows compared with as many others at once
_PARTS = 4  # of a block, counted one after the other
_UNROLLED = 16  # length of messages up to which the edit distance is one loop over pairs


def edit_distance(a: jax.Array, b: jax.Array) -> jax.Array:
    """Levenshtein's distance: the fewest insertions, deletions and replacements from `a` to `b`.

    Args:
      a: `int[..., L]`, tokens; leading axes broadcast.
      b: `int[..., M]`, tokens. All of them count: padding is part of a message.

    Returns:
      `int32[...]` in 0 .. max(L, M).

    Source: Levenshtein (1966); the table of Wagner & Fischer (1974), a row at a time.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    length, width = a.shape[-1], b.shape[-1]
    dtype = jnp.int8 if max(length, width) < 127 else jnp.int32
    shape = jnp.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    unit = jnp.ones((), dtype)

    def next_row(i: Any, above: list[jax.Array]) -> list[jax.Array]:
        token = jax.lax.dynamic_index_in_dim(a, i, -1, keepdims=False)
        row = [jnp.full(shape, i + 1, dtype)]
        for j in range(width):
            replaced = above[j] + (token != b[..., j]).astype(dtype)
            row.append(jnp.minimum(jnp.minimum(above[j + 1], row[j]) + unit, replaced))
        return row

    row = [jnp.full(shape, j, dtype) for j in range(width + 1)]
    if length > _UNROLLED:
        row = jax.lax.fori_loop(0, length, next_row, row)
    else:
        for i in range(length):
            row = next_row(i, row)
    return row[-1].astype(jnp.int32)


def hamming_distance(a: jax.Array, b: jax.Array) -> jax.Array:
    """At how many places two rows differ.

    Args:
      a: `[..., L]`; leading axes broadcast.
      b: `[..., L]`.

    Returns:
      `int32[...]` in 0 .. L.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    dtype = jnp.int8 if a.shape[-1] < 127 else jnp.int32
    differ = [(a[..., i] != b[..., i]).astype(dtype) for i in range(a.shape[-1])]
    return sum(differ, jnp.zeros((), dtype)).astype(jnp.int32)


_DISTANCES = {"edit": edit_distance, "hamming": hamming_distance}


def topographic_similarity(
    messages: ArrayLike,
    meanings: ArrayLike,
    *,
    counts: ArrayLike | None = None,
    message_distance: Distance = "edit",
) -> jax.Array:
    """Spearman's correlation of the messages' distances and the meanings' distances.

    Meanings are compared by Hamming distance: how many of their values differ. Both distances are
    small integers, so that pairs are counted and not sorted: all 50 million of 10,000 messages of
    length 3 take a quarter of a second on one core, of length 10 about one.

    Args:
      messages: `int[N, L]`, tokens. All of them count: messages that end early are filled up with
        one token, such as 0, which the edit distance takes for any other.
      meanings: `int[N, D]`, the latent values that row i of `messages` speaks of.
      counts: `int[N]`, how often each row occurs; once by default. Two occurrences of one row are a
        pair, of distance 0.
      message_distance: `"edit"` (Levenshtein) or `"hamming"`.

    Returns:
      Float `[]` in [-1, 1], in JAX's default float type; NaN if all messages, or all meanings, are
      equal, or fewer than two rows occur.

    Raises:
      ValueError: if a table has fewer than two rows or no column, or the numbers of rows differ.

    Source: Brighton & Kirby (2006); Table 1 of the Meta-Referential Games paper, whose 96.7 is this
    measure with the edit distance, unnormalised.

    Example:
      >>> import itertools
      >>> meanings = list(itertools.product(range(3), range(3)))
      >>> messages = [[a + 1, b + 4] for a, b in meanings]
      >>> print(f"{topographic_similarity(messages, meanings):.3f}")
      1.000
    """
    tokens, values = as_table("messages", messages), as_table("meanings", meanings)
    _check_rows(tokens, values)
    check_choice("message_distance", message_distance, _DISTANCES)
    occur = as_counts(counts, tokens.shape[0])
    return _similarity(_count_all(tokens, values, occur, message_distance))


def _check_rows(messages: jax.Array, meanings: jax.Array) -> None:
    num_messages, num_meanings = messages.shape[0], meanings.shape[0]
    check(
        num_meanings == num_messages,
        "meanings",
        f"{num_meanings} rows",
        f"the {num_messages} rows of messages",
    )


def _cells(
    messages: tuple[jax.Array, jax.Array], meanings: tuple[jax.Array, jax.Array], distance: Distance
) -> jax.Array:
    """Returns the place of each pair in the table of distances `[L + 1, D + 1]`, `int32[...]`."""
    width = meanings[0].shape[-1] + 1
    return _DISTANCES[distance](*messages) * width + hamming_distance(*meanings)


@functools.partial(jax.jit, static_argnames="distance")
def _count_all(
    messages: jax.Array, meanings: jax.Array, counts: jax.Array, distance: Distance
) -> jax.Array:
    """Counts the ordered pairs with each two distances, float `[L + 1, D + 1]`."""
    dtype = jnp.result_type(float)
    rows = messages.shape[0]
    size = min(-(-rows // _PARTS) * _PARTS, _BLOCK)
    num_blocks = -(-rows // size)
    fill = num_blocks * size - rows
    blocks = [
        jnp.pad(x, ((0, fill),) + ((0, 0),) * (x.ndim - 1)).reshape(num_blocks, size, *x.shape[1:])
        for x in (messages, meanings, counts)
    ]
    shape = messages.shape[1] + 1, meanings.shape[1] + 1
    number = math.prod(shape)
    # Blocks of rows with blocks of rows, each pair of blocks once: two different ones count twice.
    left, right = np.triu_indices(num_blocks)

    def count(pair: tuple[jax.Array, jax.Array]) -> jax.Array:
        block_tokens, meant, occur = ([x[i] for i in pair] for x in blocks)

        # A loop, before which what it reads is laid out: the compiler then uses its vectors.
        def add(i: jax.Array, partial_histogram: jax.Array) -> jax.Array:
            part = (
                jax.lax.dynamic_slice_in_dim(x[0], i * part_size, part_size)
                for x in (block_tokens, meant, occur)
            )
            tokens, values, often = part
            cells = _cells(
                (tokens[:, None], block_tokens[1][None]),
                (values[:, None], meant[1][None]),
                distance,
            )
            # Integers, column by column: exact, and no two threads wait long for one cell.
            return partial_histogram.at[jnp.arange(size), cells].add(often[:, None])

        part_size = size // _PARTS
        histogram = jax.lax.fori_loop(0, _PARTS, add, jnp.zeros((size, number), jnp.int32))
        histogram = jnp.matmul(occur[1].astype(dtype), histogram.astype(dtype), precision="highest")
        return jnp.where(pair[0] == pair[1], histogram, 2 * histogram)

    table = jax.lax.map(count, (jnp.asarray(left), jnp.asarray(right))).sum(0)
    # A row was paired with itself counts² times, of which counts (counts - 1) are pairs.
    table = table.at[0].add(-counts.sum().astype(dtype))
    return table.reshape(shape)


@jax.jit
def _similarity(table: jax.Array) -> jax.Array:
    """Spearman's correlation of two integers, of how often they occur together: `[X, Y]`."""
    table = table / table.sum()
    # Middle ranks as shares, whose mean is 1/2 whatever the ties.
    shares = table.sum(1), table.sum(0)
    ranks = [jnp.cumsum(share) - share / 2 - 0.5 for share in shares]
    spread = [(share * rank**2).sum() for share, rank in zip(shares, ranks, strict=True)]
    certain = (shares[0].max() >= 1) | (shares[1].max() >= 1)
    together = jnp.einsum("x,xy,y", ranks[0], table, ranks[1], precision="highest")
    return jnp.where(certain, jnp.nan, together / jnp.sqrt(spread[0] * spread[1]))


def posdis(
    messages: ArrayLike,
    meanings: ArrayLike,
    *,
    counts: ArrayLike | None = None,
    vocab_size: int | None = None,
    num_values: int | None = None,
) -> jax.Array:
    """Positional disentanglement: how far each position of a message tells of one value only.

    For position j: (I_1 - I_2) / H, where I_1 and I_2 are the two greatest mutual informations of
    its token with a latent value, and H is the entropy of its token. The measure is the mean over
    the positions whose token varies.

    Args:
      messages: `int[N, L]`, tokens 0 .. vocab_size - 1.
      meanings: `int[N, D]`, D >= 2, latent values 0 .. num_values - 1.
      counts: `int[N]`, how often each row occurs; once by default.
      vocab_size: tokens there are, the end of sentence included; from `messages` by default, which
        `jit` and `vmap` of `messages` do not allow.
      num_values: values there are at most in a dimension; from `meanings` by default.

    Returns:
      Float `[]` in [0, 1]; NaN if all messages, or all meanings, are equal, or no row occurs.
      Information is that of the counts as they are: small samples bias I_2, and with it the
      measure.

    Raises:
      ValueError: if a table has fewer than two rows, `meanings` fewer than two columns, the numbers
        of rows differ, or a token or value is out of range.

    Source: Chaabouni et al. (2020), equation 1; Table 1 of the Meta-Referential Games paper.

    Example:
      >>> import itertools
      >>> meanings = list(itertools.product(range(3), range(3)))
      >>> print(f"{posdis([[b, a] for a, b in meanings], meanings):.3f}")
      1.000
    """
    table, values, occur, tokens, levels = _as_language(
        messages, meanings, counts, vocab_size, num_values
    )
    return _disentanglement_score(table, tokens, values, levels, occur)


def bosdis(
    messages: ArrayLike,
    meanings: ArrayLike,
    *,
    counts: ArrayLike | None = None,
    vocab_size: int | None = None,
    num_values: int | None = None,
) -> jax.Array:
    """Bag-of-symbols disentanglement: how far each token's number tells of one value only.

    As `posdis`, of how often each token of the vocabulary occurs in a message in place of which
    token stands at each position: for languages whose words may be anywhere.

    Args:
      messages: `int[N, L]`, tokens 0 .. vocab_size - 1.
      meanings: `int[N, D]`, D >= 2, latent values 0 .. num_values - 1.
      counts: `int[N]`, how often each row occurs; once by default.
      vocab_size: tokens there are; from `messages` by default. Tokens whose number does not vary do
        not count, so that it may be too great.
      num_values: values there are at most in a dimension; from `meanings` by default.

    Returns:
      Float `[]` in [0, 1]; NaN if no token's number varies, all meanings are equal, or no row
      occurs.

    Raises:
      ValueError: as `posdis`.

    Source: Chaabouni et al. (2020), equation 2; Table 1 of the Meta-Referential Games paper.

    Example:
      >>> import itertools
      >>> meanings = list(itertools.product(range(2), range(2)))
      >>> anywhere = [[2 * b + 1, 4 * a + 2] for a, b in meanings]
      >>> print(f"{bosdis(anywhere, meanings):.3f}")
      1.000
    """
    table, values, occur, tokens, levels = _as_language(
        messages, meanings, counts, vocab_size, num_values
    )
    numbers = (table[:, :, None] == np.arange(tokens, dtype=np.int32)).sum(1, dtype=jnp.int32)
    return _disentanglement_score(numbers, table.shape[1] + 1, values, levels, occur)


def _as_language(
    messages: ArrayLike,
    meanings: ArrayLike,
    counts: ArrayLike | None,
    vocab_size: int | None,
    num_values: int | None,
) -> tuple[jax.Array, jax.Array, jax.Array, int, int]:
    table, values = as_table("messages", messages), as_table("meanings", meanings, columns=2)
    _check_rows(table, values)
    return (
        table,
        values,
        as_counts(counts, table.shape[0]),
        num_levels("vocab_size", vocab_size, "messages", table),
        num_levels("num_values", num_values, "meanings", values),
    )


@functools.partial(jax.jit, static_argnames=("levels", "num_values"))
def _disentanglement_score(
    variables: jax.Array, levels: int, meanings: jax.Array, num_values: int, counts: jax.Array
) -> jax.Array:
    """The mean over varying `variables: int32[N, A]` of what they tell of one value only."""
    table = joint(variables, levels, meanings, num_values, counts)
    most, second = two_greatest(mutual_information(table), axis=1)
    nats = entropy(table[:, 0].sum(-1))
    varies = nats > 0
    share = mean_where((most - second) / jnp.where(varies, nats, 1), varies)
    meanings_vary = (entropy(table[0].sum(-2)) > 0).any()
    return jnp.where(meanings_vary, share, jnp.nan)
