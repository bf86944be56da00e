"""Draws in a row have the numbers of `jax.random`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gpicljax import random


@pytest.mark.parametrize("shape", [(), (1,), (7,), (8,), (3, 3, 5)])
def test_the_numbers_are_those_of_jax(shape, key):
    assert np.array_equal(random.bits(key, shape), jax.random.bits(key, shape))
    numbers = random.uniform(key, shape, jnp.float32, -1.0, 2.0)
    assert np.array_equal(numbers, jax.random.uniform(key, shape, jnp.float32, -1.0, 2.0))


def test_integers_are_uniform_within_their_bounds(key):
    drawn = np.asarray(random.integers(key, (70_001,), 3, jnp.int32(10)))
    assert drawn.dtype == np.int32 and set(drawn) == set(range(3, 10))
    counts = np.bincount(drawn - 3)
    assert np.abs(counts - 70_001 / 7).max() < 4 * np.sqrt(70_001 / 7)


@pytest.mark.parametrize(
    ("a", "b"), [(1.0, 1.0), (0.3, 2.5), (40.0, 3.0), (0.05, 0.05), (1.5, 200)]
)
def test_gamma_and_beta_variates_are_drawn_without_a_loop(a, b):
    key, shape = jax.random.key(3), jnp.full(20_000, a)
    assert "while" not in str(jax.make_jaxpr(random.beta)(key, shape, jnp.full(20_000, b)))
    drawn = np.asarray(jax.jit(random.beta)(key, shape, jnp.full(20_000, b)), np.float64)
    assert ((drawn >= 0) & (drawn <= 1)).all()
    gamma = np.exp(np.asarray(random.log_gamma(key, shape), np.float64))
    assert stats.kstest(gamma, stats.gamma(a).cdf).pvalue > 1e-3
    if min(a, b) > 0.1:  # floats near 1 are too coarse for others
        assert stats.kstest(drawn, stats.beta(a, b).cdf).pvalue > 1e-3
    else:
        assert abs((drawn > 0.5).mean() - 0.5) < 0.02
