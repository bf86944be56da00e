"""A page that replays an episode of Meta-Referential Games, with one player or with two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.evaluation.returns import Episode, record_episode
from gpicljax.interface import Agent
from gpicljax.networks.contract import AgentInput
from gpicljax.play.replay import write_replay
from gpicljax.runtime import RunResult
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.types import SPEAKER
from gpicljax.systems.meta_rg.figures.episode_page import (
    choices,
    decision,
    games_stage,
    sentences,
)
from gpicljax.typing import ArrayTree

Attention = Callable[[Any, AgentInput, jax.Array], jax.Array]
"""A listener's `Network.attention`; with two players the inputs are those of both."""


class Recorded(NamedTuple):
    """An episode to be replayed.

    Attributes:
      episode: step by step.
      attention: float `[G, H, G]`, see `figures.episode_page.games_stage`; None where the
        listener's network has none.
    """

    episode: Episode
    attention: Any


def record_with_attention(
    key: jax.Array,
    env: MetaRG,
    agent: Agent,
    params: ArrayTree,
    env_params: ArrayTree,
    attention: Attention | None,
) -> Recorded:
    """Returns the first of the agent's episodes, step by step, and what it attends to in it."""
    steps = int(env.horizon())
    episode = record_episode(key, env, agent, params, max_steps=steps, env_params=env_params)
    if attention is None:
        return Recorded(episode, None)
    states = jax.tree.map(lambda x: x[:-1], episode.states)
    inputs = AgentInput(
        jax.vmap(env.observe, (0, None))(states, episode.task),
        jnp.concatenate([jnp.full_like(episode.actions[:1], -1), episode.actions[:-1]]),
        jnp.concatenate([jnp.zeros_like(episode.rewards[:1]), episode.rewards[:-1]]),
    )
    starts = jnp.arange(steps)[:, None] == 0
    read = attention(params, jax.tree.map(lambda x: x[:, None], inputs), starts)[:, 0]
    within = jnp.arange(steps) < episode.length
    game = (states.index[:, None] == jnp.arange(env.max_games)) & within[:, None]
    decides = game & (states.round == env.num_rounds)[:, None]
    game, decides = (x.astype(read.dtype) for x in (game, decides))
    return Recorded(episode, jnp.einsum("tg,thn,nk->ghk", decides, read, game))


def replay(outcome: RunResult, env: MetaRG) -> str:
    """Writes the page of a greedy episode of the first sound seed; says so in words."""
    whose, (episode, attention) = outcome.first_sound(outcome.measured.episode)
    actions, more = moves(env, episode), readings(env, episode)
    stage = games_stage(env, episode, attention)
    return write_replay(outcome, env, episode, whose, actions=actions, readings=more, stage=stage)


def moves(env: MetaRG, episode: Episode) -> list[str]:
    """Returns the act of every step: a learning speaker's message, or the listener's decision."""
    names, done = choices(env), []
    for step, action in enumerate(episode.actions[: episode.length]):
        stage = episode.states.round[step]
        if env.num_agents and stage < env.num_rounds:
            message = action[SPEAKER, 1 : 1 + env.message_length]
            done.append(f"say {' '.join(map(str, message))}")
        else:
            done.append(names[decision(env, action) if stage == env.num_rounds else -1])
    return done


def readings(env: MetaRG, episode: Episode) -> dict[str, list[str]]:
    """Returns the values of the listener's decisions, and how often it was right."""
    length, states = int(episode.length), episode.states
    # Only for the listener: where both players learn alike, they say these things of both.
    aux = {name: output for name, output in episode.aux.items() if np.ndim(output) == 2}
    moments = slice(length + 1)
    deciding = states.round[moments] == env.num_rounds

    def values(t: int) -> str:
        decision_values = aux["q_values"][t, :: sentences(env)][: env.num_decisions]
        pairs = zip(choices(env)[:-1], decision_values, strict=True)
        return ", ".join(f"{name} {value:+.2f}" for name, value in pairs)

    texts = {}
    if "q_values" in aux:
        texts["values"] = [values(t) if deciding[t] else "\u2013" for t in range(length + 1)]
    right = episode.rewards[:length].reshape(length, -1)[:, 0] > 0
    query = (states.index >= states.skeleton.num_support)[moments]
    for name, phase in (("support", ~query), ("query", query)):
        is_decision = (deciding & phase)[:length]
        counts = np.stack([is_decision & right, is_decision], axis=1).cumsum(0)
        texts[f"right, {name}"] = ["0 of 0", *(f"{hits} of {games}" for hits, games in counts)]
    return texts
