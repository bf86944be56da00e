"""Building and running the study `gradual_learning`."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

import gpicljax
from gpicljax.interface import Agent
from gpicljax.runs import save_agent
from gpicljax.runs.saved_agents import start_from
from gpicljax.runtime import Measure, Program, RunResult, run_experiment
from gpicljax.systems.gradual_learning import experts
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.experts.copying import copier
from gpicljax.systems.gradual_learning.measures.playing import (
    play_in_blocks,
    play_studies,
    sample_streams,
)
from gpicljax.systems.gradual_learning.measures.streams import (
    Streams,
    StreamSteps,
    record_stream,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.config import (
    COPIER,
    NULL,
    PRESETS,
    Config,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.elsewhere import (
    TRAINING_OPERANDS,
    sets_by_table,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.learners import (
    learner_of,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.report import report
from gpicljax.typing import ArrayTree

PAGE_STEPS = 5_000
"""Steps of a stream that are replayed on a page, at most."""
KEY_METRICS = {"cloning": "agreement", "recurrent-ppo": "reward", "r2d2": "q_loss"}


def build(config: Config) -> Program:
    """Returns the program: streams, network and learner."""
    mixture = Curriculum(config.taught, mode="mixture", repeats=config.repeats)
    env = config.env.make(mixture)
    params = env.make_params(curriculum=mixture, horizon=config.stretch, **config.env.params)
    vec = gpicljax.VectorEnv(env, config.streams, resets="fresh", params=params, privileged=True)
    learner = learner_of(config, vec)
    trainer = learner.trainer
    init = start_from(config.start_from, lambda key: trainer.init(key, learner.hparams), vec.env)
    room = len(config.curriculum) + 1
    evaluated = config.env.make(Curriculum(config.curriculum), test=True, max_tasks=room)

    def play(key: jax.Array, params: ArrayTree, cell: ArrayTree) -> dict[str, Streams]:
        learner = config.learner_name, trainer.agent(greedy=True)
        return play_studies(key, evaluated, config.plan, learner, null_agents(config), params)

    def steps(key: jax.Array, params: ArrayTree, cell: ArrayTree) -> StreamSteps:
        """Plays the curriculum in order, step by step, with the learner."""
        task = jax.tree.map(lambda x: x[0], sample_streams(key, config.plan, evaluated, "order"))
        length, agent = min(config.budget, PAGE_STEPS), trainer.agent(greedy=True)
        return record_stream(key, evaluated, agent, params, task, length)

    def play_never_taught(key: jax.Array, params: ArrayTree, cell: ArrayTree) -> dict[str, Any]:
        return play_elsewhere(key, trainer.agent(greedy=True), params, config)

    elsewhere = {"elsewhere": Measure(play_never_taught)} if sets_by_table(config) else {}
    return Program(
        title=f"gradual learning on streams of bytes, {config.learner_name}",
        details={
            "taught": " ".join(config.taught),
            "held out": " ".join(config.held_out) or "nothing but instances",
        },
        init=lambda key, cell: init(key),
        update=trainer.update,
        observations=trainer.observations,
        measures={"streams": Measure(play), "steps": Measure(steps), **elsewhere},
        key_metric=KEY_METRICS[config.learner],
        save=lambda folder, cell, **about: save_agent(
            folder,
            algorithm=config.learner,
            env_id="ByteStream-v0",
            env_options={**config.env.static, "families": mixture.families},
            env_params=params,
            num_envs=config.streams,
            config=learner.config,
            network=config.learners_network,
            **about,
        ),
    )


def null_agents(config: Config) -> dict[str, Agent]:
    """Returns the nulls that are played, by name."""
    agents = {NULL: experts.suffix_predictor(), COPIER: copier()}
    return {name: agents[name] for name in config.nulls}


def play_elsewhere(
    key: jax.Array, learner: Agent, params: ArrayTree, config: Config
) -> dict[str, dict[str, Streams]]:
    """Plays the learner and the nulls on other task sets, by table; see `elsewhere`."""
    streams_by_table = {}
    for kind, names in sets_by_table(config).items():
        env = config.env.make(Curriculum(names), test=kind != TRAINING_OPERANDS, max_tasks=1)
        plan = dataclasses.replace(config.plan, curriculum=names, targets=())
        tasks = sample_streams(key, plan, env, "alone")
        agents = {config.learner_name: learner, **null_agents(config)}
        streams = play_in_blocks(
            key, env, [*agents.values()], params, [tasks] * len(agents), config.budget
        )
        streams_by_table[kind] = dict(zip(agents, streams, strict=True))
    return streams_by_table


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    return run_experiment("gradual_learning", PRESETS, build, report, argv)
