"""Building and running the study `gradual_learning`."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax.agents.combinators import by_block, with_memory_reset
from gpicljax.interface import Agent
from gpicljax.runs import save_agent
from gpicljax.runtime import Measure, Program, RunResult, run_experiment
from gpicljax.systems.gradual_learning import experts
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream, Task
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.env.tasks import ALL_NAMES
from gpicljax.systems.gradual_learning.experts.copying import copier
from gpicljax.systems.gradual_learning.measures.streams import (
    Streams,
    StreamSteps,
    play_streams,
    record_stream,
    streams_of,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.config import (
    COPIER,
    FIRST_KINDS,
    NULL,
    PRESETS,
    SIMPLE_KINDS,
    WIPED,
    Config,
    studies_of,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.elsewhere import (
    TRAINING_OPERANDS,
    sets_by_table,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.learners import (
    learner_of,
    starting_point,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.report import report
from gpicljax.typing import ArrayTree

HORIZON_WIPED = 2000
"""Steps of a stream of the learner whose memory is wiped before every question."""
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
    trainer, replace_network = learner.trainer, starting_point(config, vec, learner)
    room = len(config.curriculum) + 1
    evaluated = config.env.make(Curriculum(config.curriculum), test=True, max_tasks=room)

    def play(key: jax.Array, params: ArrayTree, cell: ArrayTree) -> dict[str, Streams]:
        return play_agents(key, evaluated, trainer.agent(greedy=True), params, config)

    def steps(key: jax.Array, params: ArrayTree, cell: ArrayTree) -> StreamSteps:
        """Plays the curriculum in order, step by step, with the learner."""
        task = jax.tree.map(lambda x: x[0], sample_streams(key, config, evaluated, "order"))
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
        init=lambda key, cell: replace_network(trainer.init(key, learner.hparams)),
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


def sample_streams(key: jax.Array, config: Config, env: ByteStream, *kinds: str) -> Task:
    """Returns the streams of some studies; those of one run meet the same instances."""
    studies = studies_of(config, *kinds)
    runs = jnp.asarray([study.run for study in studies])
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.fold_in(key, 1), runs)
    curricula = [study.curriculum for study in studies]
    return streams_of(keys, env, curricula, config.budget, **config.env.params)


def repeat_streams(tasks: Task, cleared: jax.Array, config: Config) -> Task:
    """Returns the streams of `"again"`, cut to what each run clears in order, and twice as long.

    Args:
      tasks: `[N]`, tasks after the whole curriculum.
      cleared: `int32[runs]`, task sets that a run clears in order.
      config: the experiment's.
    """
    studies = studies_of(config, "again")
    place = cleared[np.array([study.run for study in studies])]
    sets = jnp.asarray([ALL_NAMES.index(study.task) for study in studies], tasks.order.dtype)
    rows = jnp.arange(len(studies))
    return dataclasses.replace(
        tasks,
        order=tasks.order.at[rows, place].set(sets),
        count=place + 1,
        horizon=2 * tasks.horizon,
    )


def _null_agents(config: Config) -> dict[str, Agent]:
    """Returns the nulls that are played, by name."""
    agents = {NULL: experts.suffix_predictor(), COPIER: copier()}
    return {name: agents[name] for name in config.nulls}


def play_agents(
    key: jax.Array, env: ByteStream, learner: Agent, params: ArrayTree, config: Config
) -> dict[str, Streams]:
    """Plays all studies with the learner and a null, the first with other agents too.

    Those of one kind, task set and run are the same streams for all agents.
    """
    nulls = _null_agents(config)
    agents = {
        config.learner_name: (learner, FIRST_KINDS),
        "oracle": (experts.oracle(), SIMPLE_KINDS),
        "knows the tasks": (experts.solver(), SIMPLE_KINDS),
        **{
            name: (null, FIRST_KINDS if name == NULL else SIMPLE_KINDS)
            for name, null in nulls.items()
        },
    }
    tasks = [sample_streams(key, config, env, *kinds) for _, kinds in agents.values()]
    first = _play_in_blocks(
        key, env, [agent for agent, _ in agents.values()], params, tasks, config.budget
    )
    streams = dict(zip(agents, first, strict=True))

    # Without a memory nothing is cleared: the first questions are enough.
    tasks_alone = sample_streams(key, config, env, "alone")
    short = jnp.full_like(tasks_alone.horizon, HORIZON_WIPED)
    tasks_alone = dataclasses.replace(tasks_alone, horizon=short)
    with_text = dataclasses.replace(env, with_text=True)
    forgetful = with_memory_reset(learner, lambda timestep: timestep.privileged["said"] <= 1)
    streams[WIPED] = play_streams(
        key, with_text, forgetful, params, tasks_alone, HORIZON_WIPED, privileged=True
    )

    orders = np.array([study.kind == "order" for study in studies_of(config, *FIRST_KINDS)])
    names, repeated = (config.learner_name, NULL), sample_streams(key, config, env, "again")
    tasks = [repeat_streams(repeated, streams[name].cleared[orders], config) for name in names]
    repeats = _play_in_blocks(key, env, [learner, nulls[NULL]], params, tasks, 2 * config.budget)
    for name, repeat in zip(names, repeats, strict=True):
        streams[name] = jax.tree.map(lambda *x: jnp.concatenate(x), streams[name], repeat)
    return streams


def play_elsewhere(
    key: jax.Array, learner: Agent, params: ArrayTree, config: Config
) -> dict[str, dict[str, Streams]]:
    """Plays the learner and the nulls on other task sets, by table; see `elsewhere`."""
    streams_by_table = {}
    for kind, names in sets_by_table(config).items():
        env = config.env.make(Curriculum(names), test=kind != TRAINING_OPERANDS, max_tasks=1)
        set_config = dataclasses.replace(config, curriculum=names, targets=())
        tasks = sample_streams(key, set_config, env, "alone")
        agents = {config.learner_name: learner, **_null_agents(config)}
        tasks_by_agent = [tasks] * len(agents)
        streams = _play_in_blocks(
            key, env, [*agents.values()], params, tasks_by_agent, config.budget
        )
        streams_by_table[kind] = dict(zip(agents, streams, strict=True))
    return streams_by_table


def _play_in_blocks(
    key: jax.Array,
    env: ByteStream,
    agents: list[Agent],
    params: ArrayTree,
    tasks: list[Task],
    horizon: int,
) -> list[Streams]:
    """Plays several agents, each on its own streams, in one program."""
    sizes = [len(agent_tasks.count) for agent_tasks in tasks]
    all_tasks = jax.tree.map(lambda *x: jnp.concatenate(x), *tasks)
    agent = by_block(agents, sizes)
    streams = play_streams(key, env, agent, params, all_tasks, horizon, privileged=True)
    ends = np.cumsum(sizes)
    return [
        jax.tree.map(lambda x, a=end - size, b=end: x[a:b], streams)
        for end, size in zip(ends, sizes, strict=True)
    ]


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    return run_experiment("gradual_learning", PRESETS, build, report, argv)
