"""Measures of composition of 10,000 messages: CPU-seconds of a call, and of compiling it.

    pytest benchmarks/test_compositionality.py --benchmark-only

`scipy` is Spearman's correlation of a million pairs whose distances are known, scaled to all 50
million: sorting alone, in a list of pairs.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from benchmarks.timing import time_call
from gpicljax.systems.meta_rg.measures.acquisition import ease_of_acquisition
from gpicljax.systems.meta_rg.measures.compositionality import (
    bosdis,
    posdis,
    topographic_similarity,
)

ROWS, DIMS, VOCAB_SIZE, VALUES = 10_000, 3, 7, 5
PAIRS = ROWS * (ROWS - 1) // 2


def language(length):
    rng = np.random.default_rng(0)
    return rng.integers(0, VOCAB_SIZE, (ROWS, length)), rng.integers(0, VALUES, (ROWS, DIMS))


def measure(benchmark, run, rounds=5):
    first, seconds = time_call(run)[1], []
    benchmark.pedantic(lambda: seconds.append(time_call(run)[1]), rounds=rounds)
    benchmark.extra_info["CPU seconds"] = round(float(np.median(seconds)), 3)
    benchmark.extra_info["first call"] = round(first, 2)


@pytest.mark.parametrize("length", [3, 6, 10])
@pytest.mark.parametrize("distance", ["edit", "hamming"])
def test_topographic_similarity(benchmark, one_core, distance, length):
    messages, meanings = language(length)
    measure(
        benchmark,
        lambda: topographic_similarity(messages, meanings, message_distance=distance),
    )
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, length + 1, 1_000_000), rng.integers(0, DIMS + 1, 1_000_000)
    sorting = time_call(stats.spearmanr, x, y)[1] * PAIRS / x.size
    benchmark.extra_info["scipy"] = round(sorting, 1)
    print(benchmark.extra_info)


@pytest.mark.parametrize("score", [posdis, bosdis])
def test_disentanglement(benchmark, one_core, score):
    messages, meanings = language(10)
    measure(benchmark, lambda: score(messages, meanings))
    print(benchmark.extra_info)


@pytest.mark.parametrize("samples", [1, 4])
def test_ease_of_acquisition_of_64_speakers(benchmark, one_core, samples):
    """512 epochs each, of all meanings of 5 values in 3 dimensions."""
    meanings = jnp.asarray(list(itertools.product(range(VALUES), repeat=DIMS)))
    query = (meanings % 2).sum(-1) >= 2
    keys = jax.random.split(jax.random.key(0), 64)

    @jax.jit
    def learn(keys):
        def learn_one(key):
            token_key, noise_key, learn_key = jax.random.split(key, 3)
            shape = (len(meanings), samples, DIMS)
            messages = jax.random.randint(token_key, shape, 1, VOCAB_SIZE)
            stimuli = meanings[:, None] / VALUES + 0.02 * jax.random.normal(noise_key, shape)
            return ease_of_acquisition(
                learn_key, messages, stimuli, ~query, query, vocab_size=VOCAB_SIZE - 1
            ).query

        return jax.vmap(learn_one)(keys)

    measure(benchmark, lambda: learn(keys), rounds=1)
    print(benchmark.extra_info)
