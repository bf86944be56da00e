"""Keeping XLA:CPU from computing intermediate results many times over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata

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


def apart(function: Callable[..., T], *arguments: object) -> T:
    """As `stage`, where all instances take part: on a CPU the function stays a call."""
    return _called(function, arguments, inlineable="false")


def kernel(function: Callable[..., T], *arguments: object) -> T:
    """`function(*arguments)` as one kernel: XLA:CPU starts it once, not each operation in it.

    Starting an operation takes about a microsecond, which for small arrays is most of the time; in
    a loop of hundreds of turns it is paid in every one.

    Args:
      function: of arrays, or trees of them. It has to consist of elementwise operations, loops,
        conditions and `apart`: others, such as sums, are not always compiled within a kernel.
      *arguments: for the function.

    Returns:
      What the function returns.
    """
    return _called(function, arguments, inlineable="false", xla_cpu_small_call="true")


def _called(function: Callable[..., T], arguments: tuple, **attributes: str) -> T:
    jitted = jax.jit(function)

    def cpu(*arguments: object) -> T:
        return set_xla_metadata(jitted(*arguments), **attributes)

    return jax.lax.platform_dependent(*arguments, cpu=cpu, default=jitted)
