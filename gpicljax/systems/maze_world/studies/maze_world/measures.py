"""Measures of `maze_world`: models that imitate shown episodes, act and see ahead."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.agents import causal_model
from gpicljax.agents.causal_model import Cooling, Targets, causal_agent, imagined_agent
from gpicljax.agents.combinators import with_memory_reset
from gpicljax.agents.sequence import Sequences
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.networks.autoencoder import Autoencoder
from gpicljax.networks.contract import Network
from gpicljax.networks.policies import Policy
from gpicljax.rollout import RolloutState
from gpicljax.runtime import Measure, named_key
from gpicljax.systems.maze_world.data.demonstrations import MazeTrajectory, sample_trajectories
from gpicljax.systems.maze_world.data.sequences import imitation_batch
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params, Task
from gpicljax.systems.maze_world.measures.world_model import OpenLoopError, open_loop_error
from gpicljax.systems.maze_world.studies.maze_world.config import ACTING, Acting, Config
from gpicljax.systems.maze_world.studies.maze_world.rules import NOISES, Rules
from gpicljax.typing import ArrayTree


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


class Extras(NamedTuple):
    """Parts of the study that the report reads besides measurements.

    Attributes:
      env: the environment.
      rules: the rule-based agents beside the models.
    """

    env: MazeWorld
    rules: Rules

    def without_step_costs(self, rewards: np.ndarray) -> np.ndarray:
        """Returns rewards without the costs of steps."""
        return np.asarray(without_step_costs(self.env, self.env.default_params, rewards))


class Measures(NamedTuple):
    """The measures of every model; `RunResult.measured` has the results in the same places.

    Attributes:
      shown: on episodes of a demonstrator, by its noise: `Imitated`.
      densities: on such episodes in mazes of other densities, by density: `Imitated`.
      acted: by size of the mazes and way of acting: `Acted`.
      wiped: the same of models whose memory is wiped before every step, by size, acting in the
        first of these ways.
      ahead: by length of the context, in pictures: `OpenLoopError`.
    """

    shown: dict[str, Any]
    densities: dict[float, Any]
    acted: dict[tuple[int, str], Any]
    wiped: dict[int, Any]
    ahead: dict[int, Any]


def agrees_with(config: Config, policy: Policy, outputs: jax.Array, label: jax.Array) -> jax.Array:
    """Whether the most probable action is the label, or within a tenth of it in each entry."""
    distribution: Any = policy.distribution(outputs, None)
    best = policy.to_action(distribution.mode())
    if config.actions == "discrete":
        return best == label
    return (jnp.abs(best - label) < 0.1).all(-1)


def imitation_measure(
    config: Config, env: MazeWorld, network: Network
) -> Callable[..., ImitationErrors]:
    """Measures a model on episodes of a demonstrator."""
    policy = config.model.policy(env.action_space())
    every = [
        causal_model.imitation_loss(policy),
        causal_model.latent_loss(),
        causal_model.image_loss(),
    ]
    every += [causal_model.reward_loss()] if config.model.rewards else []

    def imitate(
        key: jax.Array, params: ArrayTree, cell: ArrayTree, episodes: MazeTrajectory, mazes: Task
    ) -> ImitationErrors:
        del key, cell

        def some(episodes: MazeTrajectory, mazes: Task) -> ImitationErrors:
            batch = imitation_batch(env, *jax.tree.map(lambda x: x[None], (episodes, mazes)))
            outputs, _ = network.unroll(params, None, batch.inputs, None)
            sequences = Sequences(batch.inputs, None, Targets(batch.label, batch.counts))
            nats, latent, image, *reward = (loss.at(outputs, sequences)[:, 0] for loss in every)
            agrees = agrees_with(config, policy, outputs.policy[:, 0], batch.label[:, 0])
            return ImitationErrors(nats, agrees, latent, image, *(reward or [None]))

        return jax.lax.map(lambda each: some(*each), (episodes, mazes))

    return imitate


def acting_measure(config: Config, env: MazeWorld, network: Network) -> Callable[..., Acted]:
    """Measures a model's own episodes."""
    policy = config.model.policy(env.action_space())

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
            dataclasses.replace(config.demonstration, length=config.steps),
            actor=with_memory_reset(agent, lambda timestep: forgetful),
            actor_params=params,
            tasks=jax.random.wrap_key_data(mazes),
            generated=tasks,
            noted=lambda aux: aux["policy"],
        )
        distribution: Any = policy.distribution(trajectory.aux, None)
        label = trajectory.label.astype(
            jnp.int32 if config.actions == "discrete" else trajectory.aux.dtype
        )
        nats = -distribution.log_prob(policy.to_sample(label))
        agrees = agrees_with(config, policy, trajectory.aux, trajectory.label)
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
    config: Config, env: MazeWorld, network: Network, pictures: Autoencoder
) -> Callable[..., OpenLoopError]:
    """Measures what a model expects to see next, after `context` pictures."""
    policy = config.model.policy(env.action_space())
    asleep = imagined_agent(network, policy, pictures.latent)

    def measure(
        key: jax.Array, params: ArrayTree, cell: ArrayTree, tasks: Task, context: jax.Array
    ) -> OpenLoopError:
        del cell
        awake = causal_agent(network, policy, cooling=ACTING["drawn"])
        count = config.evaluation_tasks
        vec = single_trial_batch(env, count, config.steps)
        start = RolloutState(*vec.init(key, task=tasks), awake.initial_carry(count))
        errors = open_loop_error(vec, awake, asleep, params, start, context, config.horizon)
        shown = {name: getattr(errors, name)[:4] for name in ("expected", "observed", "last")}
        return errors._replace(**shown)

    return measure


def measures_of(
    config: Config,
    env: MazeWorld,
    network: Network,
    pictures: Autoencoder,
    maze_keys: jax.Array,
    params_of: Callable[..., Params],
) -> tuple[Measures, Rules]:
    """Returns the measures of every model, all on the same mazes, and the rules beside the models.

    Args:
      config: the configuration.
      env: the environment.
      network: the models.
      pictures: their autoencoder.
      maze_keys: keys of the mazes that are trained on where their number is finite.
      params_of: from size and length of an episode, and density, to the distribution.
    """

    def mazes(name: str, count: int) -> np.ndarray:
        keys = jax.random.split(named_key(config.seed, name), count)
        return np.asarray(jax.random.key_data(keys))

    unseen = mazes("unseen mazes", config.evaluation_tasks)
    groups = {
        name: (mazes("unseen mazes", config.sequences), epsilon) for name, epsilon in NOISES.items()
    }
    for count in filter(None, config.tasks):
        trained_on = np.asarray(jax.random.key_data(maze_keys[np.arange(config.sequences) % count]))
        groups[f"the {count:,} mazes of training"] = trained_on, None
    rules = Rules(config, env, unseen, groups, params_of)

    def in_mazes(size: int, *more: Any) -> tuple[Any, ...]:
        """Returns the arguments of a measure: the mazes generated for the rules, and the others."""
        return rules.mazes(size), *more

    imitation, acting = (
        imitation_measure(config, env, network),
        acting_measure(config, env, network),
    )
    prediction = prediction_measure(config, env, network, pictures)

    def act(size: int, name: Acting, forgetful: bool = False) -> Measure:
        cooled = Cooling(*(jnp.asarray(x, jnp.result_type(float)) for x in ACTING[name]))
        arguments = unseen, params_of(size, config.steps), cooled, np.bool_(forgetful)
        return Measure(acting, functools.partial(in_mazes, size, *arguments))

    def imitation_of(name: str, *density: float) -> Measure:
        return Measure(imitation, functools.partial(rules.demonstrations, name, *density))

    measures = Measures(
        shown={name: imitation_of(name) for name in groups},
        densities={x: imitation_of(next(iter(groups)), x) for x in config.evaluation_densities},
        acted={(size, name): act(size, name) for size in config.sizes for name in config.acting},
        wiped={size: act(size, config.acting[0], forgetful=True) for size in config.sizes},
        ahead={
            mark: Measure(prediction, functools.partial(in_mazes, config.size, np.int32(mark)))
            for mark in config.marks
        },
    )
    return measures, rules
