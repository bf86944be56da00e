"""Models that `maze_world` starts from: an autoencoder, trained if need be, and earlier models."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from gpicljax.checks import check_choice, refusal
from gpicljax.networks.autoencoder import (
    Autoencoder,
    AutoencoderSettings,
    autoencoder,
    standardise,
)
from gpicljax.networks.causal_model import AUTOENCODER, MODEL
from gpicljax.runs import load_agent, load_autoencoder
from gpicljax.runs.config import exit_with_error
from gpicljax.runs.config_json import describe_difference, from_json, to_json
from gpicljax.runs.distributed import log_once
from gpicljax.runs.run_directory import IRRELEVANT
from gpicljax.runs.stored_runs import read_run
from gpicljax.runtime import ConfigError, named_key
from gpicljax.runtime.experiment import cell_folder
from gpicljax.systems.maze_world.studies.maze_world.config import Config
from gpicljax.systems.maze_world.studies.maze_world_autoencoder import (
    program as maze_world_autoencoder,
)


def is_saved_model(folder: Path | None) -> bool:
    """Whether `start_from` is a single saved model, such as a shipped one, rather than a run."""
    return folder is not None and (folder / "agent.json").is_file()


def autoencoder_of(
    config: Config, sides: tuple[int, int]
) -> tuple[Autoencoder, AutoencoderSettings, Any]:
    """Returns the autoencoder of pictures of these sides, its settings and its parameters.

    The parameters are random ones where there are none yet, as before a dry run.
    """
    if config.autoencoder is None and is_saved_model(config.start_from):
        assert config.start_from is not None
        loaded = load_agent(config.start_from)
        settings = from_json(AutoencoderSettings, loaded.info["network"]["autoencoder"])
        pictures = standardise(autoencoder(settings, sides))
        return pictures, settings, loaded.params[AUTOENCODER]
    if config.autoencoder is None:
        presets = maze_world_autoencoder.PRESETS
        check_choice("autoencoder_preset", config.autoencoder_preset, presets)
        settings = maze_world_autoencoder.PRESETS[config.autoencoder_preset].model
        pictures = standardise(autoencoder(settings, sides))
        return pictures, settings, pictures.init(named_key(config.seed, "autoencoder"))
    loaded = load_autoencoder(config.autoencoder, sides)
    return loaded.autoencoder, loaded.settings, loaded.params


def with_autoencoder(config: Config) -> Config:
    """The configuration with an autoencoder, which is trained first if it is not there yet."""
    if config.autoencoder is not None or is_saved_model(config.start_from):
        return config
    return dataclasses.replace(config, autoencoder=trained_autoencoder(config))


def trained_autoencoder(config: Config) -> Path:
    """Returns the autoencoder of this run, trained before it if it is not there yet.

    One of the same run with another configuration is refused, or trained anew with `overwrite`.
    """
    preset = maze_world_autoencoder.PRESETS[config.autoencoder_preset]
    own = "seed", "runs_dir", "size", "landmarks", "density", "mode", "actions", "view"
    fields: dict[str, Any] = {name: getattr(config, name) for name in own}
    fields |= {"preset": config.autoencoder_preset, "name": f"for-{config.run_name}"}
    if config.mode == "survival" or config.actions == "continuous":
        fields["moments"] = "episodes"
    target = dataclasses.replace(preset, **fields)
    run = config.runs_dir / "maze_world_autoencoder" / fields["name"]
    stored, folder = read_run(run).config, run / "agents" / "seed_0"
    differences = describe_difference(stored, to_json(target), ignore=IRRELEVANT) if stored else []
    if folder.is_dir() and not differences:
        log_once(f"using the autoencoder in {folder}")
        return folder
    if differences and not config.overwrite:
        differs = f"{run}, which differs (stored -> wanted): " + "; ".join(differences)
        accepted_values = "--overwrite to train it anew, another --name, or --autoencoder FOLDER"
        exit_with_error(ConfigError(refusal("autoencoder", differs, accepted_values)))
    way: dict[str, Any] = {"overwrite": True} if differences else {"requeue": True}
    maze_world_autoencoder.run(dataclasses.replace(target, progress=config.progress, **way))
    return folder


def context_name(steps: int) -> str:
    """Display name of a model with this context length (0: unlimited)."""
    return {0: "full context", 1: "context-free"}.get(steps, f"context of {steps}")


def start_of(config: Config, steps: int) -> Any:
    """Returns the model that one with such a context starts from; None to start anew."""
    if config.start_from is None:
        return None
    if is_saved_model(config.start_from):
        return load_agent(config.start_from).params[MODEL]
    agents = config.start_from / "agents"
    start_context = config.start_context
    contexts = (steps, 0) if start_context is None else (start_context,)
    for name in map(context_name, contexts):
        folder = agents / cell_folder(name) / "seed_0"
        if folder.is_dir():
            return load_agent(folder).params[MODEL]
    accepted_values = "a run of maze_world.py or a saved model"
    raise ConfigError(refusal("start_from", str(config.start_from), accepted_values))
