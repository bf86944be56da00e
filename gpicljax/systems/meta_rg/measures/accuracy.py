"""Accuracy of decisions in episodes that are independent of each other, their decisions not."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gpicljax.checks import check, check_array
from gpicljax.rollout import Record


class PhaseAccuracy(NamedTuple):
    """Accuracy in one phase of B episodes; scalars, NaN where there is nothing to average.

    Attributes:
      by_game: `float[]`, share of all games that were decided correctly (long episodes count more).
      by_episode: `float[]`, mean over episodes of each episode's accuracy.
      by_game_error: `float[]`, standard error of `by_game`, clustered by episode.
      by_episode_error: `float[]`, standard error of `by_episode`.
      games: `int32[]`, number of games.
      episodes: `int32[]`, number of episodes with a game in this phase.
    """

    by_game: jax.Array
    by_episode: jax.Array
    by_game_error: jax.Array
    by_episode_error: jax.Array
    games: jax.Array
    episodes: jax.Array


def phase_accuracy(correct: jax.Array, counts: jax.Array) -> PhaseAccuracy:
    """Accuracy of the games that count, jittable and vmappable (over seeds, say).

    Games of one episode share its task and the agent's memory, so they are not independent: both
    standard errors take the episode as the unit.

    Args:
      correct: `bool[B, G]`, whether game g of episode b was decided correctly.
      counts: `bool[B, G]`, whether that game was played in the phase in question.

    Returns:
      Fractions in JAX's default float type. A phase without games has NaN accuracies, one with a
      single episode NaN errors.
    """
    dtype = jnp.result_type(float)
    games = counts.sum(1, dtype=jnp.int32)
    wins = (correct & counts).sum(1, dtype=jnp.int32).astype(dtype)
    played = games > 0
    episodes, total = played.sum(dtype=jnp.int32), games.sum(dtype=jnp.int32)
    n, weight = episodes.astype(dtype), games.astype(dtype)

    by_game = ratio(wins.sum(), weight.sum())
    share = jnp.where(played, wins / jnp.maximum(weight, 1), 0)
    by_episode = ratio(share.sum(), n)
    # Linearised variance of a ratio of sums: the residual of an episode, not of a game.
    residual = jnp.where(played, wins - by_game * weight, 0)
    deviation = jnp.where(played, share - by_episode, 0)
    by_game_error = jnp.sqrt(ratio(n * (residual**2).sum(), n - 1)) / jnp.maximum(weight.sum(), 1)
    by_episode_error = jnp.sqrt(ratio((deviation**2).sum(), n * (n - 1)))
    return PhaseAccuracy(by_game, by_episode, by_game_error, by_episode_error, total, episodes)


def ratio(a: jax.Array, b: jax.Array) -> jax.Array:
    """`a / b`, NaN unless b > 0."""
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1), jnp.nan)


def checked_games(**arrays: ArrayLike) -> list[jax.Array]:
    """Returns the arrays as `bool[B, G]` of one shape.

    Raises:
      ValueError: if the shapes differ or are not `[B, G]`.
      TypeError: if an array is not boolean; a reward of -2 would otherwise pass for a success.
    """
    checked = []
    for name, value in arrays.items():
        x = jnp.asarray(value)
        if x.dtype != jnp.bool_:
            raise TypeError(f"{name}: got dtype {x.dtype}; accepted: bool")
        check_array(x.ndim == 2, name, x, "bool[B, G], episodes by games")
        checked.append(x)
    shapes = [x.shape for x in checked]
    check(len({*shapes}) == 1, ", ".join(arrays), shapes, "one shape [B, G] for all")
    return checked


def correct_decisions(record: Record) -> jax.Array:
    """Whether a step's decisions were right: `bool[B]`, or `bool[B, R]` of a panel of R agents.

    An agent whose `aux` has `decisions: int32[B, R]` (see `agents.combinators.panel_agent`) is
    judged by those, in a batch built with `privileged=True`, in place of its action: agents whose
    decisions do not change the episode are compared in one pass.
    """
    if "decisions" in record.aux:
        answer = record.timestep.privileged["answer"]
        return record.aux["decisions"] == answer[:, None]
    return record.next_timestep.info["correct"]
