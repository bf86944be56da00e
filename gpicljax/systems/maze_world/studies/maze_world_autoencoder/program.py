"""The program of the study `maze_world_autoencoder`."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from gpicljax.agents import autoencoder as training
from gpicljax.networks.autoencoder import (
    Standardised,
    autoencoder,
)
from gpicljax.runs.saved_autoencoders import save_autoencoder
from gpicljax.runtime import Measure, Program, RunResult, Sharding, run_config, run_experiment
from gpicljax.systems.maze_world.data.demonstrations import frames, sample_trajectories
from gpicljax.systems.maze_world.data.sequences import FrameBatch, sample_frames
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params
from gpicljax.systems.maze_world.measures.autoencoders import Unseen, measure_views
from gpicljax.systems.maze_world.studies.maze_world_autoencoder.config import PRESETS, Config
from gpicljax.systems.maze_world.studies.maze_world_autoencoder.report import (
    UNSEEN,
    report,
)
from gpicljax.typing import ArrayTree


def sample_views(
    key: jax.Array, env: MazeWorld, params: Params, config: Config, mazes: int, count: int
) -> FrameBatch:
    """Frames in new mazes: from anywhere, or of episodes, at times that are spread evenly."""
    if config.moments == "anywhere":
        return sample_frames(key, env, params, mazes, count)
    episode_key, key = jax.random.split(key)
    settings = config.demonstration
    episodes, tasks = sample_trajectories(episode_key, env, params, mazes, settings)
    stride = settings.length // count
    offsets = jax.random.randint(key, (mazes, 1), 1, stride + 1)
    times = offsets + stride * jnp.arange(count)

    def at(times: jax.Array) -> jax.Array:
        stored_parts = {name: getattr(episodes, name) for name in ("command", "active", "life")}
        piece = episodes._replace(
            pose=jnp.take_along_axis(episodes.pose, times[:, None], 2),
            # None where the mode has no such thing.
            **jax.tree.map(lambda x: jnp.take_along_axis(x, times, 1), stored_parts),
        )
        return jax.vmap(lambda task, episode: frames(env, task, episode))(tasks, piece)

    return FrameBatch(at(times), at(times - 1))


def build(config: Config) -> Program:
    """Wires mazes, autoencoder and trainer together."""
    env, params = config.mazes_and_params()
    model = autoencoder(config.model, env.sides)
    updates = config.updates(config.agent.batch_size * config.frames_per_key)
    hparams = dataclasses.replace(config.hparams, decay_updates=updates)

    def images(keys: jax.Array, params: Params) -> jax.Array:
        def of_key(key: jax.Array) -> jax.Array:
            return sample_views(key, env, params, config, config.mazes, config.frames).after

        drawn = jax.vmap(of_key)(keys)
        return drawn.reshape(-1, *drawn.shape[3:])

    def make(devices: int = 1, axis: str | None = None) -> Any:
        return training.make(
            config.agent,
            model,
            images,
            config.schedules,
            devices,
            axis,
            images_per_key=config.frames_per_key,
        )

    trainer = make()

    def unseen(key: jax.Array, weights: Any, cell: Params) -> Unseen:
        """Results in new mazes: all errors, the latents' statistics, and some frames to show."""
        views = sample_views(
            key, env, cell, config, config.evaluation_mazes, config.evaluation_frames
        )
        return measure_views(model, weights, views, config.part)

    def save(
        folder: Any, cell: ArrayTree, *, params: ArrayTree, evaluation: dict[str, Any], **about: Any
    ):
        """Writes an autoencoder; what was measured of its latents becomes part of it."""
        del cell
        statistics = {name: jnp.asarray(evaluation.pop(name)) for name in ("shift", "scale")}
        whole = Standardised(params, **statistics)
        save_autoencoder(folder, config.model, env.sides, whole, evaluation=evaluation, **about)

    height, width = env.sides
    return Program(
        title=f"autoencoders of mazes, {config.model.kind}, {config.model.latent} latents",
        details={
            "frames": f"{height} x {width}, of mazes of {config.size} x {config.size}",
            "update": f"{config.agent.batch_size * config.frames_per_key} frames of "
            f"{config.agent.batch_size * config.mazes} new mazes",
        },
        init=lambda key, cell: trainer.init(key, hparams, cell),
        update=trainer.update,
        observations=trainer.observations,
        cells={"": params},
        measures={UNSEEN: Measure(unseen)},
        key_metric=training.RECONSTRUCTION,
        save=save,
        sharding=Sharding(
            config.agent.batch_size // config.agent.microbatches,
            lambda devices, axis: make(devices, axis).update,
            trainer.partition,
        ),
    )


def run(config: Config) -> RunResult | None:
    """Runs the experiment with a configuration; returns its outcome (None after a dry run)."""
    return run_config("maze_world_autoencoder", config, build, report)


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns its outcome (None after a dry run)."""
    return run_experiment("maze_world_autoencoder", PRESETS, build, report, argv)
