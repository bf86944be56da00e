"""Building and running the study `one_learner`."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

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
from gpicljax.networks.language_model import language_model
from gpicljax.runs import load_agent, save_agent
from gpicljax.runtime import (
    Measure,
    Program,
    RunResult,
    fast_jit,
    named_key,
    run_experiment,
)
from gpicljax.studies.one_learner.config import PRESETS, Config, load_task
from gpicljax.studies.one_learner.report import WIPED, report
from gpicljax.symbols import SYMBOLS
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv
from gpicljax.wrappers.settings import TrialSettings

TRIALS = 0
"""Seed of the trials of tests: the same ones for every model, whatever its own seed is."""


def build(config: Config) -> Program:
    """Returns the program: streams of all systems, the network and its trainer."""
    tasks = {name: load_task(name) for name in config.systems}
    network = language_model(config.network, SYMBOLS, config.capacity)
    updates = config.updates(config.observations_per_update)
    hparams = dataclasses.replace(config.hparams, decay_updates=updates)
    each = config.agent.batch_size // config.agent.microbatches // len(config.systems)

    def sampler(task: StreamTask) -> Any:
        vec = VectorEnv(task.env, each, resets="fresh", params=task.params, privileged=True)
        return stream_sampler(vec, task.teacher, task.steps, config.length, task.exploration)

    sample = mixed_sampler([sampler(task) for task in tasks.values()])
    terms = symbol_losses(config.systems)
    trainer = sequence.make(config.agent, network, sample, terms, length=config.length)
    data = tuple(task.params for task in tasks.values())

    def init(key: jax.Array, cell: tuple[Any, jax.Array] | tuple[()]) -> Any:
        state = trainer.init(key, hparams, data)
        if not cell:
            return state
        saved, is_new = cell
        params = jax.tree.map(lambda own, x: jnp.where(is_new, own, x), state.params, saved)
        return dataclasses.replace(state, params=params)

    def rewards_of(name: str, task: StreamTask, agent: Agent, params: Any, **how: Any) -> Any:
        sizes = {"trials": config.trials, "steps": task.steps, "env_params": task.test_params}
        key = named_key(TRIALS, name)
        return trial_rewards(key, task.test_env, agent, params, **sizes, **how)

    def trials_of(name: str) -> dict[str, Measure]:
        task = tasks[name]

        def rewards(
            key: jax.Array, params: ArrayTree, cell: ArrayTree, forgets: jax.Array
        ) -> jax.Array:
            del key, cell
            agent = with_memory_reset(
                symbol_agent(network, task.test_env, config.temperature),
                lambda timestep: jnp.broadcast_to(forgets, timestep.trial_start.shape),
            )
            return rewards_of(name, task, agent, params)

        # One program for both.
        return {"": Measure(rewards, (False,)), WIPED: Measure(rewards, (True,))}

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
        cells=saved_models(config) or {"": ()},
        measures={name: trials_of(name) for name in config.tested_systems},
        host_measures=lambda run: {name: programs(name) for name in config.tested_systems},
        key_metric="nats",
        save=functools.partial(_save, config) if config.train else None,
        more=tasks,
    )


def saved_models(config: Config) -> dict[str, tuple[Any, np.bool_]]:
    """Returns the parameters of saved models, and whether a model is new instead, by name."""
    models = {}
    for folder in config.start_from:
        run = folder.resolve().parents[1]
        name = run.name if folder.parent.name == "agents" else folder.name
        models[name] = load_agent(folder).params, np.bool_(False)
    if len(models) > 1 and config.train:
        models["new"] = next(iter(models.values()))[0], np.bool_(True)
    return models


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
