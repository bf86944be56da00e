"""The learners of the study: by imitation, or from rewards."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import gpicljax
from gpicljax import agents
from gpicljax.agents import cloning
from gpicljax.agents.acting import Params
from gpicljax.interface import Trainer, TrainingState
from gpicljax.runs import load_agent
from gpicljax.runtime import check_config
from gpicljax.systems.gradual_learning import experts
from gpicljax.systems.gradual_learning.studies.gradual_learning.config import Config

TEACHERS = {"guide": experts.teacher_agent, "oracle": experts.oracle}


class Learner(NamedTuple):
    """A trainer with the settings that its agents are saved with.

    Attributes:
      trainer: over the streams.
      hparams: its hyper-parameters.
      config: its sizes, as the catalogue has them.
    """

    trainer: Trainer
    hparams: Any
    config: Any


def learner_of(config: Config, vec: gpicljax.VectorEnv) -> Learner:
    """Returns the learner that a configuration names; its rate falls over the whole run.

    Raises:
      ValueError: if its sizes contradict each other, or the number of streams.
    """
    field, hparams = {
        "cloning": ("agent", config.hparams),
        "recurrent-ppo": ("ppo", config.ppo_hparams),
        "r2d2": ("r2d2", config.r2d2_hparams),
    }[config.learner]
    sizes: Any = getattr(config, field)
    if config.learner == "cloning":
        network = config.network.network(vec.env.observation_space(), vec.env.action_space())
        trainer = cloning.make(sizes, vec, network, TEACHERS[config.teacher]())
        sizes = agents.TeacherCloningConfig(**dataclasses.asdict(sizes))
    else:
        trainer = agents.get_algorithm(config.learner).make(sizes, vec, config.learners_network)
    updates = config.updates(trainer.observations) * trainer.optimiser_steps
    return Learner(trainer, dataclasses.replace(hparams, decay_updates=updates), sizes)


def starting_point(
    config: Config, vec: gpicljax.VectorEnv, learner: Learner
) -> Callable[[Any], Any]:
    """Returns a function that puts the network of `start_from`, if any, into a training state."""
    if config.start_from is None:
        return lambda state: state
    loaded = load_agent(config.start_from, vec.env).params
    network = loaded.network if isinstance(loaded, Params) else loaded
    state = jax.eval_shape(learner.trainer.init, jax.random.key(0), learner.hparams)
    has_statistics = isinstance(state.params, Params)
    learner_network = state.params.network if has_statistics else state.params
    shapes = [jax.tree.map(jnp.shape, params) for params in (network, learner_network)]
    expected = "an agent whose network is of the kind and size of this one's"
    check_config(shapes[0] == shapes[1], "start_from", str(config.start_from), expected)

    def replace_network(state: TrainingState) -> TrainingState:
        params = jax.tree.map(jnp.asarray, network)
        params = state.params._replace(network=params) if has_statistics else params
        return dataclasses.replace(state, params=params)

    return replace_network
