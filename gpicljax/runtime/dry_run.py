"""The time and memory of a run, measured without running it; what does not fit is refused."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax

from gpicljax.runtime.compiled import memory_of
from gpicljax.typing import ArrayTree

T = TypeVar("T")


class Cost(NamedTuple):
    """The cost of one call of a compiled function.

    Attributes:
      compile_s: seconds to trace and compile.
      argument_bytes: of the arguments.
      temporary_bytes: scratch space while it runs, and results that do not replace arguments.
      seconds: wall time of one call, after one that is not counted; NaN where it was not called.
      free_bytes: memory of a device before its first use; 0 where that is not known.
      margin: how many times the temporary bytes are to be free.
    """

    compile_s: float
    argument_bytes: int
    temporary_bytes: int
    seconds: float = math.nan
    free_bytes: int = 0
    margin: float = 1.0

    @property
    def fits(self) -> bool:
        """Whether there is memory for it, as far as is known."""
        return self.free_bytes == 0 or self.margin * self.temporary_bytes <= self.free_bytes

    @property
    def in_words(self) -> str:
        """The memory beside its arguments, and the free memory, in words."""
        need = f"{self.margin * self.temporary_bytes / 2**30:.2f} GiB"
        return f"{need} of the {self.free_bytes / 2**30:.2f} GiB free" if self.free_bytes else need

    @property
    def total_gib(self) -> float:
        """Arguments and scratch space in GiB."""
        return (self.argument_bytes + self.temporary_bytes) / 2**30


class TooLargeError(RuntimeError):
    """A program needs more memory than is free."""


def compile_within_memory(function: Any, label: str, *arguments: Any) -> tuple[Any, Cost]:
    """Compiles a function, and refuses one that needs more memory than is free.

    XLA's CPU backend takes up to half as much again as its analysis says, so there the margin is 2.

    Returns:
      The compiled function and its cost, not yet timed.

    Raises:
      TooLargeError: if it does not fit.
    """
    start = time.monotonic()
    compiled = function.lower(*arguments).compile()
    argument_bytes, temporary_bytes = memory_of(compiled)
    cost = Cost(
        compile_s=time.monotonic() - start,
        argument_bytes=argument_bytes,
        temporary_bytes=temporary_bytes,
        free_bytes=free_bytes(arguments),
        margin=2.0 if jax.default_backend() == "cpu" else 1.0,
    )
    if not cost.fits:
        raise TooLargeError(
            f"{label} needs {cost.in_words} on each device; fewer seeds, environments, records or "
            "steps at once need less (--seeds, --num-envs, --agent.unroll and the like)"
        )
    return compiled, cost


def within_memory(function: Callable[..., T], label: str) -> Callable[..., T]:
    """Returns a jitted function that refuses arguments for which it needs more memory than is free.

    It is compiled once for all arguments of the same shapes. The function it returns cannot be
    traced.

    Raises:
      TooLargeError: from a call that does not fit, before it is begun.
    """
    compiled: dict[Any, Any] = {}

    def call(*arguments: Any) -> T:
        leaves, structure = jax.tree.flatten(arguments)
        kinds = [jax.typeof(leaf) for leaf in leaves]
        key = structure, tuple((kind.shape, kind.dtype, kind.weak_type) for kind in kinds)
        if key not in compiled:
            compiled[key], _ = compile_within_memory(function, label, *arguments)
        return compiled[key](*arguments)

    return call


def measure_seconds(compiled: Any, argument: Any, *more: Any) -> float:
    """Seconds of one call, after one that is not counted.

    Args:
      compiled: maps the argument to `(argument of the next call, anything)`, such as one update.
      argument: the first one; it is consumed if the function donates.
      *more: further arguments, the same at every call.
    """
    argument, _ = jax.block_until_ready(compiled(argument, *more))
    start = time.monotonic()
    jax.block_until_ready(compiled(argument, *more))
    return time.monotonic() - start


def free_bytes(tree: ArrayTree) -> int:
    """Memory that is free on each of the devices that hold a pytree; 0 where that is not known.

    NumPy arrays will be held by the first device. CPU devices of a process share its machine's.
    """
    arrays = [x for x in jax.tree.leaves(tree) if isinstance(x, jax.Array)]
    devices = {device for x in arrays for device in x.sharding.addressable_devices}
    devices = devices or {jax.local_devices()[0]}
    if all(device.platform == "cpu" for device in devices):
        return _free_on_host() // len(devices)
    statistics = [device.memory_stats() or {} for device in devices]
    if not all("bytes_limit" in stats for stats in statistics):
        return 0
    return min(stats["bytes_limit"] - stats.get("bytes_in_use", 0) for stats in statistics)


def _free_on_host() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux
        return 0
    fields = {name: rest for name, _, rest in (line.partition(":") for line in lines)}
    free = 1024 * int(fields.get("MemAvailable", "0 kB").split()[0])
    limit, used = (_number(CONTROL_GROUP / name) for name in ("memory.max", "memory.current"))
    return free if limit is None or used is None else max(1, min(free, limit - used))


CONTROL_GROUP = Path("/sys/fs/cgroup")
"""Where a container's limits are, below those of its machine."""


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # no such limit: "max"
        return None


def parameter_count(params: ArrayTree) -> int:
    """Returns the number of entries of all arrays of a pytree (or of their shapes)."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
