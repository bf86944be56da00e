"""Trainers whose window is a whole trial: the same as with stored memories, without storing any."""

import jax
import numpy as np
import pytest

import gpicljax
from gpicljax import agents
from gpicljax.agents import cloning, ppo
from gpicljax.agents.acting import optimal_agent
from gpicljax.networks.experience import ExperienceSettings, experience_network
from gpicljax.wrappers.trial import Trial
from gpicljax.wrappers.with_optimal_actions import WithOptimalActions

ENV = Trial(WithOptimalActions(gpicljax.make("BanditTwoArmedHighLowFixed-v0")), 10)
HPARAMS = cloning.CloningHParams(learning_rate=1e-2)
SETTINGS = ExperienceSettings(code=(4, 3), embedding=6, sizes=(8,), readout=8)


def vec(**options):
    return gpicljax.VectorEnv(ENV, 8, resets="fresh", privileged=True, **options)


def network():
    return experience_network(ENV.observation_space(), ENV.action_space(), SETTINGS)


def clone(whole, minibatches=1):
    config = cloning.CloningConfig(11, minibatches, whole)
    return cloning.make(config, vec(), network(), optimal_agent())


def near(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-5), a, b)


def test_cloning_whole_trials_is_cloning_with_stored_memories():
    trainers = [clone(False), clone(True)]
    start = jax.jit(trainers[0].init)(jax.random.key(0), HPARAMS)
    update_stored, update_whole = (jax.jit(trainer.update) for trainer in trainers)
    # From the second update on there is a memory to be stored.
    after, first = update_stored(start)
    (state_a, metrics_a), (state_b, metrics_b) = update_stored(after), update_whole(after)
    near(metrics_a, metrics_b)
    near(state_a.params, state_b.params)
    assert first["loss"] == pytest.approx(np.log(2), abs=0.05)  # nothing known yet


@pytest.mark.slow
def test_groups_are_learnt_from_one_after_the_other():
    trainer = clone(True, minibatches=4)
    start = jax.jit(trainer.init)(jax.random.key(0), HPARAMS)
    after, metrics = jax.jit(trainer.update)(start)
    moved = jax.tree.map(lambda a, b: float(abs(a - b).max()), after.params, start.params)
    assert max(jax.tree.leaves(moved)) > 2e-2 and metrics["loss"] < np.log(2) + 0.01


@pytest.mark.slow
def test_ppo_with_whole_trials_is_ppo_with_stored_memories():
    results = []
    for whole in (False, True):
        config = ppo.PPOConfig(unroll=22, window=11, epochs=2, minibatches=2, whole_trials=whole)
        trainer = ppo.make(config, vec(), network())
        state = jax.jit(trainer.init)(jax.random.key(0), ppo.PPOHParams())
        update = jax.jit(trainer.update)
        results.append(update(update(state)[0]))
    near(results[0][1], results[1][1])
    near(results[0][0].params, results[1][0].params)


def test_what_does_not_fit_is_refused():
    recurrent = agents.get_algorithm("recurrent-ppo")
    with pytest.raises(ValueError, match="whole_trials: got 'True with 10 steps'|got True with 10"):
        recurrent.make(ppo.PPOConfig(unroll=10, whole_trials=True), vec(), recurrent.network())
    with pytest.raises(ValueError, match="minibatches: got 3; accepted: a divisor of num_envs = 8"):
        cloning.make(cloning.CloningConfig(11, 3, True), vec(), network(), optimal_agent())
