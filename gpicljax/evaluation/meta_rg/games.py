"""Playing whole episodes and recording them game by game."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.interface import Agent
from gpicljax.rollout import RolloutState, start_rollout
from gpicljax.vector import VectorEnv

NEVER = -1
"""For `forget_at_round`: the agent keeps its memory."""


class Games(NamedTuple):
    """The games of `N = num_envs * episodes_per_env` episodes, by position in their episode.

    Attributes:
      valid: `bool[N, G]`, the game was played.
      correct: `bool[N, G]`; `[N, G, R]` for an agent that reports R decisions.
      query: `bool[N, G]`, it belongs to the query phase.
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
    episodes_per_env: int = 1,
    forget_at_round: jax.Array | int = NEVER,
    env_params: Any = None,
) -> Games:
    """Plays a fixed number of episodes on every instance and records each game's outcome.

    The number per instance is fixed, so long episodes count as often as they occur. The
    environment's `info` has `decided`, `correct`, `query` (`bool[]`) and `game` (`int32[]`), its
    `privileged` the `answer`. Agents find it in `timestep.privileged`: rules that bound
    what can be known read it; learners must not.

    Args:
      key: a typed key.
      vec: the batch of environments, one episode a trial.
      agent: the agent. If its `aux` has `decisions: int32[B, R]`, those are judged in place of its
        actions: rules whose decisions do not change the episode are compared in one pass.
      params: its parameters.
      max_games: G.
      max_steps: longest episode; the loop ends when all episodes have.
      episodes_per_env: episodes of each instance.
      forget_at_round: clear the agent's memory wherever the observation's `round` is this: an
        ablation of what it carries from game to game. May be traced.
      env_params: distribution over tasks; the batch's own if None.

    Returns:
      The games.
    """
    start_key, key = jax.random.split(key)
    state = start_rollout(start_key, vec, agent, env_params)
    instances = jnp.arange(vec.num_envs)

    def act(time: jax.Array, state: RolloutState) -> tuple[jax.Array, jax.Array | None, Any]:
        vstate, timestep, carry = state
        privileged = jax.vmap(vec.env.privileged)(vstate.state, vstate.task)
        forget = timestep.observation["round"] == forget_at_round
        seen = timestep._replace(trial_start=timestep.trial_start | forget, privileged=privileged)
        keys = jax.random.split(jax.random.fold_in(key, time), vec.num_envs)
        action, aux, carry = agent.act(keys, params, carry, seen)
        decisions = aux.get("decisions")
        judged = None if decisions is None else decisions == privileged["answer"][:, None]
        return action, judged, carry

    _, panel, _ = jax.eval_shape(act, jnp.zeros((), jnp.int32), state)
    shape = (vec.num_envs, episodes_per_env, max_games)
    blank = jnp.zeros(shape, bool)
    right = blank if panel is None else jnp.zeros((*shape, panel.shape[1]), bool)

    def unfinished(loop: tuple[jax.Array, RolloutState, jax.Array, Games]) -> jax.Array:
        time, _, episode, _ = loop
        return (episode < episodes_per_env).any() & (time < (max_steps + 1) * episodes_per_env)

    def body(loop: tuple[jax.Array, RolloutState, jax.Array, Games]) -> Any:
        time, state, episode, games = loop
        action, judged, carry = act(time, state)
        vstate, timestep = vec.step(state.vstate, action)
        info = timestep.info
        # Past an instance's last episode there is nothing to record: the write is dropped.
        place = jnp.where(info["decided"], info["game"], max_games)

        def put(table: jax.Array, value: jax.Array) -> jax.Array:
            return table.at[instances, episode, place].set(value, mode="drop")

        games = Games(
            valid=put(games.valid, info["decided"]),
            correct=put(games.correct, info["correct"] if judged is None else judged),
            query=put(games.query, info["query"]),
        )
        return time + 1, RolloutState(vstate, timestep, carry), episode + timestep.last, games

    loop = (
        jnp.zeros((), jnp.int32),
        state,
        jnp.zeros(vec.num_envs, jnp.int32),
        Games(blank, right, blank),
    )
    games = jax.lax.while_loop(unfinished, body, loop)[-1]
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), games)
