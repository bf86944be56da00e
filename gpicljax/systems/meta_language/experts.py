"""Predictors that need no training: the generator itself, adaptive frequencies, no idea at all.

As agents they follow `gpicljax.interface`, have no parameters, and act with log-probabilities.
`unigram_log_likelihood` is the adaptive one for whole sequences.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from gpicljax.checks import check
from gpicljax.interface import Agent, TimeStep
from gpicljax.systems.meta_language.env.meta_language import MetaLanguage
from gpicljax.typing import ArrayTree

__all__ = ["oracle_agent", "unigram_agent"]


def _check_prior(prior: float) -> None:
    check(prior > 0, "prior", prior, "a number above 0")


def oracle_agent() -> Agent:
    """Predicts the generator's own distribution, which is optimal on average.

    It reads `timestep.privileged`: it needs a batch with `privileged=True`.

    Example:
      >>> oracle_agent().initial_carry(4)
      ()
    """

    def act(keys: jax.Array, params: ArrayTree, carry: ArrayTree, timestep: TimeStep) -> Any:
        del keys, params
        return timestep.privileged["log_probs"], {}, carry

    return Agent(lambda batch: (), act)


def uniform_agent(env: MetaLanguage) -> Agent:
    """Predicts every token alike: log(V) nats per token, 3.47 by default."""

    def act(keys: jax.Array, params: ArrayTree, carry: ArrayTree, timestep: TimeStep) -> Any:
        del keys, params
        shape = (*timestep.trial_start.shape, env.vocab_size)
        level = -jnp.log(jnp.asarray(env.vocab_size, jnp.result_type(float)))
        return jnp.full(shape, level), {}, carry

    return Agent(lambda batch: (), act)


def unigram_agent(env: MetaLanguage, prior: float = 0.5) -> Agent:
    """Predicts how often each token was drawn in this trial, `prior` added to every count.

    Its memory is the counts, float `[B, V]`. The first token of an episode was not drawn.

    Raises:
      ValueError: if `prior` is not above 0.

    Example:
      >>> unigram_agent(MetaLanguage()).initial_carry(4).shape
      (4, 32)
    """
    _check_prior(prior)
    dtype = jnp.result_type(float)

    def act(keys: jax.Array, params: ArrayTree, carry: jax.Array, timestep: TimeStep) -> Any:
        del keys, params
        seen = jax.nn.one_hot(timestep.observation, env.vocab_size, dtype=dtype)
        seen = jnp.where(timestep.episode_start[:, None], 0, seen)
        counts = jnp.where(timestep.trial_start[:, None], 0, carry) + seen
        return (
            jnp.log(counts + prior) - jnp.log((counts + prior).sum(-1, keepdims=True)),
            {},
            counts,
        )

    return Agent(lambda batch: jnp.zeros((batch, env.vocab_size), dtype), act)


def unigram_log_likelihood(tokens: jax.Array, vocab_size: int, prior: float = 0.5) -> jax.Array:
    """Log-probability of each token but the first, from how often it was drawn before.

    Args:
      tokens: int `[L + 1]`; the first, which is given, is not counted.
      vocab_size: V.
      prior: added to every count; 0.5 is the Krichevsky-Trofimov estimator.

    Returns:
      Float `[L]`, in nats: log((count + prior) / (number before + V prior)).

    Raises:
      ValueError: if `prior` is not above 0.
    """
    _check_prior(prior)
    dtype = jnp.result_type(float)
    drawn = jax.nn.one_hot(tokens[1:], vocab_size, dtype=dtype)
    before = jnp.cumsum(drawn, axis=0) - drawn
    counts = (before * drawn).sum(-1)
    totals = jnp.arange(tokens.shape[0] - 1, dtype=dtype)
    return jnp.log(counts + prior) - jnp.log(totals + vocab_size * prior)
