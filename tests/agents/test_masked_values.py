"""Tests that losses, gradients and statistics leave out masked values, even NaN."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lottery import Lottery

import gpicljax
from gpicljax import agents, spaces
from gpicljax.agents import cloning, ppo_loss, sequence
from gpicljax.agents.acting import random_agent
from gpicljax.agents.normalisation import no_moments, update_moments
from gpicljax.agents.returns import n_step_targets, one_step_target
from gpicljax.networks.actor_critic import ActorCritic, PolicyOutput
from gpicljax.networks.contract import as_network
from gpicljax.networks.policies import CategoricalPolicy

NAN, INF = float("nan"), float("inf")


@dataclasses.dataclass(frozen=True)
class Over(Lottery):
    """A lottery at whose end no action is legal."""

    def observe(self, state, task):
        observation, over = super().observe(state, task), state.time >= state.length
        return observation | {"action_mask": observation["action_mask"] & ~over}


def trainer_of(name, vec):
    if name == "cloning":
        network = as_network(ActorCritic(vec.env.observation_space(), vec.env.action_space(), (8,)))
        config = cloning.CloningConfig(unroll=8)
        return cloning.make(config, vec, network, random_agent(vec.env)), cloning.CloningHParams()
    algorithm = agents.get_algorithm(name)
    small = {"period": 8, "min_replay": 1, "batch_size": 16}
    config = algorithm.config(**small if name == "dqn" else {"unroll": 8, "minibatches": 1})
    return algorithm.make(config, vec, algorithm.network()), algorithm.hparams()


@pytest.mark.parametrize("name", ["ppo", "dqn", "cloning"])
def test_learners_stay_finite_where_nothing_is_legal_at_the_end(name):
    vec = gpicljax.VectorEnv(Over(), 4, resets="fresh", group=4)
    trainer, hparams = trainer_of(name, vec)
    state = jax.jit(trainer.init)(jax.random.key(0), hparams)
    state, metrics = jax.jit(trainer.update)(state)
    for leaf in jax.tree.leaves((state.params, metrics)):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.MultiDiscrete((3, 2))], ids=str)
def test_where_nothing_is_legal_there_is_still_a_distribution(space, key):
    policy = CategoricalPolicy(space)
    shape = (3,) if isinstance(space, spaces.Discrete) else (2, 3)
    logits = jnp.arange(policy.size, dtype=jnp.float32)
    masked = policy.distribution(logits, {"action_mask": jnp.zeros(shape, bool)})
    free = policy.distribution(logits, None)
    sample, log_prob = masked.sample_and_log_prob(seed=key)
    assert space.contains(sample)
    assert log_prob == free.log_prob(sample) and masked.entropy() == free.entropy()


def test_what_ppo_leaves_out_has_no_part_in_its_loss():
    hparams = SimpleNamespace(
        clip=0.2, value_clip=0.5, value_coefficient=0.5, entropy_coefficient=0.1
    )
    acted = jnp.array([[1.0, 0.0, 1.0]])
    numbers = jax.random.normal(jax.random.key(1), (5, 1, 3))

    def loss(filler):
        log_prob, old, value, before, advantage = jnp.where(acted > 0, numbers, filler)
        distribution = SimpleNamespace(log_prob=lambda sample: log_prob, entropy=lambda: log_prob)
        output = PolicyOutput(log_prob[..., None], value)
        batch = ppo_loss.Batch(None, None, None, acted, old, before, advantage, acted, acted)
        return ppo_loss.loss(hparams, output, distribution, batch, True)

    for filler in (NAN, INF):
        jax.tree.map(np.testing.assert_array_equal, loss(filler), loss(0.0))


def test_nothing_flows_back_from_a_terminal_value():
    discount, value = jnp.array([0.0, 0.5]), jnp.array([NAN, 4.0])
    np.testing.assert_array_equal(one_step_target(jnp.ones(2), discount, value), [1, 3])
    targets = n_step_targets(jnp.ones(2), discount, jnp.ones(2), value, n_step=2)
    np.testing.assert_array_equal(targets, [1, 3])


def test_a_target_that_does_not_count_has_no_gradient():
    targets = jnp.array([[[1.0]], [[NAN]]])
    data = sequence.Sequences(None, None, targets)
    loss = sequence.squared_error("error", counts=lambda s: ~jnp.isnan(s.targets[..., 0]))
    value, gradient = jax.value_and_grad(lambda out: loss.at(out, data).sum())(jnp.zeros((2, 1, 1)))
    assert value == 1 and gradient.ravel().tolist() == [-2, 0]


def test_moments_leave_out_what_has_no_weight():
    values = jnp.array([[1.0], [NAN], [3.0]])
    moments = update_moments(no_moments(values[0]), values, jnp.array([1.0, 0.0, 1.0]))
    assert (moments.count, moments.mean[0], moments.variance[0]) == (2, 2, 1)
