"""Machines that are not at hand: what a program becomes on a GPU or a TPU slice.

XLA compiles for them on any machine, from a description of their chips. Nothing is run.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import time
from typing import Any, NamedTuple

import jax
import jaxlib.version
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from gpicljax.checks import check_choice, missing, refusal, unknown_choice
from gpicljax.runtime.compiled import Block, Collective, memory_of, read_hlo
from gpicljax.runtime.dry_run import TooLargeError
from gpicljax.runtime.mesh import without_compilation_cache

_GIB = 2**30
_GPU = """
platform_name: "CUDA" device_description_str: "{description}"
runtime_version {{ major: 12 minor: 8 patch: 0 }} dnn_version_info {{ major: 9 minor: 8 patch: 0 }}
gpu_device_info {{
  cuda_compute_capability {{ major: 9 minor: 0 }} clock_rate_ghz: 1.98 core_count: 132
  fpus_per_core: 128 l2_cache_size: 52428800 device_memory_size: {memory}
  memory_bandwidth: {bandwidth} threads_per_warp: 32 threads_per_block_limit: 1024
  threads_per_core_limit: 2048 registers_per_block_limit: 65536 registers_per_core_limit: 65536
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472 block_dim_limit_x: 2147483647 block_dim_limit_y: 65535
  block_dim_limit_z: 65535
}}
"""
"""XLA's description of a Hopper GPU, a `GpuTargetConfigProto`."""
_GPUS = {
    "h100": ("NVIDIA H100 80GB HBM3", 84_978_434_048, 3_352_320_000_000),
    "h200": ("NVIDIA H200", 150_120_103_936, 4_800_000_000_000),
}
"""Description, bytes of memory and bytes per second."""
_PREALLOCATED = 0.75
"""What JAX takes of a GPU's memory, unless `XLA_PYTHON_CLIENT_MEM_FRACTION` says otherwise."""
_TPUS = {"v5e": (16, 15.75, "2x2"), "v5p": (96, 95.74, "2x2x1"), "v6e": (32, 31.25, "2x2")}
"""GiB of a chip, GiB that XLA gives to a program, the smallest slice."""
_SLICES = ["2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"]
"""Slices of v5e and v6e; asked for a third axis, libtpu ends the process."""
_NAMES = [*_GPUS, "h100:8", "h100:2x8", *_TPUS, "v5e:4x4", "v5p:4x4x4", "v6e:8x8"]
"""What a message lists: every kind of chip and examples of several."""
_TPU_ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
}
"""Without these libtpu asks the network which TPU it is on, and locks out other processes."""


class Target(NamedTuple):
    """A machine to compile for.

    Attributes:
      name: as it was asked for, such as `"v5e:4x4"`.
      platform: `"cuda"` or `"tpu"`.
      devices: its chips. Programs can be compiled for them and not run.
      memory_bytes: of a chip.
      usable_bytes: what a program gets of them: on a GPU 75 %, JAX's default
        (`XLA_PYTHON_CLIENT_MEM_FRACTION`); on a TPU what XLA leaves of it.
    """

    name: str
    platform: str
    devices: tuple[Any, ...]
    memory_bytes: int
    usable_bytes: int


class CompiledFor(NamedTuple):
    """A program that was compiled for a machine that is not at hand.

    Attributes:
      target: the machine.
      executable: what was compiled.
      seconds: that it took to trace, lower and compile.
    """

    target: Target
    executable: jax.stages.Compiled
    seconds: float


class CompiledReport(NamedTuple):
    """The needs of a compiled program. Bytes and kernels are those of one device.

    Attributes:
      argument_bytes: of the arguments.
      temporary_bytes: of scratch space, and of results that do not replace arguments.
      program: its kernels, loops and collectives.
    """

    argument_bytes: int
    temporary_bytes: int
    program: Block

    @property
    def kernels(self) -> int:
        """Launches of a run on a GPU, see `Block.kernels`."""
        return self.program.kernels

    @property
    def data_loops(self) -> int:
        """Loops of a run on a GPU whose rounds the host has to decide on."""
        return self.program.data_loops

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """In which devices exchange data."""
        return self.program.collectives

    @property
    def total_bytes(self) -> int:
        """Memory of a device while it runs."""
        return self.argument_bytes + self.temporary_bytes


def target(name: str) -> Target:
    """Returns the machine of a name.

    Args:
      name: `h100`, `h200`: one GPU; with `:8` or `:2x8`, so many GPUs of one host, or hosts and
        their GPUs. `v5e`, `v5p`, `v6e`: one TPU chip; with a topology such as `:4x4`, a slice.

    Raises:
      ValueError: for a name or a topology that does not exist.
      ModuleNotFoundError: without the compiler; the message says what to install.
    """
    return _target(name)


@functools.cache
def _target(name: str) -> Target:
    chip, colon, layout = name.partition(":")
    if chip not in [*_GPUS, *_TPUS] or (
        colon and not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", layout)
    ):
        raise ValueError(unknown_choice("target", name, _NAMES))
    return _gpu(name, chip, layout or "1") if chip in _GPUS else _tpu(name, chip, layout)


def _gpu(name: str, chip: str, layout: str) -> Target:
    axes = layout.split("x")
    if len(axes) > 2:
        raise ValueError(refusal("target", name, f"{chip}:GPUS or {chip}:HOSTSxGPUS"))
    if not any(_is_installed(f"jax_plugins.xla_cuda{version}") for version in (12, 13)):
        raise missing("jax-cuda12-plugin", "gpu-aot")
    if not (_is_installed("nvidia.cuda_nvcc") or _is_installed("nvidia.cu13")):
        raise missing("nvidia-cuda-nvcc-cu12", "gpu-aot")
    hosts, gpus_per_host = ["1", *axes][-2:]
    description, memory, bandwidth = _GPUS[chip]
    described = _GPU.format(description=description, memory=memory, bandwidth=bandwidth)
    try:
        topology = topologies.get_topology_desc(
            platform="cuda",
            topology_name="",
            target_config=described,
            topology=f"1x{hosts}x{gpus_per_host}",
        )
    except NotImplementedError as error:
        raise ModuleNotFoundError(
            f"jax-cuda12-plugin was not loaded ({error}); it needs the version of jaxlib, "
            f'{jaxlib.version.__version__}: pip install "gpicljax[gpu-aot]"'
        ) from None
    return Target(name, "cuda", tuple(topology.devices), memory, int(_PREALLOCATED * memory))


def _tpu(name: str, chip: str, layout: str) -> Target:
    memory, usable, smallest = _TPUS[chip]
    if layout and smallest in _SLICES:
        accepted_values = [f"{chip}:{slice_layout}" for slice_layout in _SLICES]
        check_choice("target", name, accepted_values)
    if not _is_installed("libtpu"):
        raise missing("libtpu", "tpu-aot")
    for variable, value in _TPU_ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    try:
        if layout.count("x") not in (0, smallest.count("x")):
            raise ValueError(layout)
        topology = topologies.get_topology_desc(
            platform="tpu", topology_name=f"{chip}:{layout or smallest}"
        )
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        if not (isinstance(error, ValueError) or str(error).startswith("INVALID_ARGUMENT")):
            raise
        accepted_values = f"a topology of {chip}, such as {chip}:{smallest}"
        raise ValueError(refusal("target", name, accepted_values)) from None
    devices = topology.devices if layout else topology.devices[:1]
    return Target(name, "tpu", tuple(devices), memory * _GIB, int(usable * _GIB))


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # nor is the package that it is in
        return False


def leave_accelerators_alone() -> None:
    """Computes on the CPU from here on, unless `JAX_PLATFORMS` says otherwise.

    What compiles for another machine needs none of this one's accelerators, and compilers for
    accelerators that are not there would be asked for devices. Call it before the first
    computation.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # the compilers' notes about drivers
    if "JAX_PLATFORMS" not in os.environ:
        jax.config.update("jax_platforms", "cpu")


def compile_for(target: str | Target, function: Any, *arguments: Any) -> CompiledFor:
    """Compiles a function for a machine that is not at hand.

    Args:
      target: the machine or its name.
      function: a function of pytrees of arrays, jitted or not.
      *arguments: arrays, or their `jax.ShapeDtypeStruct`. If none has a sharding over devices of
        the target, all are put on its first device.

    Returns:
      The compiled function, which cannot be called here.

    Raises:
      ValueError: for a target that does not exist.
      ModuleNotFoundError: without the compiler; the message says what to install.
      TooLargeError: if the compiler refuses the program for the memory that it needs.
    """
    on = _target(target) if isinstance(target, str) else target
    jitted = function if hasattr(function, "trace") else jax.jit(function)
    start = time.monotonic()
    placed = jax.tree.map(lambda x: _without_values(on, x), arguments)
    if not any(x.sharding for x in jax.tree.leaves(placed)):
        first = SingleDeviceSharding(on.devices[0])
        placed = jax.tree.map(lambda x: x.update(sharding=first), placed)
    lowered = jitted.trace(*placed).lower(lowering_platforms=(on.platform,))
    try:
        # What is compiled for another machine cannot be read back from the disk.
        with without_compilation_cache():
            executable = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        if (too_large := _too_large(str(error))) is None:
            raise
        raise TooLargeError(f"a chip of {on.name} cannot hold it: {too_large}") from None
    return CompiledFor(on, executable, time.monotonic() - start)


def _without_values(target: Target, leaf: Any) -> jax.ShapeDtypeStruct:
    """Returns an argument's shape, with its sharding where that is over devices of the target."""
    kind = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jax.typeof(leaf)
    sharding = getattr(leaf, "sharding", None)
    if sharding is not None and not sharding.device_set <= {*target.devices}:
        sharding = None
    weak = getattr(kind, "weak_type", False)
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=sharding, weak_type=weak)


def _too_large(message: str) -> str | None:
    """Returns a compiler's words on the memory that it lacks; None for another message."""
    if not message.startswith("RESOURCE_EXHAUSTED"):
        return None
    used = re.search(r"Used ([\d.]+)G of ([\d.]+)G hbm", message) or re.search(
        r"\(([\d.]+)G\) exceeds available HBM \(([\d.]+)G\)", message
    )
    return f"it needs {used[1]} GiB of {used[2]} GiB" if used else message.splitlines()[0]


def report(compiled: CompiledFor) -> CompiledReport:
    """Returns the needs of a compiled program.

    Args:
      compiled: from `compile_for`.
    """
    arguments, temporary = memory_of(compiled.executable)
    text = compiled.executable.as_text()
    return CompiledReport(arguments, temporary, read_hlo(text or ""))
