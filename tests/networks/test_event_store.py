"""The event store beside a memory written in plain Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax import spaces
from gpicljax.networks.contract import AgentInput, as_network
from gpicljax.networks.event_store import TINY, Event, EventStore, event_of

LENGTH, KEY, VALUE, HEADS, SLOTS = 12, 3, 2, 2, 4
SPACE = spaces.Dict.of(word=spaces.Discrete(3), seen=spaces.Box(-1, 1, (2,)))


def dot_scores(params, key_now, stored, head):
    """Scores of events by the product of projections."""
    query, key = params["query"], params.get("key", params["query"])
    scores = [key_now @ query[:, head] @ (other @ key[:, head]) for other in stored]
    return np.asarray(scores) / np.sqrt(query.shape[-1]) * params["scale"][head]


def distance_scores(params, key_now, stored, head):
    """Scores of events by the logarithm of their distance."""
    weight = np.exp(params["log_weight"][:, head])
    squares = [np.square((key_now - other) * weight).sum() for other in stored]
    return -np.log(np.asarray(squares) + TINY) * params["scale"][head]


def plain_reads(scores_of, params, keys, values, write, starts):
    """Computes `EventStore` for one instance by its definition, event by event."""
    params = jax.tree.map(np.asarray, params["params"])
    stored, reads = [], []
    for key_now, value, writes, start in zip(keys, values, write, starts, strict=True):
        stored = [] if start else stored
        now, heads = np.concatenate([key_now, value]), []
        for head in range(HEADS):
            scores = scores_of(params, key_now, [event[:KEY] for event in stored], head)
            weights = np.exp([*scores, params["null"][head]])
            weights /= weights.sum()
            events = [*stored, np.zeros(KEY + VALUE)]  # the null slot's is zero
            mean = weights @ events
            if scores_of is dot_scores:
                heads.append([mean, weights[-1:]])
            else:
                parts = [slice(0, KEY - 1), slice(KEY - 1, KEY), slice(KEY, None)]
                squares, variances = (
                    [weights @ [np.square(e - x)[part].sum() for e in events] for part in parts]
                    for x in (now, mean)
                )
                logs = [np.log(np.add(x, TINY)) / 4 for x in (squares, variances)]
                heads.append([*logs, (mean - now)[KEY - 1 : KEY], mean[KEY:], weights[-1:]])
        reads.append(np.concatenate([x for kind in zip(*heads, strict=True) for x in kind]))
        if writes:
            stored = [*stored, now][-SLOTS:]
    return np.stack(reads)


PARTS = {"metric": "distance", "key_parts": (KEY - 1, 1), "value_parts": (VALUE,)}


@pytest.mark.parametrize("options", [{}, {"tied": True}, PARTS])
def test_reads_are_those_of_a_list_of_events(options):
    module = EventStore(KEY, VALUE, slots=SLOTS, heads=HEADS, width=5, **options)
    network, draw = as_network(module), np.random.default_rng(0)
    keys, values = (draw.normal(size=(2 * LENGTH, 3, n)) for n in (KEY, VALUE))
    write, starts = draw.random((2 * LENGTH, 3)) < 0.7, draw.random((2 * LENGTH, 3)) < 0.1
    starts[0], starts[1:, 0] = True, False  # the first instance overflows
    event = Event(*map(jnp.asarray, (keys, values, write)))
    params = network.init(jax.random.key(0), jax.tree.map(lambda x: x[0], event))
    params["params"] |= {"null": jnp.asarray([0.5, -1.0]), "scale": jnp.asarray([0.7, 2.0])}
    scores_of = distance_scores if "metric" in options else dot_scores
    expected = [
        plain_reads(scores_of, params, keys[:, i], values[:, i], write[:, i], starts[:, i])
        for i in range(3)
    ]

    unroll, carry, reads = jax.jit(network.unroll), network.initial_carry(3), []
    for part in (slice(None, LENGTH), slice(LENGTH, None)):
        out, carry = unroll(
            params, carry, jax.tree.map(lambda x, p=part: x[p], event), starts[part]
        )
        reads.append(out)
    reads, expected = np.concatenate(reads), np.stack(expected, 1)
    if "metric" in options:  # a variance of nothing is exact to the square of the distance alone
        for array in (reads, expected):
            array[..., : 6 * HEADS] = np.exp(4 * array[..., : 6 * HEADS])
    np.testing.assert_allclose(reads, expected, atol=1e-5)
    assert int(carry.written[0]) == write[:, 0].sum() > SLOTS


@pytest.mark.parametrize("unit", [0.1, 1.0, 100.0])
def test_the_nearest_event_is_found_at_any_scale(unit):
    """Five events on a line, asked from a place 30 % farther from the second nearest."""
    module = EventStore(2, 1, slots=8, heads=1, metric="distance")
    network, starts = as_network(module), jnp.zeros((6, 1), bool)
    places = unit * jnp.asarray([0.0, 1.0, 2.0, 3.0, 4.0, 2.565])
    other = jax.random.normal(jax.random.key(1), (6,))  # of no weight
    event = Event(
        jnp.stack([places, other], -1)[:, None],
        jnp.arange(6.0)[:, None, None],
        jnp.ones((6, 1), bool),
    )
    params = {
        "params": {
            "log_weight": jnp.asarray([[0.0], [-jnp.inf]]),
            "scale": jnp.asarray([20.0]),
            "null": jnp.asarray([-1e3]),
        }
    }

    @jax.jit
    def last(params):
        reads, _ = network.unroll(params, network.initial_carry(1), event, starts)
        return network.attention(params, event, starts)[-1, 0, 0], module.mean_values(reads)[-1, 0]

    weights, means = last(params)
    assert weights[3] > 0.99
    np.testing.assert_allclose(means, [[3.0]], atol=0.02)


def test_weights_of_a_distance_begin_equal_within_a_part_of_the_key():
    module = EventStore(5, 1, heads=64, metric="distance", key_parts=(1, 4))
    event = Event(jnp.zeros((2, 5)), jnp.zeros((2, 1)), jnp.ones(2, bool))
    weights = as_network(module).init(jax.random.key(0), event)["params"]["log_weight"]
    assert (weights[1:] == weights[1]).all() and abs(weights[:2].std() - 2) < 0.5


def test_attention_says_which_steps_are_read():
    module = EventStore(KEY, VALUE, slots=SLOTS, heads=HEADS, width=5)
    network, draw = as_network(module), np.random.default_rng(1)
    key, value = (jnp.asarray(draw.normal(size=(LENGTH, 3, n))) for n in (KEY, VALUE))
    event = Event(key, value, jnp.asarray(draw.random((LENGTH, 3)) < 0.7))
    starts = jnp.zeros((LENGTH, 3), bool).at[5, 1].set(True)
    params = network.init(jax.random.key(0), jax.tree.map(lambda x: x[0], event))
    weights = np.asarray(jax.jit(network.attention)(params, event, starts))
    assert weights.shape == (LENGTH, 3, HEADS, LENGTH)
    reads, _ = jax.jit(network.unroll)(params, network.initial_carry(3), event, starts)
    stored = np.concatenate([key, value], -1)
    means = np.einsum("tbhn,nbe->tbhe", weights, stored).reshape(LENGTH, 3, -1)
    whole = np.concatenate([means, 1 - weights.sum(-1)], -1)
    np.testing.assert_allclose(whole, reads, atol=1e-5)
    assert (weights[5:, 1, :, :5] == 0).all() and ((weights > 0).sum(-1) <= SLOTS).all()


def test_events_are_told_by_the_names_of_what_an_agent_reads():
    observation = {"word": jnp.asarray([2, 0]), "seen": jnp.asarray([[0.5, -0.5], [1.0, 0.0]])}
    inputs = AgentInput(observation, jnp.asarray([-1, 1]), jnp.asarray([0.0, 3.0]))
    space_pair = SPACE, spaces.Discrete(2)
    names = ("word", "last_reward"), ("seen",)
    event, *parts = event_of(*space_pair, *names, ("word", 2))
    assert parts == [(3, 1), (1, 1)]
    result = event(inputs)
    np.testing.assert_array_equal(result.key, [[0, 0, 1, 0], [1, 0, 0, 3]])
    np.testing.assert_array_equal(result.value, observation["seen"])
    assert result.write.tolist() == [True, False]
    event, *parts = event_of(*space_pair)
    result = event(inputs)
    assert parts == [(3, 1, 1, 2, 1), ()]
    assert result.write.all() and result.value.shape == (2, 0)
    np.testing.assert_array_equal(result.key[1], [1, 0, 0, 1, 0, 0, 1, 3])
    event, *parts = event_of(spaces.Discrete(3), spaces.Discrete(2), values=("observation",))
    assert parts == [(), (3,)]
    with pytest.raises(ValueError, match="values: got 'sen' .did you mean 'seen'"):
        event_of(*space_pair, values=("sen",))
