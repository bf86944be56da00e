"""The learners of the study: by imitation, or from rewards."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import gpicljax
from gpicljax import agents
from gpicljax.agents import cloning
from gpicljax.interface import Trainer
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
