"""A language model whose memory is a learner: it regresses and counts online, token by token.

What it remembers of a sequence are the weights of softmax regressions (`online_regression`) and
counts of what followed the latest tokens (`suffix_counts`). Both are updated after every token by
rules whose rates are parameters. A small network, the gate, weighs these experts by what is known
about them before a token: how well they have predicted, how sure they are, how often they have seen
the context. It never sees the tokens. Training learns rates and gate through whole sequences: what
is learnt is how to learn a language.

So it is an online Bayesian softmax regression and an adaptive n-gram model, whose rates and mixing
are meta-learnt.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from gpicljax.checks import Size, check, check_fields
from gpicljax.networks.contract import Core
from gpicljax.networks.feedforward import dense
from gpicljax.networks.online_regression import (
    Logits,
    Rates,
    flatten_by_doubt,
    regress,
)
from gpicljax.networks.suffix_counts import (
    COUNT_FEATURES,
    CountFeatures,
    blend_orders,
    context_rows,
    count_followers,
    describe_counts,
    empty_counts,
)
from gpicljax.networks.tagged_rows import TaggedRows, empty_rows

DECAYS = (0.9, 0.98, 0.998)
"""Factors by which an expert's past losses count less with every token, a column each."""
_TRUST = (0.0, -1.0, -3.0)
"""Logarithms of the weight that each of these sums has against an expert before any training."""
_UNIT = 5.0
"""Rates are parameters in this unit, so that the learning rate of Adam that suits the gate's
weights suits them, too."""
_LOGARITHMS = (
    "prior",
    "gain",
    "confidence",
    "information",
    "doubt",
    "read_doubt",
    "read_scale",
    "trust",
)
"""Rates whose logarithms are the parameters."""


@dataclasses.dataclass(frozen=True)
class OnlineMemorySettings:
    """Sizes of an online memory.

    Attributes:
      ages: latest tokens that choose rows of the regressions.
      heads: regressions side by side.
      orders: tokens of the longest context that is counted, at most `ages`.
      slots: contexts of each length from 2 on whose counts are kept.
      hidden: width of the gate.

    Example:
      >>> OnlineMemorySettings(orders=9)
      Traceback (most recent call last):
      ValueError: orders: got 9; accepted: at most ages = 7
    """

    ages: Size = 7
    heads: Size = 5
    orders: Size = 5
    slots: Size = 4096
    hidden: Size = 64

    def __post_init__(self) -> None:
        check_fields(self)
        check(self.orders <= self.ages, "orders", self.orders, f"at most ages = {self.ages}")


class OnlineCarry(NamedTuple):
    """The memory of a sequence.

    Attributes:
      recent: `int32[B, A]`, the latest tokens, the newest first; V where there was none. What
        followed the newest one is not known, and so not learnt yet.
      regressions: rows of the regressions.
      counts: rows of the counts.
      losses: float `[B, X, D]`, discounted sums of the experts' losses.
      tokens: `int32[B]`, tokens of the sequence, at most 2**30.
      trial: `uint32[B]`, a number of the sequence, from 1 on.
    """

    recent: jax.Array
    regressions: TaggedRows
    counts: TaggedRows
    losses: jax.Array
    tokens: jax.Array
    trial: jax.Array


class _Windows(NamedTuple):
    """The last token of the carry and T new ones; leaves `[T + 1, B, ...]`.

    Attributes:
      latest: `int32[..., A]`, each token and those before it in its sequence, V for none.
      target: `int32[...]`, the token after it; -1 where there is none or it is not known.
      trial: `uint32[...]`.
      place: `int32[...]`, the token's number in its sequence, from 0 on.
    """

    latest: jax.Array
    target: jax.Array
    trial: jax.Array
    place: jax.Array


class OnlineMemory(Core):
    """Tokens to log-probabilities of the next token; see the module.

    Attributes:
      vocab_size: V.
      settings: sizes.
    """

    vocab_size: int
    settings: OnlineMemorySettings = OnlineMemorySettings()

    @property
    def experts(self) -> int:
        """X, regressions and orders of n-grams."""
        return self.settings.heads + self.settings.orders + 1

    def setup(self) -> None:
        """Rates of the regressions and of the counts, and the gate."""
        size, float_ = self.settings, jnp.result_type(float)
        kinds, heads = 1 + size.ages, size.heads
        zeros = nn.initializers.zeros
        little = nn.initializers.constant(-1.0 / _UNIT)  # about a third
        slow = nn.initializers.constant(np.array(_TRUST) / _UNIT)
        shapes = {
            "prior": (lambda key, shape, dtype: _prior_variances(size, dtype), (kinds, heads)),
            "gain": (zeros, (kinds, heads)),
            "confidence": (zeros, (kinds, heads)),
            "information": (zeros, (heads,)),
            "doubt": (little, (heads,)),
            "boldness": (zeros, (heads,)),
            "read_doubt": (little, (heads,)),
            "read_boldness": (zeros, (heads,)),
            "read_scale": (zeros, (heads,)),
            "backing": (zeros, (size.orders + 1, COUNT_FEATURES)),
            "backing_bias": (zeros, (size.orders + 1,)),
            "trust": (slow, (len(DECAYS),)),
        }
        self.rates = {
            name: self.param(name, init, shape, float_) for name, (init, shape) in shapes.items()
        }
        normal = nn.initializers.variance_scaling(1.0, "fan_in", "normal")
        self.hidden = [dense(size.hidden, kernel_init=normal) for _ in range(2)]
        self.gate = dense(2 * self.experts + 2, kernel_init=zeros)

    def initial_carry(self, batch: int) -> OnlineCarry:
        """Returns the memory of nothing."""
        size, vocab = self.settings, self.vocab_size
        rows = 1 + (vocab + 1) * size.ages
        return OnlineCarry(
            recent=jnp.full((batch, size.ages), vocab, jnp.int32),
            regressions=empty_rows(batch, rows, (size.heads, 2, vocab)),
            counts=empty_counts(batch, size.orders, vocab, size.slots),
            losses=jnp.zeros((batch, self.experts, len(DECAYS)), jnp.result_type(float)),
            tokens=jnp.zeros((batch,), jnp.int32),
            trial=jnp.ones((batch,), jnp.uint32),
        )

    def unroll(
        self, carry: OnlineCarry, inputs: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, OnlineCarry]:
        """Tokens `int32[T, B]`, starts `bool[T, B]` -> logits float `[T, B, V]`, and the carry.

        The last token before these is read once more: only now is it known what followed it. The
        carry that is returned has no gradient.
        """
        rates = {name: _UNIT * value for name, value in self.rates.items()}
        rates |= {name: jnp.exp(rates[name]) for name in _LOGARITHMS}
        windows = self._windows(carry, inputs, starts)
        logits, regressions = self._regress(rates, carry, windows)
        counts, counted = self._count(carry, windows)
        features = describe_counts(counts)
        by_order = blend_orders(counts, features, rates["backing"], rates["backing_bias"])
        predicted = jnp.concatenate([jax.nn.log_softmax(logits.mean), by_order], -2)
        losses = self._discounted_losses(carry, predicted, windows)
        mixed = self._mix(rates, predicted, logits.variance, features, losses, windows)
        after = OnlineCarry(
            recent=windows.latest[-1],
            regressions=regressions,
            counts=counted,
            losses=losses[-1],
            tokens=jnp.minimum(windows.place[-1] + 1, 2**30),
            trial=windows.trial[-1],
        )
        return mixed[1:], jax.lax.stop_gradient(after)

    def _windows(self, carry: OnlineCarry, inputs: jax.Array, starts: jax.Array) -> _Windows:
        """Returns every token with those before it."""
        trial = carry.trial + jnp.cumsum(starts.astype(jnp.uint32), 0)
        latest = latest_tokens(carry.recent, inputs, starts, self.vocab_size)
        is_known = ~starts & (latest[:-1, :, 0] < self.vocab_size)
        target = jnp.where(is_known, inputs, -1)

        def count_on(place: jax.Array, start: jax.Array) -> tuple[jax.Array, jax.Array]:
            place = jnp.where(start, 0, place + 1)
            return place, place

        before = carry.tokens - 1
        _, place = jax.lax.scan(count_on, before, starts)
        return _Windows(
            latest=latest,
            target=jnp.concatenate([target, jnp.full_like(target[:1], -1)]),
            trial=jnp.concatenate([carry.trial[None], trial]),
            place=jnp.concatenate([before[None], place]),
        )

    def _regress(
        self, rates: dict[str, jax.Array], carry: OnlineCarry, windows: _Windows
    ) -> tuple[Logits, TaggedRows]:
        """Returns what the regressions predict, with logits that may be read, and their rows."""
        ages = self.settings.ages
        first = jnp.arange(ages, dtype=jnp.int32) * (self.vocab_size + 1) + 1
        by_age = windows.latest + first
        rows = jnp.concatenate([jnp.zeros_like(by_age[..., :1]), by_age], -1)
        tags = jnp.broadcast_to(windows.trial[..., None], rows.shape)
        learning = Rates(*(rates[name] for name in Rates._fields))
        learning = learning._replace(prior=1 / learning.prior)
        logits, table = regress(learning, carry.regressions, rows, tags, windows.target)
        mean = flatten_by_doubt(logits, rates["read_doubt"], rates["read_boldness"])
        return Logits(mean * rates["read_scale"][:, None], logits.variance), table

    def _count(self, carry: OnlineCarry, windows: _Windows) -> tuple[jax.Array, TaggedRows]:
        size = self.settings
        rows, tags = context_rows(
            windows.latest, windows.trial, size.orders, self.vocab_size, size.slots
        )
        return count_followers(carry.counts, rows, tags, windows.target)

    def _discounted_losses(
        self, carry: OnlineCarry, predicted: jax.Array, windows: _Windows
    ) -> jax.Array:
        """Returns the experts' past losses before each token is predicted, `[T + 1, B, X, D]`."""
        target = windows.target[:-1]
        chosen = jnp.maximum(target, 0)[..., None, None]
        nats = -jnp.take_along_axis(predicted[:-1], chosen, -1)  # [T, B, X, 1]
        decays = jnp.asarray(DECAYS, nats.dtype)

        def add(sums: jax.Array, step: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
            nats, is_known, is_same = step
            sums = jnp.where(is_known, decays * sums + nats, sums)
            sums = jnp.where(is_same, sums, 0)
            return sums, sums

        is_same = windows.trial[1:] == windows.trial[:-1]
        steps = nats, (target >= 0)[..., None, None], is_same[..., None, None]
        _, losses = jax.lax.scan(add, carry.losses, steps)
        return jnp.concatenate([carry.losses[None], losses])

    def _mix(
        self,
        rates: dict[str, jax.Array],
        predicted: jax.Array,
        variance: jax.Array,
        counts: CountFeatures,
        losses: jax.Array,
        windows: _Windows,
    ) -> jax.Array:
        """Weighs the experts; returns log-probabilities, float `[T + 1, B, V]`."""
        experts, dtype = self.experts, predicted.dtype
        place = windows.place.astype(dtype)[..., None]
        decays = jnp.asarray(DECAYS, dtype)
        weight = (1 - decays ** jnp.maximum(place, 0)) / (1 - decays)  # of as many losses
        means = losses / jnp.maximum(weight, 1e-3)[..., None, :]
        behind = means - means.min(-2, keepdims=True)
        chances = jnp.exp(predicted)
        known = [
            behind.reshape(*behind.shape[:-2], -1),
            -(chances * predicted).sum(-1),
            chances.max(-1),
            jnp.log1p(counts.total) / 3,
            jnp.log1p(counts.kinds) / 2,
            jnp.log(variance.mean(-1) + 1e-3),
            jnp.log1p(jnp.maximum(place, 0)) / 6,
        ]
        hidden = jax.nn.gelu(self.hidden[0](jnp.concatenate(known, -1)))
        hidden = hidden + jax.nn.gelu(self.hidden[1](hidden))
        prior, power, sharpness, choice = jnp.split(
            self.gate(hidden), [experts, 2 * experts, 2 * experts + 1], -1
        )
        weights = jax.nn.log_softmax(prior - (losses * rates["trust"]).sum(-1))
        mixture = jax.nn.logsumexp(weights[..., None] + predicted, -2)
        powers = jnp.exp(weights) * (1 + jnp.tanh(sharpness)) + power
        product = jax.nn.log_softmax((powers[..., None] * predicted).sum(-2))
        choice = 3 * choice
        return jnp.logaddexp(
            jax.nn.log_sigmoid(choice) + product, jax.nn.log_sigmoid(-choice) + mixture
        )


def latest_tokens(
    recent: jax.Array, tokens: jax.Array, starts: jax.Array, nothing: int
) -> jax.Array:
    """Returns each token with those before it in its trial.

    Args:
      recent: `int32[B, A]`, the latest tokens before these, the newest first.
      tokens: `int32[T, B]`.
      starts: `bool[T, B]`.
      nothing: stands where there is no token.

    Returns:
      `int32[T + 1, B, A]`: `recent`, and the same after every token.
    """
    ages, count = recent.shape[1], tokens.shape[0] + 1
    trial = jnp.cumsum(starts, 0, dtype=jnp.int32)
    every = jnp.concatenate([recent.T[::-1], tokens.astype(jnp.int32)])
    trials = jnp.concatenate([jnp.zeros_like(recent.T), trial])
    latest = []
    for start in range(ages - 1, -1, -1):
        earlier = slice(start, start + count)
        is_same = trials[earlier] == trials[ages - 1 :]
        latest.append(jnp.where(is_same, every[earlier], nothing))
    return jnp.stack(latest, -1)


def _prior_variances(size: OnlineMemorySettings, dtype: Any) -> jax.Array:
    """Logarithms of the priors' variances: heads start as languages of different lengths.

    That of a head falls with the square of a token's age until it is 0, as influence does in a
    language of n tokens; the last head's falls by about half with every age.
    """
    ages = np.arange(size.ages)
    columns = []
    for n in np.round(np.linspace(3, size.ages + 1, max(size.heads - 1, 1)))[: size.heads - 1]:
        influence = np.maximum(n - 1 - ages, 0) ** 2
        columns.append(0.05 + 25 * influence / influence.sum())
    columns.append(0.1 + 2 * 0.5**ages)
    bias = np.full((1, size.heads), 0.3)
    variances = np.concatenate([bias, np.stack(columns, 1)])
    return jnp.asarray(np.log(variances) / _UNIT, dtype)
