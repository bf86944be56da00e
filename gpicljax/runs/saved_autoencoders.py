"""Trained autoencoders on disk: settings, resolution, weights and their latents' statistics.

A folder holds `autoencoder.json` and `params.npz`, as that of an agent (`runtime.saved_agents`),
and is as safe against damage and interruption.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from gpicljax.checks import check
from gpicljax.networks.autoencoder import (
    Autoencoder,
    AutoencoderSettings,
    Standardised,
    autoencoder,
    standardise,
)
from gpicljax.runs.config_json import from_json, to_json
from gpicljax.storage.array_folder import (
    SavedError,
    name_leaves,
    read_folder,
    restore,
    write_folder,
)

FORMAT = 1
CARD = "autoencoder.json"


class LoadedAutoencoder(NamedTuple):
    """An autoencoder from disk.

    Attributes:
      settings: its kind and size.
      autoencoder: its functions, over `params`: latents are standardised.
      params: its parameters, with the statistics of its latents.
      info: the whole of `autoencoder.json`.
    """

    settings: AutoencoderSettings
    autoencoder: Autoencoder
    params: Standardised
    info: dict[str, Any]


def save_autoencoder(
    folder: str | Path,
    settings: AutoencoderSettings,
    resolution: tuple[int, int],
    params: Standardised,
    **about: Any,
) -> None:
    """Writes an autoencoder so that `load_autoencoder` needs nothing but the folder.

    Args:
      folder: made if absent; an autoencoder in it is replaced.
      settings: its kind and size.
      resolution: H and W of its pictures.
      params: its parameters and the statistics of its latents, on the host or one device.
      **about: whatever else a reader should know (evaluation, provenance, ...), for JSON.

    Raises:
      OSError: if a file cannot be written.
      ValueError: if `params` are not its own.
    """
    expected, shapes = jax.tree.map(np.shape, _like(settings, resolution)), None
    if isinstance(params, Standardised):
        shapes = jax.tree.map(np.shape, params)
    fits = shapes == expected
    accepted_values = "the standardised parameters of this autoencoder"
    check(fits, "params", "others" if shapes else type(params).__name__, accepted_values)
    card = {
        "format": FORMAT,
        "autoencoder": to_json(settings),
        "resolution": list(resolution),
        "parameters": sum(np.size(leaf) for leaf in jax.tree.leaves(params.network)),
        **about,
    }
    write_folder(Path(folder), CARD, card, name_leaves("params", params))


def load_autoencoder(
    folder: str | Path,
    resolution: tuple[int, int] | None = None,
    settings: AutoencoderSettings | None = None,
) -> LoadedAutoencoder:
    """Reads an autoencoder.

    Args:
      folder: what `save_autoencoder` wrote.
      resolution: that it is expected to have; any if None.
      settings: those that it is expected to have; any if None.

    Raises:
      SavedError: if a file is missing, damaged or of a later version, or if the autoencoder is
        another one than expected.
      ValueError: for what is no path.

    Example:
      >>> load_autoencoder("runs/maze_world_autoencoder/quick/agents/seed_1000")
      Traceback (most recent call last):
      gpicljax.storage.array_folder.SavedError: ... holds no saved autoencoder: ... is missing
    """
    check(isinstance(folder, str | PathLike), "folder", folder, "the path of a saved autoencoder")
    folder = Path(folder)
    card, arrays = read_folder(folder, CARD, FORMAT, "saved autoencoder")
    try:
        saved_settings = from_json(AutoencoderSettings, card["autoencoder"])
        height, width = card["resolution"]
        bundle, like = (
            autoencoder(saved_settings, (height, width)),
            _like(saved_settings, (height, width)),
        )
    except Exception as error:  # a card may say anything, and break anything
        raise SavedError(f"{folder / CARD}: {error}") from error
    if resolution is not None and tuple(resolution) != bundle.resolution:
        raise SavedError(
            f"{folder} is a saved autoencoder of pictures of {height} x {width}, "
            f"not {' x '.join(map(str, resolution))}"
        )
    if settings is not None and settings != saved_settings:
        raise SavedError(f"{folder} is another saved autoencoder: {saved_settings}, not {settings}")
    params = restore(folder, arrays, "params", like)
    return LoadedAutoencoder(saved_settings, standardise(bundle), params, card)


def _like(settings: AutoencoderSettings, resolution: tuple[int, int]) -> Any:
    """Returns the shapes and dtypes of standardised parameters."""
    init = standardise(autoencoder(settings, resolution)).init
    return jax.eval_shape(init, jax.random.key(0))
