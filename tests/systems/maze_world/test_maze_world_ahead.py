"""Errors of a model's open-loop pictures, beside those of guesses that need no model."""

import jax
import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax.interface import Agent
from gpicljax.rollout import start_rollout
from gpicljax.systems.maze_world.measures.world_model import open_loop_error


def test_the_last_picture_and_the_mean_of_others_are_nulls():
    env = gpicljax.make("MazeWorld-v0", size=7, resolution=(8, 8))
    vec = gpicljax.VectorEnv(env, 3, resets="synchronous", steps_per_trial=16)
    wait, ahead = jnp.int32(0), jnp.full((3, 8, 8, 3), 0.5)

    def act(keys, params, carry, timestep):
        return jnp.broadcast_to(wait, (3,)), {"image": ahead}, carry

    agent = Agent(lambda batch: (), act)

    @jax.jit
    def measure(key):
        return open_loop_error(vec, agent, agent, (), start_rollout(key, vec, agent), 2, 3)

    outcome = jax.tree.map(np.asarray, measure(jax.random.key(0)))
    pictures, last = outcome.observed / 255, outcome.last / 255

    def error(guess):
        return np.square(guess - pictures).mean((-3, -2, -1))

    np.testing.assert_allclose(outcome.error, error(0.5), rtol=1e-5)
    np.testing.assert_allclose(outcome.last_error, error(last[:, None]), atol=1e-6)
    other_means = np.stack([last[[1, 2]].mean(0), last[[0, 2]].mean(0), last[[0, 1]].mean(0)])
    np.testing.assert_allclose(outcome.mean_error, error(other_means[:, None]), rtol=1e-5)
    assert (outcome.mean_error > 0).all() and outcome.last_error.shape == (3, 3)
