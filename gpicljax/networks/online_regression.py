"""Bayesian softmax regression that learns with every token: the next one from the latest ones.

A logit is the sum of one weight from each of S rows, which the latest tokens choose. A weight has a
normal distribution: its variance starts at a prior's and falls as it is learnt. After every token
the weights in use take one step of an extended Kalman filter with a diagonal covariance. Several
such regressions (heads) run side by side, with rates of their own. The rates are parameters, learnt
by gradients through whole sequences.

The backward pass is written out, as that of a `scan` would keep a copy of the tables for every
step: it keeps the rows in use alone, and carries the tables' gradient back through the same rows.

Source: the filter is that of online Bayesian logistic regression, as in Murphy (2012), section 8.5,
with the diagonal approximation; that its rates are learnt, and all formulas' free factors, is this
project's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.networks.tagged_rows import TaggedRows, read_rows, write_rows

MEAN, PRECISION = 0, 1
"""Places in a row: the weights' means, and what was added to their priors' precisions."""


class Rates(NamedTuple):
    """Rates of H heads over S rows, all above 0 but `boldness`.

    Attributes:
      prior: float `[S, H]`, the precision of a weight before anything is learnt.
      gain: float `[S, H]`, a factor of the steps of the means.
      confidence: float `[S, H]`, a factor of what is added to the precisions.
      information: float `[H]`, a factor of the information that a token has about its logits.
      doubt: float `[H]`, how much the variance of a logit flattens a prediction.
      boldness: float `[H]`, what it adds to the logit.
    """

    prior: jax.Array
    gain: jax.Array
    confidence: jax.Array
    information: jax.Array
    doubt: jax.Array
    boldness: jax.Array


class Logits(NamedTuple):
    """Predictions of all heads.

    Attributes:
      mean: float `[..., H, V]`.
      variance: float `[..., H, V]`.
    """

    mean: jax.Array
    variance: jax.Array


def flatten_by_doubt(logits: Logits, doubt: jax.Array, boldness: jax.Array) -> jax.Array:
    """Returns logits `[..., H, V]` whose softmax is about the expected one (MacKay, 1992)."""
    spread = jnp.sqrt(1 + doubt[:, None] * logits.variance)
    return logits.mean / spread + boldness[:, None] * logits.variance


def predict_and_learn(rates: Rates, rows: jax.Array, target: jax.Array) -> tuple[Logits, jax.Array]:
    """Predicts a token from rows, and then learns which one it was.

    Args:
      rates: of the heads.
      rows: float `[B, S, H, 2, V]`.
      target: `int32[B]`, the token; negative where it is not known, and nothing is learnt.

    Returns:
      The prediction `[B, H, V]`, and the rows afterwards.
    """
    mean, precision = rows[..., MEAN, :], rows[..., PRECISION, :]
    variance = 1 / (rates.prior[..., None] + precision)
    logits = Logits(mean.sum(1), variance.sum(1))
    chances = jax.nn.softmax(flatten_by_doubt(logits, rates.doubt, rates.boldness))
    error = jax.nn.one_hot(target, mean.shape[-1], dtype=mean.dtype)[:, None] - chances
    information = chances * (1 - chances) * rates.information[:, None]
    gain = variance / _to_rows(1 + information * logits.variance, mean)
    step = gain * _to_rows(error, mean) * rates.gain[..., None]
    # What is known about one weight is what the other weights of its logit leave open.
    others = _to_rows(logits.variance, mean) - variance
    information = _to_rows(information, mean)
    added = information / (1 + information * others) * rates.confidence[..., None]
    learnt = jnp.stack([mean + step, precision + added], -2)
    return logits, jnp.where((target >= 0)[:, None, None, None, None], learnt, rows)


@jax.custom_vjp
def _to_rows(x: jax.Array, rows: jax.Array) -> jax.Array:
    """Returns `[B, H, V]` for each of the rows `[B, S, H, V]`.

    A CPU takes the usual gradient, a sum of products, as many tiny matrix products.
    """
    return jnp.broadcast_to(x[:, None], rows.shape)


_to_rows.defvjp(
    lambda x, rows: (_to_rows(x, rows), rows),
    lambda rows, gradient: (sum(gradient[:, i] for i in range(rows.shape[1])), None),
)


@jax.custom_vjp
def regress(
    rates: Rates, table: TaggedRows, rows: jax.Array, tags: jax.Array, targets: jax.Array
) -> tuple[Logits, TaggedRows]:
    """Predicts and learns token by token; the gradient is that of the rates alone.

    Args:
      rates: of the heads.
      table: what was learnt before, values float `[B, R, H, 2, V]`.
      rows: `int32[T, B, S]`, the rows in use, different ones at each step.
      tags: `uint32[T, B, S]`, see `tagged_rows`.
      targets: `int32[T, B]`, the tokens to predict; negative where they are not known.

    Returns:
      The predictions `[T, B, H, V]`, each made before its target is learnt; and the tables.
    """
    return _forward(rates, table, rows, tags, targets)[0]


def _forward(
    rates: Rates, table: TaggedRows, rows: jax.Array, tags: jax.Array, targets: jax.Array
) -> tuple[tuple[Logits, TaggedRows], Any]:
    def tick(table: TaggedRows, step: tuple[jax.Array, ...]) -> tuple[TaggedRows, Any]:
        index, tag, target = step
        read, is_own = read_rows(table, index, tag)
        logits, learnt = predict_and_learn(rates, read, target)
        return write_rows(table, index, tag, learnt), (logits, read, is_own)

    after, (logits, read, is_own) = jax.lax.scan(tick, table, (rows, tags, targets))
    return (logits, after), (rates, table, rows, targets, read, is_own)


def _backward(saved: Any, gradients: tuple[Logits, TaggedRows]) -> tuple[Any, ...]:
    """Goes back through the rows; a table that is handed on has no gradient."""
    rates, table, rows, targets, read, is_own = saved
    instance = jnp.arange(rows.shape[1])[:, None]
    options = {"mode": "promise_in_bounds", "unique_indices": True}

    def tick(carry: tuple[jax.Array, Rates], step: Any) -> tuple[Any, None]:
        of_table, of_rates = carry
        index, target, before, own, of_logits = step
        of_learnt = of_table.at[instance, index].get(**options)
        _, pull = jax.vjp(lambda r, x: predict_and_learn(r, x, target), rates, before)
        more, of_read = pull((of_logits, of_learnt))
        # What was not read, as it belonged to another tag, has no gradient.
        of_read = jnp.where(own[..., None, None, None], of_read, 0)
        of_table = of_table.at[instance, index].set(of_read, **options)
        return (of_table, jax.tree.map(jnp.add, of_rates, more)), None

    none = jnp.zeros_like(table.values), jax.tree.map(jnp.zeros_like, rates)
    steps = rows, targets, read, is_own, gradients[0]
    (_, of_rates), _ = jax.lax.scan(tick, none, steps, reverse=True)
    return of_rates, None, None, None, None


regress.defvjp(_forward, _backward)
