"""Prioritised replay of sequences, as pure functions.

Sequences of one fixed length, each with one stored carry and its own start flags; flashbax's
trajectory buffer stores a carry at every step and cannot hold that. Priorities are a flat array:
sampling is one cumulative sum and one binary search for the whole batch, and new priorities are
one scatter (a sum tree updates them one after the other).

Source: Schaul et al. (2016); Kapturowski et al. (2019).
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class ReplayState:
    """A ring of `capacity` items.

    Attributes:
      items: pytree with leaves `[capacity, ...]`.
      priorities: `float32[capacity]`, already raised to the priority exponent; 0 where empty.
      cursor: `int32[]`, next place to write.
      highest: `float32[]`, largest priority seen, which new items get.
    """

    items: Any
    priorities: jax.Array
    cursor: jax.Array
    highest: jax.Array

    @property
    def capacity(self) -> int:
        """The number of places."""
        return self.priorities.shape[0]


class ReplaySample(NamedTuple):
    """A batch: items `[B, ...]`, their `indices: int32[B]` and probabilities `float32[B]`."""

    items: Any
    indices: jax.Array
    probabilities: jax.Array


def init(item: Any, capacity: int) -> ReplayState:
    """An empty replay for items shaped like `item`.

    Raises:
      ValueError: if `capacity` is below 1.
    """
    if capacity < 1:
        raise ValueError(f"capacity = {capacity}: at least 1 is needed")
    items = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), item)
    return ReplayState(
        items,
        jnp.zeros(capacity, jnp.float32),
        jnp.zeros((), jnp.int32),
        jnp.ones((), jnp.float32),
    )


def add(replay: ReplayState, items: Any, valid: jax.Array | bool = True) -> ReplayState:
    """Writes items with leaves `[N, ...]` at the highest priority, over the oldest ones.

    Where `valid: bool[]` or `bool[N]` is false they get priority 0: their places count as empty.

    Raises:
      ValueError: if the capacity is not a multiple of N (so that no write wraps around).
    """
    count = jax.tree.leaves(items)[0].shape[0]
    if replay.capacity % count:
        raise ValueError(f"capacity = {replay.capacity} is not a multiple of {count} items")

    def write(old: jax.Array, new: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(old, new.astype(old.dtype), replay.cursor, 0)

    return dataclasses.replace(
        replay,
        items=jax.tree.map(write, replay.items, items),
        priorities=write(
            replay.priorities,
            jnp.broadcast_to(jnp.where(valid, replay.highest, 0), (count,)).astype(jnp.float32),
        ),
        cursor=(replay.cursor + count) % replay.capacity,
    )


def sample(key: jax.Array, replay: ReplayState, batch_size: int) -> ReplaySample:
    """Draws items with replacement, each with probability proportional to its priority.

    Stratified: one draw from each of `batch_size` equal parts of the total priority. An empty
    replay returns items of zeros with probability 0.
    """
    total = jnp.cumsum(replay.priorities)
    strata = jnp.arange(batch_size) + jax.random.uniform(key, (batch_size,), jnp.float32)
    points = strata / batch_size * total[-1]
    indices = jnp.searchsorted(total, points, side="right").astype(jnp.int32)
    last = jnp.argmax(jnp.where(replay.priorities > 0, jnp.arange(replay.capacity), -1))
    indices = jnp.minimum(indices, last.astype(jnp.int32))  # rounding at the upper end
    items = jax.tree.map(lambda x: x[indices], replay.items)
    probabilities = replay.priorities[indices] / jnp.maximum(total[-1], 1e-30)
    return ReplaySample(items, indices, probabilities)


def set_priorities(
    replay: ReplayState, indices: jax.Array, priorities: jax.Array, exponent: jax.Array | float
) -> ReplayState:
    """Sets the priorities of sampled items.

    Args:
      replay: the replay.
      indices: `int32[B]`.
      priorities: `float[B]`, positive.
      exponent: alpha, to which they are raised; 0 samples uniformly.

    Returns:
      The replay.
    """
    raised = jnp.power(priorities, exponent).astype(jnp.float32)
    return dataclasses.replace(
        replay,
        priorities=replay.priorities.at[indices].set(raised),
        highest=jnp.maximum(replay.highest, raised.max()),
    )


def importance_weights(
    replay: ReplayState, probabilities: jax.Array, exponent: jax.Array | float
) -> jax.Array:
    """(N p)^-beta, scaled so that the batch's largest is 1; `float32[B]`."""
    filled = (replay.priorities > 0).sum().astype(jnp.float32)
    weights = jnp.power(jnp.maximum(filled * probabilities, 1e-30), -exponent)
    return (weights / weights.max()).astype(jnp.float32)
