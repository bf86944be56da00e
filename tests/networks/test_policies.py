"""Policies against closed forms, and actor-critics behind the contract of networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from variants import daily

from gpicljax import spaces
from gpicljax.agents.acting import greedy
from gpicljax.networks.actor_critic import ActorCritic, RecurrentActorCritic
from gpicljax.networks.contract import AgentInput, as_network, over_agents
from gpicljax.networks.policies import (
    GaussianPolicy,
    chosen_value,
    legal_actions,
    no_action,
    policy_for,
)
from gpicljax.networks.q_network import QNetwork
from gpicljax.networks.recurrent import LSTMStack

LENGTH, BATCH = 7, 3
OBSERVATIONS = spaces.Dict.of(seen=spaces.Box(-1, 1, (4,)), phase=spaces.Discrete(3))
ACTIONS = {"discrete": spaces.Discrete(3), "continuous": spaces.Box(-2, 2, (2,))}
MODULES = {
    **{f"feed-forward, {name}": ActorCritic(OBSERVATIONS, a) for name, a in ACTIONS.items()},
    "shared torso": ActorCritic(OBSERVATIONS, ACTIONS["discrete"], separate_value=False),
    **{
        f"recurrent, {name}": RecurrentActorCritic(OBSERVATIONS, a, (8,), LSTMStack((5,)))
        for name, a in ACTIONS.items()
    },
    "q": QNetwork(OBSERVATIONS, 3),
    "dueling q": QNetwork(OBSERVATIONS, 3, dueling=True),
}


def draw_case(name, key):
    """Network, parameters, inputs `[LENGTH, BATCH]` and starts."""
    action = ACTIONS["continuous" if "continuous" in name else "discrete"]
    network = as_network(MODULES[name])

    @jax.jit
    def draw(key):
        keys = jax.random.split(key, 4)
        sample = lambda space, key: jax.vmap(jax.vmap(space.sample))(  # noqa: E731
            jax.random.split(key, (LENGTH, BATCH))
        )
        inputs = AgentInput(
            sample(OBSERVATIONS, keys[0]),
            sample(action, keys[1]),
            jax.random.normal(keys[2], (LENGTH, BATCH)),
        )
        params = network.init(key, jax.tree.map(lambda x: x[0], inputs))
        # Heads that start near zero would hide differences.
        params = jax.tree.map(lambda p: p + 0.3 * jax.random.normal(keys[3], p.shape), params)
        return params, inputs, jax.random.bernoulli(keys[3], 0.3, (LENGTH, BATCH))

    return network, *draw(key)


@pytest.mark.parametrize("name", daily(["recurrent, continuous"], MODULES))
def test_step_is_unroll(name, key):
    network, params, inputs, starts = draw_case(name, key)
    carry = network.initial_carry(BATCH)
    together, end = jax.jit(network.unroll)(params, carry, inputs, starts)
    step = jax.jit(network.step)
    for t in range(LENGTH):
        output, carry = step(params, carry, jax.tree.map(lambda x: x[t], inputs), starts[t])  # noqa: B023
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a[t], b, atol=1e-5),  # noqa: B023
            together,
            output,
        )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), end, carry)


def test_without_a_memory_only_the_observation_counts(key):
    network, params, inputs, starts = draw_case("feed-forward, discrete", key)
    assert network.initial_carry(BATCH) == ()
    altered = inputs._replace(
        last_action=1 - inputs.last_action, last_reward=inputs.last_reward + 1
    )
    unroll = jax.jit(network.unroll)
    outputs = [unroll(params, (), x, starts)[0] for x in (inputs, altered)]
    jax.tree.map(np.testing.assert_array_equal, *outputs)


@pytest.mark.parametrize("name", ["recurrent, discrete", "recurrent, continuous"])
def test_with_a_memory_the_last_action_counts(name, key):
    network, params, inputs, starts = draw_case(name, key)
    altered = inputs._replace(last_action=-inputs.last_action)
    unroll, carry = jax.jit(network.unroll), network.initial_carry(BATCH)
    outputs = [unroll(params, carry, x, starts)[0].value for x in (inputs, altered)]
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3


def test_the_value_has_weights_of_its_own_only_if_told():
    inputs = AgentInput(
        jax.vmap(OBSERVATIONS.sample)(jax.random.split(jax.random.key(0), 2)),
        jnp.zeros(2, jnp.int32),
        jnp.zeros(2),
    )

    def names(module):
        return set(jax.eval_shape(as_network(module).init, jax.random.key(0), inputs)["params"])

    assert names(MODULES["shared torso"]) == {"torso", "policy", "value"}
    assert names(MODULES["feed-forward, discrete"]) == {"torso", "value_torso", "policy", "value"}


# Policies -----------------------------------------------------------------------------------------


def test_illegal_actions_have_no_probability_and_harm_no_gradient(key):
    policy = policy_for(spaces.Discrete(4))
    legal = jnp.array([[True, False, True, True], [False, False, True, False]])
    logits = jnp.array([[0.5, 9.0, -1.0, 0.0], [1.0, 2.0, 3.0, 4.0]])
    observation = {"action_mask": legal}
    distribution = policy.distribution(logits, observation)
    kept = np.exp([0.5, -1.0, 0.0])
    np.testing.assert_allclose(
        distribution.probs[0], kept[[0, 0, 1, 2]] / kept.sum() * [1, 0, 1, 1], rtol=1e-5
    )
    np.testing.assert_allclose(distribution.probs[1], [0, 0, 1, 0])
    chances = kept / kept.sum()
    entropy = -(chances * np.log(chances)).sum()
    np.testing.assert_allclose(distribution.entropy(), [entropy, 0], atol=1e-6)
    samples = distribution.sample(seed=key, sample_shape=1000)
    assert set(np.asarray(samples[:, 0])) == {0, 2, 3} and set(np.asarray(samples[:, 1])) == {2}

    def loss(logits):
        d = policy.distribution(logits, observation)
        return d.log_prob(jnp.array([2, 2])).sum() + d.entropy().sum()

    gradient = jax.jit(jax.grad(loss))(logits)
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(np.asarray(gradient)[~np.asarray(legal)], 0)


def test_several_choices_at_once_are_drawn_independently(key):
    space = spaces.MultiDiscrete((2, 4))
    policy = policy_for(space)
    assert policy.size == 6
    outputs = jax.random.normal(key, (6,))
    # A mask may be wider than the largest choice.
    legal = jnp.ones((2, 5), bool).at[1, 2].set(False)
    observation = {"action_mask": legal}
    first = jax.nn.softmax(outputs[:2])
    second = jax.nn.softmax(jnp.where(legal[1, :4], outputs[2:], -jnp.inf))
    distribution = policy.distribution(outputs, observation)
    action = jnp.array([1, 3])
    expected = np.log(first[1] * second[3])
    np.testing.assert_allclose(distribution.log_prob(action), expected, rtol=1e-5)
    entropies = [-sum(float(p * np.log(p)) for p in chances if p) for chances in (first, second)]
    np.testing.assert_allclose(distribution.entropy(), sum(entropies), rtol=1e-5)
    samples = np.asarray(distribution.sample(seed=key, sample_shape=4000))
    assert samples.shape == (4000, 2) and samples.dtype == np.int32
    assert set(samples[:, 0]) == {0, 1} and set(samples[:, 1]) == {0, 1, 3}
    joint = np.histogram2d(samples[:, 0], samples[:, 1], bins=(np.arange(3), np.arange(5)))[0]
    np.testing.assert_allclose(joint / 4000, np.outer(first, second), atol=0.03)
    best = [int(first.argmax()), int(second.argmax())]
    np.testing.assert_array_equal(distribution.mode(), best)

    def loss(outputs):
        d = policy.distribution(outputs, observation)
        return d.log_prob(action) + d.entropy()

    gradient = np.asarray(jax.jit(jax.grad(loss))(outputs))
    assert np.isfinite(gradient).all() and gradient[4] == 0


@pytest.mark.parametrize("dueling", [False, True])
def test_the_value_of_several_choices_is_the_mean_of_theirs(dueling, key):
    space = spaces.MultiDiscrete((2, 4))
    network = as_network(QNetwork(spaces.Box(-1, 1, (4,)), space, (8,), dueling))
    inputs = AgentInput(jnp.ones((3, 4)), None, None)
    params = network.init(key, inputs)
    values = network.step(params, (), inputs, None)[0].q_values
    assert values.shape == (3, 2, 4)
    exists = np.isfinite(np.asarray(values))
    np.testing.assert_array_equal(exists[0], [[True, True, False, False], [True] * 4])
    if dueling:  # one value for all choices, over which advantages are centred
        head = params["params"]["head"]
        means = np.where(exists, values, 0).sum(-1) / exists.sum(-1)
        features = jax.nn.relu(inputs.observation @ params["params"]["MLP_0"]["Dense_0"]["kernel"])
        value = features @ head["value"]["kernel"] + head["value"]["bias"]
        np.testing.assert_allclose(means, np.broadcast_to(value, (3, 2)), atol=1e-5)
    action = jnp.array([[0, 0], [1, 2], [1, 3]])
    expected = [(values[i, 0, a] + values[i, 1, b]) / 2 for i, (a, b) in enumerate(action)]
    np.testing.assert_allclose(chosen_value(space, values, action), expected, rtol=1e-6)
    # The best action of all is made of the best of each choice.
    best = chosen_value(space, values, greedy(values, legal_actions(inputs.observation, space)))
    every = [chosen_value(space, values, jnp.array([[a, b]] * 3)) for a in (0, 1) for b in range(4)]
    np.testing.assert_allclose(best, np.max(every, axis=0), rtol=1e-6)


@pytest.mark.parametrize("shared", daily([False], [True, False]))
def test_a_network_over_agents_is_the_network_of_each(shared, key):
    single, params, inputs, starts = draw_case("recurrent, discrete", key)
    network = over_agents(single, 2, shared)
    pair = jax.tree.map(lambda x: jnp.stack([x, -x if x.ndim > 2 else x], 2), inputs)
    params = jax.jit(network.init)(key, jax.tree.map(lambda x: x[0], pair))
    kernel = params["params"]["value"]["kernel"]
    assert kernel.shape == ((5, 1) if shared else (2, 5, 1))
    assert shared or (kernel[0] != kernel[1]).any()
    outputs, end = jax.jit(network.unroll)(params, network.initial_carry(BATCH), pair, starts)
    step, unroll = jax.jit(network.step), jax.jit(single.unroll)
    carry = network.initial_carry(BATCH)
    assert all(x.shape[:2] == (BATCH, 2) for x in jax.tree.leaves(carry))
    for t in range(2):
        step_input = jax.tree.map(lambda x: x[t], pair)  # noqa: B023
        output, carry = step(params, carry, step_input, starts[t])
        np.testing.assert_allclose(outputs.logits[t], output.logits, atol=1e-5)
    for agent in range(2):
        agent_params = params if shared else jax.tree.map(lambda x: x[agent], params)  # noqa: B023
        expected, last = unroll(
            agent_params, None, jax.tree.map(lambda x: x[:, :, agent], pair), starts  # noqa: B023
        )  # fmt: skip
        np.testing.assert_allclose(outputs.logits[:, :, agent], expected.logits, atol=1e-5)
        np.testing.assert_allclose(end[0][0][:, agent], last[0][0], atol=1e-5)


def test_gaussian_log_probabilities_and_entropy():
    policy = policy_for(spaces.Box(-2, 2, (2,)))
    assert policy.size == 4
    outputs = jnp.array([0.3, -0.2, np.log(0.5), np.log(1.5)])
    distribution = policy.distribution(outputs, None)
    normal = stats.norm([0.3, -0.2], [0.5, 1.5])
    sample = jnp.array([0.1, 0.9])
    np.testing.assert_allclose(
        distribution.log_prob(sample), normal.logpdf(sample).sum(), rtol=1e-5
    )
    np.testing.assert_allclose(distribution.entropy(), normal.entropy().sum(), rtol=1e-5)


@pytest.mark.parametrize("bounds", ["clip", "squash"])
def test_continuous_actions_stay_inside_and_reach_the_bounds(bounds):
    space = spaces.Box(-1, 3, (2, 1))
    policy = GaussianPolicy(space, bounds)
    actions = policy.to_action(jnp.array([[-9.0, 9.0], [0.0, 0.5]]))
    assert actions.shape == (2, 2, 1)
    assert jax.vmap(space.contains)(actions).all()
    np.testing.assert_allclose(actions[0].ravel(), [-1, 3], atol=1e-5)
    middle = 2 * np.tanh(0.5) if bounds == "squash" else 1
    np.testing.assert_allclose(actions[1].ravel(), [1, 1 + middle], rtol=1e-6)


def test_actions_without_bounds_are_the_samples():
    policy = policy_for(spaces.Box(-np.inf, np.inf, (2,)))
    samples = jnp.array([[-9.0, 40.0]])
    np.testing.assert_array_equal(policy.to_action(samples), samples)


def test_no_action_is_zeros_to_the_network():
    for space in ACTIONS.values():
        flat = spaces.flatten(space, no_action(space, 2))
        np.testing.assert_array_equal(flat, np.zeros((2, spaces.flat_size(space))))


def test_spaces_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="actions: got MultiDiscrete.*MultiDiscrete of one row"):
        policy_for(spaces.MultiDiscrete(((2, 2), (2, 2))))
    with pytest.raises(ValueError, match="space: got Dict"):
        policy_for(OBSERVATIONS)
    with pytest.raises(ValueError, match="accepted: a Box of floats"):
        policy_for(spaces.Box(0, 3, (2,), jnp.int32))
    with pytest.raises(ValueError, match="bounds: got 'fold'; accepted: clip, squash"):
        policy_for(spaces.Box(0, 1, (2,)), "fold")
    with pytest.raises(ValueError, match="finite bounds, with bounds='squash'"):
        policy_for(spaces.Box(0, np.inf, (2,)), "squash")
