"""World models and policies of Maze World, learnt from demonstrations: what is context worth?

    python experiments/maze_world.py

trains an autoencoder of what is seen (`maze_autoencoder.py`), then four causal models side by side,
on the same episodes of a privileged agent: one attends to the whole episode, the others to its last
8, 2 and 1 steps. On mazes that none has seen it measures how they imitate and foresee along the
episode, how they do when they act themselves, beside privileged agents and random ones, and how far
ahead they see. `--preset paper-small` is the paper's; `--dry-run` says what it would take here.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from maze_world_measures import Extras, measures_of
from maze_world_settings import PRESETS, Config, Weights
from maze_world_start import (
    autoencoder_of,
    context_name,
    episodes_of,
    start_of,
    trained_autoencoder,
)
from reports.maze_world import report

import gpicljax
from gpicljax.agents import causal_model, sequence
from gpicljax.agents.catalogue import CausalSettings, TaughtCausalConfig
from gpicljax.agents.causal_model import Targets
from gpicljax.agents.sequence import Sequences
from gpicljax.data.maze_world import Lessons, lessons, task_of, trajectories
from gpicljax.envs.maze_world import MazeWorld, Params
from gpicljax.interface import Trainer
from gpicljax.networks.causal_model import AUTOENCODER, MODEL, UNLIMITED, WINDOW
from gpicljax.networks.causal_model import causal_model as causal_network
from gpicljax.runtime import (
    Outcome,
    Program,
    Spread,
    parse,
    run_experiment,
    save_agent,
    stream,
)


class Cell(NamedTuple):
    """What distinguishes models that are trained side by side.

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


class Data(NamedTuple):
    """What training sequences are made from.

    Attributes:
      params: the distribution over mazes.
      tasks: `int32[]`, see `Cell`.
      window: `int32[]`, likewise, once it has grown.
      weights: of the losses.
      actor: parameters of the model as it was at the last log line, where it plays episodes; None
        before there is one.
      episodes: see `Cell`.
    """

    params: Params
    tasks: jax.Array
    window: jax.Array
    weights: Weights
    actor: Any = None
    episodes: Any = None


def build(config: Config) -> Program:
    """Wires mazes, autoencoder, models and trainer together."""
    env = gpicljax.make("MazeWorld-v0", **config.env_options)
    assert isinstance(env, MazeWorld)
    pictures, settings, eyes = autoencoder_of(config)
    actions, policy = env.action_space(), config.model.policy(env.action_space())
    longest, part = max(config.demonstration.length, config.steps), config.part or None
    network = causal_network(config.model, pictures, actions, longest + config.horizon, part)
    updates = config.updates(config.observations_per_update)
    first = round(config.first_share * updates)
    hparams = dataclasses.replace(config.hparams, decay_updates=updates)
    known = gpicljax.TaskSet.create(stream(config.seed, "mazes"), max(*config.tasks, 1)).keys

    def params_of(size: int, length: int, density: float = config.density) -> Params:
        return env.make_params(size=size, density=density, num_commands=10_000, horizon=length + 1)

    learnt_on = params_of(config.size, config.demonstration.length)

    student = causal_model.causal_agent(network, policy)
    stored, distributions = episodes_of(config, env)

    def group(key: jax.Array, data: Data, own: bool = False) -> Lessons:
        if data.episodes is not None:
            which = jax.random.randint(key, (config.group,), 0, len(data.episodes.length))
            taken = jax.tree.map(lambda x: x[which], data.episodes)
            return lessons(env, taken, jax.vmap(lambda e: task_of(env, distributions, e))(taken))
        key, task_key = jax.random.split(key)
        mazes = jax.random.split(task_key, config.group)
        if any(config.tasks):
            which = jax.random.randint(key, mazes.shape, 0, jnp.maximum(data.tasks, 1))
            mazes = jnp.where(data.tasks > 0, known[which], mazes)
        made = trajectories(
            key,
            env,
            data.params,
            len(mazes),
            config.demonstration,
            actor=student if own and data.actor is not None else None,
            actor_params=data.actor if own else None,
            tasks=mazes,
        )
        return lessons(env, *made)

    def sample(keys: jax.Array, data: Data) -> Sequences:
        first, own = keys[:: config.group], config.own_groups
        if len(first) == 1:
            seen = group(first[0], data, own == 1)
        else:
            parts = [
                jax.vmap(functools.partial(group, own=played), (0, None), out_axes=1)(some, data)
                for some, played in ((first[:own], True), (first[own:], False))
                if len(some)
            ]
            parts = jax.tree.map(lambda x: x.reshape(len(x), -1, *x.shape[3:]), parts)
            seen = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *parts)
        return Sequences(seen.inputs, None, Targets(seen.label, seen.counts))

    def phase(data: Data, updates: jax.Array) -> Data:
        early = updates < first
        weights = jax.tree.map(
            lambda now, then: jnp.where(early, then, now), data.weights, config.first_weights
        )
        return data._replace(weights=weights if first else data.weights)

    losses = [
        kind(weight=lambda data, name=name: getattr(data.weights, name))
        for name, kind in (
            ("policy", lambda weight: causal_model.imitation_loss(policy, weight=weight)),
            ("image", causal_model.image_loss),
            ("latent", causal_model.latent_loss),
            ("reward", causal_model.reward_loss),
        )
        if getattr(config.weights, name) or (first and getattr(config.first_weights, name))
    ]

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
            prepare=causal_model.encoded(pictures, part),
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
        """What holds until the next log line."""
        state = grown(state)
        if not config.own_groups:
            return state
        actor = jax.tree.map(jnp.copy, state.params)
        return dataclasses.replace(state, data=state.data._replace(actor=actor))

    def grown(state: sequence.TrainState) -> sequence.TrainState:
        """The contexts in force after so many updates."""
        if not config.growth or config.start_from is not None:
            return state
        share = state.updates / max(config.growth * updates, 1)
        doublings = jnp.floor(share * np.log2(config.demonstration.length / 2))
        reach = jnp.where(share < 1, 2.0 ** (1 + doublings), UNLIMITED).astype(jnp.int32)
        window = jnp.minimum(state.data.window, reach)
        return dataclasses.replace(state, params={**state.params, WINDOW: window})

    mazes = "each seen once" if config.tasks == (0,) else f"{config.tasks} different ones"
    if stored is not None:
        mazes = f"{len(stored.length):,} stored episodes"
    measured = measures_of(config, env, network, pictures, known, params_of)

    return Program(
        title=f"{config.model.kind} models of mazes and of a way through them",
        details={
            "mazes": f"{config.size} x {config.size}, " + mazes,
            "episodes": f"{config.demonstration.length:,} steps",
            "contexts": ", ".join(context_name(steps) for steps in config.contexts),
        },
        init=init,
        update=trainer.update,
        observations=config.observations_per_update if config.train else 0,
        between=between,
        cells={
            cell_name(steps, tasks): Cell(
                np.int32(steps or UNLIMITED),
                np.int32(tasks),
                eyes,
                start_of(config, steps),
                stored,
            )
            for steps in config.contexts
            for tasks in config.tasks
        },
        measures=measured.measures,
        baselines=measured.rules.all,
        key_metric="policy_loss",
        save=lambda folder, cell, **about: save_agent(
            folder,
            algorithm="causal-model",
            env_id="MazeWorld-v0",
            env_options=config.env_options,
            env_params=learnt_on,
            num_envs=config.agent.batch_size,
            config=TaughtCausalConfig(
                **dataclasses.asdict(config.agent),
                length=config.demonstration.length,
                capacity=longest,
            ),
            network=CausalSettings(**dataclasses.asdict(config.model), autoencoder=settings),
            **about,
        ),
        # Models that are trained on other mazes see other episodes.
        spread=Spread(
            config.agent.batch_size // config.agent.microbatches // config.group,
            lambda devices, axis: make(devices, axis, several=True).update,
            trainer.partition,  # type: ignore[arg-type]
            together=True,
        )
        if config.train and len(config.tasks) == 1
        else None,
        more=Extras(env, measured.rules),
    )


def cell_name(steps: int, tasks: int) -> str:
    """Of a model by its context and the number of mazes that it is trained on, 0 for any."""
    return context_name(steps) + (f", {tasks:,} mazes" if tasks else "")


def main(argv: list[str] | None = None) -> Outcome | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    config = parse(PRESETS, argv, prog="maze_world.py")
    argv = list(sys.argv[1:] if argv is None else argv)
    if config.autoencoder is None and not config.dry_run:
        argv += ["--autoencoder", str(trained_autoencoder(config))]
    return run_experiment("maze_world", PRESETS, build, report, argv)


if __name__ == "__main__":
    main()
