"""The online memory against plain recurrences, and what makes it a language model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax import spaces
from gpicljax.networks.contract import AgentInput, as_network
from gpicljax.networks.online_memory import OnlineMemory, OnlineMemorySettings, latest_tokens
from gpicljax.networks.online_regression import Rates, predict_and_learn, regress
from gpicljax.networks.recurrent_settings import RecurrentSettings
from gpicljax.networks.suffix_counts import (
    blend_orders,
    context_rows,
    count_followers,
    describe_counts,
    empty_counts,
    empty_followers,
    last_followers,
)
from gpicljax.networks.tagged_rows import empty_rows, read_rows, write_rows
from gpicljax.systems.meta_language.measures import adaptive_ngram

V, T, B = 8, 40, 3
SETTINGS = OnlineMemorySettings(slots=64, hidden=16)


@pytest.fixture(scope="module")
def memory():
    """Returns a network away from its initial parameters, and what it reads and predicts."""
    network = as_network(OnlineMemory(V, SETTINGS))
    keys = jax.random.split(jax.random.key(0), 4)
    tokens = jax.random.randint(keys[0], (T, B), 0, V)
    starts = jax.random.bernoulli(keys[1], 0.1, (T, B))
    params = network.init(keys[2], tokens[0])
    params = jax.tree.map(lambda x: x + 0.1 * jax.random.normal(keys[3], x.shape), params)
    unroll = jax.jit(network.unroll)
    return network, params, tokens, starts, unroll(params, None, tokens, starts)[0], unroll


def test_predictions_are_normalised_and_causal(memory):
    _, params, tokens, starts, logits, unroll = memory
    np.testing.assert_allclose(jax.nn.logsumexp(logits, -1), 0, atol=1e-5)
    changed, _ = unroll(params, None, tokens.at[20].set((tokens[20] + 1) % V), starts)
    np.testing.assert_allclose(changed[:20], logits[:20], atol=1e-5)
    assert (np.abs(changed[20] - logits[20]).max(-1) > 1e-3).all()


def test_a_sequence_in_parts_is_the_whole(memory):
    _, params, tokens, starts, logits, unroll = memory
    first, carry = unroll(params, None, tokens[:17], starts[:17])
    second, _ = unroll(params, carry, tokens[17:], starts[17:])
    np.testing.assert_allclose(np.concatenate([first, second]), logits, atol=1e-5)


def test_nothing_is_remembered_over_a_start(memory):
    _, params, tokens, starts, logits, unroll = memory
    last = int(np.flatnonzero(starts[:, 0])[-1])
    alone, _ = unroll(params, None, tokens[last:], jnp.zeros_like(starts[last:]))
    np.testing.assert_allclose(alone[:, 0], logits[last:, 0], atol=1e-5)


def test_rows_of_another_tag_are_empty():
    table = empty_rows(1, 4, (2,))
    row, tag = jnp.array([[2]]), jnp.array([[7]], jnp.uint32)
    table = write_rows(table, row, tag, jnp.ones((1, 1, 2)))
    for other, expected in ((7, 1.0), (8, 0.0)):
        values, is_own = read_rows(table, row, jnp.array([[other]], jnp.uint32))
        assert (values == expected).all() and bool(is_own[0, 0]) == (other == 7)


def test_gradients_of_the_rates_are_those_of_the_plain_recurrence():
    kinds, heads, rows = 3, 2, 7
    keys = jax.random.split(jax.random.key(1), 11)
    sizes = [(kinds, heads)] * 3 + [(heads,)] * 3
    rates = Rates(*(0.3 * jax.random.normal(k, x) for k, x in zip(keys, sizes, strict=False)))
    rates = jax.tree.map(jnp.exp, rates)._replace(boldness=rates.boldness)
    draw = [jax.random.randint(key, (T, B), 0, 3) for key in keys[6:8]]
    index = jnp.stack([jnp.zeros((T, B), int), 1 + draw[0], 4 + draw[1]], -1)
    trial = jnp.cumsum(jax.random.bernoulli(keys[8], 0.2, (T, B)), 0).astype(jnp.uint32)
    tags = jnp.broadcast_to(trial[..., None] + 1, index.shape)
    targets = jax.random.randint(keys[9], (T, B), -1, V)
    table = empty_rows(B, rows, (heads, 2, V))
    weight = jax.random.normal(keys[10], (T, B, heads, V))

    def total(logits):
        return (weight * logits.mean + weight**2 * logits.variance).sum()

    def plain(rates):
        def tick(table, step):
            rows, tags, target = step
            read, _ = read_rows(table, rows, tags)
            logits, learnt = predict_and_learn(rates, read, target)
            return write_rows(table, rows, tags, learnt), logits

        return total(jax.lax.scan(tick, table, (index, tags, targets))[1])

    fast = jax.grad(lambda rates: total(regress(rates, table, index, tags, targets)[0]))(rates)
    slow = jax.grad(plain)(rates)
    for name, got, expected in zip(Rates._fields, fast, slow, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=1e-3, err_msg=name)


def test_last_followers_match_a_search_of_the_sequence():
    draw, nothing, orders = np.random.default_rng(3), 3, 3
    tokens, starts = draw.integers(nothing, size=(60, 2)), draw.random((60, 2)) < 0.05
    none = jnp.full((2, orders), nothing, jnp.int32)
    latest = latest_tokens(none, jnp.asarray(tokens), jnp.asarray(starts), nothing)
    trial = 1 + np.concatenate([np.zeros((1, 2)), np.cumsum(starts, 0)]).astype(np.uint32)
    contexts = context_rows(latest, jnp.asarray(trial), orders, nothing, slots=512)
    empty = empty_followers(2, orders, nothing, 512)
    read, _ = jax.jit(last_followers, static_argnums=4)(empty, *contexts, tokens, nothing)
    for row in range(2):
        last, suffixes = {}, [(nothing,) * order for order in range(orders + 1)]
        for place, token in enumerate(tokens[:, row]):
            last = {} if starts[place, row] else last | dict.fromkeys(suffixes, token)
            suffixes = [
                tuple(latest[place + 1, row, :order].tolist()) for order in range(orders + 1)
            ]
            expected = [last.get(context, nothing) for context in suffixes]
            assert read[place, row].tolist() == expected, place


def test_counts_without_learnt_weights_are_the_adaptive_ngram():
    """With a hash table large enough for all contexts, it is method C of all orders."""
    tokens = np.random.default_rng(0).integers(4, size=(5, 200))
    tokens[:, 100:] = tokens[:, :100]
    window = np.full((199, 5, 5), 4)
    for age in range(5):
        window[age:, :, age] = tokens[:, : 199 - age].T
    trial = jnp.ones((199, 5), jnp.uint32)
    rows, tags = context_rows(jnp.asarray(window), trial, 5, 4, 1 << 16)
    assert len({*np.unique(rows[..., 2])} & {*np.unique(rows[..., 3])}) == 0
    targets = jnp.asarray(tokens[:, 1:].T)
    counts, _ = count_followers(empty_counts(5, 5, 4, 1 << 16), rows, tags, targets)
    predicted = blend_orders(counts, describe_counts(counts), jnp.zeros((6, 4)), jnp.zeros(6))
    chosen = jnp.take_along_axis(predicted, targets[..., None, None], -1)[..., 0]
    for order in range(6):
        expected = adaptive_ngram(tokens, order, 4)
        np.testing.assert_allclose(-chosen[..., order].T, expected, rtol=1e-4, atol=1e-4)


def test_it_stays_finite_and_learns_a_sequence():
    network = as_network(OnlineMemory(V, SETTINGS))
    tokens = jnp.tile(jnp.array([3, 1, 4, 1, 5, 2, 6, 5]), 500)[:, None]
    params = network.init(jax.random.key(0), tokens[0])
    logits, carry = jax.jit(network.unroll)(params, None, tokens[:-1], None)
    nats = -jnp.take_along_axis(logits, tokens[1:, :, None], -1)[..., 0]
    assert nats[:4].mean() > 1.5 and nats[2000:].max() < 0.05
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((logits, carry)))


@pytest.mark.slow
def test_it_stays_finite_over_a_million_tokens():
    """Discounted losses, counts and precisions of a sequence that changes all the time."""
    network = as_network(OnlineMemory(V, SETTINGS))
    draw = np.random.default_rng(0)
    params = network.init(jax.random.key(0), jnp.zeros(1, jnp.int32))
    unroll, carry = jax.jit(network.unroll), network.initial_carry(1)
    for part in range(64):
        tokens = jnp.asarray(draw.integers(1 + part % V, size=(1 << 14, 1)), jnp.int32)
        logits, carry = unroll(params, carry, tokens, jnp.zeros(tokens.shape, bool))
        assert np.isfinite(logits).all()
    assert carry.tokens[0] == 1 << 20
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(carry))


def test_a_policy_of_symbols_acts_what_the_memory_expects():
    settings = RecurrentSettings("online", sizes=(8,), online=SETTINGS)
    network = settings.network(spaces.Discrete(V), spaces.Discrete(V))
    symbols = jnp.tile(jnp.array([3, 1, 4, 1, 5, 2, 6, 7]), 40)[:, None]
    starts = jnp.zeros(symbols.shape, bool).at[160].set(True)
    inputs = AgentInput(symbols, jnp.roll(symbols, 1), jnp.ones(symbols.shape))
    params = network.init(jax.random.key(0), jax.tree.map(lambda x: x[0], inputs))
    output, _ = jax.jit(network.unroll)(params, None, inputs, starts)
    step = jax.jit(network.step)
    is_right = output.logits.argmax(-1)[:-1] == symbols[1:]
    assert is_right[120:159].all() and is_right[280:].all() and not is_right[160:168].all()
    carry = network.initial_carry(1)
    for t, at in enumerate(zip(*inputs, starts, strict=True)):
        alone, carry = step(params, carry, AgentInput(*at[:3]), at[3])
        np.testing.assert_allclose(alone.logits, output.logits[t], atol=1e-4)
    with pytest.raises(ValueError, match="online, for Box"):
        settings.network(spaces.Box(0.0, 1.0, (4,)), spaces.Discrete(5))


def test_too_long_contexts_are_refused():
    with pytest.raises(ValueError, match="orders: got 9; accepted: at most ages = 7"):
        OnlineMemorySettings(orders=9)
