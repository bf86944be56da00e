"""Linear attention against its recurrence in NumPy; step_unroll.py has the rules of all cores."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.networks.linear_attention import decayed_attention

T, B, H, K, V = 13, 3, 2, 4, 5


def draw_case(length=T, rate=1.0):
    draw = np.random.default_rng(0)
    query, key, value = (
        jnp.asarray(draw.normal(size=(length, B, H, d)), jnp.float32) for d in (K, K, V)
    )
    log_decay = -jnp.asarray(draw.exponential(rate, size=(length, B, H)), jnp.float32)
    strength = jnp.asarray(draw.random((length, B, H)), jnp.float32)
    starts = jnp.asarray(draw.random((length, B)) < 0.2)
    memory = jnp.asarray(draw.normal(size=(B, H, K, V)), jnp.float32)
    key = key / jnp.linalg.norm(key, axis=-1, keepdims=True)
    return query, key, value, log_decay, strength, starts, memory


def recurrence(query, key, value, log_decay, strength, starts, memory, corrects=False):
    state, outputs = np.asarray(memory, np.float64), []
    for t in range(query.shape[0]):
        left = np.where(starts[t][:, None], 0, np.exp(np.asarray(log_decay[t], np.float64)))
        state = state * left[..., None, None]
        held = np.einsum("bhk,bhkv->bhv", key[t], state) if corrects else 0
        new = (np.asarray(value[t]) - held) * np.asarray(strength[t])[..., None]
        state = state + np.asarray(key[t])[..., None] * new[..., None, :]
        outputs.append(np.einsum("bhk,bhkv->bhv", query[t], state))
    return np.stack(outputs), state


@pytest.mark.parametrize("corrects", [False, True])
@pytest.mark.parametrize("chunk", [1, 4, 13, 64])
def test_chunks_are_the_recurrence(chunk, corrects):
    arguments = draw_case()
    got = decayed_attention(*arguments, chunk, corrects)
    for outcome, expected in zip(got, recurrence(*arguments, corrects), strict=True):
        np.testing.assert_allclose(outcome, expected, atol=1e-5)


def test_strong_decay_neither_overflows_nor_loses_its_gradient():
    arguments = draw_case(rate=200.0)  # exp of the gaps would overflow above the diagonal
    outputs, _ = decayed_attention(*arguments, 8)
    np.testing.assert_allclose(outputs, recurrence(*arguments)[0], atol=1e-5)

    def total(*floats):
        return decayed_attention(*floats, *arguments[5:], 8)[0].sum()

    grads = jax.grad(total, (0, 1, 2, 3, 4))(*arguments[:5])
    assert all(np.isfinite(g).all() and np.abs(g).max() > 0 for g in grads)


def test_memory_grows_with_the_length_alone():
    def temporary(length):
        arguments = jax.eval_shape(lambda: draw_case(length))
        grad = jax.grad(lambda *x: decayed_attention(*x, 64)[0].sum(), (0, 1, 2, 3))
        program = jax.jit(grad).lower(*arguments).compile()
        return program.memory_analysis().temp_size_in_bytes

    assert temporary(4096) < 4.5 * temporary(1024)
