"""Spaces as other libraries' trainers can use them: flat, of one integer, of one agent."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from gpicljax import spaces

_LARGEST = 2**31 - 1


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
    count = math.prod(space.nvec)
    if count > _LARGEST:
        raise ValueError(f"action space {space}: {count} combinations do not fit into an int32")
    return spaces.Discrete(count)


def to_native(space: spaces.Space, action: Any) -> Any:
    """A member of `space` from one of `joint_space(space)`, of any shape of the right size.

    Args:
      space: the native action space.
      action: an integer for Discrete and MultiDiscrete, an array for a Box. JaxMARL's baselines
        send single integers as `[1]`.
    """
    if isinstance(space, spaces.Discrete):
        return jnp.reshape(action, ()).astype(jnp.int32)
    if isinstance(space, spaces.MultiDiscrete):
        index = jnp.reshape(action, ())
        return jnp.stack(jnp.unravel_index(index, space.nvec)).astype(jnp.int32)
    if isinstance(space, spaces.Box):
        return jnp.reshape(action, space.shape).astype(space.jax_dtype)
    raise TypeError(f"action space {space}: choose from Discrete, MultiDiscrete, Box")


def joint_mask(space: spaces.Space, mask: jax.Array) -> jax.Array:
    """Which members of `joint_space(space)` are legal, `bool[n]`.

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


def of_one_agent(space: spaces.Space, num_agents: int) -> spaces.Space:
    """What one agent has of a space with a leading agent axis; undoes `spaces.repeat`.

    Raises:
      TypeError: if the space does not give all agents the same.
    """
    if isinstance(space, spaces.Dict):
        return spaces.Dict(tuple((name, of_one_agent(s, num_agents)) for name, s in space.items))
    shape = getattr(space, "shape", ())
    if shape[:1] == (num_agents,):
        if isinstance(space, spaces.MultiDiscrete) and len(set(space.nvec)) == 1:
            return spaces.Discrete(space.nvec[0])
        if isinstance(space, spaces.Box):
            return _of_one_box(space)
        # A space of its own, such as both players' `[decision, tokens]`, with the choices of one.
        nvec = getattr(space, "nvec", ())
        if not isinstance(space, spaces.MultiDiscrete) and shape[1:] == (len(nvec),):
            return spaces.MultiDiscrete(nvec)
    raise TypeError(f"{space} does not give each of {num_agents} agents the same")


def _of_one_box(space: spaces.Box) -> spaces.Space:
    # `spaces.repeat` makes an `int32` box of a MultiDiscrete; its entries are categories.
    if space.dtype == jnp.int32 and space.low == 0 and len(space.shape) == 2:
        return spaces.MultiDiscrete((int(space.high) + 1,) * space.shape[1])
    return dataclasses.replace(space, shape=space.shape[1:])
