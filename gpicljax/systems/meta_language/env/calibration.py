"""Languages whose generator is neither too predictable nor too random.

The paper chooses the scale of the logits such that the generator's own nats per token lie between
0.5 and 1.0. With the same scale for all, that holds for the bulk of the languages only; here it is
arranged for each: `by_rejection` draws another language until one is within the range, `by_scale`
keeps the language and changes its scale. Both measure on sequences of the language and stop after
a fixed number of rounds; languages outside the range then are reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gpicljax.systems.meta_language.env.sequences import sequences

# Long, as some languages end in a cycle. The measurement's standard error is about 0.02 nats.
NUM_SEQUENCES, LENGTH = 2, 1024
# `by_scale` looks between the given scale divided and multiplied by this.
WIDEST = 16.0


class Calibrated(NamedTuple):
    """A language, and whether it missed the range.

    Attributes:
      tables: float `[slots, V, V]`.
      scale: float `[]`.
      missed: `bool[]`.
    """

    tables: jax.Array
    scale: jax.Array
    missed: jax.Array


def nats_per_token(key: jax.Array, tables: jax.Array, scale: jax.Array) -> jax.Array:
    """Returns the mean of -log p of `NUM_SEQUENCES` sequences of `LENGTH` tokens, float `[]`."""
    drawn = sequences(key, tables[None], scale[None], LENGTH, NUM_SEQUENCES, with_log_probs=True)
    return -jnp.mean(jnp.asarray(drawn[1]))


def by_rejection(
    key: jax.Array,
    draw: Callable[[jax.Array], jax.Array],
    scale: jax.Array,
    low: jax.Array,
    high: jax.Array,
    rounds: int,
) -> Calibrated:
    """Returns the first of at most `rounds` languages whose nats per token are within [low, high].

    Args:
      key: a typed key.
      draw: maps a key to a language's tables.
      scale: float `[]`, of all of them.
      low: float `[]`, in nats.
      high: float `[]`, in nats.
      rounds: at least 1.
    """

    def propose(carry: tuple[jax.Array, Calibrated]) -> tuple[jax.Array, Calibrated]:
        index, _ = carry
        draw_key, measure_key = jax.random.split(jax.random.fold_in(key, index))
        tables = draw(draw_key)
        nats = nats_per_token(measure_key, tables, scale)
        return index + 1, Calibrated(tables, scale, (nats < low) | (nats > high))

    kind = jax.eval_shape(draw, key)
    none = Calibrated(jnp.zeros(kind.shape, kind.dtype), scale, jnp.ones((), bool))
    _, last = lax.while_loop(
        lambda carry: carry[1].missed & (carry[0] < rounds),
        propose,
        (jnp.zeros((), jnp.int32), none),
    )
    return last


def by_scale(
    key: jax.Array,
    tables: jax.Array,
    scale: jax.Array,
    low: jax.Array,
    high: jax.Array,
    rounds: int,
) -> Calibrated:
    """The language at the first scale, halving an interval, with nats per token in [low, high].

    The interval is scale / 16 .. scale * 16, on a logarithmic axis, so the given scale comes first
    and stays if it will do. Every scale is measured with the same random numbers.

    Args:
      key: a typed key.
      tables: float `[slots, V, V]`.
      scale: float `[]`, the one to start from.
      low: float `[]`, in nats.
      high: float `[]`, in nats.
      rounds: scales to try, at least 1.
    """

    def attempt(carry: tuple) -> tuple:
        index, lowest, highest, _, _ = carry
        middle = (lowest + highest) / 2
        factor = jnp.exp(middle)
        nats = nats_per_token(key, tables, scale * factor)
        # A greater scale makes a language more predictable.
        lowest = jnp.where(nats > high, middle, lowest)
        highest = jnp.where(nats < low, middle, highest)
        return index + 1, lowest, highest, factor, (nats < low) | (nats > high)

    widest = jnp.log(jnp.asarray(WIDEST, scale.dtype))
    start = jnp.zeros((), jnp.int32), -widest, widest, jnp.ones_like(scale), jnp.ones((), bool)
    *_, factor, missed = lax.while_loop(lambda c: c[-1] & (c[0] < rounds), attempt, start)
    return Calibrated(tables, scale * factor, missed)
