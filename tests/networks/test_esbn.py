"""The Emergent Symbol Binding Network beside lists of keys and values in plain NumPy."""

import jax
import numpy as np
from step_unroll import BATCH, MODULES, prepare


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def plain(params, carry, inputs, starts, slots):
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
        expected, stored = plain(params, instance, x, starts[:, b], slots)
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
