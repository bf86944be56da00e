"""Games of Meta-Referential Games to learn from as sequences, without stepping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gpicljax import spaces
from gpicljax.checks import check, check_at_least, check_choice
from gpicljax.networks.contract import AgentInput
from gpicljax.systems.meta_rg.env import messaging
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.sequences import (
    GameSequence,
    game_observations,
    game_sequence,
    rule_messages,
)
from gpicljax.systems.meta_rg.env.types import Params
from gpicljax.systems.meta_rg.learners.speakers import (
    GameInputs,
    GameTargets,
    SignallingGame,
)


def signalling_game(env: MetaRG) -> SignallingGame:
    """Returns the description of the game that two players need.

    Args:
      env: the game in the listener's view with compact actions and one round.

    Raises:
      ValueError: for another view or several rounds.

    Example:
      >>> import gpicljax
      >>> signalling_game(gpicljax.make("MetaRG-v1")).steps
      3
    """
    _check(env)
    space = env.observation_space()
    assert isinstance(space, spaces.Dict)
    return SignallingGame(
        observations=space,
        actions=env.action_space(),
        num_decisions=env.num_decisions,
        seen=spaces.flat_size(space["stimulus"]),
        vocab_size=env.vocab_size,
        message_length=env.message_length,
        fixed_length=env.rules.fixed_length,
        decides=env.num_rounds,
        steps=env.num_rounds + 1 + env.feedback,
        quantised=lambda stimulus: messaging.digitise(
            stimulus[..., : env.num_dims], env.vocab_size, env.message_length
        ),
    )


def _check(env: MetaRG) -> None:
    check_choice("view", env.view, ["listener"])
    check_choice("actions", env.actions, ["compact"])
    check(env.num_rounds == 1, "num_rounds", env.num_rounds, "1")


def game_sequences(
    env: MetaRG,
    games: int,
    episodes: int = 1,
    copies: int = 1,
    noise: str = "episode",
) -> Callable[[jax.Array, Any], tuple[GameInputs, GameTargets]]:
    """Returns the function that draws games to learn from.

    The listener of such a sequence decides at random: what it is told of its results then tells
    nothing of what it will know.

    Args:
      env: the game in the listener's view with compact actions and one round.
      games: G, length of the sequences.
      episodes: of a sequence; see `systems.meta_rg.env.game_sequence`.
      copies: sequences with the same games and noise of their own.
      noise: whether it is drawn anew for every `"episode"` or `"game"`.

    Returns:
      `(keys [N], params) -> (inputs, targets)` of N * copies sequences; those of the same games are
      side by side.

    Raises:
      ValueError: for another view or several rounds, sizes below 1, another noise.

    Example:
      >>> import gpicljax
      >>> env = gpicljax.make("MetaRG-v1")
      >>> sample = game_sequences(env, games=32, episodes=2)
      >>> keys = jax.random.split(jax.random.key(0), 4)
      >>> jax.eval_shape(sample, keys, env.default_params)[1].answer.shape
      (32, 4)
    """
    _check(env)
    check_at_least(1, copies=copies)
    check_choice("noise", noise, ["episode", "game"])
    silent = env.num_decisions

    def last(sequence: GameSequence, decisions: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns the last action before each step, and its reward, `[G, R]`."""
        reward = env.payment(decisions == sequence.state.game.answer, sequence.query)
        nothing, waited = jnp.zeros_like(reward), jnp.full_like(decisions, silent)
        actions, rewards = [waited, decisions], [nothing, reward]
        first = waited, nothing
        if not env.feedback:
            actions, rewards = [waited], [nothing]
            first = jnp.roll(decisions, 1), jnp.roll(reward, 1)
        action = jnp.where(sequence.start, -1, first[0])
        reward = jnp.where(sequence.start, 0, first[1])
        return jnp.stack([action, *actions], 1), jnp.stack([reward, *rewards], 1)

    def one(key: jax.Array, params: Params) -> tuple[GameInputs, GameTargets]:
        games_key, decisions_key, noise_key = jax.random.split(key, 3)
        sequence = game_sequence(games_key, env, params, games=games, episodes=episodes)
        decisions = jax.random.randint(decisions_key, (games,), 0, env.num_decisions, jnp.int32)
        shown = game_observations(env, sequence, rule_messages(env, sequence), decisions)
        listener = AgentInput(shown, *last(sequence, decisions))
        channel = jax.vmap(env.channel)(sequence.state, sequence.task)
        draws = episodes if noise == "episode" else games
        draw_index = jnp.cumsum(sequence.start) - 1 if noise == "episode" else jnp.arange(games)
        shape = (copies, draws, env.message_length, env.vocab_size + 1)
        gumbel = jax.random.gumbel(noise_key, shape)[:, draw_index]
        speaker = sequence.state.game.speaker
        answer = jnp.where(sequence.valid, sequence.state.game.answer, -1)
        flat = speaker.reshape(games, -1)
        inputs = GameInputs(listener, sequence.start, flat, channel, jnp.moveaxis(gumbel, 0, 1))
        return inputs, GameTargets(answer, flat, sequence.query)

    def sample(keys: jax.Array, params: Params) -> tuple[GameInputs, GameTargets]:
        inputs, targets = jax.vmap(one, (0, None), 1)(keys, params)
        gumbel = inputs.noise.reshape(games, -1, *inputs.noise.shape[3:])
        inputs, targets = jax.tree.map(lambda x: jnp.repeat(x, copies, axis=1), (inputs, targets))
        return inputs._replace(noise=gumbel), targets

    return sample
