"""Work for a few of many: the instances that are marked, and no others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.batching import update_compacted


@pytest.mark.parametrize("size", [5, 64, 4_100])
@pytest.mark.parametrize("share", [0, 0.1, 1])
def test_those_marked_are_replaced_and_no_others(size, share):
    need = np.random.default_rng(size).uniform(size=size) < share
    current = jnp.arange(size)
    replaced = jax.jit(
        lambda need: update_compacted(need, current, lambda i: -1 - i, group=size // 4)
    )
    np.testing.assert_array_equal(replaced(need), np.where(need, -1 - np.arange(size), current))
