"""PPO and DQN learn what they should from fixed seeds, and more than a stated null allows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.agents import dqn, ppo
from gpicljax.networks.actor_critic import ActorCritic, RecurrentActorCritic
from gpicljax.networks.contract import as_network
from gpicljax.networks.memories import MemorySettings
from gpicljax.networks.q_network import QNetwork
from gpicljax.rollout import rollout, start_rollout

SEEDS = 3


def train(trainer, hparams, updates, key):
    state = trainer.init(key, hparams)
    return jax.lax.scan(lambda s, _: trainer.update(s), state, None, updates)[0]


def lake(trainer, vec, agent, hparams, updates):
    """Mean return per episode after training, `[SEEDS]`."""

    def study(key):
        train_key, test_key = jax.random.split(key)
        params = train(trainer, hparams, updates, train_key).params
        _, (rewards, ends) = rollout(
            vec, agent, params, start_rollout(test_key, vec, agent), 200,
            keep=lambda record: (record.timestep.reward, record.timestep.last),
        )  # fmt: skip
        return rewards.sum() / ends.sum()

    return jax.jit(jax.vmap(study))(jax.random.split(jax.random.key(0), SEEDS))


LAKE = gpicljax.make("FrozenLake-v1", is_slippery=False)
# The optimum is 1; random play reaches the goal in 1.4 % of the episodes, and so may a fixed action
# not at all.
NULL = 0.014


@pytest.mark.slow
def test_ppo_crosses_the_lake():
    vec = gpicljax.VectorEnv(LAKE, 32, resets="fresh")
    network = as_network(ActorCritic(LAKE.observation_space(), LAKE.action_space(), (32,)))
    trainer = ppo.make(ppo.PPOConfig(unroll=32), vec, network)
    hparams = ppo.PPOHParams(learning_rate=5e-3, discount=0.95)
    returns = lake(trainer, vec, trainer.agent(greedy=True), hparams, 40)
    assert returns.mean() > 0.95 > 50 * NULL, returns


@pytest.mark.slow
def test_dqn_crosses_the_lake():
    vec = gpicljax.VectorEnv(LAKE, 16, resets="fresh")
    network = as_network(QNetwork(LAKE.observation_space(), 4, (32,), dueling=True))
    config = dqn.DQNConfig(
        n_step=3, replay_capacity=8192, min_replay=512, batch_size=64, updates_per_collect=2
    )
    trainer = dqn.make(config, vec, network)
    hparams = dqn.DQNHParams(
        learning_rate=2e-3, discount=0.95, exploration_steps=20_000, target_period=50
    )
    returns = lake(trainer, vec, trainer.agent(greedy=True), hparams, 600)
    assert returns.mean() > 0.95 > 50 * NULL, returns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "learning_rate"),
    [
        ("lstm", 1e-2),
        ("delta", 1e-2),
        ("linear-attention", 3e-3),
        ("transformer", 3e-3),
        ("events", 3e-3),
    ],
)
def test_recurrent_ppo_learns_in_context_across_the_episodes_of_a_trial(kind, learning_rate):
    """Four episodes of five pulls with one bandit of three arms; then another one."""
    env = gpicljax.make("BernoulliBandit-v0", num_arms=3)
    options = {
        "episodes_per_trial": 4, "resets": "fresh", "params": env.make_params(horizon=5)
    }  # fmt: skip
    vec, fresh = (gpicljax.VectorEnv(env, n, **options) for n in (128, 2048))
    space_pair = env.observation_space(), env.action_space()
    parts = MemorySettings(kind, (32,), window=24).make(*space_pair)
    network = as_network(RecurrentActorCritic(*space_pair, (32,), *parts))
    config = ppo.PPOConfig(unroll=24, minibatches=4, horizon="trial")
    hparams = ppo.PPOHParams(learning_rate=learning_rate, discount=0.9, gae_lambda=0.9)
    trainer = ppo.make(config, vec, network)
    agent = ppo.make(config, fresh, network).agent()
    start = start_rollout(jax.random.key(1), fresh, agent)
    probabilities = start.vstate.task.probabilities

    @jax.jit
    def study(key):
        params = train(trainer, hparams, 80, key).params
        # Fresh bandits: how good the pulled arm is, by position in the trial.
        return rollout(
            fresh, agent, params, start, 24,
            keep=lambda record: (
                jnp.take_along_axis(probabilities, record.action[:, None], 1).mean(),
                record.timestep.last.all(),
            ),
        )[1]  # fmt: skip

    chance, ignored = jax.vmap(study)(jax.random.split(jax.random.key(0), SEEDS))
    # The seeds agree on where the episodes end.
    pulls = np.asarray(chance.mean(0))[~np.asarray(ignored.all(0))].reshape(4, 5)
    # Nothing is known before the first pull; one standard error is 0.006.
    assert abs(pulls[0, 0] - 0.5) < 0.02
    # Without any memory it would stay there. The best arm pays 0.75.
    assert pulls[3].mean() > 0.64
    # Who forgot at the start of every episode would do in the last what it did in the first.
    assert pulls[3].mean() - pulls[0].mean() > 0.05
