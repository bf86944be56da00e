"""Building and running the study `one_learner`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax.agents import sequence
from gpicljax.agents.acting import random_agent
from gpicljax.agents.combinators import with_memory_reset
from gpicljax.agents.symbol_model import (
    StreamTask,
    SymbolModelConfig,
    mixed_sampler,
    stream_sampler,
    symbol_agent,
    symbol_losses,
)
from gpicljax.evaluation.returns import trial_rewards
from gpicljax.interface import Agent
from gpicljax.networks.contract import Network
from gpicljax.networks.language_model import language_model
from gpicljax.runs import load_agent, save_agent
from gpicljax.runtime import (
    Measure,
    Program,
    RunResult,
    check_config,
    fast_jit,
    named_key,
    run_experiment,
)
from gpicljax.studies.one_learner.config import NEW, PRESETS, Config, Shared, load_task
from gpicljax.studies.one_learner.report import WIPED, report
from gpicljax.symbols import SYMBOLS
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv
from gpicljax.wrappers.settings import TrialSettings

STEP = 64
"""Room for the symbols that one time step writes, and the action that follows."""
TRIALS = 0
"""Seed of the trials of tests: the same ones for every model, whatever its own seed is."""


def build(config: Config) -> Program:
    """Returns the program: streams of all systems, the network and its trainer."""
    tasks = {name: load_task(name) for name in config.systems}
    models = saved_models(config)
    network = language_model(config.network, SYMBOLS, config.capacity)
    updates = config.updates(config.observations_per_update)
    hparams = dataclasses.replace(config.hparams, decay_updates=updates)
    share = config.agent.batch_size // config.agent.microbatches // len(config.systems)

    def sampler(task: StreamTask, streams: int) -> Any:
        vec = VectorEnv(task.env, streams, resets="fresh", params=task.params, privileged=True)
        return stream_sampler(vec, task.teacher, task.steps, config.length, task.exploration)

    sample = mixed_sampler([sampler(task, share) for task in tasks.values()])
    terms = symbol_losses(config.systems)
    trainer = sequence.make(config.agent, network, sample, terms, length=config.length)
    data = tuple(task.params for task in tasks.values())

    def init(key: jax.Array, cell: Start | tuple[()]) -> Any:
        if not cell:
            return trainer.init(key, hparams, data)
        saved, number, is_new = cell
        state = trainer.init(jax.random.fold_in(key, number), hparams, data)
        params = jax.tree.map(lambda own, x: jnp.where(is_new, own, x), state.params, saved)
        return dataclasses.replace(state, params=params)

    def nats_of(name: str) -> Measure:
        """Returns the measure of what a teacher's choices cost on streams that are not learnt."""
        fresh = mixed_sampler([sampler(tasks[name], 1)])
        *_, choices = symbol_losses((name,))
        keys = jax.random.split(named_key(TRIALS, f"{name} streams"), config.streams)

        def nats(key: jax.Array, params: ArrayTree, cell: ArrayTree) -> jax.Array:
            del key, cell

            def sums(key: jax.Array) -> tuple[jax.Array, jax.Array]:
                sequences = fresh(key[None], (tasks[name].params,))
                at = sequence.evaluate(network, [choices], params, sequences)[choices.name]
                assert choices.counts is not None
                is_counted = choices.counts(sequences)
                return jnp.sum(at, where=is_counted), is_counted.sum()

            # One stream after the other: there may be many models.
            total, count = jax.lax.map(sums, keys)
            return total.sum() / count.sum()

        return Measure(nats)

    def rewards_of(name: str, task: StreamTask, agent: Agent, params: Any, **how: Any) -> Any:
        sizes = {"trials": config.trials, "steps": task.steps, "env_params": task.test_params}
        key = named_key(TRIALS, name)
        return trial_rewards(key, task.test_env, agent, params, **sizes, **how)

    def trials_of(name: str) -> dict[str, Measure]:
        task = tasks[name]

        def rewards(model: Network, wrap: Callable[[Agent], Agent]) -> Measure:
            agent = wrap(symbol_agent(model, task.test_env, config.temperature))
            return Measure(lambda key, params, cell: rewards_of(name, task, agent, params))

        # What is forgotten at every step has room for the symbols of one.
        small = language_model(config.network, SYMBOLS, STEP)
        forgets = functools.partial(
            with_memory_reset, when=lambda timestep: jnp.ones_like(timestep.last)
        )
        return {"": rewards(network, lambda agent: agent), WIPED: rewards(small, forgets)}

    def programs(name: str) -> dict[str, Any]:
        task = tasks[name]

        def rewards(agent: Agent) -> Any:
            settings = {"name": name, "task": task, "params": (), "privileged": True}
            return jax.device_get(
                fast_jit(functools.partial(rewards_of, agent=agent, **settings))()
            )

        agents = {"random": random_agent(task.test_env), **task.nulls, "oracle": task.oracle[0]}
        played = {role: rewards(agent) for role, agent in agents.items()}
        teaches = [role for role, agent in agents.items() if agent is task.teacher]
        played["teacher"] = played[teaches[0]] if teaches else rewards(task.teacher)
        return played

    return Program(
        title=f"one network for {len(config.systems)} systems",
        details={"systems": ", ".join(config.systems)},
        init=init,
        update=trainer.update,
        observations=config.observations_per_update if config.train else 0,
        cells={f"{run} {n}": start for (run, n), start in models.items()} or {"": ()},
        measures={
            "nats": {name: nats_of(name) for name in config.systems},
            "rewards": {name: trials_of(name) for name in config.tested_systems},
        },
        host_measures=lambda run: {name: programs(name) for name in config.tested_systems},
        key_metric="nats",
        save=functools.partial(_save, config) if config.train else None,
        more=Shared(tasks, [run for run, _ in models] or ["the network"]),
    )


class Start(NamedTuple):
    """What a model starts from.

    Attributes:
      params: of a saved model.
      number: its seed; models of the same number learn from the same streams.
      is_new: whether it is to start anew instead.
    """

    params: Any
    number: np.int32
    is_new: np.bool_


def saved_models(config: Config) -> dict[tuple[str, int], Start]:
    """Returns what models start from, by run and seed; beside several runs there are new models."""
    models: dict[tuple[str, int], Start] = {}
    for folder in config.start_from:
        for agent in sorted(folder.glob("seed_*")) or [folder]:
            run, number = _run_and_seed(agent.resolve())
            is_other = (run, number) not in models
            check_config(is_other, "start_from", str(folder), "models of different names or seeds")
            start = Start(load_agent(agent).params, np.int32(number), np.bool_(False))
            models[run, number] = start
    if len({run for run, _ in models}) > 1 and config.train:
        models |= {(NEW, n): x._replace(is_new=np.bool_(True)) for (_, n), x in models.items()}
    return models


def _run_and_seed(agent: Path) -> tuple[str, int]:
    """Returns the name of the run that saved a model, and its seed; 0 for a model of no run."""
    name, _, seed = agent.name.rpartition("seed_")
    is_seed = agent.parent.name == "agents" and not name and seed.isdigit()
    return (agent.parents[1].name, int(seed)) if is_seed else (agent.name, 0)


def _save(config: Config, folder: Path, cell: ArrayTree, **about: Any) -> None:
    """Writes the model, as one of lakes: it acts in all environments that declare a code."""
    del cell
    env_id, options = "FrozenLake-v1", {"size": 4}
    save_agent(
        folder,
        algorithm="symbol-model",
        env_id=env_id,
        env_options=options,
        env_params=gpicljax.make(env_id, **options).default_params,
        num_envs=config.agent.batch_size,
        config=SymbolModelConfig(
            **dataclasses.asdict(config.agent),
            length=config.length,
            capacity=config.capacity,
            temperature=config.temperature,
        ),
        network=config.network,
        trials=TrialSettings(),
        systems=config.systems,
        **about,
    )


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome, None after a dry run."""
    return run_experiment("one_learner", PRESETS, build, report, argv)
