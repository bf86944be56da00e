import gc
import os
from pathlib import Path

import jax
import pytest

import gpicljax
from gpicljax.runtime.mesh import enable_compilation_cache, one_device_per_core

# LLVM's slow passes are left out, here and in child processes: most of the suite is compilation.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=1"
enable_compilation_cache()
one_device_per_core(most=1)

MAPS = Path("/proc/self/maps")
MOST_MAPS = 10_000


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
    """What a child process needs to find the package and to compile each program only once."""
    cache = tmp_path_factory.mktemp("xla")
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(
            [str(Path(gpicljax.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        ),
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
