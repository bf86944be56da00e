"""Figures of pictures above what an autoencoder makes of them, or what a model expected."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpicljax.checks import check, check_array
from gpicljax.evaluation.icl import icl_curve
from gpicljax.systems.maze_world.measures.world_model import MAP_AHEAD, NULLS_AHEAD, OpenLoopError
from gpicljax.viz.curves import icl_figure
from gpicljax.viz.pictures import picture_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reconstruction_figure(
    sources: Sequence[tuple[str, NDArray[np.uint8], NDArray[np.floating]]],
    *,
    title: str | None = None,
) -> Figure:
    """Two rows for each source of pictures: the pictures, and what has been made of them.

    Below every reconstruction stands its mean squared error, of pixels in [0, 1].

    Args:
      sources: each a name, pictures `uint8[N, H, W, 3]` and reconstructions `float[N, H, W, 3]` in
        [0, 1].
      title: title, or none.

    Returns:
      A matplotlib figure with an axis per picture.

    Raises:
      ValueError: if there are no sources, or shapes and dtypes are others.
    """
    check(sources, "sources", list(sources), "one or more")
    rows = []
    for name, pictures, decoded in sources:
        fits = pictures.dtype == np.uint8 and pictures.ndim == 4 and len(pictures)
        check_array(fits, f"sources, {name!r}", pictures, "uint8[N, H, W, 3]")
        fits = decoded.dtype.kind == "f" and decoded.shape == pictures.shape
        accepted_values = f"float{[*pictures.shape]}"
        check_array(fits, f"sources, {name!r}, reconstructions", decoded, accepted_values)
        errors = np.square(decoded - pictures / 255.0).mean((1, 2, 3))
        bytes_again = np.round(255 * np.clip(decoded, 0, 1)).astype(np.uint8)
        rows.append((name, [("", picture) for picture in pictures]))
        captions = [f"{error:.4f}" for error in errors]
        rows.append(("reconstructed", list(zip(captions, bytes_again, strict=True))))
    return picture_grid(rows, title=title, width=1.0)


def foresight_figure(foresight: Mapping[int, OpenLoopError], model: str) -> Figure:
    """Draws what came and what a model expected, by the length of the context (Figure 18).

    Args:
      foresight: of one seed, by the pictures of context; leaves `[B, K, ...]`.
      model: its name.
    """
    rows = []
    for mark, ahead in foresight.items():
        last = ("", ahead.last[0])
        rows.append((f"after {mark}", [last, *(("", frame) for frame in ahead.observed[0])]))
        errors = zip(ahead.error[0], ahead.expected[0], strict=True)
        rows.append(("expected", [last, *((f"{e:.3f}", frame) for e, frame in errors)]))
    return picture_grid(rows, title=f"What comes, and what is expected blind: {model}", width=0.8)


def foresight_error_figure(ahead: Mapping[int, Mapping[str, OpenLoopError]], k: int) -> Figure:
    """Draws the errors k steps ahead by the length of the context (Figure 9).

    Guesses that need no model stand beside the models, on the first model's way.

    Args:
      ahead: by pictures of context and name of the model; leaves `[S, B, K, ...]`.
      k: steps ahead, at most K.
    """
    models = list(next(iter(ahead.values())))
    parts = {model: (model, "error") for model in models}
    parts |= {name: (models[0], part) for name, part in (NULLS_AHEAD | MAP_AHEAD).items()}
    curves = {}
    for name, (model, part) in parts.items():
        errors = [getattr(by_model[model], part)[..., k - 1] for by_model in ahead.values()]
        values = np.stack([x.reshape(-1) for x in errors], axis=1).astype(np.float64)
        curves[name] = dataclasses.replace(icl_curve(values), position=np.asarray([*ahead], float))
    return icl_figure(
        curves,
        xlabel="pictures of context",
        ylabel="mean squared error",
        log=True,
        title=f"Expecting the picture {k} step{'s' if k > 1 else ''} ahead",
    )
