"""The program of the study `maze_world`."""

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
from gpicljax.agents import causal_losses, causal_model, sequence
from gpicljax.agents.causal_model import TeacherCausalModelConfig, VisualCausalModelSettings
from gpicljax.agents.sequence import Loss
from gpicljax.interface import Trainer
from gpicljax.networks.autoencoder import AutoencoderSettings
from gpicljax.networks.causal_model import AUTOENCODER, MODEL, UNLIMITED, WINDOW
from gpicljax.networks.causal_model import causal_model as causal_network
from gpicljax.networks.policies import Policy
from gpicljax.runs import save_agent
from gpicljax.runtime import Program, RunResult, Sharding, named_key, run_experiment
from gpicljax.systems.maze_world.data.demonstrations import MazeTrajectory
from gpicljax.systems.maze_world.data.stored import stored_episodes
from gpicljax.systems.maze_world.data.training import Data, sampler
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params
from gpicljax.systems.maze_world.studies.maze_world.config import PRESETS, Config
from gpicljax.systems.maze_world.studies.maze_world.measures import Extras, measures_of
from gpicljax.systems.maze_world.studies.maze_world.report import report
from gpicljax.systems.maze_world.studies.maze_world.start import (
    autoencoder_of,
    context_name,
    start_of,
    with_autoencoder,
)


class Cell(NamedTuple):
    """The settings in which models that are trained side by side differ.

    Attributes:
      window: `int32[]`, steps that it attends to.
      tasks: `int32[]`, mazes that it is trained on; 0 for a new one in every episode.
      autoencoder: parameters, the same for all.
      model: parameters to start from; None to start anew.
      episodes: stored ones to learn from; None where new ones are made.
    """

    window: Any
    tasks: Any
    autoencoder: Any
    model: Any
    episodes: Any


def losses_of(config: Config, policy: Policy) -> list[Loss]:
    """Returns the losses that weigh something at some time; weights are read from `Data`."""
    early = config.first_weights if config.first_share else config.weights
    kinds: dict[str, Callable[..., Loss]] = {
        "policy": functools.partial(causal_losses.imitation_loss, policy),
        "image": causal_losses.image_loss,
        "latent": causal_losses.latent_loss,
        "reward": causal_losses.reward_loss,
    }
    losses = [
        kind(weight=lambda data, name=name: getattr(data.weights, name))
        for name, kind in kinds.items()
        if getattr(config.weights, name) or getattr(early, name)
    ]
    losses += [causal_losses.sight_loss()] * bool(config.model.plan_sweeps)
    return losses + causal_losses.map_losses(config.model)


def grow_context(config: Config, updates: int, state: sequence.TrainState) -> sequence.TrainState:
    """Returns the state with the context that is in force after its updates, of all `updates`."""
    if not config.growth or config.start_from is not None:
        return state
    share = state.updates / max(config.growth * updates, 1)
    doublings = jnp.floor(share * np.log2(config.demonstration.length / 2))
    reach = jnp.where(share < 1, 2.0 ** (1 + doublings), UNLIMITED).astype(jnp.int32)
    window = jnp.minimum(state.data.window, reach)
    return dataclasses.replace(state, params={**state.params, WINDOW: window})


def cells_of(config: Config, eyes: Any, stored: MazeTrajectory | None) -> dict[str, Cell]:
    """Returns the models by name: every context with every number of mazes."""
    return {
        cell_name(steps, tasks): Cell(
            np.int32(steps or UNLIMITED),
            np.int32(tasks),
            eyes,
            start_of(config, steps),
            stored,
        )
        for steps in config.contexts
        for tasks in config.tasks
    }


def save(
    config: Config,
    autoencoder: AutoencoderSettings,
    env_params: Params,
    folder: Path,
    cell: Cell,
    **about: Any,
) -> None:
    """Writes a model as an agent."""
    del cell
    network = VisualCausalModelSettings(**dataclasses.asdict(config.model), autoencoder=autoencoder)
    save_agent(
        folder,
        algorithm="causal-model",
        env_id="MazeWorld-v0",
        env_options=config.env_options,
        env_params=env_params,
        num_envs=config.agent.batch_size,
        config=TeacherCausalModelConfig(
            **dataclasses.asdict(config.agent),
            length=config.demonstration.length,
            capacity=config.longest,
        ),
        network=network,
        **about,
    )


def build(config: Config) -> Program:
    """Wires mazes, autoencoder, models and trainer together."""
    env = gpicljax.make("MazeWorld-v0", **config.env_options)
    assert isinstance(env, MazeWorld)
    pictures, settings, eyes = autoencoder_of(config, env.sides)
    actions, policy = env.action_space(), config.model.policy(env.action_space())
    part = config.part or None
    network = causal_network(config.model, pictures, actions, config.longest + config.horizon, part)
    updates = config.updates(config.observations_per_update)
    first = round(config.first_share * updates)
    hparams = dataclasses.replace(config.hparams, decay_updates=updates)
    maze_keys = gpicljax.TaskSet.create(named_key(config.seed, "mazes"), max(*config.tasks, 1)).keys

    def params_of(size: int, length: int, density: float = config.density) -> Params:
        return env.make_params(size=size, density=density, num_commands=10_000, horizon=length + 1)

    learnt_on = params_of(config.size, config.demonstration.length)
    stored, distributions = None, ()
    if config.data is not None:
        stored, distributions = stored_episodes(config.data, env, config.demonstration.length)
    sample = sampler(
        env,
        config.demonstration,
        causal_model.causal_agent(network, policy),
        group=config.group,
        student_groups=config.own_groups,
        maze_keys=maze_keys if any(config.tasks) else None,
        distributions=distributions,
        cells=config.model.sights,
    )
    losses = losses_of(config, policy)

    def phase(data: Data, updates: jax.Array) -> Data:
        choose = functools.partial(jnp.where, updates < first)
        weights = jax.tree.map(choose, config.first_weights, data.weights)
        return data._replace(weights=weights if first else data.weights)

    def make(devices: int = 1, axis: str | None = None, several: bool = False) -> Trainer:
        return sequence.make(
            config.agent,
            network,
            sample,
            losses,
            devices,
            axis,
            length=config.demonstration.length,
            phase=phase,
            frozen=(AUTOENCODER, WINDOW),
            prepare=causal_losses.encode_observations(pictures, part),
            several=several,
        )

    trainer = make()

    def init(key: jax.Array, cell: Cell) -> sequence.TrainState:
        weights = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(float)), config.weights)
        data = Data(learnt_on, cell.tasks, cell.window, weights, episodes=cell.episodes)
        state = trainer.init(key, hparams, data)
        model = state.params[MODEL] if cell.model is None else cell.model
        whole = {MODEL: model, AUTOENCODER: cell.autoencoder, WINDOW: cell.window}
        return between(dataclasses.replace(state, params=whole))

    def between(state: sequence.TrainState) -> sequence.TrainState:
        """Prepares the state for the updates until the next log line."""
        state = grow_context(config, updates, state)
        if not config.own_groups:
            return state
        actor = jax.tree.map(jnp.copy, state.params)
        return dataclasses.replace(state, data=state.data._replace(actor=actor))

    # Models that are trained on other mazes see other episodes.
    sharding = Sharding(
        config.agent.batch_size // config.agent.microbatches // config.group,
        lambda devices, axis: make(devices, axis, several=True).update,
        trainer.partition,  # type: ignore[arg-type]
        together=True,
    )
    measures, rules = measures_of(config, env, network, pictures, maze_keys, params_of)
    return Program(
        title=f"{config.model.kind} models of mazes and of a way through them",
        details={
            "mazes": f"{config.size} x {config.size}, {mazes_in_words(config, stored)}",
            "episodes": f"{config.demonstration.length:,} steps",
            "contexts": ", ".join(context_name(steps) for steps in config.contexts),
        },
        init=init,
        update=trainer.update,
        observations=config.observations_per_update if config.train else 0,
        between=between,
        cells=cells_of(config, eyes, stored),
        measures=measures,
        host_measures=lambda run: rules.all(),
        key_metric="policy_loss",
        save=functools.partial(save, config, settings, learnt_on),
        sharding=sharding if config.train and len(config.tasks) == 1 else None,
        more=Extras(env, rules),
    )


def mazes_in_words(config: Config, stored: MazeTrajectory | None) -> str:
    """Describes the mazes of the training in words."""
    if stored is not None:
        return f"{len(stored.length):,} stored episodes"
    return "each seen once" if config.tasks == (0,) else f"{config.tasks} different ones"


def cell_name(steps: int, tasks: int) -> str:
    """Name of a model, from its context and the number of mazes that it is trained on (0: any)."""
    return context_name(steps) + (f", {tasks:,} mazes" if tasks else "")


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    return run_experiment("maze_world", PRESETS, build, report, argv, first=with_autoencoder)
