"""Autoencoders on frames of mazes that they have never seen."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.networks.autoencoder import (
    Autoencoder,
    decode_in_parts,
    encode_in_parts,
    latent_statistics,
)
from gpicljax.systems.maze_world.data.sequences import FrameBatch
from gpicljax.typing import Variables

SHOWN = (4, 8)
"""Mazes, and frames of each, that figures show."""


class Unseen(NamedTuple):
    """An autoencoder on N frames of each of E mazes that it has never seen.

    Errors are mean squared differences of pixels in [0, 1].

    Attributes:
      error: float `[E, N]`, of the reconstructions.
      mean_image: likewise, of the mean of these frames.
      frame_before: likewise, of the frame a step before.
      shift: float `[Z]`, the latents' means.
      scale: float `[Z]`, their standard deviations.
      frames: `uint8[e, n, H, W, 3]`, some of the frames.
      decoded: float `[e, n, H, W, 3]`, their reconstructions.
    """

    error: Any
    mean_image: Any
    frame_before: Any
    shift: Any
    scale: Any
    frames: Any
    decoded: Any


def measure_views(model: Autoencoder, params: Variables, views: FrameBatch, part: int) -> Unseen:
    """Returns all errors, the latents' statistics, and some frames to show.

    Args:
      model: the autoencoder.
      params: its parameters.
      views: frames, leaves `[E, N, H, W, 3]`.
      part: frames that are coded together.
    """
    latents, _ = encode_in_parts(model, params, views.after, part)
    shift, scale = latent_statistics(latents)
    decoded = decode_in_parts(model, params, latents, part)

    def error(pictures: jax.Array) -> jax.Array:
        return jnp.square(views.after / 255 - pictures).mean((-3, -2, -1))

    shown = tuple(slice(number) for number in SHOWN)
    return Unseen(
        error=error(decoded),
        mean_image=error((views.after / 255).mean((0, 1))),
        frame_before=error(views.before / 255),
        shift=shift,
        scale=scale,
        frames=views.after[shown],
        decoded=decoded[shown],
    )
