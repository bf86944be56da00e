"""Speakers that need no training, and how a speaker and a listener play together."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.checks import check_choice
from gpicljax.interface import Agent, TimeStep
from gpicljax.systems.meta_rg.env import messaging
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.types import LISTENER, SPEAKER
from gpicljax.typing import ArrayTree

KEPT = 0.35
"""Tolerance of the speaker that repeats itself: the best of .05 to .6, on other games, with four
samples of two to five values."""


class Sayings(NamedTuple):
    """A speaker's messages in this episode, and the stimuli that they are about.

    Attributes:
      stimuli: float `[B, G, F]`, what it saw; infinite where nothing has been said yet.
      messages: `int32[B, G, L]`, what it said of them.
      size: `int32[B]`, how many there are.
    """

    stimuli: jax.Array
    messages: jax.Array
    size: jax.Array


def keeping_speaker(env: MetaRG, tolerance: float) -> Agent:
    """Returns a speaker that repeats, in each dimension, what it said of the nearest value so far.

    Where no value so far lies within the tolerance, it says in which of V equal bins the value
    lies, as the digitising speaker does. It knows the grammar, and is not told how many values
    there are; with a tolerance of 0 it is the digitising speaker.

    Args:
      env: the game, with continuous stimuli and a position for each dimension.
      tolerance: the largest distance between two samples of one value.

    Returns:
      An agent in the speaker's own view; its actions are tokens, `int32[B, L]`.

    Example:
      >>> speaker = keeping_speaker(MetaRG(), tolerance=0.35)
      >>> speaker.initial_carry(4).messages.shape[2]
      3
    """
    check_choice("stimulus", env.stimulus, ["scs"])
    games, features, length = env.max_games, env.stimulus_size, env.message_length

    def initial_carry(batch: int) -> Sayings:
        stimuli = jnp.full((batch, games, features), jnp.inf, jnp.result_type(float))
        none = jnp.zeros((batch, games, length), jnp.int32)
        return Sayings(stimuli, none, jnp.zeros(batch, jnp.int32))

    @jax.vmap
    def say(carry: Sayings, observation: Any, start: jax.Array) -> tuple[jax.Array, Sayings]:
        stimulus = observation["stimulus"][:features]
        size = jnp.where(start, 0, carry.size)
        known = jnp.where((jnp.arange(games) < size)[:, None], carry.stimuli, jnp.inf)
        distance = jnp.abs(known - stimulus)
        repeated = jnp.take_along_axis(
            carry.messages[:, :features], distance.argmin(0)[None], axis=0
        )[0]
        binned = messaging.digitise(stimulus, env.vocab_size, length)
        message = binned.at[:features].set(
            jnp.where(distance.min(0) <= tolerance, repeated, binned[:features])
        )
        speaks = observation["round"] == 0
        place = jnp.where(speaks, size, games)
        said = carry.messages.at[place].set(message, mode="drop")
        return message, Sayings(known.at[place].set(stimulus, mode="drop"), said, size + speaks)

    def act(keys: jax.Array, params: ArrayTree, carry: Sayings, timestep: TimeStep) -> Any:
        del keys, params
        message, carry = say(carry, timestep.observation, timestep.trial_start)
        return message, {}, carry

    return Agent(initial_carry, act)


def two_players(listener: Agent, speaker: Agent, num_decisions: int, message_length: int) -> Agent:
    """Returns a listener and a speaker as one agent in the players' view of the game.

    Args:
      listener: an agent in the listener's view with compact actions.
      speaker: an agent in the speaker's own view, whose actions are tokens, `int32[B, L]`.
      num_decisions: D, decisions of the listener; the next action is to wait.
      message_length: L.

    Returns:
      The agent; both are given its parameters. Its carry is that of listener and speaker; its
      `aux` is the listener's.

    Example:
      >>> from gpicljax.systems.meta_rg.experts.listeners import nearest_rule, rule_listener
      >>> env = MetaRG()
      >>> listener = rule_listener(env, nearest_rule(env))
      >>> players = two_players(listener, keeping_speaker(env, 0.35), env.num_decisions, 3)
      >>> listening, speaking = players.initial_carry(4)
      >>> speaking.size.shape
      (4,)
    """

    def initial_carry(batch: int) -> tuple[Any, Any]:
        return listener.initial_carry(batch), speaker.initial_carry(batch)

    def act(keys: jax.Array, params: ArrayTree, carry: tuple[Any, Any], timestep: TimeStep) -> Any:
        heard, spoken = (
            timestep._replace(
                observation=jax.tree.map(lambda x, p=place: x[:, p], timestep.observation),
                reward=timestep.reward[:, place],
            )
            for place in (LISTENER, SPEAKER)
        )
        mask = heard.observation["action_mask"][:, 0, : num_decisions + 1]
        heard = heard._replace(observation={**heard.observation, "action_mask": mask})
        decision, aux, listening = listener.act(keys, params, carry[0], heard)
        tokens, _, speaking = speaker.act(keys, params, carry[1], spoken)
        waits = jnp.full_like(decision, num_decisions)
        speaks = jnp.concatenate([waits[:, None], tokens], axis=1)
        listens = jnp.pad(decision[:, None], ((0, 0), (0, message_length)))
        return jnp.stack([speaks, listens], axis=1), aux, (listening, speaking)

    return Agent(initial_carry, act)
