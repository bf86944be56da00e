"""What a run would take, found out without running it."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax


class Cost(NamedTuple):
    """The cost of one call of a compiled function.

    Attributes:
      compile_s: seconds to trace and compile.
      argument_bytes: of the arguments.
      temporary_bytes: scratch space while it runs.
      seconds: wall time of one call, after one that is not counted.

    Example:
      >>> Cost(compile_s=2.0, argument_bytes=2**30, temporary_bytes=2**29, seconds=0.1).total_gib
      1.5
    """

    compile_s: float
    argument_bytes: int
    temporary_bytes: int
    seconds: float

    @property
    def total_gib(self) -> float:
        """Arguments and scratch space in GiB."""
        return (self.argument_bytes + self.temporary_bytes) / 2**30


def measure(function: Any, argument: Any, *more: Any) -> Cost:
    """Compiles a function of one pytree, asks for its memory analysis and times one call.

    Args:
      function: a jitted function that maps the argument to `(argument of the next call,
        anything)`, such as one update.
      argument: the first one; it is consumed if the function donates.
      *more: further arguments, the same at every call.

    Returns:
      The cost.

    Example:
      >>> import jax.numpy as jnp
      >>> cost = measure(jax.jit(lambda x: (x + 1, x.sum())), jnp.ones(4))
      >>> cost.argument_bytes
      16
    """
    start = time.monotonic()
    compiled = function.lower(argument, *more).compile()
    compile_s = time.monotonic() - start
    memory = compiled.memory_analysis()
    argument, _ = jax.block_until_ready(compiled(argument, *more))
    start = time.monotonic()
    jax.block_until_ready(compiled(argument, *more))
    return Cost(
        compile_s,
        int(getattr(memory, "argument_size_in_bytes", 0)),
        int(getattr(memory, "temp_size_in_bytes", 0)),
        time.monotonic() - start,
    )


def parameter_count(params: Any) -> int:
    """The number of entries of all arrays of a pytree (or of their shapes).

    Example:
      >>> import numpy as np
      >>> parameter_count({"kernel": np.zeros((3, 4)), "bias": np.zeros(4)})
      16
    """
    return sum(leaf.size for leaf in jax.tree.leaves(params))
