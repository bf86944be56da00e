"""Variational autoencoders of pictures: convolutions as in the paper, or patches for a CPU.

An `Autoencoder` is a bundle of pure functions over parameters. What it makes of pictures is read by
world models, so that three things belong to it: parts, in which more pictures are encoded and
decoded than fit into memory at once; the statistics of its latents, by which `standardise` makes
them comparable; and the parameters' exact number.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from gpicljax import random
from gpicljax.checks import Count, Natural, check, check_array, check_at_least, check_fields
from gpicljax.networks.layers import Linear, default_float
from gpicljax.typing import Variables

_CELL = 8
"""Pixels of a side of what becomes one place of the smallest grid."""
_SLOPE = 0.01
"""Slope of the leaky rectifiers for negative inputs."""


class Autoencoder(NamedTuple):
    """Pure functions of one autoencoder, over any leading axes.

    Attributes:
      init: `key -> params`.
      encode: `(params, images uint8[..., H, W, 3]) -> (mean, log_variance)`, float `[..., Z]` each.
      decode: `(params, latents [..., Z]) -> float[..., H, W, 3]` in [0, 1].
      latent: Z.
      resolution: H and W.
    """

    init: Callable[[jax.Array], Any]
    encode: Callable[[Any, jax.Array], tuple[jax.Array, jax.Array]]
    decode: Callable[[Any, jax.Array], jax.Array]
    latent: int
    resolution: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class AutoencoderSettings:
    """Kind and size of an autoencoder; the defaults are the paper's.

    Attributes:
      kind: convolutions and residual blocks, or patches and dense layers, which a CPU computes
        many times as fast.
      latent: Z, size of a picture's latent vector.
      width: of convolutions, channels within the encoder's residual blocks, of which the blocks'
        streams have an eighth and a fourth, and the decoder's a half; of patches, features of each.
      decoder_width: channels within the decoder's residual blocks; patches have none.
      blocks: residual blocks of every stage; patches have none.
      precision: of convolutions and matrix products.

    Raises:
      ValueError: for numbers below 1 (blocks: 0), and a width of convolutions that 16 does not
        divide.

    Example:
      >>> AutoencoderSettings("patches", latent=64, width=64).precision
      'float32'
      >>> AutoencoderSettings(width=100)
      Traceback (most recent call last):
      ValueError: width: got 100; accepted: a multiple of 16
    """

    kind: Literal["convolutional", "patches"] = "convolutional"
    latent: Count = 1024
    width: Count = 384
    decoder_width: Count = 1024
    blocks: Natural = 2
    precision: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        check_fields(self)
        fits = self.kind == "patches" or self.width % 16 == 0
        check(fits, "width", self.width, "a multiple of 16")


def autoencoder(settings: AutoencoderSettings, resolution: tuple[int, int]) -> Autoencoder:
    """Returns the autoencoder of pictures of one size.

    The convolutional one has the paper's layers, which at 128 x 128 come to 11,076,528 parameters
    of the encoder, 788,480 of the two linear layers behind it (mean and log-variance) and
    14,343,923 of the decoder. At other resolutions the grid before the dense layers is larger or
    smaller, and all else the same.

    Args:
      settings: kind and size.
      resolution: H and W; layers see pictures with zeros up to the next multiples of 8.

    Source: the GPICL paper, section 3.2, appendix A.1 and Figure 12.
    """
    sides = tuple(resolution)
    fits = len(sides) == 2 and min(sides) > 0
    check(fits, "resolution", sides, "a height and a width above 0")
    resolution = sides[0], sides[1]
    height, width = (-(-side // _CELL) * _CELL for side in resolution)
    around = (0, 0), (0, height - sides[0]), (0, width - sides[1]), (0, 0)
    kind = default_float() if settings.precision == "float32" else jnp.dtype(settings.precision)
    encoder, decoder = (part(settings, (height, width), kind) for part in _KINDS[settings.kind])
    heads = Linear(settings.latent, _limits(), default_float())

    def features(params: Variables, images: jax.Array) -> jax.Array:
        pictures = jnp.pad(images.astype(kind) / 255, around)
        return encoder.apply({"params": params["encoder"]}, pictures)  # type: ignore[return-value]

    def init(key: jax.Array) -> Any:
        hidden, in_encoder = encoder.init_with_output(key, jnp.zeros((1, height, width, 3), kind))
        latents = jnp.zeros((1, settings.latent), default_float())
        limits = {
            "encoder": in_encoder,
            "mean": heads.init(key, hidden),
            "log_variance": heads.init(key, hidden),
            "decoder": decoder.init(key, latents),
        }
        return _draw_within(key, {name: within["params"] for name, within in limits.items()})

    def encode(params: Variables, images: jax.Array) -> tuple[jax.Array, jax.Array]:
        fits = images.dtype == jnp.uint8 and images.shape[-3:] == (*resolution, 3)
        check_array(fits, "images", images, f"uint8[..., {resolution[0]}, {resolution[1]}, 3]")
        hidden = features(params, images.reshape(-1, *resolution, 3))
        batch = images.shape[:-3]

        def head(name: str) -> jax.Array:
            latents: Any = heads.apply({"params": params[name]}, hidden)
            return latents.reshape(*batch, settings.latent)

        return head("mean"), head("log_variance")

    def decode(params: Variables, latents: jax.Array) -> jax.Array:
        fits = latents.ndim and latents.shape[-1] == settings.latent
        check_array(fits, "latents", latents, f"float[..., {settings.latent}]")
        flat = latents.reshape(-1, settings.latent)
        logits: Any = decoder.apply({"params": params["decoder"]}, flat)
        images = jax.nn.sigmoid(logits.astype(default_float()))[:, : sides[0], : sides[1]]
        return images.reshape(*latents.shape[:-1], *resolution, 3)

    # Outside a compiled program, each of an initialiser's operations would be compiled alone.
    return Autoencoder(jax.jit(init), encode, decode, settings.latent, resolution)


# More pictures than fit --------------------------------------------------------------------------


def encode_in_parts(
    autoencoder: Autoencoder, params: Variables, images: jax.Array, part: int | None = None
) -> tuple[jax.Array, jax.Array]:
    """Encodes a limited number of pictures at a time: memory holds the activations of one part.

    Args:
      autoencoder: the encoder's.
      params: its parameters.
      images: `uint8[..., H, W, 3]`.
      part: most pictures at a time; None for all at once.

    Raises:
      ValueError: for a part below 1.
    """
    return _in_parts(lambda rows: autoencoder.encode(params, rows), images, 3, part)


def decode_in_parts(
    autoencoder: Autoencoder, params: Variables, latents: jax.Array, part: int | None = None
) -> jax.Array:
    """Decodes a limited number of latents at a time, also where there is a gradient.

    A part's activations are computed again for its gradient instead of being kept.

    Args:
      autoencoder: the decoder's.
      params: its parameters.
      latents: float `[..., Z]`.
      part: most pictures at a time; None for all at once.

    Raises:
      ValueError: for a part below 1.
    """
    decode = jax.checkpoint(lambda rows: autoencoder.decode(params, rows))
    return _in_parts(decode, latents, 1, part)


def _in_parts(
    function: Callable[[jax.Array], Any], x: jax.Array, inner: int, part: int | None
) -> Any:
    """`function` over the leading axes of x, all but so many inner ones, of equal parts."""
    check_at_least(1, part=part)
    batch, shape = x.shape[: x.ndim - inner], x.shape[x.ndim - inner :]
    flat = x.reshape(-1, *shape)
    count = len(flat)
    if part is None or count <= part:
        result = function(flat)
    else:
        # Not `batch_size=` of `map`: what it maps sees single pictures, with whose batch axis the
        # weights' gradients would be computed picture by picture.
        parts = -(-count // part)
        size = -(-count // parts)
        padded = jnp.pad(flat, ((0, parts * size - count), *[(0, 0)] * inner))
        result = jax.lax.map(function, padded.reshape(parts, size, *shape))
        result = jax.tree.map(lambda y: y.reshape(-1, *y.shape[2:])[:count], result)
    return jax.tree.map(lambda y: y.reshape(*batch, *y.shape[1:]), result)


# Standardised latents ----------------------------------------------------------------------------


class Standardised(NamedTuple):
    """Parameters of an autoencoder, and the statistics of its latents.

    Attributes:
      network: of the autoencoder.
      shift: float `[Z]`, the latents' means over pictures.
      scale: float `[Z]`, their standard deviations.
    """

    network: Any
    shift: jax.Array
    scale: jax.Array


def standardise(autoencoder: Autoencoder) -> Autoencoder:
    """The same autoencoder over `Standardised` parameters: its latents have mean 0 and variance 1.

    What is encoded is standardised, and what is decoded is brought back first. With `init`'s
    parameters, shift 0 and scale 1, the two are the same.
    """

    def init(key: jax.Array) -> Standardised:
        shift = jnp.zeros(autoencoder.latent, default_float())
        return Standardised(autoencoder.init(key), shift, shift + 1)

    def encode(params: Standardised, images: jax.Array) -> tuple[jax.Array, jax.Array]:
        mean, log_variance = autoencoder.encode(params.network, images)
        return (mean - params.shift) / params.scale, log_variance - 2 * jnp.log(params.scale)

    def decode(params: Standardised, latents: jax.Array) -> jax.Array:
        return autoencoder.decode(params.network, latents * params.scale + params.shift)

    return autoencoder._replace(init=init, encode=encode, decode=decode)


def latent_statistics(means: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns mean and standard deviation of every latent over pictures, float `[Z]` each.

    Args:
      means: float `[..., Z]`, as pictures are encoded.
    """
    rows = means.reshape(-1, means.shape[-1])
    return rows.mean(0), jnp.maximum(rows.std(0), 1e-3)  # a constant latent is not blown up


# The two kinds -----------------------------------------------------------------------------------


def _rectify(x: jax.Array) -> jax.Array:
    return jax.nn.leaky_relu(x, _SLOPE)


class _Layers(nn.Module):
    """Base class of encoders and decoders.

    Attributes:
      settings: kind and size.
      resolution: of the pictures.
      kind: dtype of convolutions and matrix products.
    """

    settings: AutoencoderSettings
    resolution: tuple[int, int]
    kind: Any

    @property
    def grid(self) -> tuple[int, int]:
        """Sides of the smallest grid."""
        height, width = self.resolution
        return height // _CELL, width // _CELL

    def linear(self, size: int, rectified: bool = True) -> Any:
        """Returns a dense layer of the last axis, to be followed by a rectifier or not."""
        return Linear(size, _limits(rectified), self.kind)

    def convolution(self, channels: int, size: int, stride: int = 1, rectified: bool = True) -> Any:
        """Returns a convolution that pads: a stride of 2 halves even sides."""
        return nn.Conv(channels, (size, size), stride, **self._options(rectified))

    def enlarging(self, channels: int) -> Any:
        """Returns a transposed convolution of 4 x 4 that doubles the sides."""
        # A fourth of the kernel meets each pixel.
        return nn.ConvTranspose(channels, (4, 4), (2, 2), **self._options(True, 4))

    def residual(self, x: jax.Array, hidden: int) -> jax.Array:
        """Returns a residual block: C -> hidden channels from 3 x 3 pixels, and back from one."""
        inner = self.convolution(hidden, 3)(_rectify(x))
        return x + self.convolution(x.shape[-1], 1, rectified=False)(_rectify(inner))

    def _options(self, rectified: bool, share: int = 1) -> dict[str, Any]:
        return {
            "kernel_init": _limits(rectified, share),
            "dtype": self.kind,
            "param_dtype": default_float(),
        }


def _limits(rectified: bool = False, share: int = 1) -> Any:
    """Returns an initialiser of the limits of a layer's weights, see `_draw_within`.

    Uniform weights within them keep the variance of the layer's inputs, of which a rectifier takes
    a half (He et al., 2015).
    """

    def initialise(key: jax.Array, shape: Any, dtype: Any) -> jax.Array:
        del key
        limit = math.sqrt(3 * (1 + rectified) * share / math.prod(shape[:-1]))
        return jnp.full(shape, limit, dtype)

    return initialise


def _draw_within(key: jax.Array, limits: Any) -> Any:
    """Draws uniform numbers within limits: a pytree of arrays like that of the limits.

    They are drawn in a row. Dozens of draws of different shapes take XLA:CPU a minute to compile.
    """
    leaves, structure = jax.tree.flatten(limits)
    row = random.uniform(key, (sum(leaf.size for leaf in leaves),), minval=-1)
    ends = np.cumsum([leaf.size for leaf in leaves])
    parts = [row[end - leaf.size : end] for end, leaf in zip(ends, leaves, strict=True)]
    filled = [leaf * part.reshape(leaf.shape) for leaf, part in zip(leaves, parts, strict=True)]
    return jax.tree.unflatten(structure, filled)


class _ConvolutionalEncoder(_Layers):
    """Figure 12, left: float `[N, H, W, 3] -> [N, width]`."""

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        width, blocks = self.settings.width, self.settings.blocks
        x = _rectify(self.convolution(width // 16, 3)(images))
        for channels in (width // 8, width // 4):
            x = _rectify(self.convolution(channels, 4, 2)(x))
            x = self.convolution(channels, 3, rectified=False)(x)
            for _ in range(blocks):
                x = self.residual(x, width)
            x = _rectify(self.convolution(channels, 3)(x))
        x = _rectify(self.convolution(width // 4, 4, 2)(x))
        x = self.convolution(width // 4, 3, rectified=False)(x)
        return _rectify(self.linear(width)(x.reshape(len(x), -1)))


class _ConvolutionalDecoder(_Layers):
    """Figure 12, right: float `[N, Z] -> logits [N, H, W, 3]`."""

    @nn.compact
    def __call__(self, latents: jax.Array) -> jax.Array:
        width, (rows, columns) = self.settings.width, self.grid
        x = _rectify(self.linear(width)(latents))
        x = _rectify(self.linear(rows * columns * (width // 4))(x))
        x = self.convolution(width // 2, 3, rectified=False)(
            x.reshape(-1, rows, columns, width // 4)
        )
        for _ in range(self.settings.blocks):
            x = self.residual(x, self.settings.decoder_width)
        x = _rectify(x)
        for channels in (width // 4, width // 8, width // 16):
            x = _rectify(self.enlarging(channels)(x))
        return self.convolution(3, 3, rectified=False)(x)


def _patches(x: jax.Array, size: int) -> jax.Array:
    """Squares of size x size pixels as one: `[N, H, W, C] -> [N, H / size, W / size, size^2 C]`."""
    count, height, width, channels = x.shape
    x = x.reshape(count, height // size, size, width // size, size, channels).swapaxes(2, 3)
    return x.reshape(count, height // size, width // size, -1)


def _paste(x: jax.Array, size: int) -> jax.Array:
    """Returns the inverse of `_patches`."""
    count, height, width, _ = x.shape
    x = x.reshape(count, height, width, size, size, -1).swapaxes(2, 3)
    return x.reshape(count, height * size, width * size, -1)


class _PatchLayers(_Layers):
    def position(self) -> jax.Array:
        """Returns a learnt vector for every patch of 4 x 4 pixels."""
        rows, columns = self.grid
        shape = 2 * rows, 2 * columns, self.settings.width
        return self.param("position", nn.initializers.constant(0.1), shape, default_float())


class _PatchEncoder(_PatchLayers):
    """Patches of 4 x 4 pixels, merged two by two: float `[N, H, W, 3] -> [N, 4 width]`."""

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        width = self.settings.width
        x = _rectify(self.linear(width)(_patches(images, 4)) + self.position().astype(self.kind))
        x = _rectify(self.linear(width)(_patches(x, 2)))
        return _rectify(self.linear(4 * width)(x.reshape(len(x), -1)))


class _PatchDecoder(_PatchLayers):
    """The way back: float `[N, Z] -> logits [N, H, W, 3]`."""

    @nn.compact
    def __call__(self, latents: jax.Array) -> jax.Array:
        width, (rows, columns) = self.settings.width, self.grid
        x = _rectify(self.linear(4 * width)(latents))
        x = _rectify(self.linear(rows * columns * width)(x)).reshape(-1, rows, columns, width)
        x = _paste(self.linear(4 * width)(x), 2)
        x = _rectify(x + self.position().astype(self.kind))
        x = _rectify(self.linear(2 * width)(x))
        return _paste(self.linear(48, rectified=False)(x), 4)


_KINDS: dict[str, tuple[Any, Any]] = {
    "convolutional": (_ConvolutionalEncoder, _ConvolutionalDecoder),
    "patches": (_PatchEncoder, _PatchDecoder),
}
