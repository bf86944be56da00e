import jax
import pytest

from gpicljax.runtime.mesh import enable_compilation_cache

enable_compilation_cache()


@pytest.fixture
def key():
    return jax.random.key(0)
