import gc
import itertools
import os
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path

# Most of the suite is compilation, and what it compiles runs once or twice: the slower ways of the
# compiler are left out, here and in child processes, unless XLA_FLAGS asks for a level by name.
if "xla_backend_optimization_level" not in (flags := os.environ.get("XLA_FLAGS", "")):
    quick = "--xla_backend_optimization_level=0"
    # Later versions do not know the second flag, and abort at what they do not know.
    if version("jaxlib").startswith("0.10."):
        quick += " --xla_cpu_use_fusion_emitters=false"
    os.environ["XLA_FLAGS"] = f"{flags} {quick}".strip()

import jax
import pytest

import gpicljax
from gpicljax.runtime.mesh import enable_compilation_cache, one_device_per_core

enable_compilation_cache()
one_device_per_core(most=1)
# Accelerators multiply with fewer bits by default, which tolerances for float32 do not allow.
jax.config.update("jax_default_matmul_precision", "highest")

# Tracing makes many objects and hardly any cycles: at the usual thresholds, looking for these took
# a twentieth of the suite's time.
gc.set_threshold(100_000, 50, 50)

# Programs that share a context before the next one is made: a context keeps their constants.
PROGRAMS_PER_CONTEXT = 200


def share_contexts():
    """Lets programs share the contexts in which they are written down, with a private API of JAX.

    Each program is lowered in a context of its own. Making one and throwing it away takes as long
    as a small program takes to trace, lower and optimise. Later versions of JAX may differ, so that
    only 0.10 is changed.
    """
    if not version("jax").startswith("0.10."):
        return
    from jax._src.interpreters import mlir

    context, make_context = threading.local(), mlir.make_ir_context

    def shared_context():
        if getattr(context, "left", 0) == 0:
            context.made, context.left = make_context(), PROGRAMS_PER_CONTEXT
        context.left -= 1
        return context.made

    mlir.make_ir_context = shared_context


share_contexts()

PROGRAMS = os.environ.get("GPICLJAX_COUNT_PROGRAMS")
"""File to which each process of the suite adds the number of programs that it has compiled."""
compiled = itertools.count()


def count_program(event, seconds, **more):
    """Counts a compilation: unlike its seconds, their number does not depend on the machine."""
    if event == "/jax/core/compile/backend_compile_duration":
        next(compiled)


if PROGRAMS:
    jax.monitoring.register_event_duration_secs_listener(count_program)


def pytest_sessionfinish():
    if PROGRAMS:
        with open(PROGRAMS, "a") as file:
            file.write(f"{next(compiled)}\n")


MAPS = Path("/proc/self/maps")
MOST_MAPS = 30_000


def pytest_collection_finish():
    """Keeps the collector from looking through imported objects again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def room_for_programs():
    """Lets go of compiled programs between modules, before there are too many.

    Each takes several memory mappings, of which Linux allows a process 65,530; beyond that the
    compiler crashes.
    """
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture(scope="session")
def child_environment(tmp_path_factory):
    """The environment of a child that finds package and tests, and compiles programs only once."""
    cache = tmp_path_factory.mktemp("xla")
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(
            [
                str(Path(gpicljax.__file__).parents[1]),
                str(Path(__file__).parent),
                os.environ.get("PYTHONPATH", ""),
            ]
        ),
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


@pytest.fixture(scope="session")
def on_eight_devices(child_environment):
    """Runs a script, which says at its end that all is well, where JAX sees eight devices."""

    def run(script, *arguments):
        done = subprocess.run(
            [sys.executable, "-W", "error", str(script), *map(str, arguments)],
            env=child_environment | {"JAX_NUM_CPU_DEVICES": "8"},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0 and "all well" in done.stdout, done.stderr

    return run
