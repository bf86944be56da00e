"""Building and running the study `in_context_control`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax import agents
from gpicljax.agents import ppo
from gpicljax.agents.acting import random_agent
from gpicljax.agents.combinators import with_memory_reset, with_params
from gpicljax.checks import Count, Range
from gpicljax.envs._constants import PhysicalEnvironment
from gpicljax.evaluation.returns import EpisodeReturns, episode_returns
from gpicljax.interface import Agent
from gpicljax.networks.recurrent_settings import RecurrentSettings
from gpicljax.runs import save_agent
from gpicljax.runs.run_directory import RunDirectory
from gpicljax.runtime import (
    Measure,
    Probe,
    Program,
    RunResult,
    TrainingConfig,
    fast_jit,
    named_key,
    run_experiment,
)
from gpicljax.systems.in_context_rl.experts.control import (
    balancing_controller,
    mean_physics,
    predictive_controller,
)
from gpicljax.systems.in_context_rl.studies.in_context_control.report import MEAN, TRUTH, report
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

System = Literal["Pendulum-v1", "InvertedDoublePendulum-v5"]
Ranges = dict[str, tuple[float, float]]
PHYSICS: dict[System, Ranges] = {
    "Pendulum-v1": {"gravity": (6.0, 14.0), "mass": (0.5, 1.5), "length": (0.6, 1.4)},
    "InvertedDoublePendulum-v5": {
        "force": (100.0, 900.0),
        "cart_mass": (5.0, 20.0),
        "pole_mass_1": (2.0, 8.0),
        "pole_mass_2": (2.0, 8.0),
        "length_1": (0.55, 1.0),
        "length_2": (0.55, 1.0),
        "gravity": (6.0, 14.0),
    },
}
"""Ranges of what differs from task to task; each is drawn uniformly, and is not observed."""
MEAN_REGULATOR: dict[str, Any] = {"weights": (1.0,) * 6, "effort": 0.1}
"""Settings of the regulator that is told the mean: the best of eight on tasks of training. The
defaults are the best of three for the one that is told the truth."""
CONTROLLERS: dict[System, Callable[[PhysicalEnvironment, bool], Agent]] = {
    "Pendulum-v1": predictive_controller,
    "InvertedDoublePendulum-v5": lambda env, is_told: balancing_controller(
        env, is_told, **({} if is_told else MEAN_REGULATOR)
    ),
}
"""The controller of each system, by whether it is told the truth."""


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Trains an agent to learn the physics of its task within a trial, and to use them.

    Attributes:
      env: The system.
      steps: Most steps of an episode.
      episodes: Episodes of a trial, all on the same task.
      num_envs: Instances that are trained on.
      replicas: Trials that an agent is tested in, each on a task of its own.
      network: The memory.
      agent: Sizes of PPO; returns end with the trial if its horizon says so.
      hparams: Hyper-parameters; decay_updates is set to the length of the run.
    """

    env: System = "Pendulum-v1"
    steps: Annotated[int, Range(2)] = 200
    episodes: Count = 3
    num_envs: Count = 128
    replicas: Annotated[int, Range(2)] = 256
    network: RecurrentSettings = RecurrentSettings("gru", core=(64,), sizes=(64,))
    agent: ppo.PPOConfig = ppo.PPOConfig(
        unroll=128, minibatches=8, normalise_observations=True, normalise_rewards=True
    )
    hparams: ppo.PPOHParams = ppo.PPOHParams(
        learning_rate=1e-3, final_share=0.05, discount=0.97, entropy_coefficient=0.0
    )

    @property
    def longest(self) -> int:
        """Returns the most steps of a trial, those from one episode into the next included."""
        return self.episodes * (self.steps + 1)

    def default_name(self) -> str:
        """Returns the preset and the system."""
        return f"{self.preset}-{self.env}"


QUICK = Config(seeds=1, observations=128 * 128 * 300, log_lines=20)
PRESETS = {
    "quick": QUICK,
    "full": dataclasses.replace(QUICK, seeds=3, observations=128 * 128 * 1_000, log_lines=40),
}


def build(config: Config) -> Program:
    """Returns the program: systems, network and trainer."""
    env = gpicljax.make(config.env)
    assert isinstance(env, PhysicalEnvironment)
    params = env.make_params(horizon=config.steps, **PHYSICS[config.env])
    vec = VectorEnv(env, config.num_envs, config.episodes, resets="fresh", params=params)
    trainer = agents.get_algorithm("recurrent-ppo").make(config.agent, vec, config.network)
    length = config.updates(trainer.observations) * trainer.optimiser_steps
    hparams = dataclasses.replace(config.hparams, decay_updates=length)
    trained = trainer.agent(greedy=True)
    forgetful = with_memory_reset(trained, lambda timestep: jnp.ones_like(timestep.trial_start))

    def play(agent: Agent, agent_params: ArrayTree, privileged: bool = False) -> EpisodeReturns:
        """Returns the episodes of every trial: all agents meet the same tasks and starts."""
        return episode_returns(
            named_key(config.seed, "tasks"),
            env,
            agent,
            agent_params,
            episodes=config.replicas * config.episodes,
            max_steps=config.longest,
            episodes_per_trial=config.episodes,
            env_params=params,
            privileged=privileged,
        )

    def measure(agent: Agent) -> Measure:
        return Measure(lambda key, params, cell: play(agent, params))

    def measure_controllers(run: RunDirectory) -> dict[str, np.ndarray]:
        """Returns the returns of agents without training, float `[N]`, trial by trial."""
        del run
        told, average = (CONTROLLERS[config.env](env, is_told) for is_told in (True, False))
        rules = {
            "random": random_agent(env),
            MEAN: with_params(average, mean_physics(env, params)),
            TRUTH: told,
        }
        return {
            name: jax.device_get(fast_jit(functools.partial(play, rule, (), True))().returns)
            for name, rule in rules.items()
        }

    def on_training_tasks(key: jax.Array, params_: ArrayTree, cell: ArrayTree) -> Any:
        del cell
        sizes = {"episodes": 64, "max_steps": config.steps + 1, "env_params": params}
        return episode_returns(key, env, trained, params_, **sizes).returns

    return Program(
        title=f"{config.network.memory} on {config.env}",
        details={"physics": ", ".join(PHYSICS[config.env])},
        init=lambda key, cell: trainer.init(key, hparams),
        update=trainer.update,
        observations=trainer.observations,
        measures={"": measure(trained), "memory wiped": measure(forgetful)},
        host_measures=measure_controllers,
        probe=Probe(Measure(on_training_tasks), lambda returns: {"return": returns.mean(-1)}),
        key_metric="return",
        save=lambda folder, cell, **about: save_agent(
            folder,
            algorithm="recurrent-ppo",
            env_id=config.env,
            env_options={},
            env_params=params,
            num_envs=config.num_envs,
            config=config.agent,
            network=config.network,
            **about,
        ),
    )


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns the outcome, None after a dry run."""
    return run_experiment("in_context_control", PRESETS, build, report, argv)
