"""Measures of models: how they imitate shown episodes, act and see ahead."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.agents import causal_losses
from gpicljax.agents.causal_losses import Targets
from gpicljax.agents.causal_model import Cooling, causal_agent, imagined_agent
from gpicljax.agents.combinators import with_memory_reset
from gpicljax.agents.sequence import Sequences
from gpicljax.evaluation.icl import ICLCurve, icl_curve, log_bins
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.evaluation.statistics import format_interval, mean_interval, ratio_interval
from gpicljax.evaluation.tables import interval_table, markdown_table
from gpicljax.networks.autoencoder import Autoencoder
from gpicljax.networks.contract import Network
from gpicljax.networks.policies import Policy
from gpicljax.rollout import RolloutState
from gpicljax.systems.maze_world.data.demonstrations import (
    Demonstration,
    MazeTrajectory,
    sample_trajectories,
)
from gpicljax.systems.maze_world.data.sequences import imitation_batch
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params, State, Task
from gpicljax.systems.maze_world.measures.world_model import OpenLoopError, open_loop_error
from gpicljax.typing import ArrayTree

FULL = "full context"
"""Name of the models that attend to all steps."""


def pose_index(env: MazeWorld, state: State, task: Task) -> jax.Array:
    """Returns the number of a cell and heading, `int32[]`, below 4 N^2; headings in quarters."""
    x, y = env.cell(state, task)
    quarter = jnp.round(state.heading / (np.pi / 2)).astype(jnp.int32) % 4
    return (x * env.size + y) * 4 + quarter


def without_step_costs(env: MazeWorld, params: Params, rewards: jax.Array | np.ndarray) -> Any:
    """Returns rewards without the costs of steps: in navigation, those of arrivals."""
    return rewards if env.survival else rewards - params.step_reward


class ImitationErrors(NamedTuple):
    """Errors of a model on episodes of a demonstrator; leaves `[N, T]`.

    Attributes:
      policy: nats of the teacher's action, L_pm.
      agrees: whether its most probable action is the teacher's.
      latent: L_z.
      image: L_wm.
      reward: squared error of the reward, where it is predicted.
    """

    policy: jax.Array
    agrees: jax.Array
    latent: jax.Array
    image: jax.Array
    reward: jax.Array | None


class Acted(NamedTuple):
    """Episodes that a model acted; leaves `[N, T]`.

    Attributes:
      reward: float; of navigation only that of arrivals.
      policy: nats of the teacher's action.
      agrees: whether its most probable action is the teacher's.
      pose: `uint8[N, 3, T + 1]`.
      action: what was done,
      label: what the teacher would have done.
      command: `uint8[N, T + 1]` (navigation).
    """

    reward: jax.Array
    policy: jax.Array
    agrees: jax.Array
    pose: jax.Array
    action: jax.Array
    label: jax.Array
    command: jax.Array | None


def agrees_with(env: MazeWorld, policy: Policy, outputs: jax.Array, label: jax.Array) -> jax.Array:
    """Whether the most probable action is the label, or within a tenth of it in each entry."""
    distribution: Any = policy.distribution(outputs, None)
    best = policy.to_action(distribution.mode())
    if env.actions == "discrete":
        return best == label
    return (jnp.abs(best - label) < 0.1).all(-1)


def imitation_measure(
    env: MazeWorld, network: Network, policy: Policy, *, rewards: bool
) -> Callable[..., ImitationErrors]:
    """Measures a model on episodes of a demonstrator; its rewards, if it predicts them."""
    every = [
        causal_losses.imitation_loss(policy),
        causal_losses.latent_loss(),
        causal_losses.image_loss(),
    ]
    every += [causal_losses.reward_loss()] if rewards else []

    def imitate(
        key: jax.Array, params: ArrayTree, cell: ArrayTree, episodes: MazeTrajectory, mazes: Task
    ) -> ImitationErrors:
        del key, cell

        def some(episodes: MazeTrajectory, mazes: Task) -> ImitationErrors:
            batch = imitation_batch(env, *jax.tree.map(lambda x: x[None], (episodes, mazes)))
            outputs, _ = network.unroll(params, None, batch.inputs, None)
            sequences = Sequences(batch.inputs, None, Targets(batch.label, batch.counts))
            nats, latent, image, *reward = (loss.at(outputs, sequences)[:, 0] for loss in every)
            agrees = agrees_with(env, policy, outputs.policy[:, 0], batch.label[:, 0])
            return ImitationErrors(nats, agrees, latent, image, *(reward or [None]))

        return jax.lax.map(lambda each: some(*each), (episodes, mazes))

    return imitate


def acting_measure(
    env: MazeWorld, network: Network, policy: Policy, settings: Demonstration
) -> Callable[..., Acted]:
    """Measures a model's own episodes."""

    def measure(
        key: jax.Array,
        params: ArrayTree,
        cell: ArrayTree,
        tasks: Task,
        mazes: jax.Array,
        env_params: Params,
        cooling: Cooling,
        forgetful: jax.Array,
    ) -> Acted:
        del cell
        agent = causal_agent(network, policy, cooling=cooling)
        trajectory, _ = sample_trajectories(
            key,
            env,
            env_params,
            len(mazes),
            settings,
            actor=with_memory_reset(agent, lambda timestep: forgetful),
            actor_params=params,
            tasks=jax.random.wrap_key_data(mazes),
            generated=tasks,
            noted=lambda aux: aux["policy"],
        )
        distribution: Any = policy.distribution(trajectory.aux, None)
        label = trajectory.label.astype(
            jnp.int32 if env.actions == "discrete" else trajectory.aux.dtype
        )
        nats = -distribution.log_prob(policy.to_sample(label))
        agrees = agrees_with(env, policy, trajectory.aux, trajectory.label)
        earnings = without_step_costs(env, env_params, trajectory.reward)
        return Acted(
            earnings,
            nats,
            agrees,
            trajectory.pose,
            trajectory.action,
            trajectory.label,
            trajectory.command,
        )

    return measure


def prediction_measure(
    env: MazeWorld,
    network: Network,
    policy: Policy,
    pictures: Autoencoder,
    *,
    steps: int,
    horizon: int,
) -> Callable[..., OpenLoopError]:
    """Measures what a model expects to see next, after `context` pictures."""
    asleep = imagined_agent(network, policy, pictures.latent)

    def measure(
        key: jax.Array, params: ArrayTree, cell: ArrayTree, tasks: Task, context: jax.Array
    ) -> OpenLoopError:
        del cell
        awake, count = causal_agent(network, policy), len(tasks.walls)
        vec = single_trial_batch(env, count, steps)
        start = RolloutState(*vec.init(key, task=tasks), awake.initial_carry(count))
        inputs = vec, awake, asleep, params, start, context, horizon
        errors = open_loop_error(*inputs, functools.partial(pose_index, env), 4 * env.size**2)
        shown = {name: getattr(errors, name)[:4] for name in ("expected", "observed", "last")}
        return errors._replace(**shown)

    return measure


def last_quarter(values: np.ndarray) -> np.ndarray:
    """Returns the mean over the last quarter of each maze's episode, all seeds together: `[N]`."""
    steps = values.shape[-1]
    return values[..., -(steps // 4) :].astype(np.float64).mean((0, -1))


def late_means(measured: ImitationErrors) -> dict[str, float]:
    """Returns the means over the last quarter, by part."""
    parts = measured._asdict().items()
    return {part: float(last_quarter(np.asarray(x)).mean()) for part, x in parts if x is not None}


def quarter_means(values: np.ndarray) -> str:
    """Means by quarter of the episode."""
    means = [x.mean() for x in np.array_split(values.astype(np.float64), 4, axis=-1)]
    return " ".join(f"{x:.3f}" for x in means)


def quarter_differences(values: np.ndarray, others: np.ndarray) -> str:
    """Differences by quarter of the same episodes, with the half-widths of 95 % intervals."""
    quarters = np.array_split((values - others).astype(np.float64), 4, axis=-1)
    means = [mean_interval(x.mean(-1).reshape(-1, x.shape[-2]).mean(0)) for x in quarters]
    return " ".join(f"{x.mean:+.3f} ± {x.high - x.mean:.3f}" for x in means)


def format_comparison(numerator: np.ndarray, denominator: np.ndarray, difference: bool) -> str:
    """Formats the ratio of two means over the same episodes, or their difference, with an
    interval.
    """
    if not difference:
        return format_interval(*ratio_interval(numerator, denominator), ".3f")
    return mean_interval(np.asarray(numerator, np.float64) - denominator).format("+.3f")


def imitation_table(by_model: Mapping[str, Any], difference: bool) -> str:
    """Returns the table of how models imitate and foresee along a demonstrator's episodes.

    Args:
      by_model: leaves `[S, N, T]`; the model `FULL` is compared with the others, if there is one.
      difference: whether nats are compared by differences; else by ratios.
    """
    operator = "-" if difference else "/"
    head = ["model", "L_pm by quarter", "agrees, %", "L_wm", "L_z", f"full L_pm {operator} this"]
    head += ["full L_wm / this", "full L_z / this", "full L_pm - this, by quarter"]
    rows = []
    for model, measured in by_model.items():
        comparisons = [""] * 4
        if model != FULL and FULL in by_model:
            comparisons = [
                format_comparison(
                    last_quarter(getattr(by_model[FULL], part)),
                    last_quarter(getattr(measured, part)),
                    difference=difference and part == "policy",
                )
                for part in ("policy", "image", "latent")
            ]
            comparisons.append(quarter_differences(by_model[FULL].policy, measured.policy))
        rows.append(
            [
                model,
                quarter_means(measured.policy),
                f"{100 * last_quarter(measured.agrees).mean():.1f}",
                f"{last_quarter(measured.image).mean():.4f}",
                f"{last_quarter(measured.latent).mean():.3f}",
                *comparisons,
            ]
        )
    return markdown_table(head, rows)


def density_table(densities: Mapping[float, Mapping[str, Any]], difference: bool) -> str:
    """Returns the table of what context is worth in mazes of other densities (appendix A.7).

    Args:
      densities: by density and model, of which one is `FULL`; leaves `[S, N, T]`.
      difference: see `imitation_table`.
    """
    shorter_models = [model for model in next(iter(densities.values())) if model != FULL]
    operator = "-" if difference else "/"
    ratios = (f"full {operator} {model}" for model in shorter_models)
    rows = []
    for density, by_model in sorted(densities.items()):
        nats = {model: last_quarter(measured.policy) for model, measured in by_model.items()}
        cells = [f"{nats[model].mean():.3f}" for model in (FULL, *shorter_models)]
        cells += [format_comparison(nats[FULL], nats[x], difference) for x in shorter_models]
        rows.append([density, *cells])
    return markdown_table(["density", FULL, *shorter_models, *ratios], rows)


def seen_tables(
    acted: Mapping[str, Mapping[str, Acted]],
    ahead: Mapping[str, Mapping[str, OpenLoopError]],
    horizon: int,
) -> list[str]:
    """Returns the tables of acting and looking ahead in seen and unseen mazes (Figure 11).

    Args:
      acted: by mazes and model; leaves `[S, N, ...]`.
      ahead: likewise, at least `horizon` steps.
      horizon: the step that is shown.
    """
    models = list(next(iter(acted.values())))
    rewards = {x: [y[x].reward.sum(-1).reshape(-1) for y in acted.values()] for x in models}
    errors = {x: [y[x].error[..., horizon - 1].reshape(-1) for y in ahead.values()] for x in models}
    return [
        "Rewards of whole episodes:",
        interval_table(["model", *acted], rewards, lambda x: x.format(".2f")),
        f"Mean squared error {horizon} steps ahead, blind:",
        interval_table(["model", *ahead], errors, lambda x: x.format(".4f")),
    ]


def curves_of(by_model: Mapping[str, Any], part: str) -> dict[str, ICLCurve]:
    """Returns a measure by step of the episode, means over bins that grow."""
    curves = {}
    for model, measured in by_model.items():
        values = getattr(measured, part).astype(np.float64)
        steps = values.shape[-1]
        # Nothing is expected before the first picture.
        values = values.reshape(-1, steps)[:, 0 if part == "policy" else 1 :]
        curves[model] = icl_curve(values, bins=log_bins(values.shape[1], 24))
    return curves
