"""What `incontext_rl.py` is told: its configuration, families of tasks and presets."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax.agents import cloning, ppo
from gpicljax.checks import Count, Range
from gpicljax.environment import Environment
from gpicljax.envs.frozen_lake import LETTERS, MAPS
from gpicljax.envs.one_pull_bandits import OnePullBandit
from gpicljax.networks.experience import ExperienceSettings
from gpicljax.networks.memories import MemorySettings
from gpicljax.runtime import TrainingConfig
from gpicljax.trials import Part, Solved, Trial

Family = Literal["lakes", "lakes-anywhere", "lakes-slippery", "two-arms", "ten-arms"]
Learner = Literal["dpt", "rl2", "rl2-lstm", "rl2-events", "dpt-attention", "ad"]
TEMPERATURES: dict[Family, float] = {
    "lakes": 0.0,
    "lakes-anywhere": 0.3,
    "lakes-slippery": 0.3,
    "two-arms": 0.5,
    "ten-arms": 0.5,
}
"""Of trained policies: on lakes what did best on training tasks, elsewhere set beforehand."""
CUSTOM = "SFFF", "FHFH", "FFFH", "GFFH"
"""The evaluation's second lake; its goal is three moves below the start."""


def lake_number(task: Any) -> jax.Array:
    """A number of a lake's map; 0 for the maps of the evaluation, which are held out."""
    cells = task.cells.ravel()
    weights = jnp.asarray(np.random.default_rng(0).integers(0, 2**31, cells.size), jnp.uint32)
    number = (cells.astype(jnp.uint32) * weights).sum() // 2**7
    named = [[LETTERS.index(letter) for letter in "".join(rows)] for rows in (MAPS["4x4"], CUSTOM)]
    return jnp.where((cells == jnp.asarray(named)).all(1).any(), 0, number)


@dataclasses.dataclass(frozen=True)
class Tasks:
    """Tasks to train on or to be tested on: whole trials, solved.

    Attributes:
      env: of one episode.
      options: of its params.
    """

    env: Environment
    options: tuple[tuple[str, Any], ...] = ()

    def trials(self, actions: int) -> tuple[Trial, Any]:
        """The environment of whole trials, and its params."""
        env = Trial(Solved(self.env), actions)
        return env, env.make_params(**dict(self.options))


def _lakes(held_out: bool, slippery: bool, **options: Any) -> Tasks:
    lake = gpicljax.make("FrozenLake-v1", size=4, is_slippery=slippery)
    options = {"permute_actions": True} | options
    return Tasks(Part(lake, lake_number, held_out=held_out), tuple(options.items()))


def tasks(family: Family, held_out: bool) -> Tasks:
    """What a family trains on, or what it is tested on."""
    if family == "two-arms":
        if held_out:
            return Tasks(gpicljax.make("BanditTwoArmedHighLowFixed-v0"))
        return Tasks(OnePullBandit("TenArmedRandomFixed", num_arms=2))
    if family == "ten-arms":
        return Tasks(gpicljax.make("BanditTenArmedRandomFixed-v0"))
    slippery = family == "lakes-slippery"
    return _lakes(held_out, slippery, anywhere=family == "lakes-anywhere")


def named_lakes() -> dict[str, Tasks]:
    """The evaluation's own lakes, with the actions in their usual order."""
    maps = {"4x4": MAPS["4x4"], "custom": CUSTOM}
    return {
        name: Tasks(gpicljax.make("FrozenLake-v1", description=rows, is_slippery=False))
        for name, rows in maps.items()
    }


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Trains an agent to learn within trials, and compares it with agents that need no training.

    Attributes:
      family: Tasks; those it is tested on are never trained on.
      learner: How it is trained, and with what memory: dpt imitates an oracle from its own play
        (Decision-Pretrained Transformer), rl2 is PPO over whole trials, ad imitates Q-learning or
        UCB1 as they learn (Algorithm Distillation). dpt and rl2 read tables of what was tried; the
        others an LSTM, a store of events, or attention.
      actions: Of a trial.
      num_envs: Trials of an update.
      minibatches: Groups of them that are learnt from one after the other.
      temperature: Of the trained policy; by default what is set for the family.
      replicas: Trials that each agent is tested in, each on a task of its own.
      network: Of dpt and rl2.
      memory: Of the other learners.
      cloning: Hyper-parameters of dpt and ad; decay_updates is set to the length of the run.
      ppo: Hyper-parameters of rl2; likewise.
    """

    family: Family = "ten-arms"
    learner: Learner = "dpt"
    actions: Count = 200
    num_envs: Count = 256
    minibatches: Count = 16
    temperature: Annotated[float, Range(0)] | None = None
    replicas: Count = 1000
    network: ExperienceSettings = ExperienceSettings()
    memory: MemorySettings = MemorySettings()
    cloning: cloning.CloningHParams = cloning.CloningHParams(final_share=0.05)
    ppo: ppo.PPOHParams = ppo.PPOHParams(
        learning_rate=1e-3, final_share=0.1, discount=0.98, entropy_coefficient=0.01
    )

    @property
    def sharpness(self) -> float:
        """The temperature that is used."""
        return TEMPERATURES[self.family] if self.temperature is None else self.temperature

    def default_name(self) -> str:
        """The preset, the family and the learner."""
        return f"{self.preset}-{self.family}-{self.learner}"


def updates(count: int) -> int:
    """Observations of so many updates of the default size."""
    return count * 201 * 256


QUICK = Config(seeds=1, observations=updates(30), log_lines=6)
PRESETS = {
    "quick": QUICK,
    "full": dataclasses.replace(QUICK, seeds=3, observations=updates(80), log_lines=16),
}
