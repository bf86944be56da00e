"""TD3, DDPG and SAC learn to swing a pendulum up from fixed seeds; slowly, to balance two poles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.agents import sac, td3
from gpicljax.networks.continuous import Critics, DeterministicActor, GaussianActor
from gpicljax.networks.contract import as_network
from gpicljax.rollout import rollout, start_rollout

# Compiling takes longer than running.
# Return per episode of 200 steps of uniformly random actions: -1,229, one standard error 15 (N =
# 400). Untrained greedy actors are below it.
NULL = -1200


def trainer_of(name, env, **options):
    """A trainer with small networks, 8 environments, a step of the critics per 2 steps."""
    vec = gpicljax.VectorEnv(env, 8, resets="fresh")
    spaces = env.observation_space(), env.action_space()
    options = {
        "updates_per_collect": 4, "batch_size": 128, "replay_capacity": 50_000, "min_replay": 800,
        "warm_up": 800, **options,
    }  # fmt: skip
    critics = as_network(Critics(spaces[0], (64, 64), 1 if name == "ddpg" else 2))
    if name == "sac":
        actor = as_network(GaussianActor(*spaces, (64, 64)))
        return sac.make(sac.SACConfig(**options), vec, actor, critics)
    config = (td3.TD3Config if name == "td3" else td3.DDPGConfig)(**options)
    return td3.make(config, vec, as_network(DeterministicActor(*spaces, (64, 64))), critics)


def hparams_of(name, **options):
    rates = {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3}
    return (sac.SACHParams if name == "sac" else td3.TD3HParams)(**rates, **options)


def returns_of(trainer, env, hparams, updates, seeds, episodes, steps):
    """Mean greedy return of the first episode after training, `[seeds]`."""
    test = gpicljax.VectorEnv(env, episodes, resets="fresh")
    agent = trainer.agent(greedy=True)

    def study(key):
        train_key, test_key = jax.random.split(key)
        state = trainer.init(train_key, hparams)
        state, _ = jax.lax.scan(lambda s, _: trainer.update(s), state, None, updates)
        _, (rewards, ends) = rollout(
            test, agent, state.params, start_rollout(test_key, test, agent), steps + 1,
            keep=lambda record: (record.timestep.reward, record.timestep.last),
        )  # fmt: skip
        first = jnp.cumsum(ends, axis=0) - ends == 0
        return (rewards * first).sum(0).mean()

    return np.asarray(jax.jit(jax.vmap(study))(jax.vmap(jax.random.key)(jnp.arange(seeds))))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "updates"), [("td3", 4000), ("ddpg", 3000), ("sac", 3000)])
def test_pendulum_is_swung_up_well(name, updates):
    env = gpicljax.make("Pendulum-v1")
    hparams = hparams_of(name, **({} if name == "sac" else {"exploration_noise": 0.2}))
    returns = returns_of(trainer_of(name, env), env, hparams, updates, 3, 50, 200)
    assert returns.mean() > -200, returns


@pytest.mark.slow
@pytest.mark.parametrize("name", ["td3", "sac"])
def test_two_poles_are_balanced(name):
    """1,000 steps of at most 9.36 each; random play falls after about 6, with a return of 56."""
    env = gpicljax.make("InvertedDoublePendulum-v4")
    trainer = trainer_of(name, env, min_replay=1000, warm_up=1000)
    returns = returns_of(trainer, env, hparams_of(name), 6000, 3, 20, 1000)
    assert returns.mean() > 8000, returns
