"""Episode returns against episodes whose lengths, rewards and ends are known."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from gpicljax.environment import Environment, Transition
from gpicljax.evaluation.returns import episode_returns, record_episode
from gpicljax.interface import Agent
from gpicljax.spaces import Box, Discrete


@struct.dataclass
class Params:
    long: jax.Array


@struct.dataclass
class Task:
    length: jax.Array
    number: jax.Array


@struct.dataclass
class State:
    steps: jax.Array


@dataclasses.dataclass(frozen=True)
class Corridor(Environment):
    """Episodes of 1 or `long` steps, half of the tasks each; every step pays the action.

    Long ones are truncated, short ones terminate.
    """

    @property
    def default_params(self):
        return Params(jnp.asarray(9, jnp.int32))

    def sample_task(self, key, params):
        number = jax.random.uniform(key)
        return Task(jnp.where(number < 0.5, 1, params.long).astype(jnp.int32), number)

    def initial(self, key, task):
        return State(jnp.zeros((), jnp.int32))

    def transition(self, key, state, action, task):
        steps = state.steps + 1
        done = steps >= task.length
        reward = action.astype(jnp.result_type(float))
        return Transition(State(steps), reward, done & (steps == 1), done & (steps > 1), {})

    def observe(self, state, task):
        return jnp.stack([state.steps.astype(task.number.dtype), task.number])

    def action_space(self, task=None):
        return Discrete(100)

    def observation_space(self, task=None):
        return Box(0, 100, (2,))


def act(keys, params, carry, timestep):
    """Pays `params`, and what it has seen of episodes of this trial before."""
    carry = jnp.where(timestep.trial_start, 0, carry) + timestep.last
    return (params + carry - timestep.last).astype(jnp.int32), {}, carry


COUNTER = Agent(lambda batch: jnp.full(batch, 50, jnp.int32), act)


def play(key, params=1, **options):
    options = {"episodes": 600, "max_steps": 40} | options
    study = lambda key, params: episode_returns(key, Corridor(), COUNTER, params, **options)  # noqa: E731
    return jax.tree.map(np.asarray, jax.jit(study)(key, params))


def test_whole_episodes_without_a_bias_towards_short_ones(key):
    played = play(key)
    assert set(np.unique(played.lengths)) == {1, 9}
    # Among the episodes of a fixed number of steps, nine tenths would be short.
    assert abs((played.lengths == 9).mean() - 0.5) < 4 * np.sqrt(0.25 / 600)
    assert np.array_equal(played.returns, played.lengths)
    assert np.array_equal(played.terminated, played.lengths == 1)
    assert np.array_equal(played.truncated, played.lengths == 9)
    assert not played.is_unfinished.any()


def test_what_is_not_over_in_time_is_cut_and_says_so(key):
    played = play(key, max_steps=4)
    short = played.lengths == 1
    assert np.array_equal(played.is_unfinished, ~short) and np.array_equal(played.terminated, short)
    assert (played.returns[~short] == 4).all() and not played.truncated.any()


def test_env_params_may_be_traced(key):
    study = jax.jit(
        jax.vmap(
            lambda long: episode_returns(
                key, Corridor(), COUNTER, 1, episodes=50, max_steps=40, env_params=Params(long)
            )
        )
    )
    lengths = np.asarray(study(jnp.array([3, 7], jnp.int32)).lengths)
    assert set(np.unique(lengths[0])) == {1, 3} and set(np.unique(lengths[1])) == {1, 7}


def test_memories_last_over_the_episodes_of_a_trial_and_no_longer(key):
    played = play(key, episodes=300, episodes_per_trial=3)
    returns, lengths = (x.reshape(-1, 3) for x in (played.returns, played.lengths))
    assert len(np.unique(lengths)) == 2
    # One task per trial.
    assert (lengths == lengths[:, :1]).all()
    # The agent pays one more in every further episode, and nothing for the step between two.
    assert np.array_equal(returns, lengths * np.array([1, 2, 3]))
    cut = play(key, episodes=300, episodes_per_trial=3, max_steps=12)
    long = lengths[:, 0] == 9
    assert np.array_equal(cut.lengths.reshape(-1, 3)[long], np.tile([9, 2, 0], (long.sum(), 1)))
    assert np.array_equal(
        cut.is_unfinished.reshape(-1, 3)[long], np.tile([False, True, True], (long.sum(), 1))
    )


def test_the_loop_stops_when_all_are_through():
    """A limit that could never be waited for."""
    played = play(jax.random.key(3), episodes=8, max_steps=2**31 - 2)
    assert played.lengths.max() == 9


def test_a_recorded_episode_is_the_one_that_would_be_counted(key):
    def act(keys, params, carry, timestep):
        action = jax.vmap(lambda key: jax.random.randint(key, (), 0, 9, jnp.int32))(keys)
        return action, {"twice": 2 * action}, carry

    agent = Agent(lambda batch: (), act)

    @jax.jit
    @jax.vmap
    def both(key):
        options = {"max_steps": 12}
        played = episode_returns(key, Corridor(), agent, (), episodes=1, **options)
        return played, record_episode(key, Corridor(), agent, (), **options)

    played, recorded = jax.tree.map(np.asarray, both(jax.random.split(key, 16)))
    assert np.array_equal(recorded.length, played.lengths[:, 0])
    assert set(recorded.length) == {1, 9}
    assert np.array_equal(recorded.rewards.sum(1), played.returns[:, 0])
    assert len(np.unique(played.returns)) > 6
    # Each step once, then the last state for ever.
    expected = np.minimum(np.arange(13), recorded.length[:, None])
    assert np.array_equal(recorded.states.steps, expected)
    assert np.array_equal(recorded.task.length, recorded.length)
    acted = np.arange(12) < recorded.length[:, None]
    assert not recorded.actions[~acted].any() and len(np.unique(recorded.actions[acted])) > 6
    assert np.array_equal(recorded.aux["twice"], 2 * recorded.actions)


@pytest.mark.parametrize(
    "options",
    [{"episodes": 0}, {"max_steps": 0}, {"episodes_per_trial": 0}, {"episodes_per_trial": 7}],
)
def test_bad_counts_are_refused(options):
    with pytest.raises(ValueError, match=": got [0-9]+; accepted: a"):
        play(jax.random.key(0), **options)
