"""The table, the figures and the summary of `maze_world_autoencoder.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpicljax.agents.autoencoder import DIVERGENCE, RECONSTRUCTION
from gpicljax.evaluation.statistics import mean_interval
from gpicljax.evaluation.tables import Row, join_paragraphs, results_table
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.maze_world.figures.reconstructions import reconstruction_figure
from gpicljax.systems.maze_world.measures.autoencoders import Unseen
from gpicljax.viz.style import save_figure

UNSEEN = "unseen mazes"
"""The name of the measure."""


def by_maze(values: np.ndarray) -> str:
    """Returns mean over mazes of one seed, with a t-interval."""
    return mean_interval(values.mean(-1)).format(".5f")


def table(outcome: RunResult, measured: Unseen) -> str:
    """Returns a row for each seed, and one for each null."""
    head = ["", "error, mean over mazes", "share of the mean image's", "latents in use"]
    rows = []
    null = np.asarray(measured.mean_image, np.float64).mean((1, 2))
    for seed in range(outcome.config.seeds):
        error = outcome.seeds(measured.error)[seed]
        used = int((np.asarray(measured.scale[seed]) > 0.1).sum())
        share = f"{error.mean() / null[seed]:.3f}"
        cells = [by_maze(error), share, f"{used} of {measured.scale.shape[-1]}"]
        rows.append(Row("autoencoder", "learner", cells, f"seed {seed}"))
    for name, values in (
        ("frame before", measured.frame_before),
        ("mean image", measured.mean_image),
    ):
        values = np.asarray(values, np.float64)
        share = f"{values[0].mean() / null[0]:.3f}"
        rows.append(Row(name, "rule", [by_maze(values[0]), share]))
    return results_table(head, rows)


def draw(outcome: RunResult, measured: Unseen) -> None:
    """The course of the training, and frames with their reconstructions."""
    for metric, name in ((RECONSTRUCTION, "error with noise"), (DIVERGENCE, "divergence, nats")):
        outcome.draw_learning(metric, metric, xlabel="frames per seed", ylabel=name)
    frames, decoded = outcome.first_sound((measured.frames, measured.decoded))[1]
    sources = [
        (f"maze {i + 1}", frames[i], np.asarray(decoded[i], np.float64)) for i in range(len(frames))
    ]
    title = f"Unseen mazes, {outcome.config.model.latent} latents"
    save_figure(
        reconstruction_figure(sources, title=title), outcome.run.figures / "reconstructions.png"
    )


def report(outcome: RunResult) -> Report:
    """Draws the figures and returns the summary."""
    config, measured = outcome.config, outcome.measured[UNSEEN]
    draw(outcome, measured)
    height, width = measured.frames.shape[-3:-1]
    errors = outcome.seeds(measured.error).mean((1, 2))
    over = ""
    if config.seeds > 1:
        interval = mean_interval(errors)
        over = f"Over {config.seeds} seeds: {interval.mean:.5f} ± {interval.std:.5f}. "
    text = join_paragraphs(
        f"# Autoencoders of mazes, preset {config.preset}",
        f"{config.model.kind.capitalize()}, "
        f"{config.model.latent} latents, frames of {height} x {width}; mazes of "
        f"{config.size} x {config.size}. Mean squared error of pixels in [0, 1] on "
        f"{config.evaluation_frames} frames of each of {config.evaluation_mazes} unseen mazes, "
        "latents without noise: mean [95 % t-interval over mazes].",
        table(outcome, measured),
        f"{over}A latent is in use where its standard deviation over frames is above 0.1.",
        f"Each maze is seen once. {outcome.training_note('frames')}",
    )
    nulls = {"mean image": measured.mean_image, "frame before": measured.frame_before}
    results: dict[str, Any] = {
        "error": errors,
        **{name: np.asarray(x, np.float64).mean((1, 2)) for name, x in nulls.items()},
        "parameters": outcome.parameters,
        "frames_per_s": outcome.speed,
    }
    evaluations = [
        {
            "error": float(errors[seed]),
            "shift": measured.shift[seed],
            "scale": measured.scale[seed],
        }
        for seed in range(config.seeds)
    ]
    return Report(text, results, evaluations)
