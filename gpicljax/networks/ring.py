"""Ring buffers of what was stored at steps before, for memories that look back.

Entry n of a trial lies in slot n modulo the number of slots. A sequence looks at what is stored
and at its own steps at once, over one axis: first the slots, then the steps.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class View(NamedTuple):
    """Entries that each of T steps can read, in S slots and the T steps of its sequence.

    Attributes:
      visible: `bool[B, T, S + T]`, entries stored before it in its trial and not overwritten.
      age: `int32[B, T, S + T]`, how many entries ago, from 1 on, where visible.
    """

    visible: jax.Array
    age: jax.Array


def view(count: jax.Array, write: jax.Array, starts: jax.Array, slots: int) -> View:
    """Returns the entries that each step of a sequence can read.

    Args:
      count: `int32[B]`, how many the trial had stored before the sequence.
      write: `bool[T, B]`, which steps are stored.
      starts: `bool[T, B]`, at which steps a new trial starts.
      slots: S.
    """
    write, trial = write.T, jnp.cumsum(starts.T.astype(jnp.int32), axis=1)
    # The first trial goes on with what is stored. Entries are numbered through all trials here;
    # a step sees those of its own trial, unless they are overwritten by then.
    number = count[:, None] + jnp.cumsum(write.astype(jnp.int32), axis=1) - write
    stored, filled = numbers(count, slots)
    entry_trials = jnp.concatenate([jnp.zeros_like(stored), trial], axis=1)
    numbered = jnp.concatenate([stored, number], axis=1)
    present = jnp.concatenate([filled, write], axis=1)
    age = number[:, :, None] - numbered[:, None, :]
    visible = present[:, None] & (age > 0) & (age <= slots)
    return View(visible & (trial[:, :, None] == entry_trials[:, None, :]), age)


def store(
    entries: jax.Array, count: jax.Array, new: jax.Array, write: jax.Array, starts: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns the slots for the next sequence: the latest entries of the last trial.

    Args:
      entries: float `[B, S, E]`, what was stored before.
      count: `int32[B]`, how many the trial had stored by then.
      new: float `[B, T, E]`, the entries of the sequence's steps.
      write: `bool[T, B]`, which of them are stored.
      starts: `bool[T, B]`, at which steps a new trial starts.

    Returns:
      Entries and count after the sequence; slots without an entry are zero.
    """
    write, trial = write.T, jnp.cumsum(starts.T.astype(jnp.int32), axis=1)
    last = trial[:, -1:]
    before = jnp.where(last > 0, 0, count[:, None])
    kept = write & (trial == last)
    count = before[:, 0] + kept.sum(1, dtype=jnp.int32)
    place = before + jnp.cumsum(kept.astype(jnp.int32), axis=1) - 1
    latest, filled = numbers(count, entries.shape[1])
    chosen = kept[:, None] & (place[:, None] == latest[:, :, None])
    fresh = jnp.einsum("bst,bte->bse", chosen.astype(new.dtype), new)
    old = jnp.where((filled & (latest < before))[..., None], entries, 0)
    return fresh + old, count


def latest(
    before: jax.Array,
    steps: jax.Array,
    trial: jax.Array,
    count: int,
    fill: float | np.ndarray = 0.0,
) -> jax.Array:
    """Returns the last steps at each of T, the latest first, float `[B, T, count, F]`.

    Args:
      before: float `[B, S, F]`, the steps before the sequence; S is `count - 1` at least.
      steps: float `[B, T, F]`, the steps of the sequence.
      trial: `int32[B, T]`, the trial of each of these, 0 for that of the steps before.
      count: how many, the present one included.
      fill: `[F]`, what stands for steps before the trial.
    """
    size, length = before.shape[1], steps.shape[1]
    features = jnp.concatenate([before, steps], axis=1)
    trials = jnp.concatenate([jnp.zeros_like(trial, shape=(len(trial), size)), trial], axis=1)

    def lags(x: jax.Array) -> jax.Array:
        return jnp.stack([x[:, at : at + length] for at in range(size, size - count, -1)], axis=2)

    return jnp.where((lags(trials) == trial[..., None])[..., None], lags(features), fill)


def attend(scores: jax.Array, visible: jax.Array) -> jax.Array:
    """Returns the softmax along the last axis over visible entries; zeros where there are none.

    Args:
      scores: float `[..., N]`.
      visible: `bool[..., N]`.
    """
    scores = jnp.where(visible, scores, -jnp.inf)
    top = jax.lax.stop_gradient(jnp.where(visible.any(-1), scores.max(-1), 0))
    weights = jnp.exp(scores - top[..., None])
    total = weights.sum(-1, keepdims=True)
    return weights / jnp.where(total > 0, total, 1)


def numbers(count: jax.Array, slots: int) -> tuple[jax.Array, jax.Array]:
    """Number of the latest entry in every slot, `int32[B, slots]`, and whether there is one."""
    last = count[:, None] - 1
    number = last - (last - jnp.arange(slots, dtype=jnp.int32)) % slots
    return number, number >= 0
