"""How the study `gradual_learning` is built and run."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax.agents.acting import random_agent
from gpicljax.agents.combinators import by_instance
from gpicljax.runs import save_agent
from gpicljax.runtime import Measure, Program, RunResult, named_key, run_experiment
from gpicljax.systems.gradual_learning import experts
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream, Task
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.measures.streams import Streams, play_streams, streams_of
from gpicljax.systems.gradual_learning.studies.gradual_learning.config import (
    ALL,
    PRESETS,
    Config,
    Study,
    studies_of,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.learners import (
    learner_of,
    starting_point,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.report import report
from gpicljax.typing import ArrayTree

KEY_METRICS = {"cloning": "agreement", "recurrent-ppo": "reward", "r2d2": "q_loss"}


def build(config: Config) -> Program:
    """Wires streams, network and imitation together."""
    mixture = Curriculum(config.taught, mode="mixture", repeats=config.repeats)
    env = ByteStream(rules=config.rules, families=mixture.families)
    params = env.make_params(curriculum=mixture, horizon=config.stretch)
    vec = gpicljax.VectorEnv(env, config.streams, resets="fresh", params=params, privileged=True)
    learner = learner_of(config, vec)
    trainer, started = learner.trainer, starting_point(config, vec, learner)
    families = Curriculum(config.curriculum).families
    evaluated = ByteStream(config.rules, len(config.curriculum) + 1, families)

    def play(key: jax.Array, params: ArrayTree, cell: ArrayTree, tasks: Task) -> Streams:
        return play_streams(
            key, evaluated, trainer.agent(greedy=True), params, tasks, config.budget
        )

    def tasks() -> tuple[Task]:
        return (drawn(config, evaluated, studies_of(config, *ALL)),)

    return Program(
        title=f"gradual learning on streams of bytes, {config.learner_name}",
        details={
            "taught": " ".join(config.taught),
            "held out": " ".join(config.held_out) or "nothing but instances",
        },
        init=lambda key, cell: started(trainer.init(key, learner.hparams)),
        update=trainer.update,
        observations=trainer.observations,
        measures={"streams": Measure(play, tasks)},
        host_measures=lambda: baselines(config, evaluated),
        key_metric=KEY_METRICS[config.learner],
        save=lambda folder, cell, **about: save_agent(
            folder,
            algorithm=config.learner,
            env_id="ByteStream-v0",
            env_options={"rules": config.rules, "families": mixture.families},
            env_params=params,
            num_envs=config.streams,
            config=learner.config,
            network=config.learners_network,
            **about,
        ),
    )


def drawn(config: Config, env: ByteStream, studies: list[Study]) -> Task:
    """The streams of some studies; those of one run meet the same instances."""
    base = named_key(config.seed, "tasks")
    runs = jnp.asarray([study.run for study in studies])
    keys = jax.vmap(jax.random.fold_in, (None, 0))(base, runs)
    return streams_of(keys, env, [study.curriculum for study in studies], config.budget)


def baselines(config: Config, env: ByteStream) -> dict[str, Streams]:
    """The curriculum in order, and every task set alone, by agents without training."""
    agents = {
        "oracle": experts.oracle(),
        "knows the tasks": experts.solver(),
        "look-up table": experts.look_up_table(),
        "echo": experts.echo(),
        "silent": experts.silent(),
        "random": random_agent(env),
    }
    config = dataclasses.replace(config, budget=config.rules_budget or config.budget)
    studies = studies_of(config, "order", "alone")
    which = np.repeat(np.arange(len(agents)), len(studies))
    all_tasks = drawn(config, env, studies * len(agents))
    together = by_instance(list(agents.values()), which)

    @jax.jit
    def play(key: jax.Array, tasks: Task) -> Streams:
        return play_streams(key, env, together, (), tasks, config.budget, privileged=True)

    played = jax.device_get(play(named_key(config.seed, "baselines"), all_tasks))
    return {
        name: jax.tree.map(lambda x, i=i: x[which == i], played) for i, name in enumerate(agents)
    }


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    return run_experiment("gradual_learning", PRESETS, build, report, argv)
