"""Running mean and variance, with which trainers bring observations and rewards to one scale."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.typing import ArrayTree

# How many times the new values the old ones count at most. With more, what the new ones change is
# lost in rounding; beyond 2**24 a float32 count itself stands still while squares are added.
_MOST = 2.0**16


@struct.dataclass
class Moments:
    """Statistics of every entry of what was seen so far.

    Attributes:
      count: float `[]`, values seen; a float32 stands still at 2**24 times the values of an update.
      mean: pytree of float leaves.
      variance: likewise; 1 before anything was seen.
    """

    count: jax.Array
    mean: Any
    variance: Any


def _is_float(x: jax.Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def no_moments(example: Any) -> Moments:
    """Moments of values shaped like `example`; with them `normalise` changes nothing.

    Leaves that are not floats (numbers of categories, masks) have none, and stay as they are.
    """
    mean = jax.tree.map(lambda x: jnp.zeros(x.shape if _is_float(x) else (), x.dtype), example)
    variance = jax.tree.map(lambda m: jnp.ones_like(m), mean)
    return Moments(jnp.zeros((), jnp.result_type(float)), mean, variance)


def update_moments(
    moments: Moments, values: ArrayTree, weights: jax.Array, axis: str | None = None
) -> Moments:
    """Takes more values into account.

    Args:
      moments: those so far.
      values: pytree with leaves `[N, ...]`.
      weights: float `[N]`, 0 where a value does not count, else 1.
      axis: mesh axis over which values are spread.

    Returns:
      The moments; the same on all devices. From 2**16 times the values of an update on, old values
      fade: the new ones get a share of 2**-16.

    Source: Chan, Golub & LeVeque (1979), on combining the moments of two samples.
    """

    def total(x: jax.Array) -> jax.Array:
        return x if axis is None else jax.lax.psum(x, axis)

    new = total(weights.sum())
    before = jnp.minimum(moments.count, _MOST * new)
    count = before + new

    def combine(mean: jax.Array, variance: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        if not _is_float(x):
            return mean, variance
        weighted = weights.reshape(-1, *(1,) * (x.ndim - 1))
        x = jnp.where(weighted > 0, x, 0)
        own_mean = total((weighted * x).sum(0)) / jnp.maximum(new, 1)
        own_squares = total((weighted * jnp.square(x - own_mean)).sum(0))
        gap = own_mean - mean
        squares = variance * before + own_squares
        squares = squares + jnp.square(gap) * before * new / jnp.maximum(count, 1)
        return (
            mean + gap * new / jnp.maximum(count, 1),
            jnp.where(new > 0, squares / jnp.maximum(count, 1), variance),
        )

    leaves, tree = jax.tree.flatten(moments.mean)
    variances, samples = tree.flatten_up_to(moments.variance), tree.flatten_up_to(values)
    pairs = [combine(*leaf) for leaf in zip(leaves, variances, samples, strict=True)]
    return Moments(
        (moments.count + new).astype(moments.count.dtype),
        tree.unflatten([mean.astype(x.dtype) for (mean, _), x in zip(pairs, leaves, strict=True)]),
        tree.unflatten([v.astype(x.dtype) for (_, v), x in zip(pairs, variances, strict=True)]),
    )


def normalise(moments: Moments, values: ArrayTree, limit: float = 10.0) -> Any:
    """Values `[..., *shape]` at mean 0 and variance 1, clipped to [-limit, limit]."""

    def scale(mean: jax.Array, variance: jax.Array, x: jax.Array) -> jax.Array:
        if not _is_float(x):
            return x
        scaled = (x - mean) * jax.lax.rsqrt(variance + 1e-8)
        return jnp.clip(scaled, -limit, limit).astype(x.dtype)

    return jax.tree.map(scale, moments.mean, moments.variance, values)


class ReturnScale(NamedTuple):
    """The statistics that scale rewards.

    Attributes:
      returns: float `[B, ...]`, every instance's discounted rewards so far.
      moments: of all such returns.
    """

    returns: jax.Array
    moments: Moments


def no_return_scale(reward: jax.Array) -> ReturnScale:
    """Returns the scale before the first reward; rewards are float `[B, ...]`."""
    return ReturnScale(jnp.zeros_like(reward), no_moments(jnp.zeros((), reward.dtype)))


def scale_rewards(
    scale: ReturnScale,
    reward: jax.Array,
    over: jax.Array,
    weights: jax.Array,
    discount: jax.Array | float,
    axis: str | None = None,
) -> tuple[ReturnScale, jax.Array]:
    """Divides rewards by the running deviation of the return, these rewards' included.

    Args:
      scale: that so far.
      reward: float `[T, B, ...]`.
      over: `bool[T, B, ...]`, nothing that counts follows: the next return begins at 0.
      weights: float `[T, B, ...]`, 0 where a reward does not count, else 1.
      discount: gamma.
      axis: mesh axis over which instances are spread.

    Returns:
      The scale, and the rewards.
    """

    def add(returns: jax.Array, x: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        returns = discount * returns + x[0]
        return jnp.where(x[1], 0, returns), returns

    returns, all_returns = jax.lax.scan(add, scale.returns, (reward, over))
    moments = update_moments(scale.moments, all_returns.ravel(), weights.ravel(), axis)
    centred = moments.replace(mean=jnp.zeros_like(moments.mean))  # type: ignore[attr-defined]
    return ReturnScale(returns, moments), normalise(centred, reward)
