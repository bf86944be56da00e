"""Disentanglement of representations: FactorVAE score, mutual information gap, modularity.

A representation is a table of N rows: the factors of variation behind a stimulus, which are
integers, and its codes, which are real. The three measures want different things of it (Locatello
et al., 2020): the FactorVAE score and modularity, that no code tells of two factors; MIG, that no
factor is told by two codes. All run under `jit` and `vmap`.

All depend on how many rows they see, MIG most: few rows make anything look informative, and lower
it. `samples` rows drawn from the table say what so many would measure; state it beside the number.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

from gpicljax.checks import check, check_array, check_at_least
from gpicljax.random import check_key
from gpicljax.systems.meta_rg.measures.information import (
    NOTHING,
    as_table,
    entropy,
    joint,
    mean_where,
    mutual_information,
    num_levels,
    two_greatest,
)


def factor_vae_score(
    key: jax.Array,
    factors: ArrayLike,
    codes: ArrayLike,
    *,
    batch_size: int = 64,
    votes: int = 800,
    held_out_votes: int = 800,
) -> jax.Array:
    """Returns how often the code that varies least tells which factor was held fixed.

    A vote draws a factor and a row, and a batch of the rows that share the row's value of that
    factor. It goes to the code whose variance in the batch is the least share of its variance in
    the table. The score is the accuracy on held-out votes of the classifier that gives each code
    the factor it got most votes for.

    Args:
      key: of the draws, which are uniform and with replacement.
      factors: `int[N, K]`, K factors of variation.
      codes: float `[N, D]`, the representation of the same rows.
      batch_size: rows in a vote's batch.
      votes: votes that the classifier counts.
      held_out_votes: votes that judge it.

    Returns:
      Float `[]` in [0, 1], 1 / K by chance; NaN if no code varies. Codes that do not vary get no
      vote.

    Raises:
      ValueError: if there are fewer than two rows, the numbers of rows differ, a code is not
        finite, `batch_size` is below 2 or another number below 1.

    Source: Kim & Mnih (2018), section 4; appendix E.2 of the Meta-Referential Games paper.

    Example:
      >>> import jax
      >>> factors = jax.random.randint(jax.random.key(0), (500, 2), 0, 4)
      >>> score = factor_vae_score(jax.random.key(1), factors, 0.5 * factors[:, ::-1])
      >>> print(f"{score:.3f}")
      1.000
    """
    check_key("key", key)
    check_at_least(2, batch_size=batch_size)
    check_at_least(1, votes=votes, held_out_votes=held_out_votes)
    behind = as_table("factors", factors)
    return _votes(key, behind, _as_codes(codes, behind), batch_size, votes, held_out_votes)


@functools.partial(jax.jit, static_argnames=("size", "votes", "held_out"))
def _votes(
    key: jax.Array, factors: jax.Array, codes: jax.Array, size: int, votes: int, held_out: int
) -> jax.Array:
    rows, num_factors = factors.shape
    variance = codes.var(0)
    # Rows in the order of each factor: those that share a value of it follow each other.
    order = jnp.argsort(factors, axis=0)
    ordered = jnp.take_along_axis(factors, order, 0)

    def place(side: str) -> jax.Array:
        search = jax.vmap(functools.partial(jnp.searchsorted, side=side), (1, 1), 1)
        return search(ordered, factors)

    first, until = place("left"), place("right")
    keys = jax.random.split(key, 3)
    factor = jax.random.randint(keys[0], (votes + held_out,), 0, num_factors)
    row = jax.random.randint(keys[1], factor.shape, 0, rows)
    low, high = first[row, factor][:, None], until[row, factor][:, None]
    drawn = order[jax.random.randint(keys[2], (votes + held_out, size), low, high), factor[:, None]]
    varies = (codes != codes[0]).any(0)
    share = codes[drawn].var(1) / jnp.where(varies, variance, 1)
    least = jnp.argmin(jnp.where(varies, share, jnp.inf), axis=-1)
    table = jnp.zeros((codes.shape[1], num_factors), jnp.int32)
    table = table.at[least[:votes], factor[:votes]].add(1)
    right = table.argmax(-1)[least[votes:]] == factor[votes:]
    return jnp.where(varies.any(), right.mean(dtype=variance.dtype), jnp.nan)


def mutual_information_gap(
    factors: ArrayLike,
    codes: ArrayLike,
    *,
    bins: int = 20,
    samples: int | None = None,
    key: jax.Array | None = None,
    num_values: int | None = None,
) -> jax.Array:
    """MIG: how much more the best code tells of a factor than the second best.

    For each factor (I_1 - I_2) / H, where I_1 and I_2 are the two greatest mutual informations with
    a code, and H is the entropy of the factor; the mean over the factors that vary. Codes are cut
    into bins of equal width between the least and the greatest.

    Args:
      factors: `int[N, K]`, 0 .. num_values - 1.
      codes: float `[N, D]`, D >= 2, the representation of the same rows.
      bins: of each code.
      samples: None for all rows, or how many are drawn, with replacement.
      key: of the draws; needed with `samples`.
      num_values: values there are at most of a factor; from `factors` by default, which `jit` and
        `vmap` of `factors` do not allow.

    Returns:
      Float `[]` in [0, 1]; NaN if no factor varies. 0 if no code does: it tells nothing.

    Raises:
      ValueError: if there are fewer than two rows or codes, the numbers of rows differ, a code is
        not finite, a factor is out of range, or `samples` comes without a key.

    Source: Chen et al. (2018), section 4; bins as in Locatello et al. (2020); appendix E.2 of the
    Meta-Referential Games paper.

    Example:
      >>> import jax
      >>> factors = jax.random.randint(jax.random.key(0), (5000, 2), 0, 4)
      >>> told_twice = factors[:, [0, 1, 1]]
      >>> print(f"{mutual_information_gap(factors, told_twice):.2f}")
      0.50
    """
    return _measure(_gap, factors, codes, bins, samples, key, num_values, 1, 2)


def modularity(
    factors: ArrayLike,
    codes: ArrayLike,
    *,
    bins: int = 20,
    samples: int | None = None,
    key: jax.Array | None = None,
    num_values: int | None = None,
) -> jax.Array:
    """Returns how far each code tells of one factor only.

    For each code 1 - sum of I_k² / (I_1² (K - 1)), where I_1 is its greatest mutual information
    with a factor, and the sum is over the others; the mean over the codes that tell anything.

    Args:
      factors: `int[N, K]`, K >= 2, 0 .. num_values - 1.
      codes: float `[N, D]`, the representation of the same rows.
      bins: of each code, of equal width between the least and the greatest.
      samples: None for all rows, or how many are drawn, with replacement.
      key: of the draws; needed with `samples`.
      num_values: values there are at most of a factor; from `factors` by default.

    Returns:
      Float `[]` in [0, 1]; NaN if no code tells anything (more than 1e-6 nats) of a factor. Codes
      that do not are left out, whereas the library of Locatello et al. counts them as 0.

    Raises:
      ValueError: as `mutual_information_gap`; two factors are needed and one code.

    Source: Ridgeway & Mozer (2018), section 3.1; appendix E.2 of the Meta-Referential Games paper.

    Example:
      >>> import jax
      >>> factors = jax.random.randint(jax.random.key(0), (5000, 2), 0, 4)
      >>> print(f"{modularity(factors, factors[:, [0, 1, 1]]):.2f}")
      1.00
      >>> print(f"{modularity(factors, factors[:, :1] + factors[:, 1:]):.2f}")
      0.00
    """
    return _measure(_modularity, factors, codes, bins, samples, key, num_values, 2, 1)


def _measure(
    measure: Any,
    factors: ArrayLike,
    codes: ArrayLike,
    bins: int,
    samples: int | None,
    key: jax.Array | None,
    num_values: int | None,
    fewest_factors: int,
    fewest_codes: int,
) -> jax.Array:
    """A measure of the mutual informations, `[D, K]`, and the entropies of the factors, `[K]`."""
    check_at_least(2, bins=bins)
    check_at_least(2, samples=samples)
    behind = as_table("factors", factors, fewest_factors)
    values = _as_codes(codes, behind, fewest_codes)
    levels = num_levels("num_values", num_values, "factors", behind)
    if samples is not None:
        check_key("key", key)
        assert key is not None
        rows = jax.random.randint(key, (samples,), 0, behind.shape[0])
        behind, values = behind[rows], values[rows]
    return measure(*_informations(behind, values, levels, bins))


@functools.partial(jax.jit, static_argnames=("levels", "bins"))
def _informations(
    factors: jax.Array, codes: jax.Array, levels: int, bins: int
) -> tuple[jax.Array, jax.Array]:
    least, most = codes.min(0), codes.max(0)
    width = jnp.where(most > least, most - least, 1)
    binned = jnp.clip((codes - least) / width * bins, 0, bins - 1).astype(jnp.int32)
    table = joint(binned, bins, factors, levels, jnp.ones(factors.shape[0], jnp.int32))
    return mutual_information(table), entropy(table[0].sum(-2))


@jax.jit
def _gap(informations: jax.Array, entropies: jax.Array) -> jax.Array:
    most, second = two_greatest(informations, axis=0)
    varies = entropies > 0
    return mean_where((most - second) / jnp.where(varies, entropies, 1), varies)


@jax.jit
def _modularity(informations: jax.Array, entropies: jax.Array) -> jax.Array:
    most = informations.max(-1)
    is_informative = most > NOTHING
    safe = jnp.where(is_informative, most, 1)
    excess = ((informations / safe[:, None]) ** 2).sum(-1) - 1
    return mean_where(1 - excess / (entropies.size - 1), is_informative)


def _as_codes(codes: ArrayLike, factors: jax.Array, columns: int = 1) -> jax.Array:
    x = codes if isinstance(codes, Tracer) else np.asarray(codes)
    rows = factors.shape[0]
    whole = x.ndim == 2 and x.shape[0] == rows and x.shape[1] >= columns and x.dtype.kind in "fiub"
    accepted_values = f"float[{rows}, D], the rows of factors, D of at least {columns}"
    check_array(whole, "codes", x, accepted_values)
    if not isinstance(x, Tracer):
        check(np.isfinite(x).all(), "codes", "NaN or infinities", "finite numbers")
    return jnp.asarray(x, jnp.result_type(float))
