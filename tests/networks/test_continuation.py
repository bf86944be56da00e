"""A memory of what followed: by steps or at once, and by hand on sequences that repeat."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.networks.continuation import Continuation
from gpicljax.networks.contract import AgentInput, as_network
from gpicljax.networks.recurrent_settings import RecurrentSettings

SYMBOLS, CONTEXT, FOLLOWING = 16, 2, 3


@functools.cache
def network(slots, silence=None, vectors=0):
    options = {"context": CONTEXT, "following": FOLLOWING, "slots": slots, "silence": silence}
    sizes = {"heads": 2, "width": 8, "hidden": (8,), "vectors": vectors}
    return as_network(Continuation(SYMBOLS, SYMBOLS, **options, **sizes))


def inputs(symbols, actions=None, rewards=None):
    """One instance's, as `[T, 1]`."""
    steps = len(symbols)
    actions = np.full(steps, -1) if actions is None else actions
    rewards = np.zeros(steps) if rewards is None else rewards
    columns = (jnp.asarray(x)[:, None] for x in (symbols, actions, np.asarray(rewards, float)))
    return AgentInput(*columns)


@pytest.mark.parametrize(
    ("slots", "silence", "vectors"), [(5, None, 0), (64, None, 0), (5, 3, 0), (5, 3, 2)]
)
def test_unroll_is_step_by_step_with_starts_and_full_slots(slots, silence, vectors):
    net, steps, batch = network(slots, silence, vectors), 24, 3
    draw = np.random.default_rng(0)
    sequence = AgentInput(
        jnp.asarray(draw.integers(SYMBOLS, size=(steps, batch))),
        jnp.asarray(draw.integers(-1, SYMBOLS, size=(steps, batch))),
        jnp.asarray(draw.integers(-1, 2, size=(steps, batch)), float),
    )
    if silence is not None:
        quiet = jnp.asarray(draw.random((steps, batch)) < 0.4)
        symbols = jnp.where(quiet, silence, sequence.observation)
        sequence = sequence._replace(observation=symbols)
    starts = jnp.asarray(draw.random((steps, batch)) < 0.1)
    params = jax.jit(net.init)(jax.random.key(0), jax.tree.map(lambda x: x[0], sequence))
    noise = jax.random.normal(jax.random.key(1), (1000,))
    params = jax.tree.map(lambda x: x + 0.3 * jnp.resize(noise, x.shape), params)
    whole, last = jax.jit(net.unroll)(params, net.initial_carry(batch), sequence, starts)

    def step(carry, x):
        output, carry = net.step(params, carry, *x)
        return carry, output

    start = net.initial_carry(batch)
    carry, rows = jax.jit(lambda: jax.lax.scan(step, start, (sequence, starts)))()
    # What lies in slots without an entry is of no account.
    filled = np.arange(slots) < np.asarray(last.written)[:, None]
    last, carry = (
        x._replace(stored=jax.tree.map(lambda y: np.asarray(y)[filled], x.stored))
        for x in (last, carry)
    )
    for a, b in zip(jax.tree.leaves((whole, last)), jax.tree.leaves((rows, carry)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@functools.partial(jax.jit, static_argnums=0)
def unroll_logits(net, sequence, gate, sharpness):
    params = net.init(jax.random.key(0), jax.tree.map(lambda x: x[0], sequence))
    inner = params["params"]
    quiet = jax.tree.map(jnp.zeros_like, {k: inner[k] for k in ("gates", "policy", "torso")})
    bias = quiet["gates"]["bias"].at[gate].set(1.0)
    sure = {"sharpness": jnp.full(2, sharpness), "nothing": jnp.full(2, -30.0)}
    params = {"params": inner | quiet | sure | {"gates": quiet["gates"] | {"bias": bias}}}
    starts = jnp.zeros(sequence.observation.shape, bool).at[0].set(True)
    return net.unroll(params, None, sequence, starts)[0].logits


def votes(net, sequence, gate, sharpness=50.0):
    """Logits of a network whose only opinion is that of one gate."""
    return np.asarray(unroll_logits(net, sequence, gate, sharpness))[:, 0]


def test_what_followed_before_is_what_is_said():
    tune = [3, 1, 4, 1, 5, 9, 2, 6]
    sequence = inputs(np.array(tune * 3))
    first_that_followed = FOLLOWING - 1  # places go back from the latest
    logits = votes(network(slots=32), sequence, first_that_followed)
    predictions = logits.argmax(-1)
    second_round = len(tune) + CONTEXT - 1
    assert predictions[second_round:-1].tolist() == (tune * 3)[second_round + 1 :]
    # Nothing was stored yet where nothing has followed.
    np.testing.assert_array_equal(logits[:FOLLOWING], 0)


def test_a_tune_is_found_again_whatever_its_pauses():
    tune, silence = [3, 1, 4, 1, 5, 9, 2, 6], 0
    sequence = [*tune, 3, 0, 0, 1, 0, 4, 1, 0, 0, 0, 5, 9, 2, 0]
    logits = votes(network(32, silence), inputs(np.array(sequence)), FOLLOWING - 1)
    # From 3 1 on, and through every pause, what comes next in the tune.
    assert logits.argmax(-1)[len(tune) + 3 :].tolist() == [4, 4, 1, 5, 5, 5, 5, 9, 2, 6, 6]


def test_what_is_seen_can_be_repeated():
    tune = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    present = 2 * FOLLOWING  # behind what two heads found, the latest first
    assert (votes(network(slots=32), inputs(tune), present).argmax(-1) == tune).all()
    assert (votes(network(slots=32), inputs(tune), present + 1).argmax(-1)[1:] == tune[:-1]).all()


def test_actions_are_counted_by_what_they_earned_where_it_was_alike():
    symbols = np.array([7, 7, 7, 7, 7, 7, 7, 7])
    actions = np.array([-1, 2, 5, 2, 9, 2, 2, 2])
    rewards = np.array([0, 1, -1, 1, 0, 1, 1, 1])
    places = 2 * FOLLOWING + CONTEXT
    logits = votes(network(slots=32), inputs(symbols, actions, rewards), 2 * places, -50.0)
    assert logits[-1].argmax() == 2
    assert (np.delete(logits[-1], 2) == 0).all()
    costs = votes(network(slots=32), inputs(symbols, actions, rewards), 2 * places + 1, -50.0)
    assert costs[-1].argmax() == 5
    assert (np.delete(costs[-1], 5) == 0).all()


def test_other_spaces_are_refused():
    env = gpicljax.make("BernoulliBandit-v0")
    settings = RecurrentSettings("continuations", core=(16,))
    with pytest.raises(ValueError, match="memory: got 'continuations, for Box"):
        settings.network(env.observation_space(), env.action_space())
    with pytest.raises(ValueError, match="core: got"):
        RecurrentSettings("continuations", core=(15,))
    quiet = RecurrentSettings("continuations", core=(16,), silence=4)
    with pytest.raises(ValueError, match="silence: got 4; accepted: None, or a symbol below 4"):
        quiet.network(gpicljax.spaces.Discrete(4), gpicljax.spaces.Discrete(5))


def test_vectors_are_those_of_the_last_steps():
    net, seen, said = network(8, vectors=2), [3, 5, 7], [-1, 4, 6]
    draw = jax.jit(net.init)(jax.random.key(0), jax.tree.map(lambda x: x[0], inputs([0])))
    starts = jnp.zeros((3, 1), bool)

    def logits(vector_of):
        params = {"params": {**draw["params"], "vector_of": vector_of}}
        return net.unroll(params, net.initial_carry(1), inputs(seen, said), starts)[0].logits[-1]

    slopes = jax.jit(jax.jacobian(logits))(draw["params"]["vector_of"])
    used = [{*np.flatnonzero(row)} for row in np.abs(slopes).sum((0, 1, 4))]
    assert used == [{*seen[-CONTEXT:]}, {*said[-CONTEXT:]}]
