"""What a run would take, found out without running it."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax


class Cost(NamedTuple):
    """The cost of one call of a compiled function.

    Attributes:
      compile_s: seconds to trace and compile.
      argument_bytes: of the arguments.
      temporary_bytes: scratch space while it runs.
      seconds: wall time of one call, after one that is not counted; NaN where it does not fit.
      free_bytes: memory of a device before its first use; 0 where that is not known.

    Example:
      >>> Cost(compile_s=2.0, argument_bytes=2**30, temporary_bytes=2**29, seconds=0.1).total_gib
      1.5
    """

    compile_s: float
    argument_bytes: int
    temporary_bytes: int
    seconds: float
    free_bytes: int = 0

    @property
    def fits(self) -> bool:
        """Whether there is memory for it, as far as is known."""
        return self.free_bytes == 0 or self.temporary_bytes <= self.free_bytes

    @property
    def total_gib(self) -> float:
        """Arguments and scratch space in GiB."""
        return (self.argument_bytes + self.temporary_bytes) / 2**30


def measure(function: Any, argument: Any, *more: Any) -> Cost:
    """Compiles a function of one pytree, asks for its memory analysis and times one call.

    It is not called where its scratch space is more than what is free.

    Args:
      function: a jitted function that maps the argument to `(argument of the next call,
        anything)`, such as one update.
      argument: the first one; it is consumed if the function donates.
      *more: further arguments, the same at every call.

    Returns:
      The cost.
    """
    start = time.monotonic()
    compiled = function.lower(argument, *more).compile()
    compile_s = time.monotonic() - start
    memory = compiled.memory_analysis()
    cost = Cost(
        compile_s,
        int(getattr(memory, "argument_size_in_bytes", 0)),
        int(getattr(memory, "temp_size_in_bytes", 0)),
        math.nan,
        free_bytes((argument, more)),
    )
    if not cost.fits:
        return cost
    argument, _ = jax.block_until_ready(compiled(argument, *more))
    start = time.monotonic()
    jax.block_until_ready(compiled(argument, *more))
    return cost._replace(seconds=time.monotonic() - start)


def free_bytes(tree: Any) -> int:
    """Memory that is free on each of the devices that hold a pytree; 0 where that is not known.

    CPU devices of a process share its machine's.
    """
    arrays = [x for x in jax.tree.leaves(tree) if isinstance(x, jax.Array)]
    devices = {device for x in arrays for device in x.sharding.addressable_devices}
    if not devices:
        return 0
    if all(device.platform == "cpu" for device in devices):
        return _free_on_host() // len(devices)
    known = [device.memory_stats() or {} for device in devices]
    if not all("bytes_limit" in stats for stats in known):
        return 0
    return min(stats["bytes_limit"] - stats.get("bytes_in_use", 0) for stats in known)


def _free_on_host() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux
        return 0
    found = {name: rest for name, _, rest in (line.partition(":") for line in lines)}
    return 1024 * int(found.get("MemAvailable", "0 kB").split()[0])


def parameter_count(params: Any) -> int:
    """The number of entries of all arrays of a pytree (or of their shapes)."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
