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


def assert_actions_are_permuted(env, tasks, place, moves, key):
    """Tasks have all orders of the four actions, which move by them from an inner cell."""
    assert (np.sort(tasks.directions, axis=-1) == np.arange(4)).all()
    assert len(np.unique(tasks.directions, axis=0)) == 24
    task = jax.tree.map(lambda x: x[0], tasks)
    middle = env.with_physical_state(env.initial(key, task), jnp.array(place, float))
    for action, direction in enumerate(task.directions.tolist()):
        moved = env.transition(key, middle, jnp.int32(action), task)
        expected = [place[axis] + moves[direction][axis] for axis in range(2)]
        assert env.physical_state(moved.state).tolist() == expected
    # What actions mean, the words do not tell.
    assert env.describe(middle, task).startswith(f"cell {env.observe(middle, task)}, step 0")
