"""Tests that the memory cores learn from scratch, against the chance of one half."""

import jax
import jax.numpy as jnp
import optax
import pytest
from flax import linen as nn

from gpicljax.networks.feedforward import dense
from gpicljax.networks.memories import memory

CUES, FACES, BATCH = 4, 16, 64


class Judge(nn.Module):
    """A core, and one logit from its last output."""

    core: nn.Module

    @nn.compact
    def __call__(self, inputs):
        """`float[T, B, F] -> float[B]`."""
        starts, carry = jnp.zeros(inputs.shape[:2], bool), self.core.initial_carry(inputs.shape[1])
        return dense(1)(self.core.unroll(carry, inputs, starts)[0][-1])[:, 0]


def recall(key):
    """Cues with signs in random order, then a cue alone: what was its sign?"""
    keys = jax.random.split(key, 3)
    order = jax.random.permutation(keys[0], jnp.tile(jnp.arange(CUES), (BATCH, 1)), 1, True)
    signs = jax.random.rademacher(keys[1], (BATCH, CUES), float)
    question = jax.random.randint(keys[2], (BATCH, 1), 0, CUES)
    cues = jnp.concatenate([order, jnp.take_along_axis(order, question, 1)], 1)
    shown = jnp.concatenate([signs, jnp.zeros((BATCH, 1))], 1)
    inputs = jnp.concatenate([jax.nn.one_hot(cues, CUES), shown[..., None]], -1)
    return inputs.swapaxes(0, 1), jnp.take_along_axis(signs, question, 1)[:, 0] > 0


def same(key):
    """Two of a set of faces: are they the same?"""
    faces = jax.random.normal(jax.random.key(7), (FACES, 16))
    keys = jax.random.split(key, 3)
    first = jax.random.randint(keys[0], (BATCH,), 0, FACES)
    second = (first + jax.random.randint(keys[1], (BATCH,), 1, FACES)) % FACES
    equal = jax.random.bernoulli(keys[2], 0.5, (BATCH,))
    return faces[jnp.stack([first, jnp.where(equal, first, second)])], equal


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "task"),
    [("gru", recall), ("dnc", recall), ("dnc-unlinked", recall), ("dcem", recall), ("esbn", same)],
)
def test_a_core_learns_what_it_is_for(kind, task):
    judge = Judge(memory(kind, (32,), heads=2, slots=8))
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))

    def loss(params, key):
        inputs, label = task(key)
        return optax.sigmoid_binary_cross_entropy(judge.apply(params, inputs), label).mean()

    @jax.jit
    @jax.vmap
    def accuracy(key):
        params = judge.init(key, task(key)[0])

        def update(carry, key):
            params, state = carry
            value, gradient = jax.value_and_grad(loss)(params, key)
            changes, state = optimiser.update(gradient, state)
            return (optax.apply_updates(params, changes), state), value

        keys = jax.random.split(key, 1000)
        (params, _), _ = jax.lax.scan(update, (params, optimiser.init(params)), keys)
        tests = jax.random.split(jax.random.fold_in(key, 1), 16)
        right = [(judge.apply(params, x) > 0) == y for x, y in (task(k) for k in tests)]
        return jnp.stack(right).mean()

    right = accuracy(jax.random.split(jax.random.key(0), 3))
    assert right.mean() > 0.9, right
