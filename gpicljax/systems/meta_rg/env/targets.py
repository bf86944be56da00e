"""Targets of an episode's games: target stimulus sampling (TSS) and the skeleton it makes.

The loop that samples targets is by far the most expensive part of starting an episode. Its result,
the *skeleton*, holds indices only: no value, token or draw of a game. It may therefore be kept in a
bank and filled afresh (`gpicljax.vector.VectorEnv(resets="bank")`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import random
from gpicljax.systems.meta_rg.env import structure

INDEX = jnp.int16  # of a latent tuple; the constructor of the game refuses larger spaces


@struct.dataclass
class Skeleton:
    """The targets of an episode, and from where the games draw what does not match.

    Non-matching stimuli are uniform over the pool's places that hold another tuple than the
    target. The pool is sorted within each phase, so that the target's tuple occupies the places
    `first .. first + count - 1` and the draw needs no search.

    Attributes:
      num_values: `int32[N_dim]`, d(i).
      targets: `int16[G]`, tuple index of each game's target, support games first.
      first: `int16[G]`, first place of the target's tuple in the pool.
      count: `int16[G]`, number of such places.
      pool: `int16[P]`, tuple indices: the support side sorted, then the query side sorted.
      nonmatches: `int16[G]`, tuple index of what does not match; -1 where the pool has it. None
        where all games draw from the pool.
      num_support: `int32[]`.
      num_games: `int32[]`.
      pools: `int32[2, 2]`, first place and end of the pool that games of each phase draw from.
      overflow: `bool[]`, a list was longer than its cap and was cut.
    """

    num_values: jax.Array
    targets: jax.Array
    first: jax.Array
    count: jax.Array
    pool: jax.Array
    nonmatches: jax.Array | None
    num_support: jax.Array
    num_games: jax.Array
    pools: jax.Array
    overflow: jax.Array


def _pick(weights: jax.Array, uniform: jax.Array) -> jax.Array:
    """Inverse CDF along the last axis: index i with probability weights[i] / sum."""
    total = jnp.cumsum(weights, axis=-1)
    reached = total <= uniform[..., None] * total[..., -1:]
    return jnp.minimum(reached.sum(-1, dtype=jnp.int32), weights.shape[-1] - 1)


def _nearest_valid(
    proposal: jax.Array, valid: jax.Array, max_values: int, uniforms: jax.Array
) -> jax.Array:
    """Replaces a tuple of the wrong phase by a valid one, near ones more often.

    The probability of a valid tuple is proportional to 1 / (100 ||tuple - proposal||² + 0.001).
    Drawn one dimension at a time from the marginals.

    Args:
      proposal: `int32[N_dim]`.
      valid: `bool[max_values ** N_dim]`.
      max_values: cap of d(i).
      uniforms: `float[N_dim]` in [0, 1).

    Returns:
      `int32[N_dim]`.
    """
    num_dims = proposal.shape[0]
    squares = (jnp.arange(max_values)[None] - proposal[:, None]) ** 2
    distance = jnp.zeros((1,) * num_dims, jnp.int32)
    for i in range(num_dims):
        distance = distance + squares[i].reshape((-1,) + (1,) * (num_dims - 1 - i))
    grid = valid.reshape((max_values,) * num_dims)
    weights = jnp.where(grid, 1 / (100 * distance.astype(jnp.float32) + 1e-3), 0)
    chosen = []
    for i in range(num_dims):
        marginal = weights.reshape(max_values, -1).sum(-1)
        value = _pick(marginal, uniforms[i])
        is_chosen = jnp.arange(max_values) == value
        weights = jnp.where(is_chosen.reshape((-1,) + (1,) * (num_dims - 1 - i)), weights, 0).sum(0)
        chosen.append(value)
    return jnp.stack(chosen)


def sample_targets(
    key: jax.Array,
    values: jax.Array,
    valid: jax.Array,
    shots: jax.Array,
    allow_repeats: jax.Array,
    active: jax.Array,
    max_values: int,
    cap: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Samples targets until every value of every dimension was shown at least `shots` times.

    Every value starts with weight shots + 1 and loses 1 per showing, down to 1; each dimension of
    a proposal is drawn by these weights. A tuple listed already is rejected: for good until eleven
    rejections, from then on five times in a row. A tuple of the wrong phase is replaced by a near
    one of the right phase.

    Args:
      key: a typed key.
      values: `bool[N_dim, max_values]`, the values to be shown.
      valid: `bool[max_values ** N_dim]`, tuples of the phase.
      shots: `int32[]`, S.
      allow_repeats: `bool[]`, whether repeats are accepted from the start.
      active: `bool[]`, False returns an empty list at once.
      max_values: cap of d(i).
      cap: length of the list.

    Returns:
      The list `int32[cap]` of tuple indices, its length `int32[]`, and `bool[]` whether it was cut.

    Source: section 3.1 and Algorithm 5 (TSS); the weights, rejections and replacement from the
    reference environment.
    """
    num_dims = values.shape[0]
    strides = jnp.asarray([max_values ** (num_dims - 1 - i) for i in range(num_dims)], jnp.int32)
    tuples = jnp.arange(valid.shape[0])
    places = jnp.arange(cap)
    weights = jnp.where(values, shots + 1, 0).astype(jnp.int32)

    def needs_targets(loop):
        _, weights, _, _, _, _, length = loop
        return active & (weights > 1).any() & (length < cap)

    def propose(loop):
        trial, weights, listed, rejections, repeats, targets, length = loop
        uniforms = random.uniform(jax.random.fold_in(key, trial), (2, num_dims), jnp.float32)
        proposal = _pick(weights.astype(jnp.float32), uniforms[0])
        chosen = tuples == (proposal * strides).sum(dtype=jnp.int32)
        is_listed = (chosen & listed).any()
        rejected = is_listed & jnp.where(repeats, rejections < 5, True)
        rejections = jnp.where(rejected, rejections + 1, jnp.where(is_listed, 0, rejections))
        exhausted = rejected & ~repeats & (rejections > 10)
        repeats, rejections = repeats | exhausted, jnp.where(exhausted, 0, rejections)

        near = _nearest_valid(proposal, valid, max_values, uniforms[1])
        final = jnp.where((chosen & valid).any(), proposal, near)
        index = (final * strides).sum(dtype=jnp.int32)
        accept = ~rejected
        targets = jnp.where(accept & (places == length), index, targets)
        listed = listed | (accept & (tuples == index))
        shown = accept & (jnp.arange(max_values) == final[:, None])
        weights = jnp.where(shown, jnp.maximum(weights - 1, jnp.minimum(weights, 1)), weights)
        return trial + 1, weights, listed, rejections, repeats, targets, length + accept

    start = (
        jnp.zeros((), jnp.int32),
        weights,
        jnp.zeros(valid.shape, bool),
        jnp.zeros((), jnp.int32),
        allow_repeats,
        jnp.zeros(cap, jnp.int32),
        jnp.zeros((), jnp.int32),
    )
    _, weights, _, _, _, targets, length = jax.lax.while_loop(needs_targets, propose, start)
    return targets, length, active & (weights > 1).any()


def _all_tuples(valid: jax.Array) -> jax.Array:
    """Returns the valid tuples in lexicographic order, then numbers without meaning; `int32[M]`."""
    order = jnp.arange(valid.shape[0], dtype=jnp.int32)
    return jnp.sort(jnp.where(valid, order, order + valid.shape[0])) % valid.shape[0]


def _minimal_pairs(
    key: jax.Array, valid: jax.Array, num_dims: int, max_values: int, count: int
) -> tuple[jax.Array, jax.Array]:
    """Draws ordered pairs of valid tuples that are one value apart in one dimension.

    All such pairs are equally likely, so that the first and the second of a pair have one
    distribution: a single tuple does not tell which of them it is.

    Args:
      key: a typed key.
      valid: `bool[max_values ** N_dim]`, at least one pair of them.
      num_dims: N_dim.
      max_values: cap of d(i).
      count: number of pairs.

    Returns:
      Both tuples' indices, `int32[count]` each.
    """
    tuples = structure.combinations(num_dims, max_values)
    steps = np.concatenate([np.eye(num_dims, dtype=np.int32), -np.eye(num_dims, dtype=np.int32)])
    moved = tuples[:, None] + steps  # [M, 2 N_dim, N_dim]
    strides = max_values ** np.arange(num_dims - 1, -1, -1)
    exists = ((moved >= 0) & (moved < max_values)).all(-1)
    other = jnp.asarray(np.where(exists, moved @ strides, 0), jnp.int32)
    is_pair = valid[:, None] & exists & valid[other]
    total = jnp.cumsum(is_pair.reshape(-1))
    drawn = random.integers(key, (count,), 0, total[-1])
    pair = jnp.searchsorted(total, drawn, side="right").astype(jnp.int32)
    return pair // len(steps), other.reshape(-1)[pair]


def _sort_pool(sides: list[tuple[jax.Array, jax.Array]], tuples: int) -> jax.Array:
    """Returns the tuples of both phases in order, those of the query phase plus `tuples`.

    Unused places come last, and are twice that number.
    """
    rank = [
        jnp.where(jnp.arange(side.shape[0]) < size, phase * tuples + side, 2 * tuples)
        for phase, (side, size) in enumerate(sides)
    ]
    return jnp.sort(jnp.concatenate(rank))


class _Targets(NamedTuple):
    """Tuple indices of both phases' targets with their numbers, and whether a list was cut."""

    support: jax.Array
    num_support: jax.Array
    query: jax.Array
    num_query: jax.Array
    is_cut: jax.Array


def _sample_both_phases(
    key: jax.Array,
    values: jax.Array,
    valid: tuple[jax.Array, jax.Array],
    order: jax.Array,
    shots: jax.Array,
    samples: jax.Array,
    max_support: int,
    max_query: int,
    query_targets: str,
) -> _Targets:
    """Samples the targets of both phases.

    Args:
      key: a typed key.
      values: `bool[N_dim, max_values]`, the values to be shown.
      valid: `bool[max_values ** N_dim]` for each phase, its tuples.
      order: `int32[max_values ** N_dim]`, the query tuples first, see `_all_tuples`.
      shots: `int32[]`, S.
      samples: `int32[]`, O.
      max_support: cap of the support list.
      max_query: cap of the query list.
      query_targets: see `sample_skeleton`.
    """
    max_values, needed = values.shape[1], shots * values.sum(dtype=jnp.int32)
    support_tuples, query_tuples = (phase.sum(dtype=jnp.int32) for phase in valid)
    repeats = needed > samples * support_tuples
    exhaustive = needed > samples * query_tuples
    true, false = jnp.ones((), bool), jnp.zeros((), bool)
    place = jnp.arange(max_query, dtype=jnp.int32)
    listed = order[jnp.minimum(place // samples, order.shape[0] - 1)]
    keys = jax.random.split(key)
    if query_targets == "tss":
        # One loop for both phases: a second one would double the time to compile.
        lists, lengths, cuts = jax.vmap(
            lambda k, valid, repeat, active: sample_targets(
                k, values, valid, shots, repeat, active, max_values, max_support
            )
        )(keys, jnp.stack(valid), jnp.stack([repeats, false]), jnp.stack([true, ~exhaustive]))
        query = jnp.where(exhaustive, listed, lists[1])
        num_query = jnp.where(exhaustive, samples * query_tuples, lengths[1])
        return _Targets(lists[0], lengths[0], query, num_query, cuts.any())
    support = sample_targets(
        keys[0], values, valid[0], shots, repeats, true, max_values, max_support
    )
    if query_targets == "iid":
        draws = random.integers(keys[1], (max_query,), 0, query_tuples)
        return _Targets(*support[:2], order[draws], query_tuples, support[2])
    return _Targets(*support[:2], listed, samples * query_tuples, support[2])


def sample_skeleton(
    key: jax.Array,
    num_values: jax.Array,
    shots: jax.Array,
    samples: jax.Array,
    *,
    max_values: int,
    max_support: int,
    max_query: int,
    query_targets: str,
    nonmatch: str,
    withheld: bool = False,
    minimal_pairs: float = 0.0,
) -> Skeleton:
    """Draws the targets of both phases.

    Args:
      key: a typed key.
      num_values: `int32[N_dim]`, d(i).
      shots: `int32[]`, S.
      samples: `int32[]`, O.
      max_values: cap of d(i).
      max_support: cap of the support list.
      max_query: cap of the query list.
      query_targets: `"tss"` (as the support phase; where S * sum d(i) exceeds the number of query
        stimuli, each of them once in lexicographic order), `"all"` (always each once) or `"iid"`
        (as many as there are query tuples, uniform with replacement).
      nonmatch: `"reference"` (games draw what does not match from the support list, query games
        from both lists), `"balanced"` (query games uniformly from the other query tuples) or
        `"dataset"` (uniformly from the other support tuples, query games from all other tuples).
      withheld: whether the support phase lacks a value of each dimension, drawn here; query games
        are about tuples with such a value.
      minimal_pairs: share of the query games whose target and non-match are one value apart.
    """
    num_dims = num_values.shape[0]
    values = jnp.arange(max_values) < num_values[:, None]
    lacks = None
    if withheld:
        lacks = random.integers(jax.random.fold_in(key, 2), (num_dims,), 0, num_values)
        values &= jnp.arange(max_values) != lacks[:, None]
    phases = structure.phase_masks(num_values, max_values, lacks)
    order = _all_tuples(phases[1])
    support, num_support, query, num_query, is_cut = _sample_both_phases(
        key, values, phases, order, shots, samples, max_support, max_query, query_targets
    )
    game = jnp.arange(max_support + max_query, dtype=jnp.int32)
    in_support = game < num_support
    query_game = jnp.clip(game - num_support, 0, max_query - 1)
    nonmatches = None
    if minimal_pairs:
        pair_key, share_key = jax.random.split(jax.random.fold_in(key, 3))
        first, second = _minimal_pairs(pair_key, phases[1], num_dims, max_values, max_query)
        is_pair = random.uniform(share_key, (max_query,), jnp.float32) < minimal_pairs
        query, nonmatches = jnp.where(is_pair, first, query), jnp.where(is_pair, second, -1)
        nonmatches = jnp.where(in_support, -1, nonmatches[query_game]).astype(INDEX)
    overflow = is_cut | (num_query > max_query)
    num_query = jnp.minimum(num_query, max_query)

    tuples = len(phases[0])
    sides = [(support, num_support), (query, num_query)]
    if nonmatch != "reference":
        sides[1] = order, phases[1].sum(dtype=jnp.int32)
    if nonmatch == "dataset":
        sides[0] = _all_tuples(phases[0]), phases[0].sum(dtype=jnp.int32)
    ends = sides[0][1], sides[0][1] + sides[1][1]
    pool = _sort_pool(sides, tuples)
    targets = jnp.where(in_support, support[jnp.minimum(game, max_support - 1)], query[query_game])
    sought = jnp.where(in_support, targets, tuples + targets)[:, None]
    return Skeleton(
        num_values=num_values,
        targets=targets.astype(INDEX),
        first=(pool < sought).sum(-1, dtype=INDEX),
        count=(pool == sought).sum(-1, dtype=INDEX),
        pool=(pool % tuples).astype(INDEX),
        nonmatches=nonmatches,
        num_support=num_support,
        num_games=num_support + num_query,
        pools=jnp.stack(
            [
                jnp.zeros(2, jnp.int32).at[1].set(ends[0]),
                jnp.stack([ends[0] if nonmatch == "balanced" else jnp.int32(0), ends[1]]),
            ]
        ),
        overflow=overflow,
    )
