"""Adaptive n-grams against a dictionary of counts, and where the answer is known."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from gpicljax.systems.meta_language.measures import adaptive_ngram


def naive(sequence, order, vocab):
    counts = defaultdict(Counter)
    nats = []
    for t in range(1, len(sequence)):
        chance = 1 / vocab
        contexts = [tuple(sequence[t - k : t]) for k in range(order + 1) if k <= t]
        for context in contexts:
            counter = counts[context]
            if counter:
                n, kinds = sum(counter.values()), len(counter)
                chance = (counter[sequence[t]] + kinds * chance) / (n + kinds)
        for context in contexts:
            counts[context][sequence[t]] += 1
        nats.append(-np.log(chance))
    return nats


@pytest.mark.parametrize("order", [0, 1, 3])
def test_it_is_the_counting_model(order):
    tokens = np.random.default_rng(0).integers(4, size=(3, 60))
    expected = [naive(row.tolist(), order, 4) for row in tokens]
    np.testing.assert_allclose(adaptive_ngram(tokens, order, 4), expected, rtol=1e-12)


@pytest.mark.slow
def test_it_finds_the_entropy_of_a_markov_chain():
    draw = np.random.default_rng(1)
    chain = draw.dirichlet(np.full(4, 0.5), size=4)
    tokens = np.zeros((64, 2001), np.int64)
    for t in range(2000):
        tokens[:, t + 1] = [draw.choice(4, p=chain[s]) for s in tokens[:, t]]
    floor = -np.log(chain[tokens[:, :-1], tokens[:, 1:]])[:, 1000:].mean()
    nats = adaptive_ngram(tokens, 1, 4)[:, 1000:].mean()
    # What learning twelve free numbers costs: about 12 / 2 / t nats a token at t = 1,500.
    assert floor < nats < floor + 0.01
    assert adaptive_ngram(tokens, 0, 4)[:, 1000:].mean() > floor + 0.05


def test_bad_input():
    for tokens, order, text in (
        (np.zeros(5, int), 1, r"tokens: got int64\[5\]"),
        (np.zeros((2, 1), int), 1, r"tokens: got int64\[2, 1\]"),
        (np.full((2, 5), 4), 1, "0 to 3"),
        (np.zeros((2, 5), int), -1, "order: got -1"),
    ):
        with pytest.raises(ValueError, match=text):
            adaptive_ngram(tokens, order, 4)
