"""Slips of Gymnasium's generators, on ice and along a cliff."""

import jax
import jax.numpy as jnp
import numpy as np


class Slips:
    """Stands in for Gymnasium's generator and makes it draw a given outcome."""

    slip = 1

    def random(self):
        return (self.slip + 0.5) / 3


def assert_slips_have_their_probabilities(env, task, key):
    keys = jax.random.split(key, 6_000)
    for rate in (1 / 3, 0.75, 1.0, 0.0):
        rated = task.replace(success_rate=jnp.asarray(rate, jnp.result_type(float)))
        state = env.initial(key, rated)
        slips = jax.vmap(env.draw_noise, (0, None, None))(keys, state, rated)
        assert slips.dtype == jnp.int32
        shares = np.bincount(slips, minlength=3) / len(keys)
        expected = np.array([(1 - rate) / 2, rate, (1 - rate) / 2])
        error = 4 * np.sqrt(expected * (1 - expected) / len(keys))
        assert (np.abs(shares - expected) <= error + 1e-9).all(), (rate, shares)


def assert_transition_is_move_with_a_drawn_slip(env, task, key):
    _, state = env.reset(key, task)
    for k in jax.random.split(key, 5):
        slip = env.draw_noise(k, state, task)
        assert env.transition(k, state, 1, task).state == env.move(state, 1, slip, task).state
