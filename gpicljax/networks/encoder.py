"""Observations as one vector: pictures through convolutions, all else flat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax import spaces
from gpicljax.networks.feedforward import dense
from gpicljax.typing import ArrayTree

_LEAST_SIDE = 8  # pixels; what is smaller is flattened, as it is in the end


def is_picture(space: spaces.Space) -> bool:
    """Whether members are pictures, `uint8[H, W, channels]` with sides of at least 8 pixels."""
    return (
        isinstance(space, spaces.Box)
        and space.jax_dtype == jnp.uint8
        and len(space.shape) == 3
        and min(space.shape[:2]) >= _LEAST_SIDE
    )


class Encoder(nn.Module):
    """One vector for an observation: `spaces.flatten`, but for pictures.

    A picture, scaled to [0, 1], passes through 3x3 convolutions of stride 2 and a dense layer;
    every picture of a dictionary through its own. Without pictures there are no parameters.

    Attributes:
      observation_space: of the unbatched observation, of one agent.
      channels: of the convolutions, from the first to the last; there are further ones like the
        last until no side is longer than 8.
      features: size of a picture's vector.

    Source: after Mnih et al. (2015), with strides instead of larger kernels, so that pictures of
    8 pixels fit as well as of 128.

    Example:
      >>> picture = jnp.zeros((2, 16, 16, 3), jnp.uint8)
      >>> encoder = Encoder(spaces.Box(0, 255, (16, 16, 3), "uint8"))
      >>> params = jax.eval_shape(encoder.init, jax.random.key(0), picture)
      >>> jax.eval_shape(encoder.apply, params, picture).shape
      (2, 256)
    """

    observation_space: spaces.Space
    channels: Sequence[int] = (32, 64, 64)
    features: int = 256

    @nn.compact
    def __call__(self, observation: ArrayTree) -> jax.Array:
        """Returns an observation with any leading axes -> float `[..., F]`."""
        return self._encode(self.observation_space, observation, "picture")

    def _encode(self, space: spaces.Space, value: Any, name: str) -> jax.Array:
        if is_picture(space):
            return self._encode_picture(jnp.asarray(value), name)
        if isinstance(space, spaces.Dict):
            parts = [self._encode(entry, value[key], key) for key, entry in space.items]
            return jnp.concatenate(parts, axis=-1)
        return spaces.flatten(space, value)

    def _encode_picture(self, picture: jax.Array, name: str) -> jax.Array:
        dtype = jnp.result_type(float)
        batch = picture.shape[:-3]
        x = picture.reshape(-1, *picture.shape[-3:]).astype(dtype) / 255
        halvings = (max(x.shape[1:3]) - 1).bit_length() - (_LEAST_SIDE - 1).bit_length()
        extra = [self.channels[-1]] * max(halvings - len(self.channels), 0)
        for i, channels in enumerate([*self.channels, *extra]):
            layer = nn.Conv(
                channels,
                (3, 3),
                strides=2,
                kernel_init=nn.initializers.he_normal(),
                param_dtype=dtype,
                name=f"{name}_conv_{i}",
            )
            x = nn.relu(layer(x))
        x = x.reshape(*batch, -1)
        options = {"kernel_init": nn.initializers.he_normal(), "name": f"{name}_dense"}
        return nn.relu(dense(self.features, **options)(x))
