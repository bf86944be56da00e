"""Work for a few of many: the instances that are marked, and no others."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.batching import update_compacted


@pytest.mark.parametrize("size", [1, 5, 64, 4_100])
@pytest.mark.parametrize("share", [0, 0.1, 1])
def test_those_marked_are_replaced_and_no_others(size, share):
    need = np.random.default_rng(size).uniform(size=size) < share
    current = jnp.arange(size)
    replaced = jax.jit(
        lambda need: update_compacted(need, current, lambda i: -1 - i, group=max(size // 4, 1))
    )
    np.testing.assert_array_equal(replaced(need), np.where(need, -1 - np.arange(size), current))


@pytest.mark.parametrize("size", [1, 2])
def test_make_runs_for_marked_entries_alone(size):
    def make(indices):
        start = jnp.ones((len(indices), 128, 128)) / 128
        return jax.lax.fori_loop(0, 50, lambda _, x: jnp.sin(x @ x), start)

    @jax.jit
    def replace_often(need):
        def tick(current, need):
            return update_compacted(need, current, make, group=1), None

        return jax.lax.scan(tick, jnp.zeros((size, 128, 128)), need)[0]

    def seconds(is_marked):
        need = jnp.full((100, size), is_marked)
        jax.block_until_ready(replace_often(need))
        start = time.process_time()
        jax.block_until_ready(replace_often(need))
        return time.process_time() - start

    assert seconds(False) < seconds(True) / 3
