"""Semantic structures and their stimuli (section 3.2 of the Meta-Referential Games paper).

A structure has `N_dim` latent dimensions with d(i) values each. In the Symbolic Continuous
Stimulus (SCS) representation the range [-1, 1] of dimension i is cut into d(i) equal sections, and
each value has a Gaussian that lies within its section by three standard deviations.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax import random


def combinations(num_dims: int, max_values: int) -> np.ndarray:
    """All latent tuples below a cap, in lexicographic order (last dimension fastest).

    Returns:
      `int32[max_values ** num_dims, num_dims]`; row m is the tuple with index m.
    """
    rows = list(itertools.product(range(max_values), repeat=num_dims))
    return np.asarray(rows, np.int32)


def phase_masks(num_values: jax.Array, max_values: int) -> tuple[jax.Array, jax.Array]:
    """Which latent tuples belong to the support and to the query phase.

    A value with an odd 0-based index is a *test value*; a tuple with two or more of them belongs
    to the query phase, every other one to the support phase.

    Args:
      num_values: `int32[N_dim]`, d(i).
      max_values: cap of d(i).

    Returns:
      Two `bool[max_values ** N_dim]` over the tuples' indices: support, query.

    Source: the split of the reference environment (`combinatorial2`).
    """
    table = combinations(num_values.shape[0], max_values)
    exists = (jnp.asarray(table) < num_values).all(-1)
    query = jnp.asarray((table % 2 == 1).sum(-1) >= 2)
    return exists & ~query, exists & query


def sample_num_values(key: jax.Array, num_dims: int, low: jax.Array, high: jax.Array) -> jax.Array:
    """d(i) ~ Uniform{V_min .. V_max}, independently, as `int32[N_dim]`.

    Example:
      >>> draw = lambda key: sample_num_values(key, 3, 2, 5)
      >>> jax.eval_shape(draw, jax.random.key(0)).shape
      (3,)
    """
    return random.integers(key, (num_dims,), low, high + 1)


def sample_scs(
    key: jax.Array, num_values: jax.Array, max_values: int, max_samples: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draws the Gaussians of every latent value and the episode's stimulus table from them.

    The width of a section is w = 2 / d(i). The standard deviation is uniform in [w/12, w/6]; the
    mean is uniform where mean ± 3 standard deviations stays inside the section. The samples are
    not truncated (about 0.05 % fall outside their section). Entries beyond d(i) hold numbers
    without meaning.

    Args:
      key: a typed key.
      num_values: `int32[N_dim]`, d(i).
      max_values: cap V of d(i).
      max_samples: cap O of the object-centric samples.

    Returns:
      table `float[N_dim, V, O]`, means `float[N_dim, V]`, standard deviations `float[N_dim, V]`.

    Source: section 3.2; the mean's range from the reference environment.
    """
    dtype = jnp.result_type(float)
    num_dims = num_values.shape[0]
    width = (2 / num_values.astype(dtype))[:, None]
    start = -1 + jnp.arange(max_values, dtype=dtype) * width
    # One draw for everything: each call of the generator costs a second to compile. It lies within
    # (-1, 1), as `jax.random.normal` has it: at -1 a sample would be infinite.
    shape = (2 + max_samples, num_dims, max_values)
    low = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
    draws = random.uniform(key, shape, dtype, low, 1)
    share = (1 + draws[:2]) / 2
    sigma = width * (1 + share[0]) / 12
    mean = start + 3 * sigma + (width - 6 * sigma) * share[1]
    noise = np.sqrt(2).astype(dtype) * jax.lax.erf_inv(draws[2:])
    return jnp.moveaxis(mean + sigma * noise, 0, -1), mean, sigma
