"""The trainer of variational autoencoders: the sequence trainer over single pictures.

Pictures are drawn as they are needed, by a function, and are the positions of one time step. How
much the latents' divergence counts, and how much noise they get, follows piecewise linear schedules
over the updates: what is to become a code is learnt without noise first.

Source: the GPICL paper, section 3.2, equation 5 and appendix A.1 (Kingma & Welling, 2014).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.agents import sequence
from gpicljax.agents.sequence import Loss, SequenceConfig, Sequences
from gpicljax.checks import Natural, Rate, check, check_at_least, check_fields
from gpicljax.interface import Trainer
from gpicljax.networks.autoencoder import Autoencoder
from gpicljax.networks.contract import Network
from gpicljax.networks.layers import default_float
from gpicljax.typing import ArrayTree

RECONSTRUCTION = "reconstruction"
"""The metric of equation 5's first term."""
DIVERGENCE = "divergence"
"""That of its second, without its weight."""


@dataclasses.dataclass(frozen=True)
class Schedules:
    """Piecewise linear schedules; the defaults are those of the paper's code.

    Attributes:
      updates: where the schedules bend, in order; before and beyond them they are constant.
      divergence: lambda there, the weight of the divergence from the normal distribution.
      noise: sigma there, by which the noise of latents is scaled.

    Raises:
      ValueError: for updates that are not in order, other numbers of values, or negative ones.
    """

    updates: tuple[Natural, ...] = (0, 1000, 2000, 3000)
    divergence: tuple[Rate, ...] = (0.0, 1e-7, 1e-6, 1e-5)
    noise: tuple[Rate, ...] = (0.0, 0.1, 0.2, 1.0)

    def __post_init__(self) -> None:
        check_fields(self)
        count = len(self.updates)
        steps = zip(self.updates[:-1], self.updates[1:], strict=True)
        ordered = count and all(a < b for a, b in steps)
        check(ordered, "updates", self.updates, "numbers of updates in order")
        for name in ("divergence", "noise"):
            values = getattr(self, name)
            check(len(values) == count, name, values, f"{count} numbers, as many as updates")

    def after(self, updates: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns lambda and sigma after a number of updates, float `[]` each."""
        at = jnp.asarray(updates, default_float())
        bends = jnp.asarray(self.updates, at.dtype)

        def value(values: tuple[float, ...]) -> jax.Array:
            return jnp.interp(at, bends, jnp.asarray(values, at.dtype))

        return value(self.divergence), value(self.noise)


class Data(NamedTuple):
    """Data and coefficients of an update.

    Attributes:
      source: what the pictures are drawn from.
      divergence: float `[]`, lambda.
      noise: float `[]`, sigma.
    """

    source: Any
    divergence: jax.Array
    noise: jax.Array


class Inputs(NamedTuple):
    """Inputs of the network.

    Attributes:
      images: `uint8[T, B, H, W, 3]`.
      noise: float `[T, B]`, by which the noise of latents is scaled.
    """

    images: jax.Array
    noise: jax.Array


def autoencoder_network(autoencoder: Autoencoder) -> Network:
    """Returns an autoencoder behind the contract of networks; it has no memory.

    It reads `Inputs`. Its outputs are a dictionary of `mean` and `log_variance`, float `[..., Z]`,
    and `image`, float `[..., H, W, 3]`. With a key, `unroll` draws the noise of the latents that
    are decoded; `step`, and `unroll` without one, decode their means.
    """

    def outputs(params: ArrayTree, inputs: Inputs, key: jax.Array | None) -> dict[str, jax.Array]:
        mean, log_variance = autoencoder.encode(params, inputs.images)
        latents = mean
        if key is not None:
            scale = jnp.exp(log_variance / 2) * inputs.noise[..., None]
            latents = mean + scale * jax.random.normal(key, mean.shape, mean.dtype)
        image = autoencoder.decode(params, latents)
        return {"mean": mean, "log_variance": log_variance, "image": image}

    def init(key: jax.Array, inputs: Inputs) -> Any:
        del inputs
        return autoencoder.init(key)

    def step(
        params: ArrayTree, carry: ArrayTree, inputs: Inputs, start: jax.Array
    ) -> tuple[Any, Any]:
        del start
        return outputs(params, inputs, None), carry

    def unroll(
        params: ArrayTree,
        carry: ArrayTree,
        inputs: Inputs,
        starts: jax.Array | None,
        key: jax.Array | None = None,
    ) -> tuple[Any, Any]:
        del starts
        return outputs(params, inputs, key), carry

    return Network(init, lambda batch: (), step, unroll)


def divergence(mean: jax.Array, log_variance: jax.Array) -> jax.Array:
    """Kullback-Leibler divergence of normal distributions from the standard one, in nats.

    It is summed over the latents, as they are independent. The paper's code sums over time instead,
    and takes the mean over the latents, so that its weights of it count for a window's length and
    not for the number of latents.

    Args:
      mean: float `[..., Z]`.
      log_variance: likewise.

    Returns:
      Float `[...]`, at least 0.

    Source: Kingma & Welling (2014), appendix B.
    """
    terms = jnp.square(mean) + jnp.exp(log_variance) - 1 - log_variance
    return terms.sum(-1) / 2


def make(
    config: SequenceConfig,
    autoencoder: Autoencoder,
    images: Callable[[jax.Array, Any], jax.Array],
    schedules: Schedules = Schedules(),
    devices: int = 1,
    axis: str | None = None,
    *,
    images_per_key: int = 1,
) -> Trainer:
    """Builds the trainer.

    Args:
      config: sizes and switches of the sequence trainer; its `batch_size` counts keys.
      autoencoder: what is trained.
      images: `(keys [N], source) -> uint8[N * images_per_key, H, W, 3]`; what a key gives depends
        on it alone.
      schedules: of the divergence's weight and of the noise.
      devices: see `sequence.make`.
      axis: likewise.
      images_per_key: such as those of one maze.

    Returns:
      The trainer; its `init` takes the source as its last argument, and its metrics are those of
      `sequence.make`: `reconstruction`, the mean squared error of pixels in [0, 1], with noise, and
      `divergence`, in nats. It does not act.
    """
    check_at_least(1, images_per_key=images_per_key)

    def phase(source: Any, updates: jax.Array) -> Data:
        return Data(source, *schedules.after(updates))

    def sample(keys: jax.Array, data: Data) -> Sequences:
        drawn = images(keys, data.source)[None]
        noise = jnp.broadcast_to(data.noise, drawn.shape[:2])
        return Sequences(Inputs(drawn, noise), None, drawn)

    def flat(image: jax.Array) -> jax.Array:
        return image.reshape(*image.shape[:2], -1)

    losses = [
        sequence.squared_error(
            RECONSTRUCTION,
            lambda outputs: flat(outputs["image"]),
            lambda drawn: flat(drawn).astype(default_float()) / 255,
        ),
        Loss(
            DIVERGENCE,
            lambda outputs, _: divergence(outputs["mean"], outputs["log_variance"]),
            lambda data: data.divergence,
        ),
    ]
    return sequence.make(
        config,
        autoencoder_network(autoencoder),
        sample,
        losses,
        devices,
        axis,
        length=images_per_key,
        phase=phase,
    )
