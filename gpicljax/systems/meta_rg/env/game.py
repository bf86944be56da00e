"""One referential game: what each player sees, and the right decision (Algorithm 1, DataPrep)."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import random
from gpicljax.systems.meta_rg.env import structure
from gpicljax.systems.meta_rg.env.targets import Skeleton

Stimulus = Literal["scs", "mhe", "categorical", "pseudoword"]
"""How a stimulus shows a meaning; see `MetaRG`."""


def represent(entries: jax.Array, stimulus: Stimulus) -> jax.Array:
    """Returns a player's view of entries `[..., N_dim]` of a task's table, `[..., F]`."""
    if stimulus != "pseudoword":
        return entries
    letters = structure.spell(entries)
    return letters.reshape(*letters.shape[:-2], -1)


@struct.dataclass
class Game:
    """The stimuli of one game; F is the size of a stimulus (see `MetaRG.stimulus_size`).

    Attributes:
      speaker: float or int32 `[K + 1, F]`, the target first, then the distractors.
      listener: likewise, in the listener's random order.
      speaker_latents: `int32[K + 1, N_dim]`.
      listener_latents: `int32[K + 1, N_dim]`.
      answer: `int32[]`, place of the target's meaning among the listener's stimuli, or K + 1 if it
        is absent.
    """

    speaker: jax.Array
    listener: jax.Array
    speaker_latents: jax.Array
    listener_latents: jax.Array
    answer: jax.Array


def _unit(bits: jax.Array) -> jax.Array:
    """Uniform float32 numbers in [0, 1) from 24 random bits each."""
    return (bits >> 8).astype(jnp.float32) * jnp.float32(2.0**-24)


def _below(bits: jax.Array, bound: jax.Array) -> jax.Array:
    """Uniform integers in [0, bound) from 24 random bits each; bias below bound / 2**24."""
    value = (_unit(bits) * bound.astype(jnp.float32)).astype(jnp.int32)
    return jnp.minimum(value, bound - 1)


def _without_replacement(bits: jax.Array, size: jax.Array) -> list[jax.Array]:
    """Distinct uniform integers in [0, size); where `size` is too small they start to repeat."""
    drawn: list[jax.Array] = []
    for j in range(bits.shape[0]):
        value = _below(bits[j], jnp.maximum(size - j, 1))
        for earlier in jnp.sort(jnp.stack(drawn)) if drawn else ():
            value = value + (value >= earlier)
        drawn.append(jnp.where(j < size, value, value % jnp.maximum(size, 1)))
    return drawn


def draw_game(
    key: jax.Array,
    index: jax.Array,
    skeleton: Skeleton,
    table: jax.Array,
    samples: jax.Array,
    *,
    num_distractors: int,
    descriptive: bool,
    same_view: bool,
    stimulus: Stimulus,
    descriptive_ratio: float | None = None,
) -> Game:
    """Draws game `index` of an episode.

    Args:
      key: the episode's typed key; every game folds its index in.
      index: `int32[]`; beyond the last game the last one's target is used.
      skeleton: the episode's targets.
      table: `[N_dim, V, O]`, what stands for the samples of every value.
      samples: `int32[]`, O.
      num_distractors: K.
      descriptive: whether the target may be absent.
      same_view: whether a listener's matching stimulus may be the very sample the speaker sees
        (the reference's behaviour) or is another one wherever O > 1 (the paper's).
      stimulus: the representation; see `MetaRG`.
      descriptive_ratio: how often the target is present where it may be absent; if None, in
        1 / (K + 2) of the games.
    """
    num_dims, max_values, _ = table.shape
    index = jnp.minimum(index, skeleton.num_games - 1)
    slots = num_distractors + 1
    bits = random.bits(jax.random.fold_in(key, index), (3 * slots + 3,))

    target = skeleton.targets[index].astype(jnp.int32)
    low, high = jnp.where(index < skeleton.num_support, *skeleton.pools)
    first = skeleton.first[index].astype(jnp.int32)
    count = skeleton.count[index].astype(jnp.int32)
    # Places of the pool that hold another tuple: skip over the target's run.
    places = jnp.stack(_without_replacement(bits[:slots], high - low - count)) + low
    places = jnp.where(places >= first, places + count, places)
    other_tuples = skeleton.pool[places].astype(jnp.int32)
    if skeleton.nonmatches is not None:
        nonmatch = skeleton.nonmatches[index].astype(jnp.int32)
        other_tuples = other_tuples.at[0].set(jnp.where(nonmatch < 0, other_tuples[0], nonmatch))

    if not descriptive:
        present = True
    elif descriptive_ratio is None:
        present = _below(bits[slots], jnp.asarray(slots + 1)) == 0
    else:
        present = _unit(bits[slots]) < descriptive_ratio
    views = _below(bits[slots + 1 : 2 * slots + 2], samples)
    speaker_view, listener_view = views[0], views[1:]
    if not same_view:
        shifted = speaker_view + 1 + _below(bits[-1], jnp.maximum(samples - 1, 1))
        other_view = jnp.where(samples > 1, shifted % samples, 0)
        listener_view = listener_view.at[0].set(jnp.where(present, other_view, listener_view[0]))

    speaker_tuples = jnp.concatenate([target[None], other_tuples[1:]])
    speaker_views = jnp.concatenate([speaker_view[None], listener_view[1:]])
    listener_tuples = jnp.concatenate(
        [jnp.where(present, target, other_tuples[0])[None], other_tuples[1:]]
    )
    answer = jnp.where(present, 0, slots)
    if num_distractors:
        order = jnp.argsort(bits[2 * slots + 2 : 3 * slots + 2])
        listener_tuples, listener_view = listener_tuples[order], listener_view[order]
        place = jnp.argmax(order == 0)
        answer = jnp.where(present, place, slots)

    tuples = jnp.asarray(structure.combinations(num_dims, max_values))
    speaker_latents, listener_latents = tuples[speaker_tuples], tuples[listener_tuples]

    def stimuli(latents: jax.Array, views: jax.Array) -> jax.Array:
        if stimulus == "mhe":
            return jax.nn.one_hot(latents, max_values, dtype=table.dtype).reshape(slots, -1)
        return represent(table[jnp.arange(num_dims), latents, views[:, None]], stimulus)

    return Game(
        speaker=stimuli(speaker_latents, speaker_views),
        listener=stimuli(listener_latents, listener_view),
        speaker_latents=speaker_latents,
        listener_latents=listener_latents,
        answer=answer.astype(jnp.int32),
    )
