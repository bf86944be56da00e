"""Followers of the latest 0, 1, 2 ... tokens: counts, predictions that blend them, the last one.

Longer contexts lie in hash tables of a fixed size. A context is told from another one on the same
row by 32 bits; the newer one takes the row, and the older one's counts are lost.

Source: the blending of orders is Witten & Bell (1991), method C, as an interpolation; how much
weight a lower order gets is a learnt function of the counts here.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.networks.tagged_rows import TaggedRows, empty_rows, read_rows, write_rows

COUNT_FEATURES = 4
"""Numbers that describe the counts of a context, see `describe_counts`."""


class CountFeatures(NamedTuple):
    """Numbers about the counts of contexts, float `[...]` each.

    Attributes:
      total: tokens that followed.
      kinds: different ones among them.
      singles: those that followed once.
    """

    total: jax.Array
    kinds: jax.Array
    singles: jax.Array


def empty_counts(batch: int, orders: int, vocab_size: int, slots: int) -> TaggedRows:
    """Returns the counts of nothing; see `context_rows`."""
    return empty_rows(batch, _row_count(orders, vocab_size, slots), (vocab_size,))


def empty_followers(batch: int, orders: int, vocab_size: int, slots: int) -> TaggedRows:
    """Returns the table of `last_followers` before anything is read."""
    rows = jnp.zeros((batch, _row_count(orders, vocab_size, slots)), jnp.int32)
    return TaggedRows(rows, jnp.zeros_like(rows, jnp.uint32))


def _row_count(orders: int, vocab_size: int, slots: int) -> int:
    return 2 + vocab_size + (orders - 1) * slots


def context_rows(
    window: jax.Array, trial: jax.Array, orders: int, vocab_size: int, slots: int
) -> tuple[jax.Array, jax.Array]:
    """Returns the rows and tags of contexts of 0 .. orders tokens, `[T, B, orders + 1]` each.

    Args:
      window: `int32[T, B, A]`, the latest tokens, the newest first; V where there was none.
      trial: `uint32[T, B]`, a number of the trial, from 1 on.
      orders: of the longest context, 1 .. A.
      vocab_size: V.
      slots: rows of the hash table of each longer context.
    """
    newest = window[..., 0]
    rows, tags = [jnp.zeros_like(newest), 1 + newest], [trial, trial]
    code = newest.astype(jnp.uint32)
    for age in range(1, orders):
        code = code * jnp.uint32(0x9E3779B1) + window[..., age].astype(jnp.uint32) + 1
        context = _scramble(code + jnp.uint32(age))
        slot = (context % jnp.uint32(slots)).astype(jnp.int32)
        rows.append(2 + vocab_size + (age - 1) * slots + slot)
        tags.append(_scramble(context + trial))
    return jnp.stack(rows, -1), jnp.stack(tags, -1)


def _scramble(code: jax.Array) -> jax.Array:
    """Returns 32 bits all of which depend on all of those given (the finaliser of MurmurHash3)."""
    code = (code ^ (code >> 16)) * jnp.uint32(0x85EBCA6B)
    code = (code ^ (code >> 13)) * jnp.uint32(0xC2B2AE35)
    return code ^ (code >> 16)


def count_followers(
    table: TaggedRows, rows: jax.Array, tags: jax.Array, targets: jax.Array
) -> tuple[jax.Array, TaggedRows]:
    """Counts token by token what follows.

    Args:
      table: the counts before.
      rows: `int32[T, B, K]`, of K contexts at each step.
      tags: `uint32[T, B, K]`.
      targets: `int32[T, B]`, what followed; negative where it is not known.

    Returns:
      Float `[T, B, K, V]`, the counts before each step, without a gradient; and the table.
    """

    def tick(table: TaggedRows, step: tuple[jax.Array, ...]) -> tuple[TaggedRows, jax.Array]:
        index, tag, target = step
        counts, _ = read_rows(table, index, tag)
        new = jax.nn.one_hot(target, counts.shape[-1], dtype=counts.dtype)[:, None]
        return write_rows(table, index, tag, counts + new), counts

    after, counts = jax.lax.scan(tick, table, (rows, tags, targets))
    return jax.lax.stop_gradient(counts), after


def last_followers(
    table: TaggedRows, rows: jax.Array, tags: jax.Array, tokens: jax.Array, nothing: int
) -> tuple[jax.Array, TaggedRows]:
    """Returns what followed contexts the last time that they were read.

    Args:
      table: the followers before, values `int32[B, R]`.
      rows: `int32[T + 1, B, K]`, of the contexts before the first token, and after each.
      tags: `uint32[T + 1, B, K]`.
      tokens: `int32[T, B]`.
      nothing: stands where a context is new.

    Returns:
      `int32[T, B, K]`, of the contexts after each token; and the table.
    """

    def tick(table: TaggedRows, step: tuple[jax.Array, ...]) -> tuple[TaggedRows, jax.Array]:
        row, tag, token, next_row, next_tag = step
        table = write_rows(table, row, tag, jnp.broadcast_to(token[:, None], row.shape))
        follower, is_known = read_rows(table, next_row, next_tag)
        return table, jnp.where(is_known, follower, nothing)

    steps = rows[:-1], tags[:-1], tokens.astype(jnp.int32), rows[1:], tags[1:]
    table, followers = jax.lax.scan(tick, table, steps)
    return followers, table


def describe_counts(counts: jax.Array) -> CountFeatures:
    """Returns totals and kinds of counts float `[..., V]`."""
    seen, once = counts > 0, counts == 1
    return CountFeatures(*(x.sum(-1).astype(counts.dtype) for x in (counts, seen, once)))


def blend_orders(
    counts: jax.Array, features: CountFeatures, weights: jax.Array, biases: jax.Array
) -> jax.Array:
    """Returns the predictions of all orders, each blended with those of the lower ones.

    With weights of 0 an order's share is its total over total + kinds (method C).

    Args:
      counts: float `[..., K, V]`, from order 0 on.
      features: of the counts, `[..., K]` each.
      weights: float `[K, 4]`, by which numbers about an order's counts change that share.
      biases: float `[K]`, likewise.

    Returns:
      Log-probabilities, float `[..., K, V]`.
    """
    total, kinds, singles = features
    described = [jnp.log1p(total), jnp.log1p(kinds), jnp.log1p(singles), kinds / (total + 1)]
    backing = kinds * jnp.exp((jnp.stack(described, -1) * weights).sum(-1) + biases)
    chances = jnp.full(counts.shape[:-2] + counts.shape[-1:], 1 / counts.shape[-1], counts.dtype)
    by_order = []
    for order in range(counts.shape[-2]):
        n, d = total[..., order, None], backing[..., order, None]
        known = (counts[..., order, :] + d * chances) / jnp.where(n > 0, n + d, 1)
        chances = jnp.where(n > 0, known, chances)
        by_order.append(chances)
    return jnp.log(jnp.stack(by_order, -2))
