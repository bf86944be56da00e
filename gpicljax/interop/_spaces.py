"""Spaces as other libraries' trainers can use them: flat, of one integer, of one agent."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from gpicljax import spaces
from gpicljax.checks import check
from gpicljax.environment import Environment
from gpicljax.registration import resolve

_LARGEST = 2**31 - 1


def of_one_agent(env: Environment | str) -> Environment:
    """Returns the environment, or that of an id. ValueError if it has several agents."""
    env = resolve(env)
    check(env.num_agents is None, "num_agents", env.num_agents, "one; to_jaxmarl takes several")
    return env


def flat_box(space: spaces.Space) -> spaces.Box:
    """The space of `spaces.flatten(space, member)`, bounded by the extremes of all entries."""

    def bounds(space: spaces.Space) -> tuple[float, float]:
        if isinstance(space, spaces.Box):
            return float(space.low), float(space.high)
        if isinstance(space, spaces.Dict):
            lows, highs = zip(*[bounds(entry) for _, entry in space.items], strict=True)
            return min(lows), max(highs)
        return 0.0, 1.0

    return spaces.Box(*bounds(space), (spaces.flat_size(space),))


def joint_space(space: spaces.Space) -> spaces.Space:
    """The same choices as one integer: a MultiDiscrete becomes a Discrete of all combinations.

    Raises:
      ValueError: if there are more combinations than `int32` can number.
    """
    if not isinstance(space, spaces.MultiDiscrete):
        return space
    count = math.prod(space.sizes)
    if count > _LARGEST:
        raise ValueError(f"action space {space}: {count} combinations do not fit into an int32")
    return spaces.Discrete(count)


def to_native(space: spaces.Space, action: Any) -> Any:
    """Returns a member of `space` from one of `joint_space(space)`, of any shape of the right size.

    Args:
      space: the native action space.
      action: an integer for Discrete and MultiDiscrete, an array for a Box. JaxMARL's baselines
        send single integers as `[1]`.
    """
    if isinstance(space, spaces.Discrete):
        return jnp.reshape(action, ()).astype(jnp.int32)
    if isinstance(space, spaces.MultiDiscrete):
        index = jnp.reshape(action, ())
        entries = jnp.stack(jnp.unravel_index(index, space.sizes)).astype(jnp.int32)
        return entries.reshape(space.shape)
    if isinstance(space, spaces.Box):
        return jnp.reshape(action, space.shape).astype(space.jax_dtype)
    raise TypeError(f"action space {space}: choose from Discrete, MultiDiscrete, Box")


def joint_mask(space: spaces.Space, mask: jax.Array) -> jax.Array:
    """Returns which members of `joint_space(space)` are legal, `bool[n]`.

    Args:
      space: Discrete or MultiDiscrete.
      mask: `bool[n]`, or for MultiDiscrete `bool[len(nvec), at least max(nvec)]`.
    """
    if not isinstance(space, spaces.MultiDiscrete):
        return mask
    legal = jnp.ones((), bool)
    for i, n in enumerate(space.nvec):
        legal = legal[..., None] & mask[i, :n]
    return legal.reshape(-1)
