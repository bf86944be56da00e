"""Pointers into a text: by steps or at once, and by hand on texts to be copied."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax import spaces
from gpicljax.networks.contract import AgentInput, as_network
from gpicljax.networks.pointer import LAGS, Pointer
from gpicljax.networks.recurrent_settings import RecurrentSettings

SYMBOLS, SILENCE = 16, 0


@functools.cache
def network(slots=40, silence=SILENCE):
    options = {"slots": slots, "heads": 6, "width": 4, "hidden": (8,), "silence": silence}
    return as_network(Pointer(SYMBOLS, SYMBOLS, **options))


@pytest.mark.parametrize("silence", [None, SILENCE])
def test_unroll_is_step_by_step_with_starts_and_a_full_tape(silence):
    net, steps, batch = network(silence=silence), 60, 3
    draw = np.random.default_rng(0)

    def draw_symbols(share):
        drawn = draw.integers(6, size=(steps, batch))
        return jnp.asarray(np.where(draw.random((steps, batch)) < share, SILENCE, drawn))

    reward = jnp.asarray(draw.integers(-1, 2, size=(steps, batch)), float)
    sequence = AgentInput(draw_symbols(0.5), draw_symbols(0.6), reward)
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
    last, rows = jax.jit(lambda: jax.lax.scan(step, start, (sequence, starts)))()
    whole = jax.tree.map(lambda *x: jnp.concatenate(x), *wholes)
    for a, b in zip(jax.tree.leaves((whole, carry)), jax.tree.leaves((rows, last)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)


def answers(text, actions, head, habits):
    """The most likely actions of a network that believes one head, of these habits."""
    net = network()
    sequence = AgentInput(*(jnp.asarray(x)[:, None] for x in (text, actions, np.zeros(len(text)))))
    params = jax.jit(net.init)(jax.random.key(0), jax.tree.map(lambda x: x[0], sequence))
    quiet = jax.tree.map(jnp.zeros_like, params["params"])
    bias = quiet["gates"]["bias"].at[head + 1].set(20.0)
    changed = {
        "gates": quiet["gates"] | {"bias": bias},
        "habits": quiet["habits"].at[head].set(habits),
    }
    changed["weight"] = params["params"]["weight"]
    starts = jnp.zeros(sequence.observation.shape, bool).at[0].set(True)
    logits = jax.jit(net.unroll)({"params": quiet | changed}, None, sequence, starts)[0].logits
    return np.asarray(logits)[:, 0].argmax(-1)


def test_a_head_finds_the_same_text_and_moves_on_while_it_answers():
    # 7 is asked again; 3 4 5 was told then. Pauses of an answer are none of the text.
    text = np.array([7, 3, 4, 5, 9, 8, 7, SILENCE, SILENCE, SILENCE])
    actions = np.array([-1, 0, 0, 0, 0, 0, 0, 7, 3, 4])
    habits = np.zeros(2 + 2 * LAGS)
    habits[:3] = 5.0, -20.0, 20.0  # the latest, something, and what matches
    assert answers(text, actions, 0, habits)[6:].tolist() == [3, 4, 5, 9]
    # Another goes half as fast.
    assert answers(text, actions, 2, habits)[6:].tolist() == [3, 3, 4, 4]


def test_a_head_goes_on_behind_what_was_said_or_jumps():
    text = np.array([7, 3, 4, 5, 9, 8, 6, SILENCE, SILENCE])
    actions = np.array([-1, 0, 0, 0, 0, 0, 0, 3, 9])
    habits = np.zeros(2 + 2 * LAGS)
    habits[:2], habits[2 + LAGS] = (5.0, -20.0), 20.0
    assert answers(text, actions, 3, habits)[7:].tolist() == [4, 8]
    habits[2 + LAGS :] = np.eye(LAGS)[2] * 20
    assert answers(text, actions, 3, habits)[7] == 9  # two further


def test_settings_make_it_and_refuse_what_it_cannot_be():
    settings = RecurrentSettings("pointers", core=(24,), heads=6, slots=32, silence=1)
    net = settings.network(spaces.Discrete(4), spaces.Discrete(4))
    assert net.initial_carry(2).tape.shape == (2, 32)
    with pytest.raises(ValueError, match="pointers, for 4 symbols and 5 actions"):
        settings.network(spaces.Discrete(4), spaces.Discrete(5))
    with pytest.raises(ValueError, match="pointers, for Box"):
        settings.network(spaces.Box(0.0, 1.0, (4,)), spaces.Discrete(5))
