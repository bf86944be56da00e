"""Keeping XLA:CPU from computing intermediate results many times over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

T = TypeVar("T")


def stage(always: jax.Array, function: Callable[..., T], *arguments: object) -> T:
    """`function(*arguments)`, with every result stored before anything else uses it.

    XLA:CPU fuses whatever it can into the loop of each final result, so that a long chain of
    selections with ten results is compiled, and computed, ten times. A condition it cannot see
    through is a border for it.

    Args:
      always: `bool[]`, true, but not known to the compiler to be; never batched.
      function: of arrays, or trees of them.
      *arguments: for the function.

    Returns:
      What the function returns.
    """

    def blank(*arguments: object) -> T:
        shapes = jax.eval_shape(function, *arguments)
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    return jax.lax.cond(always, function, blank, *arguments)
