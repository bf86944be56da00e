"""The differentiable neural computer: its parts on cases made by hand, all of it in plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from step_unroll import BATCH, LENGTH, MODULES, prepare
from variants import daily

from gpicljax.networks import dnc


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
