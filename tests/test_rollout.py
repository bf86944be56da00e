import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.rollout import Agent, rollout, start_rollout

NUM_ARMS = 4


def counting_initial(batch):
    return jnp.zeros((batch, NUM_ARMS), jnp.int32)


def counting_act(key, params, carry, timestep):
    """Pulls the arms in turn, from arm `params` on, within a trial; notes how often."""
    carry = jnp.where(timestep.trial_start[:, None], 0, carry)
    action = (params + carry.sum(-1)) % NUM_ARMS
    pulls = jax.nn.one_hot(action, NUM_ARMS, dtype=jnp.int32)
    aux = {"before": carry, "draw": jax.random.uniform(key, action.shape)}
    return action, aux, carry + pulls * ~timestep.last[:, None]


AGENT = Agent(counting_initial, counting_act)


@pytest.fixture
def vec():
    env = gpicljax.make("BernoulliBandit-v0", num_arms=NUM_ARMS)
    params = env.make_params(horizon=3)
    return gpicljax.VectorEnv(env, 5, episodes_per_trial=2, resets="fresh", params=params)


def run(vec, key, length, **arguments):
    start_key, key = jax.random.split(key)
    state = start_rollout(start_key, vec, AGENT)
    return jax.jit(
        lambda key, state: rollout(key, vec, AGENT, jnp.int32(1), state, length, **arguments)
    )(key, state)


def test_records_hold_what_was_seen_then_done(vec, key):
    state, record = run(vec, key, 16)
    assert record.action.shape == (16, 5)
    assert record.timestep.observation.shape == (16, 5, 1)
    # The first record is the first observation; a reward arrives one record after its action.
    assert record.timestep.trial_start[0].all()
    # Trials have 2 x (3 pulls + 1 reset) records, and the agent's memory starts anew with each.
    starts = np.flatnonzero(record.timestep.trial_start[:, 0])
    np.testing.assert_array_equal(starts, [0, 8])
    turns = np.asarray(record.action[:, 0])
    np.testing.assert_array_equal(turns[:8], [1, 2, 3, 0, 0, 1, 2, 3])
    np.testing.assert_array_equal(turns[8:], turns[:8])
    assert (record.aux["before"][8] == 0).all()
    assert state.carry.shape == (5, NUM_ARMS)


def test_agent_draws_differ_between_steps(vec, key):
    _, record = run(vec, key, 16)
    assert len(np.unique(record.aux["draw"])) == 16 * 5


def test_going_on_equals_going_through(vec, key):
    """Two rollouts of 4 steps see what one of 8 sees, with an agent that draws nothing."""
    start = start_rollout(key, vec, AGENT)
    go = jax.jit(
        lambda state, length: rollout(key, vec, AGENT, jnp.int32(1), state, length),
        static_argnums=1,
    )
    _, whole = go(start, 8)
    middle, first = go(start, 4)
    _, second = go(middle, 4)
    joined = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, second)
    np.testing.assert_array_equal(joined.action, whole.action)
    jax.tree.map(np.testing.assert_array_equal, joined.timestep, whole.timestep)


def test_keep_selects_what_is_stacked(vec, key):
    _, rewards = run(vec, key, 4, keep=lambda record: record.timestep.reward)
    assert rewards.shape == (4, 5)


def test_env_params_override_the_batchs(vec, key):
    params = vec.env.make_params(low=1.0, high=1.0, horizon=3)
    state = start_rollout(key, vec, AGENT, params)
    assert (state.vstate.task.probabilities == 1).all()
