import jax
import pytest

from gpicljax.runtime.mesh import enable_compilation_cache, one_device_per_core

enable_compilation_cache()
one_device_per_core(most=1)


@pytest.fixture
def key():
    return jax.random.key(0)
