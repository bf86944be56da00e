"""Linear probes: what of a maze can be read from a model's activations, and where it is.

What the last picture shows needs no memory, so only walls and landmarks that are out of sight
count. A probe of activations is to be ahead of one of the last picture's latent, on other mazes
than those that it was fitted on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.evaluation.statistics import mean_interval
from gpicljax.evaluation.tables import markdown_table
from gpicljax.networks.contract import Network
from gpicljax.systems.maze_world.data.demonstrations import MazeTrajectory, states_of
from gpicljax.systems.maze_world.data.sequences import imitation_batch
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.motion import DIRECTIONS, quarter_of
from gpicljax.systems.maze_world.env.types import State, Task
from gpicljax.typing import ArrayTree

REACH, EVERY = 3, 4
"""Cells around the agent along each axis, and steps from one sample to the next."""
PENALTIES = (1.0, 10.0, 100.0, 1000.0)
"""Ridge penalties, of which each fit takes the best on a quarter of its mazes."""


class ProbeSamples(NamedTuple):
    """Moments of the second half of episodes; leaves `[..., N, S, *]`.

    Attributes:
      activations: float `[A]`, of the model where it chooses an action.
      latent: float `[Z]`, of the last picture.
      walls: float `[W]`, 1 for a wall in each of the cells around, seen from the agent.
      landmarks: float `[2 L]`, cells that each landmark is ahead of the agent and to its right.
      counts: `bool[W + 2 L]`, what of these is there and out of sight.
    """

    activations: jax.Array
    latent: jax.Array
    walls: jax.Array
    landmarks: jax.Array
    counts: jax.Array


def surroundings(env: MazeWorld, state: State, task: Task) -> tuple[jax.Array, ...]:
    """Returns `walls`, `landmarks` and `counts` of `ProbeSamples` at one moment."""
    cell, quarter = env.cell(state, task), quarter_of(state.heading)
    ahead, right = (jnp.asarray(DIRECTIONS)[(quarter + turn) % 4] for turn in (0, 1))
    offsets = np.arange(-REACH, REACH + 1)
    around = cell + offsets[:, None, None] * ahead + offsets[None, :, None] * right
    x, y = jnp.clip(around.reshape(-1, 2), 0, env.size - 1).T
    seen = env.visible_cells(state, task)
    way = task.landmarks - cell
    exists = task.landmarks[:, 0] >= 0
    at = jnp.maximum(task.landmarks, 0)
    hidden = exists & ~seen[at[:, 0], at[:, 1]]
    landmarks = jnp.stack([way @ ahead, way @ right], axis=-1).reshape(-1)
    counts = jnp.concatenate([~seen[x, y], jnp.repeat(hidden, 2)])
    dtype = state.heading.dtype
    return task.walls[x, y].astype(dtype), landmarks.astype(dtype), counts


def probe_measure(env: MazeWorld, network: Network) -> Callable[..., ProbeSamples]:
    """Collects samples of a model on episodes of a demonstrator."""

    def collect(
        key: jax.Array, params: ArrayTree, cell: ArrayTree, episodes: MazeTrajectory, mazes: Task
    ) -> ProbeSamples:
        del key, cell
        steps = episodes.action.shape[1]
        chosen = np.arange(steps // 2, steps, EVERY)

        def some(episode: MazeTrajectory, task: Task) -> ProbeSamples:
            batch = imitation_batch(env, *jax.tree.map(lambda x: x[None], (episode, task)))
            outputs, _ = network.unroll(params, None, batch.inputs, None)
            states = jax.tree.map(lambda x: x[chosen], states_of(env, task, episode))
            around = jax.vmap(lambda state: surroundings(env, state, task))(states)
            return ProbeSamples(
                outputs.features[chosen, 0], outputs.observed_latent[chosen, 0], *around
            )

        return jax.lax.map(lambda each: some(*each), (episodes, mazes))

    return collect


def probe_errors(
    features: np.ndarray, targets: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns squared errors of linear probes on the second half of the mazes, and of constants.

    Args:
      features: float `[N, S, F]`.
      targets: float `[N, S, K]`.
      counts: `bool[N, S, K]`.

    Returns:
      Float `[N / 2]` each, by maze; NaN for mazes in which nothing counts.
    """
    half = len(features) // 2
    mean, scale = features[:half].mean((0, 1)), features[:half].std((0, 1)) + 1e-6
    one = np.ones((*features.shape[:2], 1))
    inputs = np.concatenate([(features - mean) / scale, one], axis=-1)

    def fit(rows: slice, inputs: np.ndarray, penalty: float) -> np.ndarray:
        x = inputs[rows].reshape(-1, inputs.shape[-1])
        y, weights = (part[rows].reshape(len(x), -1) for part in (targets, counts))
        gram = np.stack([x.T @ (x * weight[:, None]) for weight in weights.T])
        ridge = penalty * np.eye(x.shape[1])
        ridge[-1, -1] = 1e-6  # the constant is free
        return np.linalg.solve(gram + ridge, (x.T @ (y * weights)).T[..., None])[..., 0].T

    def errors(rows: slice, inputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
        square = np.square(inputs[rows] @ weights - targets[rows]) * counts[rows]
        with np.errstate(invalid="ignore"):
            return square.sum((1, 2)) / counts[rows].sum((1, 2))

    first, last = slice(half - half // 4), slice(half - half // 4, half)
    tried = [np.nanmean(errors(last, inputs, fit(first, inputs, p))) for p in PENALTIES]
    best, test = PENALTIES[int(np.argmin(tried))], slice(half, None)
    probe = errors(test, inputs, fit(slice(half), inputs, best))
    return probe, errors(test, one, fit(slice(half), one, 0.0))


def probe_table(by_model: Mapping[str, ProbeSamples]) -> str:
    """Returns errors of probes of each model and of the last picture, on mazes not fitted on.

    Args:
      by_model: leaves `[seeds, N, S, ...]`.
    """
    head = ["read from", "walls out of sight, squared error", "paired, less the last picture's"]
    head += ["landmarks out of sight, squared cells", "paired, less the last picture's"]
    rows: dict[str, list[str]] = {"constants": [], "the last picture": []}
    for kind in ("walls", "landmarks"):
        for model, samples in by_model.items():
            targets = np.asarray(getattr(samples, kind), np.float64)
            width = samples.walls.shape[-1]
            counts = np.asarray(samples.counts)
            counts = counts[..., :width] if kind == "walls" else counts[..., width:]
            found = {}
            for part in ("activations", "latent"):
                features = np.asarray(getattr(samples, part), np.float64)
                seeds = zip(features, targets, counts, strict=True)
                found[part] = np.array([probe_errors(*seed) for seed in seeds]).mean(0)
            probe, constant = found["activations"]
            picture = found["latent"][0]
            if model == next(iter(by_model)):
                rows["constants"] += [f"{np.nanmean(constant):.4f}", ""]
                rows["the last picture"] += [f"{np.nanmean(picture):.4f}", ""]
            lead = mean_interval((probe - picture)[np.isfinite(probe - picture)])
            rows.setdefault(model, []).extend([f"{np.nanmean(probe):.4f}", lead.format("+.4f")])
    return markdown_table(head, [[name, *cells] for name, cells in rows.items()])
