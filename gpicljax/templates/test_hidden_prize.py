"""Tests of `hidden_prize.py`: `pytest test_hidden_prize.py`."""

import jax
import jax.numpy as jnp

import gpicljax
from gpicljax.testing import check_environment
from hidden_prize import HiddenPrize


def test_it_is_like_every_environment():
    check_environment(gpicljax.make("hidden_prize:HiddenPrize-v0"), steps=200)


def test_only_the_door_with_the_prize_pays():
    env = HiddenPrize(max_doors=3)
    task_key, key = jax.random.split(jax.random.key(0))
    task = env.sample_task(task_key, env.default_params)
    _, state = env.reset(key, task)
    step = jax.jit(jax.vmap(lambda action: env.step(key, state, action, task)))
    rewards = step(jnp.arange(env.max_doors)).reward
    assert rewards[task.prize] == rewards.sum() == 1
