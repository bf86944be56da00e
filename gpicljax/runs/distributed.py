"""Several processes as one program: joining them, agreeing on outcomes, fetching what they share.

Every process runs the same script. What touches files or the terminal is done by process 0 alone,
and its outcome, errors included, is shared by all: `on_main`. What all must do and any may fail
at is agreed on: `all_agree`. With one process, both simply call the function.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gpicljax.checks import refusal
from gpicljax.runs.config import RunConfig, exit_with_error
from gpicljax.storage.leaves import is_key, is_spread
from gpicljax.typing import ArrayTree

T = TypeVar("T")
VARIABLES = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
FRAME = 1024
"""Bytes of a message that goes in one round; longer ones need a second."""
_alone = False


def join_cluster(config: RunConfig, *, heartbeat_timeout_s: int = 100) -> None:
    """Joins the other processes of the run, if `config.distributed` asks for it.

    Where they are is found by JAX itself: from SLURM, Open MPI, Kubernetes or a Cloud TPU; or from
    the environment variables `JAX_COORDINATOR_ADDRESS` (host:port of process 0),
    `JAX_NUM_PROCESSES` and `JAX_PROCESS_ID`, which come first.

    Call it before anything touches a device, `one_device_per_core` included. From then on an
    uncaught exception ends the process at once, so that the others do not wait for it.

    Args:
      config: the configuration.
      heartbeat_timeout_s: seconds after which a process that has gone silent is taken for dead, and
        the others are ended.

    Raises:
      SystemExit: with code 2, after a message on stderr, if no cluster is found or it cannot be
        joined.
    """
    if not config.distributed or jax.distributed.is_initialized():
        return
    number, process_id = (_integer(variable) for variable in VARIABLES[1:])
    main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        jax.distributed.initialize(  # which reads the address itself
            num_processes=number,
            process_id=process_id,
            heartbeat_timeout_seconds=heartbeat_timeout_s,
        )
    except (RuntimeError, ValueError, TypeError) as error:
        variables = {name: os.environ.get(name) for name in VARIABLES}
        exit_with_error(
            f"--distributed: {error} Given: {variables}; accepted: a job of SLURM, Open MPI, "
            "Kubernetes or Cloud TPU, or all three variables"
        )
    if main_thread:
        # JAX has just made SIGTERM a notice that is not read here: the loop catches it itself.
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
    _leave_at_once_after_errors()


def _integer(variable: str) -> int | None:
    text = os.environ.get(variable)
    if text is None:
        return None
    if not text.isdecimal():
        exit_with_error(refusal(variable, text, "an integer >= 0"))
    return int(text)


def _leave_at_once_after_errors() -> None:
    """Skips JAX's farewell, which waits minutes for processes that wait for this one."""
    show = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        show(kind, error, trace)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130 if issubclass(kind, KeyboardInterrupt) else 1)

    sys.excepthook = hook


def is_main() -> bool:
    """Returns whether this process is the one that writes and prints (process 0)."""
    # A process on its own is not asked for its number: that would start its devices.
    return not jax.distributed.is_initialized() or jax.process_index() == 0


def is_multi_process() -> bool:
    """Returns whether there are other processes to agree with, here and now."""
    return jax.distributed.is_initialized() and not _alone and jax.process_count() > 1


def log_once(text: str) -> None:
    """Prints a line, once for all processes."""
    if is_main():
        print(text, flush=True)


def exchange(value: T) -> list[T]:
    """Tells all processes a value of each, and waits for all of them.

    Args:
      value: anything that can be pickled; small, for it travels through the devices.

    Returns:
      The values by process number.
    """
    if not is_multi_process():
        return [value]
    data = pickle.dumps(value)
    rows = _gather(len(data).to_bytes(8, "little") + data, FRAME)
    sizes = [8 + int.from_bytes(row[:8], "little") for row in rows]
    if max(sizes) > FRAME:
        # Powers of two: few shapes, few programs to compile.
        more = 1 << (max(sizes) - FRAME - 1).bit_length()
        rows = [a + b for a, b in zip(rows, _gather(data[FRAME - 8 :], more), strict=True)]
    return [pickle.loads(row[8:size]) for row, size in zip(rows, sizes, strict=True)]


def _gather(data: bytes, size: int) -> list[bytes]:
    padded = np.frombuffer(data[:size].ljust(size, b"\0"), np.uint8)
    return [row.tobytes() for row in multihost_utils.process_allgather(padded)]


def on_main(function: Callable[[], T]) -> T:
    """Calls a function in process 0 only; its outcome becomes that of all processes.

    Args:
      function: what to do. It may call `on_main` and the like itself: process 0 is then alone.
        Its result can be pickled.

    Returns:
      What the function returned in process 0.

    Raises:
      Exception: what the function raised in process 0, in every process.

    Example:
      >>> on_main(lambda: 2 + 2)
      4
    """
    if not is_multi_process():
        return function()
    outcome = _attempt(function, is_alone=True) if is_main() else None
    shared = exchange(outcome and (outcome[0], _portable(outcome[1])))[0]
    result, error = outcome or shared or (None, None)
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def all_agree(function: Callable[[], T]) -> T:
    """Calls a function in all processes; if any of them fails, all do.

    Args:
      function: what to do, without a word to the other processes.

    Returns:
      This process's result.

    Raises:
      Exception: what the function raised here, or else in the first process where it did.
    """
    if not is_multi_process():
        return function()
    result, error = _attempt(function, is_alone=True)
    errors = exchange(_portable(error))
    if error is not None:
        raise error
    for number, foreign_error in enumerate(errors):
        if foreign_error is not None:
            foreign_error.add_note(f"(in process {number} of {len(errors)})")
            raise foreign_error
    return result  # type: ignore[return-value]


def _attempt(function: Callable[[], T], is_alone: bool) -> tuple[T | None, Exception | None]:
    global _alone
    before, _alone = _alone, is_alone
    try:
        return function(), None
    except Exception as error:
        return None, error
    finally:
        _alone = before


def _portable(error: Exception | None) -> Exception | None:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def to_host(tree: ArrayTree) -> Any:
    """Copies a pytree to the host, whole in every process.

    All processes call it together if an array is spread over them; np.asarray refuses those.

    Args:
      tree: pytree of arrays (typed keys become their `uint32` data), numbers and strings.

    Returns:
      The same structure with numpy arrays for JAX arrays; other leaves as they are.

    Example:
      >>> import jax.numpy as jnp
      >>> to_host({"x": jnp.arange(3)})
      {'x': array([0, 1, 2], dtype=int32)}
    """
    leaves, structure = jax.tree.flatten(tree)
    spread: dict[Mesh, list[int]] = {}
    for i, leaf in enumerate(leaves):
        if is_spread(leaf) and not leaf.is_fully_replicated:
            spread.setdefault(leaf.sharding.mesh, []).append(i)
    for mesh, places in spread.items():
        # All at once: ten arrays one by one take ten times as long.
        gather = jax.jit(_same, out_shardings=NamedSharding(mesh, PartitionSpec()))
        for i, whole in zip(places, gather([leaves[i] for i in places]), strict=True):
            leaves[i] = whole
    leaves = [jax.random.key_data(leaf) if is_key(leaf) else leaf for leaf in leaves]
    return jax.tree.unflatten(structure, jax.device_get(leaves))


def _same(arrays: list[jax.Array]) -> list[jax.Array]:
    return arrays  # by name, so that compiling it once is enough
