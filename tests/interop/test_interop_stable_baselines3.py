"""Stable-Baselines3, unmodified: its checker, its batches, and what its agents learn."""

import functools

import numpy as np
import pytest
from stroll import SINGLE

import gpicljax

pytest.importorskip("gymnasium")
baselines = pytest.importorskip("stable_baselines3")
pytestmark = pytest.mark.slow

from gymnasium.spaces import Box  # noqa: E402
from gymnasium.wrappers import FlattenObservation  # noqa: E402
from stable_baselines3.common.env_checker import check_env  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor  # noqa: E402

from gpicljax.interop import to_gymnasium  # noqa: E402

LAKE = gpicljax.make("FrozenLake-v1", is_slippery=False)


# Advice that Stable-Baselines3 gives on Gymnasium's own environments as well.
@pytest.mark.filterwarnings("ignore:.*:UserWarning:stable_baselines3.*")
@pytest.mark.parametrize("env_id", SINGLE)
def test_its_checker_accepts_every_environment(env_id):
    env = to_gymnasium(env_id)
    entries = getattr(env.observation_space, "spaces", {}).values()
    if any(isinstance(entry, Box) and entry.shape == () for entry in entries):
        # NumPy 2 refuses what the checker asks of arrays without an axis.
        env = FlattenObservation(env)
    check_env(env, skip_render_check=False)


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize("env_id", SINGLE)
def test_its_constructor_of_batches_takes_every_id(env_id):
    envs = make_vec_env(f"gpicljax.interop.gymnasium:gpicljax/{env_id}", n_envs=1)
    envs.reset()


def test_a_batch_resets_itself_and_shows_what_it_left():
    envs = DummyVecEnv([lambda: to_gymnasium(LAKE, LAKE.make_params(horizon=3))] * 2)
    envs.seed(0)
    assert envs.reset().shape == (2,)
    for t in range(1, 7):
        observations, rewards, dones, infos = envs.step(np.array([0, 0]))
        assert dones.tolist() == [t % 3 == 0] * 2 and not rewards.any()
        assert [info["TimeLimit.truncated"] for info in infos] == dones.tolist()
        assert not dones.any() or [info["terminal_observation"] for info in infos] == [0, 0]


def test_learns_to_cross_the_lake():
    envs = VecMonitor(DummyVecEnv([functools.partial(to_gymnasium, LAKE)] * 8))
    options = {"n_steps": 64, "batch_size": 128, "n_epochs": 8, "learning_rate": 2e-3}
    # Random play reaches the goal in 1.4 % of the episodes.
    before, after = [], []
    for seed in range(3):
        agent = baselines.PPO("MlpPolicy", envs, seed=seed, gamma=0.95, device="cpu", **options)
        before.append(evaluate_policy(agent, envs, 100, deterministic=False)[0])
        agent.learn(20_480)
        after.append(evaluate_policy(agent, envs, 100, deterministic=False)[0])
    print(f"{before} -> {after} of 100 episodes each")
    assert np.mean(before) < 0.15 and np.mean(after) > 0.8
