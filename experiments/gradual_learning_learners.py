"""Who learns in `gradual_learning.py`: an imitator, or one that learns from rewards."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from gradual_learning_settings import Config

import gpicljax
from gpicljax.agents import catalogue, cloning, ppo, r2d2
from gpicljax.agents.acting import Params
from gpicljax.envs.byte_stream import experts
from gpicljax.interface import Trainer
from gpicljax.networks.q_network import recurrent_q_network
from gpicljax.runtime import ConfigError, SavedError, load_agent

TEACHERS = {"guide": experts.guide, "oracle": experts.oracle}


class Learner(NamedTuple):
    """A trainer, and what its agents are saved with.

    Attributes:
      trainer: over the streams.
      hparams: its hyper-parameters.
      config: its sizes, as the catalogue has them.
      network: settings of the network.
    """

    trainer: Trainer
    hparams: Any
    config: Any
    network: Any


def learner_of(config: Config, vec: gpicljax.VectorEnv) -> Learner:
    """The learner that a configuration names; its rate falls over the whole run."""
    spaces = vec.env.observation_space(), vec.env.action_space()
    if config.learner == "r2d2":
        network = recurrent_q_network(config.q_network, *spaces)
        trainer, hparams = r2d2.make(config.r2d2, vec, network), config.r2d2_hparams
        sizes: Any = config.r2d2
    elif config.learner == "recurrent-ppo":
        trainer = ppo.make(config.ppo, vec, config.network.network(*spaces))
        hparams, sizes = config.ppo_hparams, config.ppo
    else:
        network, teacher = config.network.network(*spaces), TEACHERS[config.teacher]()
        trainer, hparams = cloning.make(config.agent, vec, network, teacher), config.hparams
        sizes = catalogue.TaughtConfig(**dataclasses.asdict(config.agent))
    updates = config.updates(trainer.observations) * trainer.optimiser_steps
    settings = config.q_network if config.learner == "r2d2" else config.network
    hparams = dataclasses.replace(hparams, decay_updates=updates)
    return Learner(trainer, hparams, sizes, settings)


def starting_point(
    config: Config, vec: gpicljax.VectorEnv, learner: Learner
) -> Callable[[Any], Any]:
    """What gives a new training state the network of `start_from`, if there is one."""
    if config.start_from is None:
        return lambda state: state
    try:
        found = load_agent(config.start_from, vec.env).params
    except SavedError as error:
        raise ConfigError(f"start_from: {error}") from error
    network = found.network if isinstance(found, Params) else found
    state = jax.eval_shape(learner.trainer.init, jax.random.key(0), learner.hparams)
    whole = isinstance(state.params, Params)
    own = state.params.network if whole else state.params
    shapes = [jax.tree.map(jnp.shape, params) for params in (network, own)]
    if shapes[0] != shapes[1]:
        raise ConfigError(
            f"start_from: got {config.start_from}; accepted: an agent whose network is of the kind "
            "and size of this one's"
        )

    def started(state: Any) -> Any:
        params = jax.tree.map(jnp.asarray, network)
        params = state.params._replace(network=params) if whole else params
        return dataclasses.replace(state, params=params)

    return started
