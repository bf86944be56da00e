"""A page that replays an episode of Meta-Referential Games, with one player or with two."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.evaluation.returns import Episode, record_episode
from gpicljax.interface import Agent
from gpicljax.networks.contract import AgentInput
from gpicljax.play.drawing import Drawing, describe_situations, mean_rewards, write_replay
from gpicljax.play.match import Match, Player
from gpicljax.runtime import RunResult
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.types import SPEAKER, Params
from gpicljax.systems.meta_rg.experts.listeners import nearest_rule, rule_listener, section_rule
from gpicljax.systems.meta_rg.figures.episode_page import decision, games_stage, sentences
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
    return Recorded(episode, attention and read_attention(env, episode, params, attention))


def read_attention(
    env: MetaRG, episode: Episode, params: ArrayTree, attention: Attention
) -> jax.Array:
    """Returns the share of each head that every game has in another's decision, `[G, H, G]`."""
    steps = episode.rewards.shape[0]
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
    return jnp.einsum("tg,thn,nk->ghk", decides, read, game)


def replay(outcome: RunResult, env: MetaRG) -> str:
    """Writes the page of a greedy episode of the first sound seed; says so in words."""
    whose, (episode, attention) = outcome.first_sound(outcome.measured.episode)
    return write_replay(outcome, draw_games(env, episode, attention=attention), whose)


def draw_games(
    env: MetaRG,
    episode: Episode,
    *,
    revealed: bool = True,
    last_only: bool = False,
    player: Player | None = None,
    attention: Any = None,
) -> Drawing:
    """Draws the games of an episode; see `play.drawing.draw_episode`.

    Args:
      env: the environment, with one player or with two.
      episode: the episode, arrays on the host.
      revealed: see `games_stage`; the results that are not told are no part of the score either.
      last_only: see `draw_episode`.
      player: the listener; its attention is drawn if it has one.
      attention: the same, where it was recorded; see `games_stage`.
    """
    if player is not None and player.attention is not None:
        read = jax.jit(functools.partial(read_attention, env, attention=player.attention))
        attention = np.asarray(read(episode, player.params))
    length = int(episode.length)
    query = np.asarray(
        episode.states.index[:length] >= episode.states.skeleton.num_support[:length]
    )
    is_told = ~query | revealed | env.tells_results(query=True)
    rewards = np.where(is_told, mean_rewards(episode), 0)
    told = readings(env, episode)
    if not is_told.all():
        told.pop("right, query")
    return Drawing(
        words=describe_situations(env, episode, last_only=last_only),
        actions=moves(env, episode),
        rewards=rewards,
        readings=told,
        stage=games_stage(env, episode, attention, revealed=revealed),
    )


def match(env: MetaRG, params: Params) -> Match:
    """Returns how the listener's game is played: beside 1-nearest neighbour, or sections."""
    is_ruled = env.view == "listener" and env.actions == "compact"
    rule, name = nearest_rule, "1-nearest neighbour"
    if env.rules.withheld:
        rule, name = section_rule, "sections"
    return Match(
        env,
        params,
        draw_games,
        Player(rule_listener(env, rule(env))) if is_ruled else None,
        name,
        shipped="meta_rg_exact",
        forgets=lambda timestep: timestep.observation["round"] == 0,
        rules="You are the listener. The speaker describes a stimulus in words that you have "
        "to learn: is it yours? Its values lie on its lines, and words name sections of these.",
        skip=lambda state: env.num_decisions if is_ruled and state.round < env.num_rounds else None,
    )


def moves(env: MetaRG, episode: Episode) -> list[str]:
    """Returns the act of every step: a learning speaker's message, or the listener's decision."""
    names, done = env.decisions, []
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
        pairs = zip(env.decisions[:-1], decision_values, strict=True)
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
