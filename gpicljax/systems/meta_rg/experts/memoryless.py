"""Single decisions as a supervised data set: what can be decided without any memory.

With one permutation for all positions, which tokens of a message are equal tells which latent
values are equal, in every episode alike. A classifier of single decisions that beats 50 % therefore
shows how much of a listener's score needs no binding of tokens to values in context.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import check_at_least, check_choice
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.sequences import game_observations, game_sequence, rule_messages
from gpicljax.systems.meta_rg.env.types import Params

_EPISODES = 256
_ROWS = 24 * _EPISODES  # about what that many episodes of the default distribution hold

Message = Literal["heard", "equality", "none"]


def decision_dataset(
    key: jax.Array, env: MetaRG, params: Params, num_games: int, *, message: Message = "heard"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the decision steps of all games of fresh episodes, one row each.

    A row holds the listener's stimuli, the phase, whether the tokens of each pair of positions of
    the message are equal, and the message (a one-hot per position). It holds nothing of other
    games. Made on the host from compiled batches of episodes, so it is not jittable itself.

    Args:
      key: a typed key.
      env: the game in the listener's view.
      params: the distribution over tasks.
      num_games: rows N; long episodes contribute more of them. An episode may be cut.
      message: what a row tells of it: `"heard"` (all), `"equality"` (only which tokens are equal,
        which no permutation shared by all positions hides) or `"none"`.

    Returns:
      features `float[N, F]`, labels `int32[N]` (the right decision), is_query `bool[N]`.

    Raises:
      ValueError: for another view, an unknown `message`, or no games.

    Source: the memoryless control of Meta-Referential Games; ours, not the paper's.

    Example:
      >>> def without_messages(key):
      ...     env = MetaRG(view="listener")
      ...     params = env.default_params
      ...     return decision_dataset(key, env, params, num_games=10_000, message="none")
    """
    check_choice("view", env.view, ["listener"])
    check_choice("message", message, get_args(Message))
    check_at_least(1, num_games=num_games)
    env.validate(params)
    rows: list[tuple[np.ndarray, ...]] = []
    num_rows = 0
    while num_rows < num_games:
        batch_key = jax.random.fold_in(key, len(rows))
        *columns, valid = jax.device_get(_decisions(batch_key, params, env, message))
        rows.append(tuple(column[valid] for column in columns))
        num_rows += int(valid.sum())
    features, labels, query = (np.concatenate(c)[:num_games] for c in zip(*rows, strict=True))
    return features, labels, query


@functools.partial(jax.jit, static_argnames=("env", "message"))
def _decisions(
    key: jax.Array, params: Params, env: MetaRG, message: Message
) -> tuple[jax.Array, ...]:
    """Features, labels, phase and validity of R games `[R, ...]` of E episodes."""
    env = dataclasses.replace(env, feedback=False)  # it comes after the decision
    games = game_sequence(key, env, params, games=_ROWS, episodes=_EPISODES)
    answer = games.state.game.answer
    shown = game_observations(env, games, rule_messages(env, games), answer)
    at_decision = jax.tree.map(lambda x: x[:, env.num_rounds], shown)
    pairs = np.asarray(list(itertools.combinations(range(env.message_length), 2))).reshape(-1, 2)
    parts, tokens = [at_decision["stimulus"], at_decision["phase"][:, None]], at_decision["message"]
    if message != "none":
        parts.append(tokens[:, pairs[:, 0]] == tokens[:, pairs[:, 1]])
    if message == "heard":
        parts.append(jax.nn.one_hot(tokens, env.vocab_size + 1).reshape(_ROWS, -1))
    features = jnp.concatenate([part.astype(jnp.result_type(float)) for part in parts], axis=-1)
    return features, answer, games.query, games.valid
