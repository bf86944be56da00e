"""The program of the study `meta_rg_players`."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, get_args

import jax
import jax.numpy as jnp

import gpicljax
from gpicljax.agents import r2d2
from gpicljax.agents.acting import q_agent
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.interface import Agent, Trainer
from gpicljax.networks.contract import AgentInput, over_agents
from gpicljax.rollout.traced import renew_tasks
from gpicljax.runtime import Measure, Probe, Program, RunResult, run_experiment
from gpicljax.spaces import of_one_agent
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.types import CHANNELS, LISTENER, Params
from gpicljax.systems.meta_rg.figures.replay import Attention, Recorded, record_with_attention
from gpicljax.systems.meta_rg.learners import signalling
from gpicljax.systems.meta_rg.learners.predictions import prediction
from gpicljax.systems.meta_rg.learners.signalling_games import game_sequences, signalling_game
from gpicljax.systems.meta_rg.measures.acquisition import language_acquisition
from gpicljax.systems.meta_rg.measures.games import Games, play_games, probe_metrics
from gpicljax.systems.meta_rg.measures.rules import (
    Cell,
    RuleAccuracy,
    cell_name,
    program_accuracies,
)
from gpicljax.systems.meta_rg.measures.speaker_language import Asked, languages
from gpicljax.systems.meta_rg.studies.meta_rg_players.config import (
    FROM_SEQUENCES,
    PRESETS,
    Config,
    game,
)
from gpicljax.systems.meta_rg.studies.meta_rg_players.report import Measures, report
from gpicljax.typing import ArrayTree

CONDITIONS: dict[str, tuple[str, float]] = {
    "greedy": ("episode", 0.0),
    "behaviour (exploring)": ("episode", 1.0),
    "messages re-permuted every game": ("game", 0.0),
    "random tokens": ("random", 0.0),
    "no messages": ("silence", 0.0),
}
"""Channel and exploration of every way in which players are evaluated."""


class Learner(NamedTuple):
    """A way to learn.

    Attributes:
      trainer: of both players.
      hparams: its hyper-parameters.
      agent: `explore -> Agent`, both players with their exploration scaled.
      attention: of the listener, see `figures.replay.record_with_attention`.
      between: `state -> state`, between two chunks.
    """

    trainer: Trainer
    hparams: Any
    agent: Callable[..., Agent]
    attention: Attention | None
    between: Callable[[Any], Any] = lambda state: state


def learner(config: Config, env: MetaRG) -> Learner:
    """Returns the way to learn that a configuration names."""
    if config.method in FROM_SEQUENCES:
        settings = dataclasses.replace(
            config.players, speaker=config.method, feedback_weight=config.feedback_weight
        )
        listener_env = dataclasses.replace(env, view="listener")
        played = signalling_game(listener_env)
        draw = game_sequences(
            listener_env, settings.games, settings.episodes, settings.copies, settings.noise
        )
        trainer = signalling.signalling_trainer(settings, played, config.network, draw)
        hparams = dataclasses.replace(
            config.schedule, decay_updates=config.updates(trainer.observations)
        )
        agent = functools.partial(signalling.players_agent, settings, played, config.network)
        attends = signalling.listeners_attention(played, config.network)
        return Learner(trainer, hparams, agent, attends)

    mixing = "none" if config.method == "independent" else "vdn"
    settings = dataclasses.replace(config.agent, mixing=mixing, announce=env.announces)
    actions = r2d2.agent_choices(env, settings.announce)
    network_settings = dataclasses.replace(config.network, predictions=(config.predicted,))
    network = network_settings.network(of_one_agent(env.observation_space(), 2), actions)
    bank = {"resets": "bank", "bank_size": config.bank_size, "renew_share": 0.5}
    vec = gpicljax.VectorEnv(env, settings.num_envs, **bank)

    predicted = prediction(env, config.predicted, config.feedback_weight)
    trainer = r2d2.make(settings, vec, network, (predicted,))
    steps = config.updates(trainer.observations) * trainer.optimiser_steps
    hparams = dataclasses.replace(config.hparams, decay_updates=steps)
    players = over_agents(network, 2, settings.share_parameters)
    r2 = functools.partial(q_agent, players, actions, num_agents=2, announce=settings.announce)

    def agent(explore: jax.Array | float = 0.0) -> Agent:
        return r2(epsilons=lambda batch: explore * r2d2.actor_epsilons(hparams, batch))

    def attention(params: ArrayTree, inputs: AgentInput, starts: jax.Array) -> jax.Array:
        assert players.attention is not None
        done = inputs.last_action[..., : actions.shape[0]]  # without what was announced
        return players.attention(params, inputs._replace(last_action=done), starts)[:, :, LISTENER]

    listens = None if players.attention is None else attention
    return Learner(trainer, hparams, agent, listens, functools.partial(renew_tasks, vec))


_Cell: TypeAlias = Params | signalling.SignallingData
"""Data of a run: the distribution over tasks, with what else a trainer over sequences reads."""


def build(config: Config) -> Program:
    """Wires environment, players and trainer together."""
    env = game(config)
    trainer, hparams, agent, attention, between = learner(config, env)
    sequences = config.method in FROM_SEQUENCES
    cells: dict[str, Any] = {}
    for cell in config.game.cells:
        params, title = config.game.params(env, cell), cell_name(cell)
        cells[title] = signalling.SignallingData(params, jnp.asarray(1.0)) if sequences else params
        if config.control and config.method in signalling.LEARNING:
            frozen = signalling.SignallingData(params, jnp.asarray(0.0))
            cells[f"{title}, frozen speaker"] = frozen

    def games_of(cell: _Cell) -> Params:
        return cell.games if isinstance(cell, signalling.SignallingData) else cell

    evaluated = dataclasses.replace(env, ablations=True)
    batch = single_trial_batch(
        evaluated, config.probe_episodes, int(env.horizon()), privileged=True
    )

    def games(
        key: jax.Array, params: ArrayTree, cell: _Cell, channel: jax.Array, explore: jax.Array
    ) -> Games:
        """Plays an episode on each of `probe_episodes` instances; `explore` scales the noise."""
        channel = jnp.asarray(channel, jnp.int32)
        explore = explore * cell.learns if isinstance(cell, signalling.SignallingData) else explore
        played = dataclasses.replace(games_of(cell), channel=channel)
        return play_games(key, batch, agent(explore), params, played)

    def episode(key: jax.Array, params: ArrayTree, cell: _Cell) -> Recorded:
        """Returns the first of the greedy episodes, step by step."""
        return record_with_attention(key, env, agent(), params, games_of(cell), attention)

    def language(asked: Asked, key: jax.Array, params: ArrayTree, cell: _Cell) -> Any:
        """Returns the speaker's messages for every meaning, with their measures."""
        options: Any = {"structures": config.structures, "asked": asked}
        return languages(key, env, agent(), params, games_of(cell), **options)

    def acquisition(key: jax.Array, params: ArrayTree, cell: _Cell) -> jax.Array:
        """Returns a new listener's accuracy in the language of each structure, float `[T]`."""
        speaker, games, taught = agent(), games_of(cell), config.taught
        return language_acquisition(key, env, speaker, params, games, structures=taught).query

    groups = math.ceil(config.evaluation_episodes / config.probe_episodes)
    speaks = env.view == "players"
    measures = Measures(
        games={
            name: Measure(games, (CHANNELS.index(channel), explore), groups)
            for name, (channel, explore) in CONDITIONS.items()
        },
        languages={
            asked: Measure(functools.partial(language, asked))
            for asked in (get_args(Asked) if speaks else ())
        },
        acquisition=Measure(acquisition) if speaks and config.taught else None,
        episode=Measure(episode),
    )
    return Program(
        title=f"Two players in {config.game.env}, {config.method}",
        details={"games": f"{', '.join(cells)}; {config.game.values}"},
        init=lambda key, cell: trainer.init(key, hparams, cell),
        update=trainer.update,
        observations=trainer.observations,
        between=between,
        cells=cells,
        measures=measures,
        host_measures=lambda run: calibrate(config),
        probe=Probe(Measure(games, (CHANNELS.index("episode"), 0.0)), probe_metrics),
        key_metric="query_accuracy",
        more=env,
    )


def calibrate(config: Config) -> dict[Cell, dict[str, RuleAccuracy]]:
    """Accuracies of programs that speak and listen, where there are some."""
    game = config.game
    env = game.make(view="listener", actions="compact")
    can_say = game.stimulus == "scs" and env.num_dims <= env.message_length
    if not can_say or game.num_rounds > 1 or game.listener_speaks:
        return {}
    params = {cell: game.params(env, cell) for cell in game.cells}
    return program_accuracies(config.seed, env, params, config.evaluation_episodes)


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    return run_experiment("meta_rg_players", PRESETS, build, report, argv)
