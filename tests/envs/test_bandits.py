"""The bandits of the in-context RL evaluation, and Gaussian bandits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.envs.one_pull_bandits import KINDS, OnePullBandit

FIXED = {
    "TwoArmedDeterministicFixed": [1.0, 0.0],
    "TwoArmedHighHighFixed": [0.8, 0.9],
    "TwoArmedHighLowFixed": [0.8, 0.2],
    "TwoArmedLowLowFixed": [0.1, 0.2],
}
N = 4_000


def tasks_of(kind):
    env = gpicljax.make(f"Bandit{kind}-v0")
    sample = jax.jit(jax.vmap(env.sample_task, (0, None)))
    return env, sample(jax.random.split(jax.random.key(0), N), env.default_params)


def assert_uniform(values):
    """Within [0, 1], with the mean and the spread of a uniform number, for each arm."""
    assert values.min() >= 0
    assert values.max() <= 1
    assert np.abs(values.mean(0) - 0.5).max() < 4.5 * np.sqrt(1 / 12 / N)
    assert np.abs(values.var(0) - 1 / 12).max() < 4.5 * np.sqrt(1 / 180 / N)


def test_every_name_of_the_package_is_registered_under_both_versions():
    for kind in KINDS:
        assert gpicljax.make(f"Bandit{kind}-v0") == gpicljax.make(f"Bandit{kind}-v1")


@pytest.mark.parametrize("kind", FIXED)
def test_fixed_arms_are_fixed(kind):
    env, tasks = tasks_of(kind)
    assert env.action_space().n == 2
    np.testing.assert_array_equal(tasks.chances, np.tile(np.float32(FIXED[kind]), (N, 1)))
    np.testing.assert_array_equal(tasks.payments, 1)
    np.testing.assert_array_equal(tasks.noise, 0)


def test_random_arms_have_the_packages_distributions():
    _, tasks = tasks_of("TenArmedRandomFixed")
    assert tasks.chances.shape == (N, 10)
    assert_uniform(np.asarray(tasks.chances))
    np.testing.assert_array_equal(tasks.payments, 1)

    _, tasks = tasks_of("TenArmedRandomRandom")
    chances, payments = np.asarray(tasks.chances), np.asarray(tasks.payments)
    assert_uniform(chances)
    assert_uniform(payments)
    assert abs(np.corrcoef(chances.ravel(), payments.ravel())[0, 1]) < 4 / np.sqrt(10 * N)

    _, tasks = tasks_of("TenArmedUniformDistributedReward")
    np.testing.assert_array_equal(tasks.chances, 1)
    assert_uniform(np.asarray(tasks.payments))

    _, tasks = tasks_of("TenArmedGaussian")
    payments = np.asarray(tasks.payments)
    np.testing.assert_array_equal(tasks.chances, 1)
    np.testing.assert_array_equal(tasks.noise, 1)
    assert np.abs(payments.mean(0)).max() < 4.5 / np.sqrt(N)
    assert np.abs(payments.std(0) - 1).max() < 4.5 / np.sqrt(2 * N)


def test_pulls_follow_the_given_noise(key):
    """The package's rule, pull by pull: one uniform number against p, then a constant or normal."""
    env = OnePullBandit("TwoArmedHighLowFixed")
    task = env.sample_task(key, env.default_params)
    task = task.replace(payments=jnp.array([2.0, -1.0]), noise=jnp.asarray(0.5))
    state = env.initial(key, task)
    for arm, luck, reward in (
        (0, [0.79, 1.0], 2.5),
        (0, [0.81, 1.0], 0.0),
        (1, [0.19, -2.0], -2.0),
        (1, [0.2, -2.0], 0.0),
    ):
        moved = env.move(state, jnp.int32(arm), jnp.array(luck), task)
        assert moved.reward == pytest.approx(reward)
        assert moved.terminated
        assert not moved.truncated
        assert moved.info["regret"] == pytest.approx([0, 1.8][arm])
        assert env.observe(moved.state, task) == 0
        assert env.physical_state(moved.state) == 1


def test_the_noise_is_a_uniform_and_an_independent_normal_number(key):
    env = OnePullBandit("TenArmedGaussian")
    task = env.sample_task(key, env.default_params)
    luck = jax.vmap(env.draw_noise, (0, None, None))(
        jax.random.split(key, N), env.initial(key, task), task
    )
    uniform, normal = np.asarray(luck).T
    assert_uniform(uniform[:, None])
    assert uniform.max() < 1
    assert abs(normal.mean()) < 4 / np.sqrt(N)
    assert abs(normal.std() - 1) < 4 / np.sqrt(2 * N)
    assert abs((normal**4).mean() - 3) < 4 * np.sqrt(96 / N)
    assert abs(np.corrcoef(uniform, normal)[0, 1]) < 4 / np.sqrt(N)


@pytest.mark.parametrize("kind", ["TwoArmedHighLowFixed", "TenArmedRandomRandom"])
def test_an_arm_pays_its_expected_reward(kind, key):
    env = gpicljax.make(f"Bandit{kind}-v0")
    task = env.sample_task(key, env.default_params)
    pull = jax.jit(jax.vmap(env.transition, (0, None, None, None)))
    state = env.initial(key, task)
    for arm in range(env.action_space().n):
        moved = pull(jax.random.split(key, N), state, jnp.int32(arm), task)
        p, r = float(task.chances[arm]), float(task.payments[arm])
        assert abs(moved.reward.mean() - p * r) < 4 * r * np.sqrt(p * (1 - p) / N) + 1e-6
        assert moved.terminated.all()


def test_a_trial_of_many_pulls_keeps_its_arms(key):
    vec = gpicljax.VectorEnv(
        gpicljax.make("BanditTenArmedRandomFixed-v0"), 4, episodes_per_trial=3, resets="fresh"
    )
    vstate, _ = jax.jit(vec.init)(key)
    step = jax.jit(vec.step)
    chances, trials = [vstate.task.chances], []
    for _ in range(7):
        vstate, timestep = step(vstate, jnp.zeros(4, jnp.int32))
        chances.append(vstate.task.chances)
        trials.append(bool(timestep.trial_start.all()))
    assert trials == [False] * 5 + [True, False]
    for t in range(1, 8):
        assert (chances[t] == chances[t - 1]).all() == (t != 6)


def test_one_pull_views(key):
    env = OnePullBandit("TenArmedGaussian")
    task = env.sample_task(key, env.default_params)
    task = task.replace(payments=jnp.array([0.0, 1.5, *[-1.0] * 8]))
    knowledge = env.privileged(env.initial(key, task), task)
    assert knowledge["best_arm"] == 1
    assert env.describe(env.initial(key, task), task) == "no pull made yet"


def test_bad_kind():
    with pytest.raises(ValueError, match="kind: .*; accepted: TwoArmedDeterministicFixed, "):
        OnePullBandit("ThreeArmed")


# Bandits with a horizon ------------------------------------------------------------------------


def gaussian(num_arms=10, **params):
    env = gpicljax.make("GaussianBandit-v0", num_arms=num_arms)
    return env, env.make_params(**params)


def test_averages_are_uniform_plus_normal(key):
    for low, high, spread in ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (-1.0, 1.0, 0.5)):
        env, params = gaussian(num_arms=4, low=low, high=high, spread=spread)
        tasks = jax.vmap(env.sample_task, (0, None))(jax.random.split(key, N), params)
        averages = np.asarray(tasks.averages)
        variance = (high - low) ** 2 / 12 + spread**2
        assert np.abs(averages.mean(0) - (low + high) / 2).max() < 4 * np.sqrt(variance / N)
        assert np.abs(averages.var(0) / variance - 1).max() < 4.5 * np.sqrt(2 / N)


def test_gaussian_payments_follow_the_given_noise(key):
    env, params = gaussian(num_arms=3, noise=0.3, horizon=2)
    task = env.sample_task(key, params).replace(averages=jnp.array([0.5, 2.0, -1.0]))
    observation, state = env.reset(key, task)
    assert observation == 0
    moved = env.move(state, jnp.int32(2), jnp.asarray(1.5), task)
    assert moved.reward == pytest.approx(-1 + 0.3 * 1.5)
    assert moved.info["regret"] == pytest.approx(3)
    assert (moved.terminated, moved.truncated) == (False, False)
    assert env.observe(moved.state, task) == 0.5
    moved = env.move(moved.state, jnp.int32(1), jnp.asarray(0.0), task)
    assert moved.truncated
    assert env.privileged(state, task)["best_arm"] == 1
    assert env.describe(state, task) == "0 of 2 pulls made"


def test_a_bernoulli_arm_pays_below_its_probability(key):
    env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
    task = env.sample_task(key, env.default_params).replace(probabilities=jnp.array([0.3, 0.6]))
    state = env.initial(key, task)
    for arm, luck, reward in ((0, 0.29, 1), (0, 0.31, 0), (1, 0.59, 1), (1, 0.61, 0)):
        assert env.move(state, jnp.int32(arm), jnp.asarray(luck), task).reward == reward


# Bandits with a context ------------------------------------------------------------------------


def test_weights_and_contexts_have_their_distributions(key):
    env = gpicljax.make("ContextualBandit-v0", num_arms=2, context_size=3)
    keys = jax.random.split(key, N)
    tasks = jax.vmap(env.sample_task, (0, None))(keys, env.make_params(spread=2.0))
    weights = np.asarray(tasks.weights)
    assert weights.shape == (N, 2, 3)
    assert np.abs(weights.mean(0)).max() < 4.5 * 2 / np.sqrt(N)
    assert np.abs(weights.var(0) / 4 - 1).max() < 4.5 * np.sqrt(2 / N)
    states = jax.vmap(env.initial)(keys, tasks)
    after = jax.vmap(env.transition)(keys, states, jnp.zeros(N, jnp.int32), tasks).state
    for contexts in (np.asarray(states.context), np.asarray(after.context)):
        assert_uniform((contexts + 1) / 2)
    assert np.abs(np.asarray(after.context) - np.asarray(states.context)).min(1).max() > 0


def test_contextual_payments_follow_weights_and_noise(key):
    weights = jnp.array([[1.0, 0.0], [0.0, 2.0]])
    linear = gpicljax.make("ContextualBandit-v0", num_arms=2, context_size=2)
    task = linear.sample_task(key, linear.make_params(noise=0.5, horizon=2))
    task = task.replace(weights=weights)
    state = linear.with_physical_state(linear.initial(key, task), jnp.array([0.0, 0.5, -0.25]))
    np.testing.assert_allclose(linear.physical_state(state), [0, 0.5, -0.25])
    np.testing.assert_allclose(linear.observe(state, task), [0.5, -0.25])
    noise = linear.draw_noise(key, state, task).replace(payment=jnp.asarray(1.0))
    moved = linear.move(state, jnp.int32(1), noise, task)
    assert moved.reward == pytest.approx(-0.5 + 0.5) and moved.info["regret"] == pytest.approx(1.0)
    np.testing.assert_array_equal(moved.state.context, noise.context)
    assert not moved.truncated and linear.move(moved.state, jnp.int32(0), noise, task).truncated
    knowledge = linear.privileged(state, task)
    assert knowledge["optimal"].tolist() == [True, False]
    assert knowledge["means"].tolist() == [0.5, -0.5]
    text = "0 of 2 pulls made; the context is 0.50, -0.25"
    assert linear.describe(state, task) == text
    logistic = gpicljax.make("ContextualBandit-v0", num_arms=2, context_size=2, payoff="logistic")
    chance = 1 / (1 + np.exp(0.5))
    for luck, reward in ((chance - 0.01, 1), (chance + 0.01, 0)):
        drawn = noise.replace(payment=jnp.asarray(luck))
        assert logistic.move(state, jnp.int32(1), drawn, task).reward == reward


#  -------------------------------------------------------------------------------------------------


def bandit(**params):
    env = gpicljax.make("BernoulliBandit-v0", num_arms=4)
    return env, env.make_params(**params)


def test_arms_are_uniform_between_the_bounds(key):
    env, params = bandit(low=0.2, high=0.6)
    tasks = jax.vmap(env.sample_task, (0, None))(jax.random.split(key, 2_000), params)
    arms = np.asarray(tasks.probabilities)
    assert arms.min() >= 0.2
    assert arms.max() <= 0.6
    # Mean 0.4 with a standard error of 0.4 / sqrt(12 N), N = 2000, for each arm.
    assert np.abs(arms.mean(0) - 0.4).max() < 4 * 0.4 / np.sqrt(12 * 2_000)


def test_an_arm_pays_with_its_probability_and_regret_is_expected(key):
    env, params = bandit()
    task = env.sample_task(key, params)
    _, state = env.reset(key, task)
    keys = jax.random.split(key, 4_000)
    best = task.probabilities.max()
    pull = jax.jit(jax.vmap(env.transition, (0, None, None, None)))
    for arm in range(4):
        moved = pull(keys, state, jnp.int32(arm), task)
        assert set(np.unique(moved.reward)) <= {0.0, 1.0}
        p = float(task.probabilities[arm])
        assert abs(moved.reward.mean() - p) < 4 * np.sqrt(p * (1 - p) / 4_000)
        np.testing.assert_allclose(moved.info["regret"], best - p, rtol=1e-6)


def test_episodes_are_truncated_at_the_horizon_and_observe_the_elapsed_fraction(key):
    env, params = bandit(horizon=4)
    task = env.sample_task(key, params)
    observation, state = env.reset(key, task)
    observations, ends = [observation], []
    for _ in range(4):
        step = env.step(key, state, jnp.int32(0), task)
        state = step.state
        observations.append(step.observation)
        ends.append((bool(step.terminated), bool(step.truncated)))
    np.testing.assert_allclose(np.concatenate(observations), [0, 0.25, 0.5, 0.75, 1])
    assert ends == [(False, False)] * 3 + [(False, True)]


def test_privileged_and_describe(key):
    env, params = bandit(horizon=4)
    task = env.sample_task(key, params)
    task = task.replace(probabilities=jnp.array([0.1, 0.75, 0.75, 0.5]))
    state = env.initial(key, task)
    assert env.privileged(state, task)["best_arm"] == 1
    assert env.privileged(state, task)["probabilities"].shape == (4,)
    assert env.describe(state, task) == "0 of 4 pulls made"
