"""The program of the study `meta_rg`."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp

import gpicljax
from gpicljax.agents import r2d2
from gpicljax.agents.acting import q_agent
from gpicljax.agents.combinators import with_memory_reset
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.evaluation.statistics import mean_interval
from gpicljax.networks.contract import Network
from gpicljax.rollout.traced import renew_tasks
from gpicljax.runs import save_agent
from gpicljax.runtime import (
    Measure,
    Probe,
    Program,
    RunResult,
    named_key,
    run_experiment,
)
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.types import CHANNELS, Params
from gpicljax.systems.meta_rg.experts import classifier, memoryless
from gpicljax.systems.meta_rg.experts import listeners as experts
from gpicljax.systems.meta_rg.figures.replay import Recorded, record_with_attention
from gpicljax.systems.meta_rg.learners.predictions import prediction
from gpicljax.systems.meta_rg.measures.games import Games, play_games, probe_metrics
from gpicljax.systems.meta_rg.measures.rules import Cell, RuleAccuracy, panel_rules
from gpicljax.systems.meta_rg.studies.meta_rg.config import (
    AUXILIARIES,
    PRESETS,
    Config,
)
from gpicljax.systems.meta_rg.studies.meta_rg.report import (
    GREEDY,
    Measures,
    cell_name,
    report,
    unseen_games,
)
from gpicljax.typing import ArrayTree

CONDITIONS: dict[str, tuple[str, float, bool]] = {
    GREEDY: ("episode", 0.0, False),
    "behaviour (exploring actors)": ("episode", 1.0, False),
    "memory cleared every game": ("episode", 0.0, True),
    "messages re-permuted every game": ("game", 0.0, False),
    "random tokens": ("random", 0.0, False),
    "no messages": ("silence", 0.0, False),
}
"""Channel, exploration and forgetting of every way in which the trained agents are evaluated."""


def build(config: Config) -> Program:
    """Wires environment, network and trainer together."""
    env = config.game.make()
    vec = gpicljax.VectorEnv(
        env,
        config.agent.num_envs,
        resets="bank",
        bank_size=config.bank_size,
        renew_share=config.renew_share,
        params=env.make_params(
            min_values=config.game.min_values, max_values=config.game.max_values
        ),
    )
    settings = dataclasses.replace(config.network, predictions=AUXILIARIES[config.auxiliary])
    network = settings.network(env.observation_space(), env.action_space())
    predicted = (prediction(env, x, config.auxiliary_weight) for x in AUXILIARIES[config.auxiliary])
    trainer = r2d2.make(config.agent, vec, network, tuple(predicted))
    steps = config.updates(trainer.observations) * trainer.optimiser_steps
    hparams = dataclasses.replace(config.hparams, decay_updates=steps)
    measures, probe = measures_of(config, env, network, hparams)

    def stage(observations: jax.Array) -> jax.Array:
        """Largest number of values in force after so many observations, `int32[]`."""
        stages = jnp.asarray([*config.curriculum, config.game.max_values], jnp.int32)
        length = max(1, config.observations // (2 * max(1, len(config.curriculum))))
        return stages[jnp.minimum(observations // length, len(config.curriculum))]

    def init(key: jax.Array, env_params: Params) -> r2d2.TrainState:
        first = dataclasses.replace(env_params, max_values=stage(jnp.int32(0)))
        return trainer.init(key, hparams, first)

    def between(state: r2d2.TrainState) -> r2d2.TrainState:
        vstate = state.rollout.vstate
        params = dataclasses.replace(vstate.params, max_values=stage(state.observations))
        vstate = dataclasses.replace(vstate, params=params)
        rollout = state.rollout._replace(vstate=vstate)
        return renew_tasks(vec, dataclasses.replace(state, rollout=rollout))

    return Program(
        title=f"R2D2 listeners in {config.game.env}",
        details={"cells": f"{', '.join(map(cell_name, config.game.cells))}; {config.game.values}"},
        init=init,
        update=trainer.update,
        observations=trainer.observations,
        between=between,
        cells={
            cell_name(cell) if len(config.game.cells) > 1 else "": config.game.params(env, cell)
            for cell in config.game.cells
        },
        measures=measures,
        host_measures=lambda run: calibrate(config),
        probe=probe,
        key_metric="query_accuracy",
        save=lambda folder, env_params, **about: save_agent(
            folder,
            algorithm="r2d2",
            env_id=config.game.env,
            env_options=config.game.options,
            env_params=env_params,
            num_envs=config.agent.num_envs,
            config=config.agent,
            network=settings,
            **about,
        ),
        expected_seconds=200.0 if config.preset == "quick" else None,
        more=env,
    )


def measures_of(
    config: Config, env: MetaRG, network: Network, hparams: r2d2.R2D2HParams
) -> tuple[Measures, Probe]:
    """Returns the measures of every agent at the end, and the probe after every chunk."""
    # One program for all conditions: what they differ in is traced.
    evaluated = dataclasses.replace(env, ablations=True)

    def batch(game: MetaRG) -> gpicljax.VectorEnv:
        steps = int(game.horizon())
        return single_trial_batch(game, config.probe_episodes, steps, privileged=True)

    def games(
        key: jax.Array,
        params: ArrayTree,
        env_params: Params,
        channel: jax.Array,
        explore: jax.Array,
        forget: jax.Array,
        game: MetaRG = evaluated,
    ) -> Games:
        """Plays an episode on each of `probe_episodes` instances.

        `explore` scales the actors' epsilons; `forget` clears memories every game.
        """
        epsilons = r2d2.actor_epsilons(hparams, config.probe_episodes) * explore
        agent = with_memory_reset(
            q_agent(network, env.action_space(), epsilons),
            lambda timestep: forget & (timestep.observation["round"] == 0),
        )
        played = dataclasses.replace(env_params, channel=jnp.asarray(channel, jnp.int32))
        return play_games(key, batch(game), agent, params, played)

    highest = config.game.max_values + config.game.has_room_for_more_values
    more_samples = max((*config.game.samples, *config.unseen_samples))
    wide = dataclasses.replace(evaluated, max_values=highest, max_samples=more_samples)

    def elsewhere(
        key: jax.Array,
        params: ArrayTree,
        env_params: Params,
        min_values: jax.Array,
        max_values: jax.Array,
        samples: jax.Array,
    ) -> Games:
        """Greedy games of other numbers of values or samples than those of training; 0 samples
        stand for those of the cell.
        """
        other = dataclasses.replace(
            env_params,
            min_values=jnp.asarray(min_values, jnp.int32),
            max_values=jnp.asarray(max_values, jnp.int32),
            samples=jnp.where(samples > 0, samples, env_params.samples),
        )
        heard = jnp.int32(CHANNELS.index("episode"))
        return games(key, params, other, heard, jnp.zeros(()), jnp.zeros((), bool), wide)

    def rules(key: jax.Array, params: ArrayTree, env_params: Params) -> Games:
        """The greedy agent's very games, decided by every rule: no decision changes a game."""
        del params
        game = dataclasses.replace(config.game.make(actions="compact"), ablations=True)
        panel = experts.rule_panel(game, list(panel_rules(game).values()))
        return play_games(key, batch(game), panel, None, env_params)

    def episode(key: jax.Array, params: ArrayTree, env_params: Params) -> Recorded:
        """Returns the first of the greedy episodes, step by step."""
        agent = q_agent(network, env.action_space())
        return record_with_attention(key, env, agent, params, env_params, network.attention)

    groups = math.ceil(config.evaluation_episodes / config.probe_episodes)
    measures = Measures(
        games={
            name: Measure(games, (CHANNELS.index(channel), explore, forget), groups)
            for name, (channel, explore, forget) in CONDITIONS.items()
        }
        | {
            name: Measure(elsewhere, arguments, groups)
            for name, arguments in unseen_games(config).items()
        },
        rules=Measure(rules, (), groups),
        episode=Measure(episode),
    )
    return measures, Probe(Measure(games, (CHANNELS.index("episode"), 0.0, False)), probe_metrics)


def calibrate(config: Config) -> dict[Cell, dict[str, RuleAccuracy]]:
    """Accuracies of what learns without a memory, by cell."""
    env = config.game.make(actions="compact")
    name, params = "memoryless classifier (learnt)", config.game.params
    return {
        cell: {name: memoryless_accuracy(config, env, params(env, cell))}
        for cell in config.game.cells
    }


def memoryless_accuracy(config: Config, env: MetaRG, params: Params) -> RuleAccuracy:
    """Query and support accuracy of a classifier of single decisions, on held-out games."""
    train_key, test_key, fit_key = jax.random.split(named_key(config.seed, "classifier"), 3)
    features, labels, _ = memoryless.decision_dataset(
        train_key, env, params, 60_000, message="equality"
    )
    fitted = classifier.fit_classifier(fit_key, features, labels)
    features, labels, query = memoryless.decision_dataset(
        test_key, env, params, 20_000, message="equality"
    )
    shares = (classifier.accuracy(fitted, features, labels, part) for part in (query, ~query))
    return RuleAccuracy(*(mean_interval([float(share)]) for share in shares))


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    return run_experiment("meta_rg", PRESETS, build, report, argv)
