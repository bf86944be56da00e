"""The optimiser that trainers share, from traced hyper-parameters."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import optax

T = TypeVar("T")


class AdamHParams(Protocol):
    """What `clipped_adam` reads of a trainer's hyper-parameters."""

    learning_rate: Any
    final_share: Any
    decay_updates: Any
    adam_epsilon: Any
    max_gradient_norm: Any


def definite(hparams: T) -> T:
    """Hyper-parameters as arrays of definite dtypes.

    A weak type would not survive a checkpoint, and compile anew.
    """
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), hparams)


def clipped_adam(hparams: AdamHParams, steps_per_update: int = 1) -> optax.GradientTransformation:
    """Gradients clipped by their global norm, then Adam at a rate that falls linearly.

    Args:
      hparams: `learning_rate` at the start; `final_share` of it that is left after `decay_updates`
        updates; `adam_epsilon`; `max_gradient_norm`, infinite for none.
      steps_per_update: steps of the optimiser that make up an update, all at one rate.
    """

    def schedule(count: Any) -> Any:
        progress = jnp.minimum(count // steps_per_update / hparams.decay_updates, 1.0)
        return hparams.learning_rate * (1 - (1 - hparams.final_share) * progress)

    return optax.chain(
        optax.clip_by_global_norm(hparams.max_gradient_norm),
        optax.adam(schedule, eps=hparams.adam_epsilon),
    )
