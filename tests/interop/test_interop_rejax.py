"""Unmodified third-party trainers learn through the adapters."""

import functools
import importlib
import importlib.util

import jax
import numpy as np
import pytest

import gpicljax
from gpicljax.interop import to_gymnax

# It takes seven seconds to import (JaxMARL comes with it), so only who runs these tests does.
if not importlib.util.find_spec("rejax"):
    pytest.skip("needs rejax", allow_module_level=True)
pytestmark = pytest.mark.slow

SEEDS = 4
ENVS = {
    # The optimum is 1; random play reaches the goal in 1.4 % of the episodes.
    "lake": functools.partial(to_gymnax, gpicljax.make("FrozenLake-v1", is_slippery=False)),
    # New arms in every episode: whoever does not look at what the last pull paid gets 50 of 100.
    "bandit": functools.partial(
        to_gymnax, gpicljax.make("BernoulliBandit-v0", num_arms=2), observe_previous=True
    ),
}
COMMON = {"num_envs": 32, "learning_rate": 3e-3, "agent_kwargs": {"activation": "relu"}}
PPO = {"num_steps": 32, "num_minibatches": 4, "num_epochs": 4, "max_grad_norm": 1.0}
DQN = {
    "buffer_size": 4096,
    "fill_buffer": 1024,
    "batch_size": 128,
    "num_epochs": 2,
    "exploration_fraction": 0.8,
    "target_update_freq": 256,
    "polyak": 0.0,
}


def train(algorithm, env, total, **config):
    """Returns of 128 episodes before and after training, `[seeds, 2, 128]`."""
    agent = getattr(importlib.import_module("rejax"), algorithm).create(
        env=ENVS[env](), total_timesteps=total, eval_freq=total, **COMMON, **config
    )
    keys = jax.random.split(jax.random.key(0), SEEDS)
    _, (lengths, returns) = jax.jit(jax.vmap(agent.train))(keys)
    assert lengths.shape == returns.shape == (SEEDS, 2, 128)
    return np.asarray(returns)


@pytest.mark.parametrize(
    ("algorithm", "total", "config"),
    [pytest.param("PPO", 16_384, PPO, id="PPO"), pytest.param("DQN", 32_768, DQN, id="DQN")],
)
def test_learns_to_cross_the_lake(algorithm, total, config):
    returns = train(algorithm, "lake", total, gamma=0.95, **config).mean(-1)
    before, after = returns.T
    assert (before < 0.1).all()
    assert (after > 0.9).all()


@pytest.mark.parametrize(
    ("algorithm", "config"),
    [pytest.param("PPO", PPO, id="PPO"), pytest.param("DQN", DQN, id="DQN")],
)
def test_learns_to_learn_which_arm_pays(algorithm, config):
    """Stay with what paid, leave what did not: all that one step of memory allows."""
    returns = train(algorithm, "bandit", 16_384, gamma=0.5, **config)[:, 1]
    # 512 episodes; the standard error is about 1.
    error = returns.std() / np.sqrt(returns.size)
    assert returns.mean() - 50 > 4
    assert returns.mean() - 50 > 3 * error
