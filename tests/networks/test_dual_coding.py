"""The dual-coding memory beside a list of pairs in plain NumPy."""

import jax
import numpy as np
from step_unroll import BATCH, LENGTH, MODULES, prepare

from gpicljax.networks.event_store import Event


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def cosine(a, b):
    return a @ b / np.sqrt((a @ a + 1e-6) * (b @ b + 1e-6))


def linear(p, x):
    return x @ p["kernel"] + p.get("bias", 0)


def plain(params, carry, event, starts, core):
    """Computes `DualCoding` for one instance by its definition: hidden states, the last pairs."""
    p = jax.tree.map(lambda x: np.asarray(x, np.float64), params["params"])
    (cell, hidden), stored = (
        carry.controller,
        [np.split(x, 2) for x in carry.pairs[: carry.written]],
    )
    outputs = []
    for *streams, write, start in zip(*event, starts, strict=True):
        if start:
            cell, hidden, stored = 0 * cell, 0 * hidden, []
        codes = [linear(p[f"encoders_{i}"], x) for i, x in enumerate(streams)]
        heard = [*codes]
        for i in range(2):
            queries = linear(p[f"queries_{i}"], codes[i]).reshape(core.heads, core.width)
            for h, query in enumerate(queries):
                # From the latest to the first: sorting leaves equal ones in this order.
                near = [(cosine(query, pair[i]), pair[1 - i]) for pair in reversed(stored)]
                near = sorted(near, key=lambda x: -round(x[0], 3))[: core.nearest]
                if not near:
                    heard.append(np.zeros(core.width))
                    continue
                cosines, neighbours = map(np.array, zip(*near, strict=True))
                strength = np.log1p(np.exp(p["strength"][i, h]))
                neighbours = neighbours * softmax(strength * cosines)[:, None]
                asks, key, gives = np.split(linear(p[f"attention_{i}"], neighbours), 3, axis=1)
                heard.append((softmax(asks @ key.T / np.sqrt(core.width)) @ gives).sum(0))
        lstm = p["controller"]
        gates = linear(lstm["inputs"], np.concatenate(heard)) + lstm["bias"]
        i, f, g, o = np.split(gates + hidden @ lstm["recurrent"], 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        outputs.append(hidden)
        stored = [*stored, codes][-core.slots :] if write else stored
    return np.stack(outputs), stored


def test_it_finds_by_either_code_the_nearest_and_of_equal_ones_the_latest():
    network, params, carry, inputs, starts = prepare("dual coding, events")
    core, draw = MODULES["dual coding, events"], np.random.default_rng(3)
    # Two words only: most of what is found is equally near.
    words = np.eye(4)[draw.integers(2, size=(LENGTH, BATCH))]
    event = Event(words.astype(inputs.key.dtype), inputs.value, inputs.write)
    outputs, end = network.unroll(params, carry, event, starts)
    for b in range(BATCH):
        instance = jax.tree.map(lambda x: np.asarray(x[b], np.float64), carry)  # noqa: B023
        instance = instance._replace(written=int(carry.written[b]))
        case = jax.tree.map(lambda x: np.asarray(x[:, b]), event)  # noqa: B023
        expected, stored = plain(params, instance, case, starts[:, b], core)
        np.testing.assert_allclose(outputs[:, b], expected, atol=2e-5)
        assert min(end.written[b], core.slots) == len(stored)
    assert end.written.max() > core.slots  # some instance has overwritten its first pairs
    # Step by step, what is stored lies in another order.
    for t in range(LENGTH):
        out, carry = network.step(params, carry, jax.tree.map(lambda x: x[t], event), starts[t])  # noqa: B023
        np.testing.assert_allclose(out, outputs[t], atol=1e-5)


def test_vectors_and_events_without_a_value_are_coded_twice(key):
    network = prepare("dual coding").network
    x = jax.random.normal(key, (BATCH, 6))
    key_event = Event(x, x[:, :0], np.ones(BATCH, bool))
    for inputs in (x, key_event):
        params = jax.eval_shape(network.init, key, inputs)["params"]
        assert [params[f"encoders_{i}"]["kernel"].shape for i in range(2)] == [(6, 3)] * 2
