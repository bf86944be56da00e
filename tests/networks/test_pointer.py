"""Pointers into a text: by steps or at once, and by hand on a text to be copied."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax import spaces
from gpicljax.networks.contract import AgentInput, as_network
from gpicljax.networks.pointer import Pointer
from gpicljax.networks.recurrent_settings import RecurrentSettings
from gpicljax.networks.transformer import Transformer

SYMBOLS = 16


@functools.cache
def network():
    core = Transformer(1, 8, 2, window=20)
    return as_network(Pointer(SYMBOLS, core, context=3, vectors=4))


def test_unroll_is_step_by_step_with_starts_and_a_full_window():
    net, steps, batch = network(), 60, 3
    draw = np.random.default_rng(0)
    symbols, actions = jnp.asarray(draw.integers(SYMBOLS, size=(2, steps, batch)))
    reward = jnp.asarray(draw.integers(-1, 2, size=(steps, batch)), float)
    sequence = AgentInput(symbols, actions - 1, reward)
    starts = jnp.asarray(draw.random((steps, batch)) < 0.05)
    params = jax.jit(net.init)(jax.random.key(0), jax.tree.map(lambda x: x[0], sequence))
    noise = jax.random.normal(jax.random.key(1), (1000,))
    params = jax.tree.map(lambda x: x + 0.3 * jnp.resize(noise, x.shape), params)
    carry, wholes = net.initial_carry(batch), []
    for part in (slice(0, 25), slice(25, None)):
        steps_now = jax.tree.map(lambda x, part=part: x[part], (sequence, starts))
        whole, carry = jax.jit(net.unroll)(params, carry, *steps_now)
        wholes.append(whole)

    def step(carry, x):
        output, carry = net.step(params, carry, *x)
        return carry, output

    start = net.initial_carry(batch)
    rows = jax.jit(lambda: jax.lax.scan(step, start, (sequence, starts)))()[1]
    for name, row in rows._asdict().items():
        whole = np.concatenate([getattr(part, name) for part in wholes])
        np.testing.assert_allclose(whole, row, atol=1e-3)


def test_heads_say_what_they_point_at_and_the_latest_of_what_fits_equally():
    """A head without a query points at the step before, however rare the symbol there is."""
    net, text = network(), np.array([7, 3, 15, 5, 9, 3, 7, 2])
    sequence = AgentInput(*(jnp.asarray(x)[:, None] for x in (text, 0 * text, 0.0 * text)))
    params = jax.jit(net.init)(jax.random.key(0), jax.tree.map(lambda x: x[0], sequence))["params"]
    quiet = jax.tree.map(jnp.zeros_like, params)
    changed = {"decay": jnp.array([0.0, 20.0])}  # the second head forgets at once
    changed["gates"] = quiet["gates"] | {"bias": jnp.array([0.0, 0.0, 20.0])}
    starts = jnp.zeros(sequence.observation.shape, bool).at[0].set(True).at[5].set(True)
    carry = net.initial_carry(1)
    logits = jax.jit(net.unroll)({"params": quiet | changed}, carry, sequence, starts)[0].logits
    chances = np.exp(np.asarray(logits)[:, 0])
    assert chances.argmax(-1)[[1, 2, 3, 4, 6, 7]].tolist() == [7, 3, 15, 5, 3, 7]
    # With nothing to point at, the policy's own logits are left, here all equal.
    np.testing.assert_allclose(chances[[0, 5]], 1 / SYMBOLS, atol=1e-5)


def test_settings_make_it_and_refuse_what_it_cannot_be():
    settings = RecurrentSettings("pointers", core=(24, 24), heads=6, window=32)
    net = settings.network(spaces.Discrete(4), spaces.Discrete(4))
    assert net.initial_carry(2).keys.shape == (2, 32, 24)
    with pytest.raises(ValueError, match="pointers, for 4 symbols and 5 actions"):
        settings.network(spaces.Discrete(4), spaces.Discrete(5))
    with pytest.raises(ValueError, match="pointers, for Box"):
        settings.network(spaces.Box(0.0, 1.0, (4,)), spaces.Discrete(5))
