import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.task_set import TaskSet, tasks_vary


def names(keys):
    return {tuple(row) for row in np.asarray(jax.random.key_data(keys)).reshape(-1, 2).tolist()}


def test_split_is_disjoint_and_complete(key):
    tasks = TaskSet.create(key, 10)
    seen_tasks, unseen_tasks = tasks.split(7)
    assert (len(tasks), len(seen_tasks), len(unseen_tasks)) == (10, 7, 3)
    assert not names(seen_tasks.keys) & names(unseen_tasks.keys)
    assert names(seen_tasks.keys) | names(unseen_tasks.keys) == names(tasks.keys)


def test_take(key):
    tasks = TaskSet.create(key, 10)
    taken = tasks.take(jnp.array([3, 3, 9]))
    assert len(taken) == 3
    assert names(taken.keys) == names(tasks.keys[jnp.array([3, 9])])


def test_sample_draws_every_task_alike(key):
    tasks = TaskSet.create(key, 5)
    drawn = jax.jit(jax.vmap(tasks.sample))(jax.random.split(jax.random.key(1), 2_000))
    distinct_keys, counts = np.unique(jax.random.key_data(drawn), axis=0, return_counts=True)
    assert {tuple(row) for row in distinct_keys.tolist()} == names(tasks.keys)
    assert np.abs(counts - 400).max() < 4 * 17.9  # binomial(2000, 1/5)


def test_it_is_a_pytree(key):
    seen_tasks, _ = TaskSet.create(key, 10).split(4)
    assert jax.jit(lambda tasks: tasks)(seen_tasks).keys.shape == (4,)


def test_bad_sizes(key):
    with pytest.raises(ValueError, match="size: got 0"):
        TaskSet.create(key, 0)
    for first in (0, 3, -1):
        with pytest.raises(ValueError, match=f"first: got {first}"):
            TaskSet.create(key, 3).split(first)


def test_whether_tasks_vary(key):
    lake, bandit = gpicljax.make("FrozenLake-v1"), gpicljax.make("BernoulliBandit-v0")

    def vary(env, **params):
        drawn = jax.jit(jax.vmap(env.sample_task, (0, None)))
        keys = jax.random.split(key, 8)
        return [bool(tasks_vary(drawn(keys, env.make_params(**fields)))) for fields in ({}, params)]

    assert vary(lake, permute_actions=True) == [False, True]
    assert vary(bandit, low=0.5, high=0.5) == [True, False]
    assert not tasks_vary((jax.random.split(key, 1), jax.numpy.ones((1, 3))))
    assert tasks_vary(jax.random.split(key, 2))
