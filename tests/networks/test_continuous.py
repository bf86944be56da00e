"""Actors and critics behind the contract of networks; densities after the tanh against distrax."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax import spaces
from gpicljax.networks.continuous import CriticInput, Critics, DeterministicActor, GaussianActor
from gpicljax.networks.contract import AgentInput, as_network
from gpicljax.networks.policies import TanhPolicy

SEEN = spaces.Dict.of(place=spaces.Box(-1, 1, (4,)), phase=spaces.Discrete(3))
ACTIONS = spaces.Box(-1, 3, (2, 1))
BATCH, LENGTH = 5, 3


def inputs_of(module, shape=(LENGTH, BATCH)):
    draw = np.random.default_rng(0)
    normal = lambda *size: jnp.asarray(draw.normal(size=(*shape, *size)), jnp.float32)  # noqa: E731
    phase = jnp.asarray(draw.integers(3, size=shape), jnp.int32)
    observation = {"place": normal(4), "phase": phase}
    if isinstance(module, Critics):
        return CriticInput(observation, jnp.tanh(normal(2)))
    return AgentInput(observation, normal(2, 1), normal())


def network_of(module):
    network = as_network(module)
    return network._replace(
        init=jax.jit(network.init), step=jax.jit(network.step), unroll=jax.jit(network.unroll)
    )


def draw_case(module):
    """The network, random parameters, and inputs `[LENGTH, BATCH]`."""
    network, inputs = network_of(module), inputs_of(module)
    first = jax.tree.map(lambda x: x[0], inputs)
    # Heads that start near zero would hide differences.
    draw = np.random.default_rng(1)
    params = jax.tree.map(
        lambda s: jnp.asarray(0.5 * draw.normal(size=s.shape), s.dtype),
        jax.eval_shape(network.init, jax.random.key(0), first),
    )
    return network, params, inputs


@pytest.mark.parametrize(
    ("module", "size"),
    [
        (DeterministicActor(SEEN, ACTIONS, (8,)), 2),
        (GaussianActor(SEEN, ACTIONS, (8,)), 4),
        (Critics(SEEN, (8,), 3), 3),
    ],
    ids=["deterministic", "gaussian", "critics"],
)
def test_step_is_unroll_without_a_memory(module, size):
    network, params, inputs = draw_case(module)
    assert network.initial_carry(BATCH) == ()
    starts = jnp.zeros((LENGTH, BATCH), bool)
    together, _ = network.unroll(params, (), inputs, starts)
    assert together.shape == (LENGTH, BATCH, size)
    for t in range(LENGTH):
        step, _ = network.step(params, (), jax.tree.map(lambda x: x[t], inputs), starts[t])  # noqa: B023
        np.testing.assert_allclose(together[t], step, atol=1e-6)


def test_critics_are_separate_and_stacked(key):
    network, params, inputs = draw_case(Critics(SEEN, (8,), 3))
    assert {p.shape[0] for p in jax.tree.leaves(params)} == {3}
    fresh = network.init(key, jax.tree.map(lambda x: x[0], inputs))
    kernel = fresh["params"]["critics"]["torso"]["Dense_0"]["kernel"]
    assert not np.allclose(kernel[0], kernel[1])
    # Each is what it would be alone.
    all_of_them = network.unroll(params, (), inputs, jnp.zeros((LENGTH, BATCH), bool))[0]
    single = network_of(Critics(SEEN, (8,), 1))
    for k in range(3):
        member = jax.tree.map(lambda p: p[k : k + 1], params)  # noqa: B023
        expected = single.unroll(member, (), inputs, jnp.zeros((LENGTH, BATCH), bool))[0]
        np.testing.assert_allclose(all_of_them[..., k], expected[..., 0], rtol=1e-4, atol=1e-5)


def test_actors_start_in_the_middle_and_log_deviations_are_bounded(key):
    inputs = inputs_of(None, (BATCH,))
    actor = network_of(DeterministicActor(SEEN, ACTIONS, (64,)))
    action, _ = actor.step(actor.init(key, inputs), (), inputs, jnp.zeros(BATCH, bool))
    assert 0 < np.abs(action).max() < 0.4
    actor = network_of(GaussianActor(SEEN, ACTIONS, (64,), log_std_low=-3.0, log_std_high=1.0))
    params = actor.init(key, inputs)
    outputs, _ = actor.step(params, (), inputs, jnp.zeros(BATCH, bool))
    assert 0 < np.abs(outputs).max() < 0.4
    for bias, bound in ((50.0, 1.0), (-50.0, -3.0)):
        params["params"]["log_std"]["bias"] = jnp.full(2, bias)
        np.testing.assert_array_equal(
            actor.step(params, (), inputs, jnp.zeros(BATCH, bool))[0][:, 2:], bound
        )


# The policy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_log_densities_are_distraxs(spread, key):
    import distrax

    policy = TanhPolicy(ACTIONS)
    mean_key, std_key, noise_key = jax.random.split(key, 3)
    mean = spread * jax.random.normal(mean_key, (100, 2))
    log_std = 0.3 * jax.random.normal(std_key, (100, 2))
    outputs = jnp.concatenate([mean, log_std], -1)
    sample, log_prob = jax.jit(policy.sample_and_log_prob)(noise_key, outputs)
    oracle = distrax.Transformed(
        distrax.MultivariateNormalDiag(mean, jnp.exp(log_std)), distrax.Block(distrax.Tanh(), 1)
    )
    before = mean + jnp.exp(log_std) * jax.random.normal(noise_key, (100, 2))
    np.testing.assert_allclose(sample, np.tanh(before), atol=1e-6)
    expected = oracle.distribution.log_prob(before) - oracle.bijector.forward_log_det_jacobian(
        before
    )
    np.testing.assert_allclose(log_prob, expected, atol=2e-4)
    np.testing.assert_allclose(policy.mode(outputs), np.tanh(mean), atol=1e-6)


def test_log_densities_integrate_to_one(key):
    """Their importance-weighted mean over samples is the volume 2^D."""
    outputs = jnp.tile(jnp.array([0.3, -0.4, -0.5, -0.3]), (200_000, 1))
    _, log_prob = TanhPolicy(ACTIONS).sample_and_log_prob(key, outputs)
    assert jnp.exp(-log_prob).mean() == pytest.approx(4, abs=0.1)


def test_far_out_everything_is_finite(key):
    policy = TanhPolicy(ACTIONS)
    for mean in (-60.0, 60.0):
        outputs = jnp.array([mean, mean, 0.0, 0.0])
        value, gradient = jax.value_and_grad(lambda x: policy.sample_and_log_prob(key, x)[1])(
            outputs
        )
        assert np.isfinite(value) and np.isfinite(gradient).all()
        # log(1 - tanh(x)^2) is 2 log 2 - 2 |x| there, with slope -2.
        np.testing.assert_allclose(gradient[:2], 2 * np.sign(mean), rtol=1e-4)


def test_samples_and_actions_are_scaled_to_each_other():
    policy = TanhPolicy(ACTIONS)
    assert policy.size == 2
    sample = jnp.array([[-1.0, 1.0], [0.0, 0.5]])
    action = policy.to_action(sample)
    np.testing.assert_allclose(action, np.array([[[-1], [3]], [[1], [2]]]), rtol=1e-6)
    assert jax.vmap(ACTIONS.contains)(action).all()
    np.testing.assert_allclose(policy.to_sample(action), sample, atol=1e-6)
    assert policy.to_sample(action[0]).shape == (2,)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(2),
        spaces.Box(-np.inf, np.inf, (2,)),
        spaces.Box(0, np.inf, (2,)),
        spaces.Box(0, 3, (2,), jnp.int32),
    ],
    ids=str,
)
def test_spaces_that_do_not_fit_are_refused(space):
    with pytest.raises(ValueError, match="a Box of floats with finite bounds"):
        TanhPolicy(space)


def test_an_empty_range_is_refused():
    with pytest.raises(ValueError, match="low below high"):
        TanhPolicy(spaces.Box(1, 1, (2,)))
