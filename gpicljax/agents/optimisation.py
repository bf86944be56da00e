"""Optimisation that trainers share: Adam, target networks, waiting for the replay."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeVar

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax.typing import ArrayLike

from gpicljax.checks import Limit, Rate, Share, Updates

T = TypeVar("T")
Target = Literal["hard", "polyak"]


@struct.dataclass
class AdamHParams:
    """The hyper-parameters of `clipped_adam`, which those of a trainer extend.

    Attributes:
      learning_rate: Adam's learning rate at the start.
      final_share: share of the learning rate that is left after `decay_updates`.
      decay_updates: updates (for DQN, steps of the optimiser) over which the learning rate falls
        linearly; 0: it is the final one from the start.
      adam_epsilon: Adam's epsilon.
      max_gradient_norm: global norm at which gradients are clipped; infinite for no clipping.
    """

    learning_rate: Rate = 3e-4
    final_share: Share = 1.0
    decay_updates: Updates = 1
    adam_epsilon: Rate = 1e-8
    max_gradient_norm: Limit = float("inf")


class TargetHParams(Protocol):
    """The hyper-parameters that `target_update` reads."""

    target_period: Any
    target_rate: Any


def progress(count: chex.Numeric, steps: jax.Array | int) -> jax.Array:
    """Returns the share of a schedule of so many steps that is over after `count`, float in [0, 1].

    A schedule of 0 steps is over from the start.
    """
    steps = jnp.asarray(steps)
    share = count / jnp.where(steps > 0, steps, 1)
    return jnp.where(steps > 0, jnp.minimum(share, 1.0), 1.0)


def clipped_adam(hparams: AdamHParams, steps_per_update: int = 1) -> optax.GradientTransformation:
    """Gradients clipped by their global norm, then Adam at a rate that falls linearly.

    Args:
      hparams: learning rate, its decay, Adam's epsilon and the norm to clip at; may be traced.
      steps_per_update: steps of the optimiser that make up an update, all at one rate.
    """

    def schedule(count: ArrayLike) -> jax.Array:
        share = progress(jnp.asarray(count) // steps_per_update, hparams.decay_updates)
        return hparams.learning_rate * (1 - (1 - hparams.final_share) * share)

    return optax.chain(
        optax.clip_by_global_norm(hparams.max_gradient_norm),
        optax.adam(schedule, eps=hparams.adam_epsilon),
    )


def adam(
    learning_rate: optax.ScalarOrSchedule,
    epsilon: jax.Array | float = 1e-8,
    max_gradient_norm: jax.Array | float = float("inf"),
) -> optax.GradientTransformation:
    """Gradients clipped by their global norm, then Adam at a constant rate; all may be traced."""
    return optax.chain(
        optax.clip_by_global_norm(max_gradient_norm), optax.adam(learning_rate, eps=epsilon)
    )


def polyak(params: T, target_params: T, rate: jax.Array | float) -> T:
    """Moves target parameters towards `params` by a share `rate` of the way."""
    update: Any = optax.incremental_update
    return update(params, target_params, rate)


def target_update(
    target: Target, params: T, target_params: T, updates: jax.Array, hparams: TargetHParams
) -> T:
    """Returns the target network's parameters after a step of the optimiser.

    Args:
      target: `"hard"` copies every `hparams.target_period` steps, `"polyak"` averages with
        `hparams.target_rate`.
      params: of the network, after the step.
      target_params: of the target network, before it.
      updates: `int32[]`, steps of the optimiser, this one included.
      hparams: see `target`.
    """
    if target == "polyak":
        return polyak(params, target_params, hparams.target_rate)
    update: Any = optax.periodic_update
    return update(params, target_params, updates, hparams.target_period)


def learnt_if(filled: jax.Array, new: T, old: T) -> T:
    """`new` if the replay is filled, `bool[]`, else `old`.

    A program of its own for the filling would double the time to compile. Leaves that are the same
    object in both, such as a replay's items, stay out of the choice, which would copy them.
    """
    return jax.tree.map(lambda a, b: b if a is b else jnp.where(filled, a, b), new, old)


def add_count(count: jax.Array, more: jax.Array | int) -> jax.Array:
    """Returns `int32[]`, a count plus more; it stands still before it would overflow."""
    return count + jnp.where(count < 2**30, more, 0)
