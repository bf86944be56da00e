"""Playing whole episodes and recording them game by game."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.rollout import Agent, RolloutState, start_rollout
from gpicljax.vector import VectorEnv


class Games(NamedTuple):
    """Decided games of one episode per instance, indexed by position within the episode.

    Attributes:
      valid: `bool[B, G]`, the game was played.
      correct: `bool[B, G]`.
      query: `bool[B, G]`, it belongs to the query phase.
    """

    valid: jax.Array
    correct: jax.Array
    query: jax.Array


def play_games(
    key: jax.Array,
    vec: VectorEnv,
    agent: Agent,
    params: Any,
    *,
    max_games: int,
    max_steps: int,
    forget_at_round: int | None = None,
) -> Games:
    """Plays one episode per instance and records each game's outcome.

    The agent finds `env.privileged` in `timestep.info["privileged"]`: rules that bound what can be
    known read it; learners must not. The environment's `info` has `decided`, `correct`, `query` (`bool[]`) and `game` (`int32[]`).

    Args:
      key: a typed key.
      vec: the batch of environments.
      agent: the agent.
      params: its parameters.
      max_games: G.
      max_steps: longest episode; the loop ends when all episodes have.
      forget_at_round: clear the agent's memory wherever the observation's `round` is this: an
        ablation of what it carries from game to game.

    Returns:
      The games.
    """
    start_key, key = jax.random.split(key)
    state = start_rollout(start_key, vec, agent)
    blank = jnp.zeros((vec.num_envs, max_games), bool)
    instances = jnp.arange(vec.num_envs)

    def unfinished(loop: tuple[jax.Array, RolloutState, jax.Array, Games]) -> jax.Array:
        time, _, alive, _ = loop
        return alive.any() & (time < max_steps)

    def body(loop: tuple[jax.Array, RolloutState, jax.Array, Games]) -> Any:
        time, (vstate, timestep, carry), alive, games = loop
        privileged = jax.vmap(vec.env.privileged)(vstate.state, vstate.task)
        seen = timestep._replace(info={**timestep.info, "privileged": privileged})
        if forget_at_round is not None:
            forget = timestep.observation["round"] == forget_at_round
            seen = seen._replace(trial_start=timestep.trial_start | forget)
        action, _, carry = agent.act(jax.random.fold_in(key, time), params, carry, seen)
        vstate, timestep = vec.step(vstate, action)
        info = timestep.info
        decided = alive & info["decided"]
        # The game that was decided; past the end (nothing to record) the write is dropped.
        place = jnp.where(decided, info["game"], max_games)

        def put(table: jax.Array, value: jax.Array) -> jax.Array:
            return table.at[instances, place].set(value, mode="drop")

        games = Games(
            put(games.valid, decided),
            put(games.correct, info["correct"]),
            put(games.query, info["query"]),
        )
        return time + 1, RolloutState(vstate, timestep, carry), alive & ~timestep.last, games

    loop = (
        jnp.zeros((), jnp.int32),
        state,
        jnp.ones(vec.num_envs, bool),
        Games(blank, blank, blank),
    )
    return jax.lax.while_loop(unfinished, body, loop)[-1]
