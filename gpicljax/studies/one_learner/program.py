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
from gpicljax.agents.symbol_lessons import mixed_lessons
from gpicljax.agents.symbol_model import (
    SymbolModelConfig,
    choice_nats,
    symbol_agent,
    symbol_losses,
)
from gpicljax.evaluation.returns import trial_rewards
from gpicljax.interface import Agent
from gpicljax.networks.language_model import language_model
from gpicljax.runs import load_agent, save_agent
from gpicljax.runs.saved_agents import agents_of
from gpicljax.runtime import (
    Measure,
    Program,
    RunResult,
    check_config,
    fast_jit,
    named_key,
    run_experiment,
)
from gpicljax.studies.one_learner.config import PRESETS, Config, load_task
from gpicljax.studies.one_learner.report import NEW, WIPED, report
from gpicljax.symbols import SYMBOLS
from gpicljax.typing import ArrayTree
from gpicljax.wrappers.settings import TrialSettings

TRIALS = 0
"""Seed of the trials of tests: the same ones for every model, whatever its own seed is."""


def build(config: Config) -> Program:
    """Returns the program: streams of all systems, the network and its trainer."""
    tasks = {name: load_task(name) for name in config.systems}
    played, models = tasks if config.plays else {}, saved_models(config)
    network = language_model(config.network, SYMBOLS, config.capacity)
    updates = config.updates(config.observations_per_update)
    hparams = dataclasses.replace(config.hparams, decay_updates=updates)
    lessons = mixed_lessons(
        list(tasks.values()),
        config.agent.batch_size // config.agent.microbatches // len(config.systems),
        config.length,
        lambda env: symbol_agent(network, env, must_speak=True),
        config.own_trials,
    )
    own_kinds = ", ".join(n for n, task in tasks.items() if config.own_trials and task.plays_own)
    terms = symbol_losses(config.systems)
    trainer = sequence.make(config.agent, network, lessons.sample, terms, length=config.length)

    def init(key: jax.Array, cell: tuple[Any, jax.Array, jax.Array] | tuple[()]) -> Any:
        if not cell:
            return trainer.init(key, hparams, lessons.data)
        saved, number, is_new = cell
        state = trainer.init(jax.random.fold_in(key, number), hparams, lessons.data)
        params = jax.tree.map(lambda own, x: jnp.where(is_new, own, x), state.params, saved)
        return dataclasses.replace(state, params=params)

    def nats_of(name: str) -> Measure:
        keys = jax.random.split(named_key(TRIALS, f"{name} streams"), config.streams)
        sample, data, _ = mixed_lessons([tasks[name]], 1, config.length)
        return Measure(lambda key, params, cell: choice_nats(network, sample, keys, data, params))

    def play(name: str, agent: Agent, params: Any = (), **how: Any) -> Any:
        task, key = tasks[name], named_key(TRIALS, name)
        sizes = {"trials": config.trials, "steps": task.steps, "env_params": task.test_params}
        return trial_rewards(key, task.test_env, agent, params, **sizes, **how)

    def trials_of(name: str) -> dict[str, Measure]:
        # What is forgotten at every step has room for the symbols of one.
        whole, wiped = (
            symbol_agent(model, tasks[name].test_env, config.temperature)
            for model in (network, language_model(config.network, SYMBOLS, 64))
        )
        wiped = with_memory_reset(wiped, lambda timestep: jnp.ones_like(timestep.last))
        return {
            "": Measure(lambda key, params, cell: play(name, whole, params)),
            WIPED: Measure(lambda key, params, cell: play(name, wiped, params)),
        }

    def programs(name: str) -> dict[str, Any]:
        task = tasks[name]
        agents = {"random": random_agent(task.test_env), **task.nulls, "oracle": task.oracle[0]}
        if task.teacher not in task.nulls.values() and task.env.symbols().acts:
            agents["its teacher"] = task.teacher
        return {
            role: jax.device_get(fast_jit(functools.partial(play, name, agent, privileged=True))())
            for role, agent in agents.items()
        }

    return Program(
        title=f"one network for {len(config.systems)} systems",
        details={"systems": ", ".join(config.systems), "own trials": own_kinds or "none"},
        init=init,
        update=trainer.update,
        between=lessons.play_own,
        observations=config.observations_per_update if config.train else 0,
        cells={f"{run} {n}": start for (run, n), start in models.items()} or {"": ()},
        measures={
            "nats": {name: nats_of(name) for name in config.systems},
            "rewards": {name: trials_of(name) for name in played},
        },
        host_measures=lambda run: {name: programs(name) for name in played},
        key_metric="nats",
        save=functools.partial(_save, config) if config.train else None,
        more=(tasks, list(models) or [("the network", 0)]),
    )


def saved_models(config: Config) -> dict[tuple[str, int], tuple[Any, np.int32, np.bool_]]:
    """Returns parameters, seed and whether to begin anew, of saved models and new ones beside."""
    models = {}
    for folder in config.start_from:
        for run, number, agent in agents_of(folder):
            is_other = (run, number) not in models
            check_config(is_other, "start_from", str(folder), "models of different names or seeds")
            models[run, number] = load_agent(agent).params, np.int32(number), np.bool_(False)
    if len({run for run, _ in models}) > 1 and config.train:
        models |= {(NEW, n): (*x[:2], np.bool_(True)) for (_, n), x in models.items()}
    return models


def _save(config: Config, folder: Path, cell: ArrayTree, **about: Any) -> None:
    """Writes the model, as one of lakes: it acts in all environments that declare a code."""
    del cell
    sizes = {name: getattr(config, name) for name in ("length", "capacity", "temperature")}
    save_agent(
        folder,
        algorithm="symbol-model",
        env_id="FrozenLake-v1",
        env_options={"size": 4},
        env_params=gpicljax.make("FrozenLake-v1", size=4).default_params,
        num_envs=config.agent.batch_size,
        config=SymbolModelConfig(**dataclasses.asdict(config.agent), **sizes),
        network=config.network,
        trials=TrialSettings(),
        systems=config.systems,
        **about,
    )


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome, None after a dry run."""
    return run_experiment("one_learner", PRESETS, build, report, argv)
