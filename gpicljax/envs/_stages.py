"""Keeping XLA:CPU from computing intermediate results many times over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr_consts

T = TypeVar("T")


def run_stage(always: jax.Array, function: Callable[..., T], *arguments: object) -> T:
    """`function(*arguments)`, with every result stored before anything else uses it.

    XLA:CPU fuses whatever it can into the loop of each final result, so that a long chain of
    selections with ten results is compiled, and computed, ten times. A condition it cannot see
    through is a border for it.

    Args:
      always: `bool[]`, true, but not known to the compiler to be; never batched.
      function: of arrays, or trees of them.
      *arguments: for the function.
    """

    leaves, tree = jax.tree.flatten(arguments)

    def flat(*leaves: jax.Array) -> T:
        return function(*jax.tree.unflatten(tree, leaves))

    # Traced once, whatever stages it consists of: `cond` and the shapes would do it twice each.
    closed, shapes = jax.make_jaxpr(flat, return_shape=True)(*leaves)

    def blank(*_: jax.Array) -> list[jax.Array]:
        return [jnp.zeros(x.shape, x.dtype) for x in jax.tree.leaves(shapes)]

    results = jax.lax.cond(always, jaxpr_as_fun(closed), blank, *leaves)
    return jax.tree.unflatten(jax.tree.structure(shapes), results)


def run_apart(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function of arrays that all have the batch; XLA:CPU does not inline the call."""
    return _annotate_call(jax.jit(function), arguments, inlineable="false")


def run_kernel(function: Callable[..., T], *arguments: object) -> T:
    """`function(*arguments)` as one kernel: XLA:CPU starts it once, not each operation in it.

    Starting an operation takes up to a microsecond, which for small arrays is most of the time; in
    a loop of hundreds of turns it is paid in every one. Kernels of moderate size also compile in
    half the time, very large ones in twice the time.

    Args:
      function: of arrays, or trees of them. Loops, conditions and `run_apart` are fine in it; sums,
        products and extremes of floats along an axis are not, for XLA has other ways with large
        ones that do not work within a kernel.
      *arguments: for the function.
    """
    leaves, tree = jax.tree.flatten(arguments)

    def flat(*leaves: jax.Array) -> T:
        return function(*jax.tree.unflatten(tree, leaves))

    closed, shapes = jax.make_jaxpr(flat, return_shape=True)(*leaves)
    # XLA:CPU cannot compile a kernel with an argument that is not used.
    every = [True] * len(closed.jaxpr.outvars)
    jaxpr, used_constants, used = dce_jaxpr_consts(closed.jaxpr, every)
    constants = [x for x, needed in zip(closed.consts, used_constants, strict=True) if needed]
    leaves = [x for x, needed in zip(leaves, used, strict=True) if needed]
    call = jax.jit(jaxpr_as_fun(ClosedJaxpr(jaxpr, constants)))
    results = _annotate_call(call, tuple(leaves), inlineable="false", xla_cpu_small_call="true")
    return jax.tree.unflatten(jax.tree.structure(shapes), results)


def _annotate_call(jitted: Callable[..., T], arguments: tuple, **attributes: str) -> T:
    """Calls a function; on a CPU, the call in the compiled program gets attributes."""

    def cpu(*arguments: object) -> T:
        return cast("T", set_xla_metadata(jitted(*arguments), **attributes))

    return jax.lax.platform_dependent(*arguments, cpu=cpu, default=jitted)
