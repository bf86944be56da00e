"""Kernels of GPUs, which XLA interprets where there is none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.envs._gpu import in_kernel, one_kernel_on_gpu

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3) ** 1.5


def collatz(n, limit):
    """Steps until n is 1, each twice."""

    def one(loop):
        n, steps = loop
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), steps + jnp.array([1, 2])

    going = lambda loop: (loop[0] > 1) & (loop[1][0] < limit)  # noqa: E731
    return jax.lax.while_loop(going, one, (n, jnp.zeros(2, jnp.int32)))[1]


def everything(state, n):
    """Something of all that a kernel can do."""
    x, flags = state["x"], state["flags"]  # [2, 3], [3]
    steps = collatz(n, 20)
    looked = jnp.asarray(TABLE).at[n % 4, jnp.array([2, 0])].get(mode="promise_in_bounds")
    low, lowest = jax.lax.reduce(
        (x, jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)),
        (jnp.float32(np.inf), jnp.int32(9)),
        lambda a, b: jax.tree.map(lambda p, q: jax.lax.select(a[0] < b[0], p, q), a, b),
        (0,),
    )
    moved = jnp.concatenate([x[::-1, 1:], jnp.stack([low, lowest.astype(x.dtype)])], 1).T[:, ::-1]
    moved = jax.lax.dynamic_update_index_in_dim(moved, low[:2], 1, 0)
    turned = jax.lax.switch(n % 3, [jnp.sin, lambda y: y * y, lambda y: jnp.full_like(y, 2)], moved)
    summed = jax.lax.fori_loop(0, 4, lambda i, y: y + looked[i % 2] * i, turned.sum(0))
    smooth = jax.lax.fori_loop(0, 30, lambda _, y: 0.9 * y + 0.1 * y[::-1], summed)
    return {
        "x": x + smooth[:, None] / steps[0] + x.max(1, keepdims=True),
        "flags": jnp.where(flags.any(), ~flags, x.min(0) > 0),
    }


@pytest.mark.parametrize("size", [1, 7])
def test_a_kernel_computes_what_its_function_does(size, key):
    keys = jax.random.split(key)
    x = jax.random.normal(keys[0], (size, 2, 3), jnp.float32)
    state = {"x": x, "flags": jax.random.bernoulli(keys[1], 0.3, (size, 3))}
    n = jnp.arange(5, 5 + size, dtype=jnp.int32)
    interpret = jax.default_backend() != "gpu"
    in_one_kernel = jax.jit(lambda *x: in_kernel(everything, *x, interpret=interpret))(state, n)
    expected = jax.vmap(everything)(state, n)
    np.testing.assert_array_equal(in_one_kernel["flags"], expected["flags"])
    np.testing.assert_allclose(in_one_kernel["x"], expected["x"], rtol=1e-5)


def test_only_programs_for_a_gpu_have_the_kernel():
    def one(state, n):
        return one_kernel_on_gpu(everything, elsewhere=everything)(state, n)

    state = {"x": jnp.ones((4, 5, 2, 3)), "flags": jnp.ones((4, 5, 3), bool)}
    program = jax.jit(jax.vmap(jax.vmap(one))).trace(state, jnp.ones((4, 5), jnp.int32))
    for platform, count in {"cuda": 1, "cpu": 0, "tpu": 0, "rocm": 0}.items():
        text = program.lower(lowering_platforms=(platform,)).as_text()
        assert text.count("gpu.triton") == count
        assert ("stablehlo.while" in text) == (count == 0)


def test_programs_that_a_kernel_cannot_hold_are_refused():
    x = jnp.ones((2, 3, 3))
    with pytest.raises(NotImplementedError, match="dot_general"):
        in_kernel(lambda x: x @ x, x, interpret=True)
    with pytest.raises(NotImplementedError, match="scan over arrays"):
        in_kernel(lambda x: jax.lax.map(jnp.sin, x), x, interpret=True)
