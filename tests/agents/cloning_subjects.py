"""Trainers of behaviour cloning on a bandit."""

import jax.numpy as jnp

from gpicljax.agents import cloning
from gpicljax.interface import Agent
from gpicljax.networks.actor_critic import RecurrentActorCritic
from gpicljax.networks.contract import as_network
from gpicljax.networks.recurrent import LSTMStack


def best_arm():
    """An agent that is told the arms' probabilities."""

    def act(keys, params, carry, timestep):
        del keys, params
        return timestep.privileged["probabilities"].argmax(-1).astype(jnp.int32), {}, carry

    return Agent(lambda batch: (), act)


def make(vec, unroll=20, axis=None, size=32):
    env = vec.env
    network = RecurrentActorCritic(
        env.observation_space(), env.action_space(), (size,), LSTMStack((size,))
    )
    config = cloning.CloningConfig(unroll)
    return cloning.make(config, vec, as_network(network), best_arm(), axis)
