"""Agents on the streams of studies, side by side in one program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.agents.combinators import by_block, with_memory_reset
from gpicljax.interface import Agent
from gpicljax.systems.gradual_learning import experts
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream, Task
from gpicljax.systems.gradual_learning.env.tasks import ALL_NAMES
from gpicljax.systems.gradual_learning.measures.played_studies import (
    FIRST_KINDS,
    SIMPLE_KINDS,
    WIPED,
    Plan,
)
from gpicljax.systems.gradual_learning.measures.streams import Streams, play_streams, streams_of
from gpicljax.typing import ArrayTree

HORIZON_WIPED = 2000
"""Steps of a stream of the learner whose memory is wiped before every question."""


def sample_streams(key: jax.Array, plan: Plan, env: ByteStream, *kinds: str) -> Task:
    """Returns the streams of some studies; those of one run meet the same instances."""
    studies = plan.studies(*kinds)
    runs = jnp.asarray([study.run for study in studies])
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.fold_in(key, 1), runs)
    curricula = [study.curriculum for study in studies]
    return streams_of(keys, env, curricula, plan.budget, **plan.params)


def repeat_streams(tasks: Task, cleared: jax.Array, plan: Plan) -> Task:
    """Returns the streams of `"again"`, cut to what each run clears in order, and twice as long.

    Args:
      tasks: `[N]`, tasks after the whole curriculum.
      cleared: `int32[runs]`, task sets that a run clears in order.
      plan: the studies.
    """
    studies = plan.studies("again")
    place = cleared[np.array([study.run for study in studies])]
    sets = jnp.asarray([ALL_NAMES.index(study.task) for study in studies], tasks.order.dtype)
    rows = jnp.arange(len(studies))
    return dataclasses.replace(
        tasks,
        order=tasks.order.at[rows, place].set(sets),
        count=place + 1,
        horizon=2 * tasks.horizon,
    )


def play_studies(
    key: jax.Array,
    env: ByteStream,
    plan: Plan,
    learner: tuple[str, Agent],
    nulls: Mapping[str, Agent],
    params: ArrayTree,
) -> dict[str, Streams]:
    """Plays all studies with the learner and the first null, the simple ones with others too.

    Streams of one kind, task set and run are the same for all agents.

    Args:
      key: a typed key.
      env: the environment.
      plan: the studies.
      learner: name and agent.
      nulls: agents without parameters, by name.
      params: parameters of the learner.
    """
    others = {"oracle": experts.oracle(), "knows the tasks": experts.solver(), **nulls}
    agents, whole = dict([learner]) | others, (learner[0], next(iter(nulls)))
    tasks = [
        sample_streams(key, plan, env, *(FIRST_KINDS if name in whole else SIMPLE_KINDS))
        for name in agents
    ]
    first = play_in_blocks(key, env, [*agents.values()], params, tasks, plan.budget)
    streams = dict(zip(agents, first, strict=True))

    # Without a memory nothing is cleared: the first questions are enough.
    tasks_alone = sample_streams(key, plan, env, "alone")
    short = jnp.full_like(tasks_alone.horizon, HORIZON_WIPED)
    tasks_alone = dataclasses.replace(tasks_alone, horizon=short)
    with_text = dataclasses.replace(env, with_text=True)
    forgetful = with_memory_reset(learner[1], lambda timestep: timestep.privileged["said"] <= 1)
    streams[WIPED] = play_streams(
        key, with_text, forgetful, params, tasks_alone, HORIZON_WIPED, privileged=True
    )

    orders = np.array([study.kind == "order" for study in plan.studies(*FIRST_KINDS)])
    repeated = sample_streams(key, plan, env, "again")
    tasks = [repeat_streams(repeated, streams[name].cleared[orders], plan) for name in whole]
    agents_again = [agents[name] for name in whole]
    repeats = play_in_blocks(key, env, agents_again, params, tasks, 2 * plan.budget)
    for name, repeat in zip(whole, repeats, strict=True):
        streams[name] = jax.tree.map(lambda *x: jnp.concatenate(x), streams[name], repeat)
    return streams


def play_in_blocks(
    key: jax.Array,
    env: ByteStream,
    agents: Sequence[Agent],
    params: ArrayTree,
    tasks: Sequence[Task],
    horizon: int,
) -> list[Streams]:
    """Plays several agents, each on its own streams, in one program."""
    sizes = [len(agent_tasks.count) for agent_tasks in tasks]
    all_tasks = jax.tree.map(lambda *x: jnp.concatenate(x), *tasks)
    agent = by_block(list(agents), sizes)
    streams = play_streams(key, env, agent, params, all_tasks, horizon, privileged=True)
    ends = np.cumsum(sizes)
    return [
        jax.tree.map(lambda x, a=end - size, b=end: x[a:b], streams)
        for end, size in zip(ends, sizes, strict=True)
    ]
