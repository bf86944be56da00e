"""The program of the study `recall`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.agents import r2d2
from gpicljax.agents.acting import q_agent, random_agent
from gpicljax.agents.combinators import panel_agent, with_memory_reset
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.interface import Agent, TimeStep
from gpicljax.runs import save_agent
from gpicljax.runtime import (
    Measure,
    Probe,
    Program,
    RunResult,
    fast_jit,
    named_key,
    run_experiment,
)
from gpicljax.runtime.dry_run import within_memory
from gpicljax.systems.meta_rg.env.recall import Params, Recall
from gpicljax.systems.meta_rg.experts import recall as experts
from gpicljax.systems.meta_rg.measures.recall import (
    RecallAccuracy,
    RecallGames,
    play_recall_games,
    recall_accuracy,
)
from gpicljax.systems.meta_rg.studies.recall.config import PRESETS, Config
from gpicljax.systems.meta_rg.studies.recall.report import of_seeds, report
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

CONDITIONS: dict[str, tuple[float, bool]] = {
    "greedy": (0.0, False),
    "behaviour (exploring actors)": (1.0, False),
    "memory cleared every game": (0.0, True),
}
"""Exploration and forgetting of every way in which the trained agents are evaluated."""


def build(config: Config) -> Program:
    """Wires environment, network and trainer together."""
    env = Recall(**config.env_options)
    env_params = env.make_params(min_values=config.min_values, max_values=config.max_values)
    vec = VectorEnv(env, config.agent.num_envs, resets="fresh", params=env_params)
    network = config.network.network(env.observation_space(), env.action_space())
    trainer = r2d2.make(config.agent, vec, network)
    steps = config.updates(trainer.observations) * trainer.optimiser_steps
    hparams = dataclasses.replace(config.hparams, decay_updates=steps)
    batch = evaluation_batch(env, config.probe_episodes)

    # One program for all conditions: what they differ in is traced.
    def games(
        key: jax.Array,
        params: ArrayTree,
        env_params: Params,
        explore: jax.Array,
        forget: jax.Array,
    ) -> RecallGames:
        """Plays an episode on each of `probe_episodes` instances.

        `explore` scales the actors' epsilons; `forget` clears memories every game.
        """
        epsilons = r2d2.actor_epsilons(hparams, config.probe_episodes) * explore
        agent = with_memory_reset(
            q_agent(network, env.action_space(), epsilons),
            lambda timestep: forget & ~timestep.privileged["asking"],
        )
        return play_recall_games(key, batch, agent, params, env_params)

    def accuracy(games: RecallGames) -> dict[str, np.ndarray]:
        by_seed = of_seeds(*games)
        metrics = {"first_shot": by_seed.first.by_game, "second_shot": by_seed.second.by_game}
        return {name: np.asarray(values) for name, values in metrics.items()}

    groups = math.ceil(config.evaluation_episodes / config.probe_episodes)
    return Program(
        title=f"R2D2 in the Recall task, {config.stimulus} stimuli",
        details={
            "memory": config.network.memory,
            "values": f"{config.min_values} .. {config.max_values}",
        },
        init=lambda key, cell: trainer.init(key, hparams, cell),
        update=trainer.update,
        observations=trainer.observations,
        cells={"": env_params},
        measures={
            name: Measure(games, condition, groups) for name, condition in CONDITIONS.items()
        },
        host_measures=lambda run: calibrate(config, env_params),
        probe=Probe(Measure(games, CONDITIONS["greedy"]), accuracy),
        key_metric="second_shot",
        save=lambda folder, cell, **about: save_agent(
            folder,
            algorithm="r2d2",
            env_id="Recall-v0",
            env_options=config.env_options,
            env_params=cell,
            num_envs=config.agent.num_envs,
            config=config.agent,
            network=config.network,
            **about,
        ),
        more=env,
    )


def evaluation_batch(env: Recall, episodes: int) -> VectorEnv:
    """Returns a batch for evaluations. Rules and ablations read privileged entries, agents do
    not.
    """
    return single_trial_batch(env, episodes, 2 * env.max_games, privileged=True)


def calibrate(config: Config, env_params: Params) -> dict[str, RecallAccuracy]:
    """Accuracy of the rules that need no training, on the same games."""
    env = Recall(**config.env_options)
    vec = evaluation_batch(env, config.evaluation_episodes)
    task_key, key = jax.random.split(named_key(config.seed, "rules"))

    def first(keys: jax.Array, params: ArrayTree, carry: ArrayTree, timestep: TimeStep) -> Any:
        return jnp.where(timestep.privileged["asking"], 0, env.wait), {}, carry

    @fast_jit
    def play(keys: jax.Array) -> RecallAccuracy:
        rules = {
            "random": random_agent(env),
            "always the first value": Agent(lambda batch: (), first),
            "1-NN oracle": experts.nearest(env),
        }
        if env.stimulus == "scs":
            tasks = jax.vmap(env.sample_task, (0, None))(keys, env_params)
            rules["single stimulus"] = experts.single(env, tasks)
            rules["ranking oracle"] = experts.ranking(env)
        names.extend(rules)
        games = play_recall_games(key, vec, panel_agent(list(rules.values())), (), env_params)
        score = jax.vmap(recall_accuracy, (None, -1, None))
        return score(*games)

    names: list[str] = []
    rules_program = within_memory(play, "the games of rules")
    scores = jax.device_get(rules_program(jax.random.split(task_key, 4096)))
    return {name: jax.tree.map(lambda x, i=i: x[i], scores) for i, name in enumerate(names)}


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    return run_experiment("recall", PRESETS, build, report, argv)
