"""Returns of actions: generalised advantages, n-step returns.

All run along the leading axis, time; further axes (instances, agents) are batched. `rlax` computes
them; how discounts cut them off where episodes end is what is done here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp


def _map_columns(function: Callable[..., jax.Array], *arrays: jax.Array) -> jax.Array:
    """`function` of arrays `[T]` (or `[T + 1]`) over all axes behind the first."""
    rest = arrays[0].shape[1:]
    flat = [x.reshape(x.shape[0], -1) for x in arrays]
    result = jax.vmap(function, 1, 1)(*flat)
    return result.reshape(-1, *rest)


def generalised_advantages(
    reward: jax.Array,
    terminated: jax.Array,
    over: jax.Array,
    ignored: jax.Array,
    values: jax.Array,
    discount: jax.Array | float,
    gae_lambda: jax.Array | float,
) -> jax.Array:
    """Returns generalised advantages of steps; those of ignored steps are arbitrary.

    Args:
      reward: float `[T, ...]`, received on arriving at step t + 1.
      terminated: `bool[T, ...]`, step t + 1 is terminal and worth nothing.
      over: `bool[T, ...]`, step t + 1 is the last that counts: terminal, or cut off and worth its
        value.
      ignored: `bool[T, ...]`, step t's action is ignored: it leads on without a discount.
      values: float `[T + 1, ...]`.
      discount: gamma.
      gae_lambda: lambda.

    Returns:
      float `[T, ...]`.

    Source: Schulman et al. (2016), equation 16.
    """
    import rlax

    chex.assert_equal_shape([reward, terminated, over, ignored, values[1:]])
    estimate: Any = rlax.truncated_generalized_advantage_estimation
    dtype = values.dtype
    discounts = jnp.where(ignored, 1.0, discount) * (1 - terminated.astype(dtype))
    decays = jnp.where(ignored, 1.0, gae_lambda) * (1 - over.astype(dtype))
    factors = discounts.astype(dtype), decays.astype(dtype)
    return _map_columns(estimate, reward.astype(dtype), *factors, values)


def one_step_target(reward: jax.Array, discount: jax.Array, value: jax.Array) -> jax.Array:
    """`reward + discount * value`, in which a value whose discount is 0 has no part.

    A terminal observation may be one for which the network has no finite value.

    Args:
      reward: float `[...]`.
      discount: float `[...]`, 0 where nothing follows.
      value: float `[...]`, of what follows.
    """
    return reward + discount * jnp.where(discount == 0, 0, value)


def rescale(x: jax.Array) -> Any:
    """h(x), which shrinks large values. Source: Pohlen et al. (2018), proposition 2."""
    import rlax

    return rlax.signed_hyperbolic(x)


def n_step_targets(
    rewards: jax.Array,
    discounts: jax.Array,
    continues: jax.Array,
    values: jax.Array,
    n_step: int,
    rescaled: bool = False,
) -> jax.Array:
    """n-step returns; the last n - 1 steps use what is left.

    Args:
      rewards: float `[T, ...]`, received on arriving at step t + 1.
      discounts: float `[T, ...]`, gamma, or 0 where step t + 1 is terminal.
      continues: float `[T, ...]`, 0 where the episode is cut off at step t + 1: the return ends
        there with that step's value.
      values: float `[T, ...]`, of step t + 1.
      n_step: n.
      rescaled: values and returns are in the space of `rescale`.

    Returns:
      float `[T, ...]`, without gradient.
    """
    import rlax

    chex.assert_equal_shape([rewards, discounts, continues, values])

    def returns(*of_one: jax.Array) -> Any:
        reward, discount, going, value = of_one
        return rlax.n_step_bootstrapped_returns(reward, discount, value, n_step, going)  # type: ignore[arg-type]

    values = jnp.where(discounts == 0, 0, values)  # see `one_step_target`
    if rescaled:
        unscale: Any = rlax.signed_parabolic
        values = unscale(values)
    targets = _map_columns(returns, rewards, discounts, continues, values)
    return jax.lax.stop_gradient(rescale(targets) if rescaled else targets)
