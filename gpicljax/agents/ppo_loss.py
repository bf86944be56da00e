"""PPO's loss and its minibatches of windows, apart from how they are collected."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp

from gpicljax.networks.actor_critic import PolicyOutput
from gpicljax.networks.contract import AgentInput

Metrics = dict[str, jax.Array]


class LossHParams(Protocol):
    """The hyper-parameters that `loss` reads."""

    clip: Any
    value_clip: Any
    value_coefficient: Any
    entropy_coefficient: Any


class Batch(NamedTuple):
    """Windows to learn from, leaves `[W * B, window, ...]`; `carry` without the window.

    `acted` and `valued` are 1 where the policy's and the value's losses count, else 0.
    """

    carry: Any
    inputs: AgentInput
    start: jax.Array
    sample: jax.Array
    log_prob: jax.Array
    value: jax.Array
    advantage: jax.Array
    acted: jax.Array
    valued: jax.Array


def into_windows(x: jax.Array, windows: int) -> jax.Array:
    """`[T, B, ...]` -> `[W * B, T / W, ...]`."""
    num_envs = x.shape[1]
    x = x.reshape(windows, -1, *x.shape[1:]).swapaxes(1, 2)
    return x.reshape(windows * num_envs, -1, *x.shape[3:])


def minibatches(
    key: jax.Array, windows: int, num_envs: int, parts: int, axis: str | None = None
) -> jax.Array:
    """Returns the windows of each minibatch of an epoch.

    Args:
      key: a typed key, the same on all devices.
      windows: W, those of an instance.
      num_envs: B, instances of this device.
      parts: M, minibatches; a divisor of W, or else of B.
      axis: mesh axis over which instances are spread.

    Returns:
      `int32[M, W * B / M]`, places in `into_windows`.
    """
    index = 0 if axis is None else jax.lax.axis_index(axis)
    if windows % parts:
        order = jax.random.permutation(jax.random.fold_in(key, index), num_envs)
        order = order + num_envs * jnp.arange(windows)[:, None]
        return order.reshape(windows, parts, -1).swapaxes(0, 1).reshape(parts, -1)
    # One order of the windows, which every instance begins at a place of its own: much cheaper
    # than as many orders, and the groups do not depend on the number of devices.
    order_key, place_key = jax.random.split(key)
    instance = jnp.arange(num_envs)
    place = jax.vmap(lambda i: jax.random.bits(jax.random.fold_in(place_key, i)))(
        index * num_envs + instance
    )
    turn = jnp.arange(windows)[:, None] + (place % windows).astype(jnp.int32)
    order = jax.random.permutation(order_key, windows)[turn % windows]
    return (order * num_envs + instance).reshape(parts, -1)


def loss(
    hparams: LossHParams,
    output: PolicyOutput,
    distribution: Any,
    batch: Batch,
    normalise_advantages: bool,
    axis: str | None = None,
) -> tuple[jax.Array, Metrics]:
    """Returns the clipped surrogate objective, a value loss and an entropy bonus.

    Args:
      hparams: clips and coefficients.
      output: of the network now, time-major as all of `batch` is here: leaves `[window, N, ...]`.
      distribution: of the policy now.
      batch: a minibatch.
      normalise_advantages: whether to scale advantages to mean 0 and variance 1.
      axis: mesh axis over which instances are spread.

    Returns:
      This device's part of the loss and of its metrics; summed over devices they are means.

    `rlax.clipped_surrogate_pg_loss` is a plain mean, without weights for steps that do not count.

    Source: Schulman et al. (2017), equations 7 and 9.
    """

    chex.assert_equal_shape([output.value, *batch[4:]])

    def total(x: jax.Array) -> jax.Array:
        return x if axis is None else jax.lax.psum(x, axis)

    def mask_out(x: jax.Array, mask: jax.Array) -> jax.Array:
        # Before anything is multiplied: what does not count may not be finite, and 0 * NaN is NaN.
        return jnp.where(mask > 0, x, 0)

    log_ratio = mask_out(distribution.log_prob(batch.sample) - batch.log_prob, batch.acted)
    ratio = jnp.exp(log_ratio)
    acted = batch.acted / jnp.maximum(total(batch.acted.sum()), 1)
    valued = batch.valued / jnp.maximum(total(batch.valued.sum()), 1)

    advantage = mask_out(batch.advantage, batch.acted)
    if normalise_advantages:
        advantage = advantage - total((advantage * acted).sum())
        variance = total((jnp.square(advantage) * acted).sum())
        advantage = advantage / (jnp.sqrt(variance) + 1e-8)
    clipped = jnp.clip(ratio, 1 - hparams.clip, 1 + hparams.clip)
    policy_loss = -(jnp.minimum(ratio * advantage, clipped * advantage) * acted).sum()

    value = mask_out(output.value, batch.valued)
    before = mask_out(batch.value, batch.valued)
    target = mask_out(batch.advantage, batch.valued) + before
    change = jnp.clip(value - before, -hparams.value_clip, hparams.value_clip)
    errors = jnp.maximum(jnp.square(value - target), jnp.square(before + change - target))
    value_loss = 0.5 * (errors * valued).sum()

    entropy = (mask_out(distribution.entropy(), batch.acted) * acted).sum()
    loss = policy_loss + hparams.value_coefficient * value_loss
    metrics = {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "kl": ((ratio - 1 - log_ratio) * acted).sum(),
        "clip_share": ((jnp.abs(ratio - 1) > hparams.clip) * acted).sum(),
    }
    return loss - hparams.entropy_coefficient * entropy, metrics
