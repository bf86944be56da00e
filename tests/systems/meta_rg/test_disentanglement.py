"""FactorVAE score, MIG and modularity: plain definitions, the paper's stimuli, refusals."""

import functools
import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from variants import daily

from gpicljax.systems.meta_rg.env import structure
from gpicljax.systems.meta_rg.measures.disentanglement import (
    factor_vae_score,
    modularity,
    mutual_information_gap,
)
from gpicljax.systems.meta_rg.studies.meta_rg_stimuli import program as meta_rg_stimuli

VALUES, DIMS = 5, 3


def stimuli(key, samples):
    """Every stimulus of a structure of 5 x 5 x 5 values: factors and codes, `[125 O, 3]`."""
    table, _, _ = structure.sample_scs(key, jnp.full(DIMS, VALUES), VALUES, samples)
    tuples = structure.combinations(DIMS, VALUES)
    codes = table[np.arange(DIMS), tuples]  # [125, 3, O]
    return np.repeat(tuples, samples, 0), jnp.moveaxis(codes, 1, 2).reshape(-1, DIMS)


def toy(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    factors = rng.integers(0, 4, (rows, 2))
    codes = rng.standard_normal((rows, 3))
    codes[:, 0] += 3 * factors[:, 0]
    codes[:, 1] += factors[:, 1] - factors[:, 0]
    return factors, codes


def plain_informations(factors, codes, bins):
    """Binned as Locatello et al. (2020) bin, with NumPy's histogram."""

    def bits(*columns):
        _, counts = np.unique(np.stack(columns, 1), axis=0, return_counts=True)
        return stats.entropy(counts)

    table = np.empty((codes.shape[1], factors.shape[1]))
    for i, code in enumerate(codes.T):
        binned = np.digitize(code, np.histogram(code, bins)[1][:-1])
        table[i] = [bits(binned) + bits(v) - bits(binned, v) for v in factors.T]
    return table, np.array([bits(v) for v in factors.T])


@pytest.mark.parametrize("bins", daily([20], [20, 5]))
def test_gap_and_modularity_agree_with_their_definitions(bins):
    factors, codes = toy()
    table, bits = plain_informations(factors, codes.astype(np.float32), bins)
    ordered = np.sort(table, axis=0)
    gap = np.mean((ordered[-1] - ordered[-2]) / bits)
    np.testing.assert_allclose(mutual_information_gap(factors, codes, bins=bins), gap, atol=1e-4)
    squares = table**2
    modular = np.mean(1 - (squares.sum(1) - squares.max(1)) / squares.max(1))
    np.testing.assert_allclose(modularity(factors, codes, bins=bins), modular, atol=1e-4)


def test_score_of_factors_that_share_codes_or_have_none():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (500, 2))
    noise = rng.standard_normal((500, 2))
    score = functools.partial(factor_vae_score, jax.random.key(0))
    assert score(factors, noise) == pytest.approx(0.5, abs=0.08)
    # Whoever fixes the factor without a code hits either code, and is right half the time.
    half = np.stack([factors[:, 0], noise[:, 0]], 1)
    assert score(factors, half) == pytest.approx(0.75, abs=0.05)
    # Scale and order of the codes do not matter, nor codes that never vary.
    codes = np.stack([factors[:, 1] * 100.0, np.full(500, 7.0), factors[:, 0] * 0.01 + 3], 1)
    assert score(factors, codes) == 1
    assert np.isnan(score(factors, np.ones((500, 2))))


def test_score_of_values_with_gaps_and_unequal_shares():
    factors = np.array(list(itertools.product([0, 7, 7, 7, 100], range(10))))
    permuted = factors[np.random.default_rng(0).permutation(50)]
    few = {"batch_size": 20, "votes": 100, "held_out_votes": 100}
    assert factor_vae_score(jax.random.key(1), permuted, permuted, **few) == 1


def test_nothing_to_measure_is_nan_or_zero():
    factors, codes = toy()
    constant = np.ones_like(codes)
    assert mutual_information_gap(factors, constant) == 0
    assert np.isnan(mutual_information_gap(np.ones_like(factors), codes))
    assert np.isnan(modularity(factors, constant))
    assert np.isnan(modularity(np.ones_like(factors), codes))
    # A code that never varies is left out.
    kept = modularity(factors, np.concatenate([codes, constant[:, :1]], 1))
    np.testing.assert_allclose(kept, modularity(factors, codes), atol=1e-6)


def of_stimuli(samples, rows, tables):
    """Score, MIG and modularity, in %, of `rows` stimuli of each of so many structures."""

    def one(key):
        table_key, row_key, vote_key = jax.random.split(key, 3)
        factors, codes = stimuli(table_key, samples)
        drawn = {"samples": rows, "key": row_key, "num_values": VALUES}
        return jnp.stack(
            [
                factor_vae_score(vote_key, factors, codes, votes=200, held_out_votes=200),
                mutual_information_gap(factors, codes, **drawn),
                modularity(factors, codes, **drawn),
            ]
        )

    return 100 * np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), tables)))


# `specs` section 4, E.2 of the paper: what a clean space measures depends on the number of rows.
CLEAN = {(5, 128): (100, 88.3, 98.8), (5, 10_000): (100, 99.9, 100)}
CLEAN |= {(1, 128): (100, 94.8, 99.8), (5, 256): (100, 93.5, 99.7)}


@pytest.mark.parametrize("case", daily([(5, 128)], CLEAN), ids=str)
def test_the_papers_stimuli(case):
    measured = of_stimuli(*case, tables=16)
    mean, error = measured.mean(0), measured.std(0) / 4
    print(f"\n{case}: {mean.round(2)} ± {error.round(2)}; expected {CLEAN[case]}")
    # The expected values are single structures: their own spread counts, too.
    assert (np.abs(mean - CLEAN[case]) < 3 * measured.std(0) + 0.15).all()
    assert mean[0] == 100


REFUSED = {
    "one row": (lambda f, c: mutual_information_gap(f[:1], c[:1]), r"factors: got int64\[1, 2\]"),
    "real factors": (lambda f, c: modularity(f * 0.5, c), "factors: got float64"),
    "other rows": (lambda f, c: modularity(f, c[1:]), r"codes: got float64\[399, 3\]"),
    "one code": (lambda f, c: mutual_information_gap(f, c[:, :1]), "D of at least 2"),
    "one factor": (lambda f, c: modularity(f[:, :1], c), "D of at least 2"),
    "NaN": (lambda f, c: modularity(f, c * np.nan), "codes: got 'NaN or infinities'"),
    "one bin": (lambda f, c: modularity(f, c, bins=1), "bins: got 1"),
    "no key": (lambda f, c: modularity(f, c, samples=9), "key: got None"),
    "no samples": (lambda f, c: modularity(f, c, samples=0), "samples: got 0"),
    "few values": (lambda f, c: modularity(f, c, num_values=2), "factors: got '0 to 3'"),
    "a batch of one": (
        lambda f, c: factor_vae_score(jax.random.key(0), f, c, batch_size=1),
        "batch_size: got 1",
    ),
    "no votes": (lambda f, c: factor_vae_score(jax.random.key(0), f, c, votes=0), "votes: got 0"),
    "a seed": (lambda f, c: factor_vae_score(0, f, c), "key: got 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case):
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call(*toy())


# Measures of disentangled stimuli, as a user asks for them, and refusals --------------------------


def test_measures_are_tabled(tmp_path):
    outcome = meta_rg_stimuli.main(
        ["--values=3", "--samples=2", "--rows=0", "--structures=2", f"--runs-dir={tmp_path}"]
    )
    results = json.loads((outcome.run.path / "summary.json").read_text())["results"]
    assert set(results) == {"scs, O = 2, all", "mhe, O = 1, all"}
    for measures in results.values():
        assert set(measures) == set(meta_rg_stimuli.MEASURES)
    assert min(results["scs, O = 2, all"]["FactorVAE score"]) == 1
    assert "| scs | 2 | all |" in (outcome.run.path / "summary.md").read_text()
