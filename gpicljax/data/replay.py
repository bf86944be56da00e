"""Replay as pure functions: prioritised, and a uniform one behind the interface `Replay`.

Prioritised replay holds sequences of one fixed length, each with one stored carry and its own start
flags; flashbax's trajectory buffer stores a carry at every step and cannot hold that. Priorities
are a flat array: sampling is one cumulative sum and one binary search for the whole batch, and new
priorities are one scatter (a sum tree updates them one after the other).

`Replay` is what learners without priorities ask of whatever stores their transitions. `uniform` is
the plain one; it costs nothing that grows with its capacity.

Source: Schaul et al. (2016); Kapturowski et al. (2019).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.batching import any_across_vmap, first_reaching
from gpicljax.checks import check
from gpicljax.typing import ArrayTree


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


def init(item: ArrayTree, capacity: int) -> ReplayState:
    """Returns an empty replay for items shaped like `item`.

    Raises:
      ValueError: if `capacity` is below 1.
    """
    check(capacity >= 1, "capacity", capacity, "an integer >= 1")
    items = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), item)
    return ReplayState(
        items,
        jnp.zeros(capacity, jnp.float32),
        jnp.zeros((), jnp.int32),
        jnp.ones((), jnp.float32),
    )


def add(replay: ReplayState, items: ArrayTree, valid: jax.Array | bool = True) -> ReplayState:
    """Writes items with leaves `[N, ...]` at the highest priority, over the oldest ones.

    Where `valid: bool[]` or `bool[N]` is false they get priority 0: their places count as empty.

    Raises:
      ValueError: if the capacity is not a multiple of N (so that no write wraps around).
    """
    count = jax.tree.leaves(items)[0].shape[0]
    accepted_values = f"a multiple of the {count} items added"
    check(replay.capacity % count == 0, "capacity", replay.capacity, accepted_values)

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

    Stratified: one draw from each of `batch_size` equal parts of the total priority. Items of
    priority 0 are never drawn. An empty replay returns items of zeros with probability 0.
    """
    total = jnp.cumsum(replay.priorities)
    strata = jnp.arange(batch_size) + jax.random.uniform(key, (batch_size,), jnp.float32)
    points = strata / batch_size * total[-1]
    indices = first_reaching(total, points, side="right")
    indices = _filled_place(replay.priorities, jnp.minimum(indices, replay.capacity - 1))
    items = jax.tree.map(lambda x: x[indices], replay.items)
    probabilities = replay.priorities[indices] / jnp.maximum(total[-1], 1e-30)
    return ReplaySample(items, indices, probabilities)


def _filled_place(priorities: jax.Array, indices: jax.Array) -> jax.Array:
    """The nearest places up to these that have a priority, else the first that has, `int32[B]`.

    Rounded sums neither rise steadily nor stand still at an empty place, so that one draw of a
    hundred thousand meets one. Only then does a CPU look at all places.
    """

    def nearest(priorities: jax.Array, indices: jax.Array) -> jax.Array:
        filled = priorities > 0
        places = jnp.arange(priorities.shape[0], dtype=jnp.int32)
        before = jax.lax.cummax(jnp.where(filled, places, -1))[indices]
        return jnp.where(before < 0, jnp.argmax(filled).astype(jnp.int32), before)

    def where_met(priorities: jax.Array, indices: jax.Array) -> jax.Array:
        met = (priorities[indices] <= 0).any()
        return jax.lax.while_loop(
            lambda loop: any_across_vmap(loop[0]),
            lambda loop: (jnp.zeros((), bool), nearest(priorities, loop[1])),
            (met, indices),
        )[1]

    # To ask whether one was met takes an accelerator longer than to look.
    return jax.lax.platform_dependent(priorities, indices, cpu=where_met, default=nearest)


def set_priorities(
    replay: ReplayState, indices: jax.Array, priorities: jax.Array, exponent: jax.Array | float
) -> ReplayState:
    """Sets the priorities of sampled items.

    Args:
      replay: the replay.
      indices: `int32[B]`.
      priorities: `float[B]`, positive.
      exponent: alpha, to which they are raised; 0 samples uniformly.
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


# Behind one interface ---------------------------------------------------------------------------


class Replay(NamedTuple):
    """The storage from which an off-policy learner draws transitions: pure functions over a state.

    Attributes:
      init: `(item, num_envs) -> state` without any item, from one unbatched example, usually a
        `data.transitions.NStepTransition`, and the number of environments B.
      add: `(state, items, valid, last) -> state`. Items have leaves `[T, B, ...]`, instance b's in
        the order in which they happened, over successive calls. `valid: bool[T, B]` is false for
        what must not be drawn, and `last: bool[T, B]` true where an item ends its episode, which
        terminated or was cut off.
      sample: `(key, state, batch_size) -> items` with leaves `[batch_size, ...]`; they mean
        nothing while there are none.
      size: `state -> int32[]`, the items that may be drawn.
    """

    init: Callable[[Any, int], Any]
    add: Callable[[Any, Any, jax.Array, jax.Array], Any]
    sample: Callable[[jax.Array, Any, int], Any]
    size: Callable[[Any], jax.Array]


@struct.dataclass
class UniformState:
    """A ring of valid items.

    Attributes:
      items: pytree with leaves `[capacity, ...]`.
      cursor: `int32[]`, next place to write.
      size: `int32[]`, places in use, the first ones.
    """

    items: Any
    cursor: jax.Array
    size: jax.Array


def uniform(capacity: int) -> Replay:
    """The newest `capacity` valid items, each as probable as any other, drawn with replacement.

    Items that are not valid take no place.

    Raises:
      ValueError: if `capacity` is below 1 or, in `add`, below the number of items of one call.
    """
    check(capacity >= 1, "capacity", capacity, "an integer >= 1")

    def init_uniform(item: ArrayTree, num_envs: int) -> UniformState:
        del num_envs
        items = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), item)
        # Two zeros, for a state whose buffers are donated can have none twice.
        return UniformState(items, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def add_uniform(
        state: UniformState, items: ArrayTree, valid: jax.Array, last: jax.Array
    ) -> UniformState:
        del last
        accepted_values = f"at least the {valid.size} items added"
        check(valid.size <= capacity, "capacity", capacity, accepted_values)
        valid = valid.ravel()
        count = jnp.cumsum(valid, dtype=jnp.int32)
        # Beyond the end is where those go that are not stored.
        places = jnp.where(valid, (state.cursor + count - 1) % capacity, capacity)

        def write(old: jax.Array, new: jax.Array) -> jax.Array:
            new = new.reshape(-1, *old.shape[1:]).astype(old.dtype)
            return old.at[places].set(new, mode="drop")

        return UniformState(
            jax.tree.map(write, state.items, items),
            (state.cursor + count[-1]) % capacity,
            jnp.minimum(state.size + count[-1], capacity),
        )

    def sample_uniform(key: jax.Array, state: UniformState, batch_size: int) -> Any:
        places = jax.random.randint(
            key, (batch_size,), 0, jnp.maximum(state.size, 1), dtype=jnp.int32
        )
        return jax.tree.map(lambda x: x[places], state.items)

    return Replay(init_uniform, add_uniform, sample_uniform, lambda state: state.size)
