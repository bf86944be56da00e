"""The measures of `maze_world`: every model in the same mazes, and the rules beside them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.agents.causal_model import Cooling
from gpicljax.networks.autoencoder import Autoencoder
from gpicljax.networks.contract import Network
from gpicljax.runtime import Measure, named_key
from gpicljax.systems.maze_world.data.rules import NOISES, Rules
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params
from gpicljax.systems.maze_world.measures.models import (
    acting_measure,
    imitation_measure,
    prediction_measure,
    without_step_costs,
)
from gpicljax.systems.maze_world.measures.probes import probe_measure
from gpicljax.systems.maze_world.studies.maze_world.config import ACTING, Acting, Config


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
      acted_in_seen: as the first of `acted`, in mazes of the training, by the name of their set.
      ahead_in_seen: as the last of `ahead`, likewise.
      probed: on the first kind of episodes of `shown`, by its name: `ProbeSamples`.
    """

    shown: dict[str, Any]
    densities: dict[float, Any]
    acted: dict[tuple[int, str], Any]
    wiped: dict[int, Any]
    ahead: dict[int, Any]
    acted_in_seen: dict[str, Any]
    ahead_in_seen: dict[str, Any]
    probed: dict[str, Any]


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
    seen = {
        f"the {count:,} mazes of training": np.asarray(
            jax.random.key_data(maze_keys[np.arange(config.sequences) % count])
        )
        for count in filter(None, config.tasks)
    }
    groups |= {name: (maze_keys, None) for name, maze_keys in seen.items()}
    settings = dataclasses.replace(config.demonstration, length=config.steps)
    rules = Rules(env, settings, config.sizes, config.rules, config.seed, unseen, groups, params_of)
    policy = config.model.policy(env.action_space())

    def seen_mazes(name: str) -> Any:
        return rules.demonstrations(name, config.size)[1]

    imitation = imitation_measure(env, network, policy, rewards=config.model.rewards)
    probe = probe_measure(env, network)
    acting = acting_measure(env, network, policy, settings)
    prediction = prediction_measure(
        env, network, policy, pictures, steps=config.steps, horizon=config.horizon
    )

    def acting_arguments(size: int, name: Acting, forgetful: bool = False) -> tuple[Any, ...]:
        cooled = Cooling(*(jnp.asarray(x, jnp.result_type(float)) for x in ACTING[name]))
        return params_of(size, config.steps), cooled, np.bool_(forgetful)

    def act(size: int, *how: Any) -> Measure:
        arguments = unseen, *acting_arguments(size, *how)
        return Measure(acting, lambda: (rules.mazes(size), *arguments))

    def act_in_seen(name: str, maze_keys: np.ndarray) -> Measure:
        arguments = maze_keys, *acting_arguments(config.size, config.acting[0])
        return Measure(acting, lambda: (seen_mazes(name), *arguments))

    def look_ahead(mazes: Callable[[], Any], mark: int) -> Measure:
        return Measure(prediction, lambda: (mazes(), np.int32(mark)))

    def imitation_of(name: str, *density: float) -> Measure:
        return Measure(
            imitation, functools.partial(rules.demonstrations, name, config.size, *density)
        )

    measures = Measures(
        shown={name: imitation_of(name) for name in groups},
        densities={x: imitation_of(next(iter(groups)), x) for x in config.evaluation_densities},
        acted={(n, how): act(n, how) for n in config.sizes for how in config.acting},
        wiped={size: act(size, config.acting[0], True) for size in config.sizes},
        ahead={mark: look_ahead(lambda: rules.mazes(config.size), mark) for mark in config.marks},
        acted_in_seen={name: act_in_seen(name, keys) for name, keys in seen.items()},
        ahead_in_seen={
            name: look_ahead(functools.partial(seen_mazes, name), config.marks[-1]) for name in seen
        },
        probed={
            name: Measure(probe, functools.partial(rules.demonstrations, name, config.size))
            for name in (list(groups)[:1] if config.probes else ())
        },
    )
    return measures, rules
