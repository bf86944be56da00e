"""Devices: the mesh, seeds spread over it, and the cache of compiled programs."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from gpicljax.checks import check
from gpicljax.storage.leaves import is_key, is_spread, to_storage

T = TypeVar("T")
P = ParamSpec("P")
AXIS = "data"

_LEVEL = "xla_backend_optimization_level"
FAST_COMPILE = {} if _LEVEL in os.environ.get("XLA_FLAGS", "") else {_LEVEL: 1}
"""Options for `jax.jit(..., compiler_options=...)` that leave out LLVM's slow passes.

Programs of many small loops (environments, mostly) compile two to three times faster on a CPU and
run as fast; matrix products are compiled beforehand and do not change. None where `XLA_FLAGS` has
a level of its own.
"""

_EMITTERS = "xla_cpu_use_fusion_emitters"
_KNOWN = jaxlib.version.__version_info__ < (0, 11)
_KNOWN = _KNOWN and _EMITTERS not in os.environ.get("XLA_FLAGS", "")
ENVIRONMENT_COMPILE = {**FAST_COMPILE, **({_EMITTERS: False} if _KNOWN else {})}
"""`FAST_COMPILE` for environments alone, which compile sooner still with jaxlib 0.10.

XLA then puts loops together in its older way, for where compilation is what one waits for. Steps
take a fifth (MetaRG) to a half (MountainCar) longer on some processors, and no longer on others;
byte streams take three times as long, and a transformer's training half as long again. What runs
for long is better off with `FAST_COMPILE`.
"""


def fast_jit(function: Callable[P, T], options: Mapping[str, Any] = FAST_COMPILE) -> Callable[P, T]:
    """`jax.jit` with options of the CPU's compiler; without, where another one compiles.

    Args:
      function: the function.
      options: `FAST_COMPILE` or `ENVIRONMENT_COMPILE`.

    Example:
      >>> float(fast_jit(jax.numpy.sin)(0.0))
      0.0
    """
    on_cpu = jax.default_backend() == "cpu"
    return jax.jit(function, compiler_options=dict(options) if on_cpu else None)


def one_device_per_core(most: int | None = None) -> int:
    """Makes every CPU core a JAX device of its own, each running its programs in one thread.

    Work that needs no communication (seeds, above all) then scales with the cores, free of the
    synchronisation inside every operation that sharing one program between threads costs.

    Call it before the first computation, and after `join_cluster`. Processes that share a machine
    are to be given cores of their own (SLURM does that; else `taskset`). On other platforms it
    changes nothing that matters.

    Args:
      most: upper limit of the number of devices.

    Returns:
      The number of CPU devices of this process. What was set by hand (`XLA_FLAGS`,
      `JAX_NUM_CPU_DEVICES`, or a backend in use) stays.

    Example:
      >>> one_device_per_core(most=1) >= 1
      True
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    by_hand = "xla_force_host_platform_device_count" in flags or "JAX_NUM_CPU_DEVICES" in os.environ
    if not by_hand:
        count = max(1, min(cores or 1, most or cores or 1))
        with contextlib.suppress(RuntimeError):  # the backend is in use already
            jax.config.update("jax_num_cpu_devices", count)
    return jax.local_device_count("cpu")


def devices_for(replicas: int, devices: Sequence[Any] | None = None) -> int:
    """Returns the number of devices to use, so that none of them runs more surplus replicas than it
    must.

    Args:
      replicas: independent programs to spread, at least 1.
      devices: all of them; those of this run by default.

    Returns:
      The smallest number of devices that keeps the longest queue as short as all of them would; the
      same number in every process.
    """
    available = jax.devices() if devices is None else devices
    processes = len({device.process_index for device in available})
    per_process = -(-replicas // processes)
    longest = -(-per_process // (len(available) // processes))
    return processes * -(-per_process // longest)


def per_replica(
    function: Callable[..., Any],
    mesh: Mesh,
    in_axes: Any = 0,
    donate_argnums: int | tuple[int, ...] = (),
    compiler_options: Mapping[str, Any] = FAST_COMPILE,
) -> Callable[..., Any]:
    """Compiles a function of one replica (a seed, say) for a leading axis of replicas over the
    mesh.

    Every device runs `vmap(function)` over its own replicas. Left to the partitioner, a batched
    `while_loop` would ask all devices at each round whether to go on.

    Args:
      function: of one replica; positional arguments are pytrees of arrays. What it needs of arrays
        that are spread over devices comes in as arguments: JAX refuses to close over an array that
        lives in several processes, and keeps a copy of any other as a constant of the program.
      mesh: from `make_mesh`; its size divides the number of replicas.
      in_axes: 0 or None for each argument, or one for all; None is the same for every replica.
      donate_argnums: arguments whose buffers may be reused.
      compiler_options: as of `jax.jit`.

    Returns:
      The compiled function.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> double = per_replica(lambda x: 2 * x, make_mesh(1))
      >>> double(jnp.arange(3)).tolist()
      [0, 2, 4]
    """

    def run_batch(*arguments: Any) -> Any:
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(arguments)
        specs = tuple(PartitionSpec(AXIS) if axis == 0 else PartitionSpec() for axis in axes)
        return _spread(jax.vmap(function, axes), mesh, specs, PartitionSpec(AXIS))(*arguments)

    options = options_for(mesh, compiler_options)
    return jax.jit(run_batch, donate_argnums=donate_argnums, compiler_options=options)


def per_part(
    update: Callable[..., tuple[T, Any]],
    mesh: Mesh,
    partition: Callable[[Any, Any], T],
    more: int = 0,
) -> Callable[..., tuple[T, Any]]:
    """Compiles an update of one training run whose batch of environments is spread over the mesh.

    Every device runs `update` on its part of the instances and its copy of everything else.

    Args:
      update: from a state to the next one and metrics, which are the same on every device: what is
        learnt from all parts it sums over the axis `AXIS` itself (see `agents.cloning`).
      mesh: from `make_mesh`.
      partition: `(batch, whole) -> prefix of the state`, as trainers have it.
      more: how many further arguments there are, the same on every device.

    Returns:
      The compiled function. It donates its argument, whose arrays are those of a whole run (see
      `shard_parts`).
    """
    specs, same = partition(PartitionSpec(AXIS), PartitionSpec()), PartitionSpec()
    spread = _spread(update, mesh, (specs, *[same] * more), (specs, same))
    return jax.jit(spread, donate_argnums=0, compiler_options=options_for(mesh, FAST_COMPILE))


def options_for(mesh: Mesh, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the CPU's compiler; on a GPU, the level would slow its kernels down."""
    return dict(options) if mesh.devices.flat[0].platform == "cpu" else {}


def _spread(function: Callable[..., Any], mesh: Mesh, in_specs: Any, out_specs: Any) -> Any:
    # Without the check of varying axes, `grad` inside is the gradient of a device's own part and
    # nothing is summed behind our back. With it, the gradient with respect to a replicated argument
    # arrives summed already: an update that then averages trains with as many times the gradient
    # as there are devices.
    def spread(*arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        specs = jax.tree.leaves(jax.tree.broadcast(in_specs, arguments))
        # Arrays without elements are made anew inside. Spread over devices, they crash the compiler
        # of jaxlib 0.11, and those of 0.10 and 0.12 return them whole on every device, which a
        # program that was compiled ahead refuses at the next call.
        non_empty = [i for i, x in enumerate(leaves) if x.size or is_key(x)]

        def whole(*present: Any) -> Any:
            by_index = dict(zip(non_empty, present, strict=True))
            parts = [by_index[i] if i in by_index else empty(i) for i in range(len(leaves))]
            return function(*tree.unflatten(parts))

        def empty(i: int) -> Any:
            shape = list(leaves[i].shape)
            if specs[i] == PartitionSpec(AXIS):
                shape[0] //= mesh.size
            return jnp.zeros(shape, leaves[i].dtype)

        inside = jax.shard_map(
            whole,
            mesh=mesh,
            in_specs=tuple(specs[i] for i in non_empty),
            out_specs=out_specs,
            check_vma=False,
        )
        return inside(*(leaves[i] for i in non_empty))

    return spread


def make_mesh(num_devices: int | None = None, devices: Sequence[Any] | None = None) -> Mesh:
    """Returns a one-dimensional mesh with the axis `data`.

    Args:
      num_devices: how many devices to use; all of them (of all processes) by default.
      devices: to choose from; those of this run by default. They need not be at hand.

    Returns:
      The mesh. Its axis is `AxisType.Auto`: the compiler places what the program leaves open.

    Raises:
      ValueError: if there are not that many devices, or not equally many in every process.

    Example:
      >>> make_mesh(1).axis_names
      ('data',)
    """
    devices = [*(jax.devices() if devices is None else devices)]
    available = len(devices)
    count = available if num_devices is None else num_devices
    check(1 <= count <= available, "num_devices", num_devices, f"1 to {available}")
    indices = sorted({device.process_index for device in devices})
    if (processes := len(indices)) > 1:
        # A process without a device in the mesh could not even take part in the calls.
        by_process = [[d for d in devices if d.process_index == i] for i in indices]
        share, rest = divmod(count, processes)
        sizes = [len(group) for group in by_process]
        accepted_values = (
            f"the same number in each of the {processes} processes, which have {sizes}"
        )
        check(not rest and share <= min(sizes), "num_devices", count, accepted_values)
        devices = [device for group in by_process for device in group[:share]]
    # The default, explicit axes, is what scans over sharded keys cannot run under
    # (tests/runtime/eight_devices.py shows one).
    auto = (AxisType.Auto,)
    if count < available:  # of a TPU slice, jax.make_mesh takes all chips or none
        return Mesh(np.asarray(devices[:count]), (AXIS,), axis_types=auto)
    return jax.make_mesh((count,), (AXIS,), axis_types=auto, devices=devices)


def shard_leading(tree: T, mesh: Mesh) -> T:
    """Spreads the leading axis of every array over the mesh.

    Args:
      tree: pytree of arrays (typed keys included) with a common leading axis, such as seeds.
        Scalars are copied to every device. Several processes all give the same values.
      mesh: the mesh.

    Returns:
      The same values, `NamedSharding` over `data`.

    Raises:
      AssertionError: if several processes give different values.
      ValueError: if the device count does not divide a leading axis; see `replicas.Replicas`.
    """

    def place(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        shape = np.shape(leaf)
        if not shape:
            return _put(leaf, NamedSharding(mesh, PartitionSpec()))
        name, whole = f"tree{jax.tree_util.keystr(path)}", shape[0] % mesh.size == 0
        accepted_values = (
            f"a leading axis that is a multiple of {mesh.size} devices (see runtime.Replicas)"
        )
        check(whole, name, [*shape], accepted_values)
        return _put(leaf, NamedSharding(mesh, PartitionSpec(AXIS)))

    return jax.tree_util.tree_map_with_path(place, tree)


def shard_parts(tree: T, mesh: Mesh, partition: Callable[[Any, Any], T]) -> T:
    """Spreads a training state over the mesh: instances in equal parts, copies of all else.

    Args:
      tree: the state of a whole run.
      mesh: the mesh.
      partition: `(batch, whole) -> prefix of the state`, as trainers have it.

    Returns:
      The same values, `NamedSharding` over `data` or replicated.

    Raises:
      ValueError: if the device count does not divide the number of instances.
    """

    def whole(part: Any) -> Any:
        return jax.tree.map(lambda x: _put(x, NamedSharding(mesh, PartitionSpec())), part)

    split = partition(True, False)
    return jax.tree.map(
        lambda b, part: shard_leading(part, mesh) if b else whole(part), split, tree
    )


def parts_like(shapes: T, mesh: Mesh, partition: Callable[[Any, Any], Any]) -> T:
    """Returns the shapes of a training state, spread as `shard_parts` spreads it; nothing is moved.

    Args:
      shapes: pytree of shapes, see `jax.eval_shape`.
      mesh: the mesh; its devices need not be at hand.
      partition: as for `shard_parts`.
    """

    def like(split: bool, leaf: Any) -> jax.ShapeDtypeStruct:
        spec = PartitionSpec(AXIS) if split and leaf.shape else PartitionSpec()
        return leaf.update(sharding=NamedSharding(mesh, spec))

    return jax.tree.map(
        lambda split, part: jax.tree.map(lambda leaf: like(split, leaf), part),
        partition(True, False),
        shapes,
    )


def _put(leaf: jax.Array, sharding: NamedSharding) -> jax.Array:
    if sharding.is_fully_addressable or is_spread(leaf):
        return jax.device_put(leaf, sharding)
    # Across processes, device_put takes (and compares) plain values only.
    placed = jax.device_put(np.asarray(to_storage(leaf)), sharding)
    return (
        jax.random.wrap_key_data(placed, impl=jax.random.key_impl(leaf)) if is_key(leaf) else placed
    )


def enable_compilation_cache(path: str | Path | None = None) -> Path | None:
    """Keeps compiled programs on disk, so that the second run starts at once.

    Args:
      path: folder of the cache. Without it, the environment variable `GPICLJAX_CACHE` decides
        (`off` switches the cache off), then a folder already configured in JAX, then
        `~/.cache/gpicljax/xla`.

    Returns:
      The folder in use, or None if the cache is off or its folder cannot be written to.

    Example:
      >>> folder = enable_compilation_cache()
      >>> folder is None or folder.is_dir()
      True
    """
    configured: str | None = getattr(jax.config, "jax_compilation_cache_dir")  # noqa: B009
    chosen = path or os.environ.get("GPICLJAX_CACHE") or configured
    if chosen == "off":
        return None
    folder = Path(chosen or "~/.cache/gpicljax/xla")
    try:
        folder = folder.expanduser().absolute()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return None
    if configured != str(folder):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        compilation_cache.reset_cache()  # what compiled earlier may have bound another folder
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return folder


@contextlib.contextmanager
def without_compilation_cache() -> Iterator[None]:
    """Neither reads nor writes compiled programs on disk inside."""
    enabled: bool = getattr(jax.config, "jax_enable_compilation_cache")  # noqa: B009
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()  # whether it is in use is decided once
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", enabled)
        compilation_cache.reset_cache()
