import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax


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
    text = env.describe(state, task)
    assert text == "0 of 4 pulls made; arms pay with chance 0.10, 0.75, 0.75, 0.50"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"low": -0.1}, "low"),
        ({"high": 1.1}, "high"),
        ({"low": 0.7, "high": 0.6}, "low"),
        ({"low": float("nan")}, "low"),
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.5}, "horizon"),
    ],
)
def test_bad_params(params, message):
    with pytest.raises(ValueError, match=message):
        bandit(**params)


def test_bad_num_arms():
    with pytest.raises(ValueError, match="num_arms: got 0; accepted: an integer from 1 to 65536"):
        gpicljax.make("BernoulliBandit-v0", num_arms=0)
