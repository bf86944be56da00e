"""Meta-Referential Games as sequences: whole episodes without stepping.

What an episode shows does not depend on what the listener decides, but for the results it is told.
So all games of an episode can be drawn at once, for learners that are told the right decisions
(meta-learning as sequence modelling) or that differentiate through the messages.

Episodes are laid one behind the other, so that sequences of equal length waste nothing.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.checks import check, check_at_least
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.types import SPEAKER, Params, State, Task


class GameSequence(NamedTuple):
    """The games of some episodes, one after the other; leaves `[G, ...]`.

    Attributes:
      state: each game in round 0, before any message is sent; see `MetaRG.at_game`.
      task: the task of the game's episode.
      start: `bool[G]`, the first game of an episode.
      valid: `bool[G]`; False for the games after the last episode, which do not count.

    Example:
      >>> from types import SimpleNamespace as Some
      >>> number = jnp.array([0, 1, 2, 3, 0])
      >>> state = Some(index=number, skeleton=Some(num_support=2))
      >>> games = GameSequence(state, task=None, start=number == 0, valid=jnp.ones(5, bool))
      >>> games.query.tolist()
      [False, False, True, True, False]
    """

    state: State
    task: Task
    start: jax.Array
    valid: jax.Array

    @property
    def query(self) -> jax.Array:
        """`bool[G]`, games of the query phase."""
        return self.state.index >= self.state.skeleton.num_support


def game_sequence(
    key: jax.Array, env: MetaRG, params: Params, *, games: int, episodes: int = 1
) -> GameSequence:
    """Draws episodes and lays their games one behind the other.

    Args:
      key: a typed key.
      env: the game.
      params: the distribution over tasks.
      games: G, length of the sequence; what is longer is cut.
      episodes: how many are drawn.

    Returns:
      The sequence, unbatched.

    Raises:
      ValueError: for sizes below 1.

    Example:
      >>> import gpicljax
      >>> env = gpicljax.make("MetaRG-v1")
      >>> draw = lambda key: game_sequence(key, env, env.default_params, games=64, episodes=3)
      >>> jax.eval_shape(draw, jax.random.key(0)).state.game.speaker.shape
      (64, 1, 3)
    """
    check_at_least(1, games=games, episodes=episodes)

    def episode(key: jax.Array) -> tuple[Task, State]:
        blueprint_key, start_key = jax.random.split(key)
        return env.start(start_key, env.sample_blueprint(blueprint_key, params), params)

    tasks, states = jax.vmap(episode)(jax.random.split(key, episodes))
    ends = jnp.cumsum(states.skeleton.num_games)
    place = jnp.arange(games, dtype=jnp.int32)
    episode_index = jnp.minimum((place[:, None] >= ends).sum(-1), episodes - 1)
    index = place - jnp.where(episode_index > 0, ends[episode_index - 1], 0)

    def game(episode_index: jax.Array, index: jax.Array) -> tuple[State, Task]:
        task, state = jax.tree.map(lambda x: x[episode_index], (tasks, states))
        return env.at_game(state, index, task), task

    state, task = jax.vmap(game)(episode_index, index)
    return GameSequence(state, task, index == 0, place < ends[-1])


def rule_messages(env: MetaRG, sequence: GameSequence) -> jax.Array:
    """Returns the rule-based speaker's message in each round of each game, `int32[G, N, L]`.

    Example:
      >>> import gpicljax
      >>> env = gpicljax.make("MetaRG-v1")
      >>> def say(key):
      ...     return rule_messages(env, game_sequence(key, env, env.default_params, games=8))
      >>> jax.eval_shape(say, jax.random.key(0)).shape
      (8, 1, 3)
    """

    def say(state: State) -> jax.Array:
        rounds = jnp.arange(env.num_rounds, dtype=jnp.int32)
        return jax.vmap(lambda r: env.speak(dataclasses.replace(state, round=r)))(rounds)

    return jax.vmap(say)(sequence.state)


def game_observations(
    env: MetaRG,
    sequence: GameSequence,
    messages: jax.Array,
    decisions: jax.Array,
) -> Any:
    """Returns the observations in every step of every game, as if it had been played.

    Args:
      env: the game; that of its view is shown.
      sequence: the games.
      messages: `int32[G, N, L]`, what the speaker sends in each round.
      decisions: `int32[G]`, what the listener decides: later it is told whether it was right.

    Returns:
      Leaves `[G, N + 2, ...]`, without feedback `[G, N + 1, ...]`; see `MetaRG.observe`.

    Raises:
      ValueError: where listeners speak: what they would say is not known; or where only the games
        of the support phase have a feedback step.

    Example:
      >>> import gpicljax
      >>> env = gpicljax.make("MetaRG-v1")
      >>> def show(key):
      ...     games = game_sequence(key, env, env.default_params, games=8)
      ...     decisions = games.state.game.answer
      ...     return game_observations(env, games, rule_messages(env, games), decisions)
      >>> jax.eval_shape(show, jax.random.key(0))["message"].shape
      (8, 3, 3)
    """
    check(not env.listener_speaks, "listener_speaks", True, "False: no player answers here")
    same_steps = env.rules.query_feedback or not env.feedback
    check(same_steps, "rules.query_feedback", False, "True, or no feedback: games of one length")
    state = sequence.state
    correct = decisions == state.game.answer
    result = 1 + correct.astype(jnp.int32)
    reward = env.payment(correct, sequence.query)

    def before(x: jax.Array) -> jax.Array:
        return jnp.where(sequence.start, 0, jnp.roll(x, 1)).astype(x.dtype)

    def show(
        state: State,
        task: Task,
        game_messages: jax.Array,
        old: tuple[Any, Any],
        new: tuple[Any, Any],
    ) -> Any:
        def at(step: jax.Array) -> Any:
            has_feedback = step > env.num_rounds
            sent = jnp.where(step > 0, game_messages[jnp.clip(step - 1, 0, env.num_rounds - 1)], 0)
            last_reward, last_result = jax.tree.map(
                lambda a, b: jnp.where(has_feedback, b, a), old, new
            )
            state_at_step = dataclasses.replace(
                state,
                round=step,
                channel=state.channel.at[SPEAKER].set(sent),
                last_reward=last_reward,
                last_result=last_result,
            )
            return env.observe(state_at_step, task)

        return jax.vmap(at)(jnp.arange(env.num_rounds + 1 + env.feedback, dtype=jnp.int32))

    old = before(reward), before(result)
    return jax.vmap(show)(state, sequence.task, messages, old, (reward, result))
