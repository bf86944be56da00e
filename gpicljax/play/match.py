"""Matches: an environment as it is played and watched, with its players and its drawing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.environment import NO_LIMIT, Environment
from gpicljax.evaluation.returns import Episode, record_episode
from gpicljax.interface import Agent, TimeStep
from gpicljax.play.drawing import Draw, draw_episode
from gpicljax.registration import import_module
from gpicljax.typing import ArrayTree

MOST_STEPS = 2_000
"""Steps of an episode that is watched, where the environment sets no limit below."""


class Player(NamedTuple):
    """An agent with its parameters; () for a program.

    Attributes:
      agent: the agent.
      params: its parameters.
      attention: the attention of its network to its past, see `networks.contract.Network`; None
        where there is none.
    """

    agent: Agent
    params: ArrayTree = ()
    attention: Callable[..., jax.Array] | None = None


class Match(NamedTuple):
    """An environment as it is played by hand and watched.

    Attributes:
      env: the environment; where agents learn over several episodes, a whole trial of it.
      params: the distribution over tasks.
      draw: draws an episode.
      program: the best program that needs no training; None where there is none.
      program_name: its name.
      shipped: name of the shipped agent that plays in it; empty where there is none.
      skip: the action of a state in which there is nothing to choose, which a person need not press
        a key for; None where there is.
      rules: what a person is to do, in a sentence or two.
      forgets: `TimeStep -> bool[B]`, where the memory of an agent is wiped to show what it is for.
    """

    env: Environment
    params: Any
    draw: Draw = draw_episode
    program: Player | None = None
    program_name: str = "program"
    shipped: str = ""
    forgets: Callable[[TimeStep], jax.Array] = lambda timestep: jnp.ones_like(timestep.trial_start)
    skip: Callable[[Any], int | None] = lambda state: None
    rules: str = ""


def find_match(env: Environment, params: ArrayTree = None) -> Match:
    """Returns how an environment is played and watched: as `Environment.match` says, or plainly.

    Example:
      >>> import gpicljax
      >>> find_match(gpicljax.make("MountainCar-v0")).shipped
      ''
    """
    params = env.default_params if params is None else params
    if env.match is None:
        return Match(env, params)
    module, _, function = env.match.partition(":")
    return getattr(import_module(module, "match", env.match), function)(env, params)


def watch_episode(match: Match, player: Player, seed: int = 0) -> Episode:
    """Returns an episode of a player, arrays on the host; the same seed gives the same episode."""
    horizon = int(match.env.horizon(match.params))
    steps = MOST_STEPS if horizon == NO_LIMIT else min(horizon, MOST_STEPS)

    @jax.jit
    def record(key: jax.Array, params: ArrayTree, env_params: ArrayTree) -> Episode:
        settings = {"max_steps": steps, "env_params": env_params, "privileged": True}
        return record_episode(key, match.env, player.agent, params, **settings)

    return jax.device_get(record(jax.random.key(seed), player.params, match.params))
