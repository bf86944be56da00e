"""Small PPO trainers and their environments."""

from lottery import ENV

import gpicljax
from gpicljax.agents import ppo
from gpicljax.networks.actor_critic import ActorCritic, RecurrentActorCritic
from gpicljax.networks.contract import as_network
from gpicljax.networks.recurrent import LSTMStack

GAMMA, LAMBDA = 0.9, 0.8
ENVS, STEPS = 4, 12
HPARAMS = ppo.PPOHParams(
    learning_rate=1e-2,
    adam_epsilon=1e-2,
    max_gradient_norm=0.3,
    discount=GAMMA,
    gae_lambda=LAMBDA,
    value_clip=0.05,
)


def vec_of(num_envs=ENVS, **options):
    return gpicljax.VectorEnv(
        ENV, num_envs, **{"episodes_per_trial": 2, "resets": "fresh", "group": 4, **options}
    )


def network_of(recurrent):
    space = ENV.observation_space(), ENV.action_space()
    if recurrent:
        return as_network(RecurrentActorCritic(*space, (8,), LSTMStack((6,))))
    return as_network(ActorCritic(*space, (8,)))


def trainer_of(recurrent=True, vec=None, axis=None, **config):
    config = ppo.PPOConfig(**{"unroll": STEPS, "epochs": 1, "minibatches": 1, **config})
    return ppo.make(config, vec or vec_of(), network_of(recurrent), axis)
