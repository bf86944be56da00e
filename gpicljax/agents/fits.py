"""Reasons why an algorithm does not fit a pair of spaces; each returns None where it does."""

from __future__ import annotations

import jax.numpy as jnp

from gpicljax import spaces
from gpicljax.spaces import Space


def refuse_unreadable(observation_space: Space) -> str | None:
    """Returns why an MLP cannot read these observations; None if it can."""
    try:
        spaces.flat_size(observation_space)
    except TypeError:
        return f"observations of {observation_space} cannot be read by an MLP"
    return None


def need_one_choice(observation_space: Space, action_space: Space) -> str | None:
    """Returns why an agent that chooses one of several actions does not fit."""
    if not isinstance(action_space, spaces.Discrete):
        return f"discrete actions are needed, not {action_space}"
    return refuse_unreadable(observation_space)


def need_choices(observation_space: Space, action_space: Space) -> str | None:
    """Returns why an agent that makes one choice, or several at once, does not fit."""
    if isinstance(action_space, spaces.MultiDiscrete) and len(action_space.shape) == 1:
        return refuse_unreadable(observation_space)
    return need_one_choice(observation_space, action_space)


def need_actions(observation_space: Space, action_space: Space) -> str | None:
    """Returns why an agent with choices or continuous actions does not fit."""
    if is_continuous(action_space):
        return refuse_unreadable(observation_space)
    if need_choices(spaces.Discrete(1), action_space) is not None:
        return f"discrete or continuous actions are needed, not {action_space}"
    return refuse_unreadable(observation_space)


def is_continuous(space: Space) -> bool:
    """Returns whether the members of a space are arrays of floating-point numbers."""
    return isinstance(space, spaces.Box) and jnp.issubdtype(space.jax_dtype, jnp.floating)
