"""Networks: the contract, the cores against independent implementations, the paper's sizes."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from step_unroll import (
    BATCH,
    CORES,
    LENGTH,
    MODULES,
    VARIANTS,
    fill,
    largest_difference,
    prepare,
)
from variants import daily

import gpicljax
from gpicljax.networks.contract import AgentInput, as_network
from gpicljax.networks.feedforward import FeedForward
from gpicljax.networks.q_network import DuelingHead, RecurrentQNetwork
from gpicljax.networks.recurrent import LSTMLayer, LSTMStack, orthogonal


def count(params):
    return sum(leaf.size for leaf in jax.tree.leaves(params))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_step_is_unroll(name):
    # Rounding, which depends on processor and compiler; the sharp test is the next one.
    assert largest_difference(name) < 1e-5


def test_step_is_unroll_in_double_precision():
    script = Path(__file__).parent / "step_unroll.py"
    result = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        env={**os.environ, "JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    differences = json.loads(result.stdout)
    assert set(differences) == set(MODULES) - set(VARIANTS)
    assert max(differences.values()) < 1e-12, differences


@pytest.mark.parametrize("name", daily([name for name in MODULES if name not in VARIANTS], MODULES))
def test_memory_is_cleared_at_starts(name):
    network, params, _, inputs, _ = prepare(name)
    unroll = network.unroll
    full = fill(network.initial_carry(BATCH), 1e20)
    starts = jnp.zeros((LENGTH, BATCH), bool).at[0].set(True)
    fresh = unroll(params, network.initial_carry(BATCH), inputs, starts.at[0].set(False))
    cleared = unroll(params, full, inputs, starts)
    # Rounding may differ; anything left of 1e20 would show.
    close = functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-6)
    jax.tree.map(close, cleared, fresh)

    # A start in mid-sequence forgets all of the past of its own instance and nothing of the others.
    starts = jnp.zeros((LENGTH, BATCH), bool).at[4, 1].set(True)
    partly_filled = fill(network.initial_carry(BATCH), 0.3)
    outputs, _ = unroll(params, partly_filled, inputs, starts)
    kept, _ = unroll(params, partly_filled, inputs, jnp.zeros_like(starts))
    tail, _ = unroll(
        params,
        network.initial_carry(BATCH),
        jax.tree.map(lambda x: jnp.concatenate([x[4:], x[:4]]), inputs),
        jnp.zeros_like(starts),
    )
    first = [jax.tree.leaves(x)[0] for x in (outputs, kept, tail)]
    # Other places of the batch, other rounding of the matrix products.
    np.testing.assert_allclose(first[0][4:, 1], first[2][: LENGTH - 4, 1], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(first[0][:, [0, 2, 3]], first[1][:, [0, 2, 3]])
    assert np.abs(first[0][4:, 1] - first[1][4:, 1]).max() > 1e-4


GRADIENTS = "dnc", "esbn", "dual coding, events"


@pytest.mark.parametrize("name", daily(("dnc", "dual coding, events"), GRADIENTS))
def test_gradients_are_finite_from_an_empty_memory_and_equal_inputs(name):
    network, params, _, inputs, starts = prepare(name)
    starts = jnp.zeros_like(starts[:3]).at[1:, 1].set(True)

    @jax.jit
    @jax.grad
    def gradient(params, inputs):
        outputs, _ = network.unroll(params, network.initial_carry(BATCH), inputs, starts)
        return jnp.square(outputs).sum()

    # Rows of length 0, equal usages and equal codes; a trial of one step.
    equal = jax.tree.map(lambda x: jnp.ones_like(x[:3]), inputs)
    different = jax.tree.map(lambda x: x[:3], inputs)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient(params, equal)))
    for path, leaf in jax.tree.leaves_with_path(gradient(params, different)):
        assert np.isfinite(leaf).all() and np.abs(leaf).max() > 0, path


def test_lstm_layer_is_flax_lstm_with_the_same_weights(key):
    features, size = 5, 7
    layer = as_network(LSTMLayer(size))
    inputs = jax.random.normal(key, (LENGTH, BATCH, features))
    params = jax.jit(layer.init)(key, inputs[0])
    params["params"]["bias"] = jax.random.normal(key, (4 * size,))
    inner = params["params"]
    flax = {}
    for i, gate in enumerate("ifgo"):
        part = slice(i * size, (i + 1) * size)
        flax[f"i{gate}"] = {"kernel": inner["inputs"]["kernel"][:, part]}
        flax[f"h{gate}"] = {"kernel": inner["recurrent"][:, part], "bias": inner["bias"][part]}
    cell = nn.OptimizedLSTMCell(size)
    carry = layer.initial_carry(BATCH)
    assert count(params) == count(jax.eval_shape(cell.init, key, carry, inputs[0]))
    outputs, ours_carry = jax.jit(layer.unroll)(
        params, carry, inputs, jnp.zeros((LENGTH, BATCH), bool)
    )
    step = jax.jit(cell.apply)
    for t in range(LENGTH):
        carry, expected = step({"params": flax}, carry, inputs[t])
        np.testing.assert_allclose(outputs[t], expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours_carry[0], carry[0], rtol=0, atol=1e-6)


def test_gru_is_the_papers_with_the_reset_before_the_product():
    network, params, carry, inputs, starts = prepare("gru")
    outputs, end = network.unroll(params, carry, inputs, starts)
    x = np.asarray(inputs, np.float64)
    for layer, held in enumerate(carry):
        weights = params["params"][f"layers_{layer}"]
        wr, wz, w = np.split(np.asarray(weights["inputs"]["kernel"], np.float64), 3, axis=1)
        br, bz, b = np.split(np.asarray(weights["inputs"]["bias"], np.float64), 3)
        ur, uz, u = np.split(np.asarray(weights["recurrent"], np.float64), 3, axis=1)
        hidden, states = np.asarray(held, np.float64), []
        for t in range(LENGTH):
            hidden = hidden * ~np.asarray(starts[t])[:, None]
            reset = 1 / (1 + np.exp(-(x[t] @ wr + br + hidden @ ur)))
            update = 1 / (1 + np.exp(-(x[t] @ wz + bz + hidden @ uz)))
            new = np.tanh(x[t] @ w + b + (reset * hidden) @ u)
            hidden = update * hidden + (1 - update) * new
            states.append(hidden)
        np.testing.assert_allclose(end[layer], hidden, atol=1e-6)
        x = np.stack(states)
    np.testing.assert_allclose(outputs, x, atol=1e-6)


def test_recurrent_weights_start_orthogonal(key):
    params = jax.jit(as_network(LSTMLayer(6)).init)(key, jnp.zeros((1, 3)))["params"]
    for gate in jnp.split(params["recurrent"], 4, axis=1):
        np.testing.assert_allclose(gate @ gate.T, np.eye(6), atol=1e-5)


def test_delta_memory_follows_the_delta_rule(key):
    core = CORES["delta"]
    network, params, carry, inputs, starts = prepare("delta")
    outputs, end = network.unroll(params, carry, inputs, starts)
    weights = jax.tree.map(lambda x: np.asarray(x, np.float64), params["params"])

    def unit(x):
        x = x / (1 + np.exp(-x))
        return x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-6)

    for b in range(BATCH):
        memory = np.asarray(carry[b], np.float64)
        for t in range(LENGTH):
            x = np.asarray(inputs[t, b], np.float64)
            projected = x @ weights["project"]["kernel"] + weights["project"]["bias"]
            query, key_, value = projected.reshape(3, core.heads, core.width)
            gate = 1 / (1 + np.exp(-(x @ weights["gate"]["kernel"] + weights["gate"]["bias"])))
            memory = memory * (not starts[t, b])
            reads = []
            for h in range(core.heads):
                reads.append(memory[h] @ unit(query[h]))
                k = unit(key_[h])
                memory[h] += gate[h] * np.outer(value[h] - memory[h] @ k, k)
            x = np.concatenate([x, *reads])
            x = x @ weights["output"]["kernel"] + weights["output"]["bias"]
            np.testing.assert_allclose(outputs[t, b], np.maximum(x, 0), atol=1e-5)
        np.testing.assert_allclose(end[b], memory, atol=1e-5)


def test_dueling_head_has_an_advantage_without_mean(key):
    head = DuelingHead(5)
    inputs = jax.random.normal(key, (3, 7))
    params = head.init(key, inputs)
    q_values = head.apply(params, inputs)
    value, advantage = params["params"]["value"], params["params"]["advantage"]
    np.testing.assert_allclose(
        q_values.mean(-1), (inputs @ value["kernel"] + value["bias"])[:, 0], atol=1e-6
    )
    # A constant added to every advantage changes nothing.
    shifted = {"params": {"value": value, "advantage": {**advantage, "bias": jnp.full(5, 3.0)}}}
    np.testing.assert_allclose(head.apply(shifted, inputs), q_values, atol=1e-5)
    raw = inputs @ advantage["kernel"]
    np.testing.assert_allclose(
        q_values - q_values[:, :1], raw - raw[:, :1], atol=1e-5
    )  # what differs between actions is the advantage


def shapes_for(env, **options):
    module = RecurrentQNetwork(
        env.observation_space(), env.action_space().n, encoded="stimulus", **options
    )
    observation = jax.tree.map(lambda x: x[None], env.observation_space().sample(jax.random.key(0)))
    inputs = AgentInput(observation, jnp.zeros(1, jnp.int32), jnp.zeros(1))
    return jax.eval_shape(as_network(module).init, jax.random.key(0), inputs)["params"]


def test_size_of_the_papers_network():
    params = shapes_for(gpicljax.make("MetaRG-v0", actions="reference"))
    # The mixer reads 128 + 21 + 1 + 519 + 519 as the reference does, and 2 + 2 for role and phase,
    # 1 for the last game's reward, and two more numbers than the reference's 1197: the round is
    # one of three (there, zeros mean feedback), and so is the last result (there, zeros mean none).
    mixed = params["mixer"]["Dense_0"]["kernel"].shape[0]
    assert mixed == 1199
    assert {name: count(part) for name, part in params.items()} == {
        "encoder": 4 * 512 + 513 * 256 + 257 * 128,
        "mixer": 1200 * 512 + 513 * 256 + 257 * 256,
        # Flax's LSTM has one bias per gate, torch's two: 4 * (256 + 128) fewer.
        "core": 4 * 256 * (256 + 256 + 1) + 4 * 128 * (256 + 128 + 1),
        "head": 129 * (519 + 1),
    }
    assert count(params) == 1_767_304
    # With the reference's concatenation and biases: the 1.77 million of appendix C.
    assert count(params) - 2 * 512 + 4 * (256 + 128) == 1_767_816


def test_size_with_compact_actions():
    params = shapes_for(gpicljax.make("MetaRG-v0"))
    assert params["mixer"]["Dense_0"]["kernel"].shape[0] == 1199 - 2 * (519 - 3)
    assert count(params) == 1_767_304 - 2 * 516 * 512 - 516 * 129


def loss_gradients(loss):
    """Gradients of `loss(outputs)` of the comparing network, by part."""
    network, params, carry, inputs, starts = prepare("q-network, lstm")
    gradient = jax.jit(jax.grad(lambda p: loss(network.unroll(p, carry, inputs, starts)[0])))
    return gradient(params)["params"]


def test_comparison_trains_no_expectation_by_the_q_loss():
    gradients = loss_gradients(lambda outputs: jnp.square(outputs.q_values - 1).mean())
    # The head sees the gap (the core's 5 outputs, then 4 squared differences) ...
    assert gradients["head"]["advantage"]["kernel"].shape == (9, 3)
    assert np.abs(gradients["head"]["advantage"]["kernel"][5:]).min() > 0
    # ... but what is expected is learnt from the prediction's own loss.
    for name in ("predictors_next", "predictors_other"):
        for leaf in jax.tree.leaves(gradients[name]):
            np.testing.assert_array_equal(leaf, 0)
    by_prediction = loss_gradients(lambda outputs: jnp.square(outputs.predictions["next"]).mean())
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(by_prediction["predictors_next"]))
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(by_prediction["core"]))
    assert all(np.abs(leaf).max() == 0 for leaf in jax.tree.leaves(by_prediction["head"]))


def test_comparison_needs_an_encoded_entry():
    module = RecurrentQNetwork(
        gpicljax.spaces.Box(-1, 1, (4,)),
        2,
        core=LSTMStack((3,)),
        predictions=(("next", 4),),
        compare=("next",),
    )
    inputs = AgentInput(jnp.zeros((1, 4)), jnp.zeros(1, jnp.int32), jnp.zeros(1))
    with pytest.raises((AssertionError, ValueError)):
        jax.eval_shape(as_network(module).init, jax.random.key(0), inputs)


def test_no_last_action_is_a_code_of_its_own():
    network, params, carry, inputs, starts = prepare("q-network, lstm")
    step = jax.jit(network.step)
    first = jax.tree.map(lambda x: x[0], inputs)
    values = [
        step(params, carry, first._replace(last_action=jnp.full(BATCH, a)), starts[0])[0].q_values
        for a in range(-1, 3)
    ]
    distances = [np.abs(a - b).min(0).max() for i, a in enumerate(values) for b in values[:i]]
    assert min(distances) > 1e-5


def test_array_observations_pass_without_an_encoder(key):
    module = RecurrentQNetwork(
        gpicljax.spaces.Box(-1, 1, (2, 2)), 2, mixer_sizes=(6,), core=LSTMStack((3,))
    )
    network = as_network(module)
    inputs = AgentInput(jnp.ones((3, 2, 2)), jnp.zeros(3, jnp.int32), jnp.zeros(3))
    params = jax.eval_shape(network.init, key, inputs)
    assert set(params["params"]) == {"mixer", "core", "head"}
    output, _ = jax.eval_shape(
        network.step, params, network.initial_carry(3), inputs, jnp.zeros(3, bool)
    )
    assert output.q_values.shape == (3, 2) and output.predictions == {}


@pytest.mark.slow
def test_vmap_over_seeds():
    core = as_network(CORES["delta"])
    seeds = jax.random.split(jax.random.key(5), 3)
    drawn = jax.jit(jax.vmap(core.init, (0, None)))(seeds, jnp.zeros((BATCH, 6)))
    single = jax.jit(core.init)(seeds[1], jnp.zeros((BATCH, 6)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[1], b, atol=1e-6), drawn, single)
    assert np.asarray(drawn["params"]["project"]["kernel"]).std(0).min() > 0

    network, params, carry, inputs, starts = prepare("q-network, lstm")
    scales = jnp.array([1.0, 0.5, -1.0])
    stacked = jax.tree.map(lambda p: jnp.stack([p * s for s in scales]), params)
    unroll = jax.jit(jax.vmap(network.unroll, (0, None, None, None)))
    outputs, _ = unroll(stacked, carry, inputs, starts)
    for i, scale in enumerate(scales):
        scaled = jax.tree.map(lambda p: p * scale, params)  # noqa: B023
        expected, _ = network.unroll(scaled, carry, inputs, starts)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a[i], b, atol=3e-6),  # noqa: B023
            outputs,
            expected,
        )


def test_orthogonal_matrices_are_orthogonal_and_differ(key):
    matrices = jax.vmap(orthogonal, (0, None))(jax.random.split(key, 3), 64)
    products = matrices @ jnp.swapaxes(matrices, 1, 2)
    np.testing.assert_allclose(products, np.broadcast_to(np.eye(64), (3, 64, 64)), atol=2e-6)
    assert float(jnp.abs(matrices[0] - matrices[1]).max()) > 0.1


class Normed(FeedForward):
    """Keeps running statistics, which are no parameters."""

    @nn.compact
    def __call__(self, inputs):
        x = nn.BatchNorm(use_running_average=True)(nn.Dense(4)(inputs))
        return nn.Dense(2)(x)


def test_what_is_no_parameter_is_not_handed_to_an_optimiser(key):
    with pytest.raises(ValueError, match="module: got 'Normed with params, batch_stats'; accepted"):
        as_network(Normed()).init(key, jnp.zeros((3, 2)))
