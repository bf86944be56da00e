"""Memories beside plain NumPy: the differentiable neural computer, ESBN, dual coding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from step_unroll import BATCH, LENGTH, MODULES, prepare
from variants import daily

from gpicljax.networks import dnc
from gpicljax.networks.event_store import Event


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def find(memory, key, strength):
    """Content-based addressing by one key."""
    lengths = np.sqrt((memory**2).sum(1) + 1e-6) * np.sqrt((key**2).sum() + 1e-6)
    return softmax(memory @ key / lengths * (1 + np.log1p(np.exp(strength))))


def allocate(usage):
    """Along the list of rows, the freest first."""
    weights, taken = np.zeros_like(usage), 1.0
    for row in np.argsort(usage, kind="stable"):
        weights[row] = (1 - usage[row]) * taken
        taken *= usage[row]
    return weights


def plain(params, carry, inputs, starts, heads, width):
    """Outputs and memory of one instance, from its carry on, by the equations of the methods."""
    p = jax.tree.map(lambda x: np.asarray(x, np.float64), params["params"])
    empty = jax.tree.map(np.zeros_like, carry)
    outputs = []
    for x, start in zip(inputs, starts, strict=True):
        cell, hidden, memory, usage, written, read, reads, links = empty if start else carry
        gates = x @ p["inputs"]["kernel"] + p["inputs"]["bias"]
        gates = gates + hidden @ p["recurrent"] + reads.ravel() @ p["again"]
        i, f, g, o = np.split(gates, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        numbers = list(hidden @ p["interface"] + p["bias"])

        def take(count, numbers=numbers):
            return np.array([numbers.pop(0) for _ in range(count)])

        key, vector, erase = take(width), take(width), sigmoid(take(width))
        (strength,), allocation, write = take(1), sigmoid(take(1)), sigmoid(take(1))
        keys, strengths, free = take(heads * width).reshape(heads, width), take(heads), take(heads)

        retained = np.prod([1 - sigmoid(free[h]) * read[h] for h in range(heads)], axis=0)
        usage = (usage + written - usage * written) * retained
        written = allocation * allocate(usage) + (1 - allocation) * find(memory, key, strength)
        written = write * written
        memory = memory * (1 - np.outer(written, erase)) + np.outer(written, vector)
        weights = [find(memory, keys[h], strengths[h]) for h in range(heads)]
        if links is not None:
            n = len(usage)
            after = np.zeros((n, n))
            for i in range(n):
                for j in range(n):
                    kept = (1 - written[i] - written[j]) * links.after[i, j]
                    after[i, j] = (i != j) * (kept + written[i] * links.latest[j])
            links = dnc.Links(after, (1 - written.sum()) * links.latest + written)
            modes = softmax(take(3 * heads).reshape(heads, 3))
            weights = [
                modes[h] @ np.stack([after.T @ read[h], weights[h], after @ read[h]])
                for h in range(heads)
            ]
        assert not numbers
        read = np.stack(weights)
        reads = read @ memory
        carry = dnc.DNCState(cell, hidden, memory, usage, written, read, reads, links)
        features = np.concatenate([hidden, reads.ravel()])
        outputs.append(features @ p["output"]["kernel"] + p["output"]["bias"])
    return np.stack(outputs), carry


@pytest.mark.parametrize("name", daily(["dnc"], ["dnc", "dnc, unlinked"]))
def test_it_is_the_equations_of_the_paper(name):
    network, params, carry, inputs, starts = prepare(name)
    outputs, end = network.unroll(params, carry, inputs, starts)
    heads, width = MODULES[name].heads, MODULES[name].width
    for b in range(BATCH):
        instance = jax.tree.map(lambda x: np.asarray(x[b], np.float64), carry)  # noqa: B023
        x = np.asarray(inputs[:, b], np.float64)
        expected, state = plain(params, instance, x, starts[:, b], heads, width)
        np.testing.assert_allclose(outputs[:, b], expected, atol=2e-5)
        jax.tree.map(
            lambda a, e: np.testing.assert_allclose(a[b], e, atol=2e-5),  # noqa: B023
            end,
            state,
        )
    assert len(outputs) == LENGTH


def test_content_is_found_by_direction_and_not_by_length():
    memory = jnp.array([[0.1, 0.0], [0.0, 9.0], [-3.0, 0.1], [0.0, 0.0]])
    keys = jnp.array([[5.0, 0.1], [0.0, 0.2]])
    weights = dnc.content_weights(memory, keys, jnp.array([50.0, 0.0]))
    assert weights[0, 0] > 0.99
    np.testing.assert_allclose(weights[1], 0.25)  # without strength all are alike


def test_the_freest_row_is_allocated_first():
    usage = np.array([[0.5, 0.2, 0.9], [0.5, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    expected = [[0.1, 0.8, 0.01], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(dnc.allocation_weights(jnp.asarray(usage)), expected, atol=1e-6)
    slopes = np.asarray(jax.jit(jax.jacobian(dnc.allocation_weights))(usage[0]))
    for j in range(3):
        moved = [allocate(usage[0] + d * np.eye(3)[j]) for d in (1e-6, -1e-6)]
        np.testing.assert_allclose(slopes[:, j], (moved[0] - moved[1]) / 2e-6, atol=1e-5)


def test_what_is_written_is_in_use_until_a_head_frees_it():
    usage, written = jnp.zeros(3), jnp.array([0.0, 1.0, 0.5])
    read = jnp.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(dnc.next_usage(usage, written, read, jnp.zeros(2)), written)
    freed = dnc.next_usage(usage, written, read, jnp.array([1.0, 0.0]))
    np.testing.assert_allclose(freed, [0.0, 0.0, 0.5])


def test_links_lead_along_the_order_of_writes():
    links = dnc.Links(jnp.zeros((4, 4)), jnp.zeros(4))
    for row in (2, 0, 3):
        links = dnc.next_links(links, jnp.eye(4)[row])
    links = dnc.next_links(links, jnp.zeros(4))  # writing nothing changes nothing
    after = np.zeros((4, 4))
    after[0, 2] = after[3, 0] = 1
    np.testing.assert_array_equal(links.after, after)
    np.testing.assert_array_equal(links.latest, np.eye(4)[3])
    # Row 0 written anew: 0 follows 3 now, and what it was linked with is forgotten.
    links = dnc.next_links(links, jnp.eye(4)[0])
    after = np.zeros((4, 4))
    after[0, 3] = 1
    np.testing.assert_array_equal(links.after, after)


# The Emergent Symbol Binding Network beside lists of keys and values in plain NumPy ---------------


def plain_esbn(params, carry, inputs, starts, slots):
    """Hidden states of one instance, step by step through algorithm 1 of the paper."""
    p = jax.tree.map(lambda x: np.asarray(x, np.float64), params["params"])
    width = p["says"].shape[1] - 1
    cell, hidden = carry.cell, carry.hidden
    keys, values = [list(x) for x in np.split(carry.pairs[: carry.written], [width], axis=1)]
    outputs = []
    for x, start in zip(inputs, starts, strict=True):
        if start:
            cell, hidden, keys, values = 0 * cell, 0 * hidden, [], []
        z = x @ p["encoder"]["kernel"] + p["encoder"]["bias"]
        output = hidden @ p["says"] + p["says_bias"]
        key, gate = np.maximum(output[:width], 0), sigmoid(output[width])
        read = np.zeros(width + 1)
        if values:
            products = np.stack(values) @ z
            weights = np.exp(products - products.max())
            weights = weights / weights.sum()
            confidence = sigmoid(p["gain"] * products + p["bias"])
            for w, k, c in zip(weights, keys, confidence, strict=True):
                read = read + gate * w * np.append(k, c)
        keys, values = [*keys, key][-slots:], [*values, z][-slots:]
        gates = read @ p["retrieved"] + hidden @ p["recurrent"] + p["controller_bias"]
        i, f, g, o = np.split(gates, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        outputs.append(hidden)
    return np.stack(outputs), len(values)


def test_it_is_the_papers_algorithm():
    network, params, carry, inputs, starts = prepare("esbn")
    slots = MODULES["esbn"].slots
    outputs, end = network.unroll(params, carry, inputs, starts)
    for b in range(BATCH):
        instance = jax.tree.map(lambda x: np.asarray(x[b]), carry)  # noqa: B023
        x = np.asarray(inputs[:, b], np.float64)
        expected, stored = plain_esbn(params, instance, x, starts[:, b], slots)
        np.testing.assert_allclose(outputs[:, b], expected, atol=1e-5)
        assert min(end.written[b], slots) == stored
    assert end.written.max() > slots  # some instance has overwritten its first pairs


def test_the_controller_sees_only_what_repeats():
    """Sequences of other inputs with the same repetitions have the same outputs."""
    network, params, _, inputs, starts = prepare("esbn")
    # Values of a length so large that no product but that with itself counts, and confidences
    # are 0 or 1.
    kernel = np.zeros_like(params["params"]["encoder"]["kernel"])
    kernel[:3] = 1e3 * np.eye(3)
    encoder = {"kernel": kernel, "bias": np.zeros(3, kernel.dtype)}
    params = {"params": params["params"] | {"encoder": encoder}}
    faces = np.eye(6, dtype=inputs.dtype)
    order = np.array([0, 1, 1, 0, 2, 1, 2, 0, 0])

    def outputs(names, order):
        shown = np.repeat(faces[names][order][:, None], BATCH, axis=1)
        return network.unroll(params, network.initial_carry(BATCH), shown, np.zeros_like(starts))[0]

    expected = outputs([0, 1, 2], order)
    np.testing.assert_allclose(outputs([2, 0, 1], order), expected, atol=1e-6)
    assert np.abs(outputs([0, 1, 2], order[::-1]) - expected).max() > 1e-2


# The dual-coding memory beside a list of pairs in plain NumPy -------------------------------------


def cosine(a, b):
    return a @ b / np.sqrt((a @ a + 1e-6) * (b @ b + 1e-6))


def linear(p, x):
    return x @ p["kernel"] + p.get("bias", 0)


def plain_dual_coding(params, carry, event, starts, core):
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
        expected, stored = plain_dual_coding(params, instance, case, starts[:, b], core)
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
