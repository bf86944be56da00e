"""Draws in a row have the numbers of `jax.random`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
