"""The predictors that need no training, against their definitions and where the answer is known."""

import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.systems.meta_language.measures import nulls as measures

DRAW = np.random.default_rng(0)
TEXT = DRAW.integers(4, size=(3, 40))


def test_the_orders_that_are_counted_together_are_those_counted_alone(monkeypatch):
    monkeypatch.setattr(measures, "BLOCK", 2)
    joint = measures.adaptive_ngrams(TEXT, 3, 4)
    for order in range(4):
        single = measures.adaptive_ngram(TEXT, order, 4)
        np.testing.assert_array_equal(joint[order], single)


@pytest.mark.parametrize("order", [0, 2, 5])
def test_what_an_ngram_expects_next_is_what_it_is_charged_for(order):
    nats = measures.adaptive_ngram(TEXT[:1], order, 4)[0]
    for t in (1, 2, 7, 39):
        chances = measures.next_token_chances(TEXT[0, :t], order, 4)
        assert chances.sum() == pytest.approx(1)
        assert -np.log(chances[TEXT[0, t]]) == pytest.approx(nats[t - 1])


def test_the_regression_is_gradient_descent_on_the_tables():
    slots, rate, decay = 2, 0.5, 0.25
    tables, expected = np.zeros((slots, 5, 4)), []
    padded = np.append(4, TEXT[0])
    for t in range(1, 40):
        context = padded[[t, t - 1]]
        logits = sum(tables[age, x] for age, x in enumerate(context))
        chances = np.exp(logits) / np.exp(logits).sum()
        expected.append(-np.log(chances[TEXT[0, t]]))
        for age, x in enumerate(context):
            tables[age, x] += rate * decay**age * (np.eye(4)[TEXT[0, t]] - chances)
    nats = measures.softmax_regression(jnp.asarray(TEXT), rate, decay, slots, 4)
    np.testing.assert_allclose(nats[0], expected, rtol=2e-5)


def test_the_regression_finds_an_order_that_it_is_not_told():
    # Every token is the one five places before: the latest token alone says nothing of the next.
    text = np.tile(DRAW.permutation(8)[[0, 1, 0, 2, 1]], 60)[None]
    nats = np.asarray(measures.softmax_regression(text, 0.8, 0.8, measures.SLOTS, 8))
    assert nats[:, -20:].max() < 0.05
    assert measures.adaptive_ngram(text, 1, 8)[:, -20:].mean() > 0.2


def test_a_mixture_is_the_average_of_probabilities_with_shared_weights():
    chances = DRAW.uniform(0.1, 0.9, (3, 2, 20))
    nats = measures.mixture(-np.log(chances), share=0.1)
    for i in range(2):
        weights = np.full(3, 1 / 3)
        for t in range(20):
            together = weights @ chances[:, i, t]
            assert nats[i, t] == pytest.approx(-np.log(together))
            weights = 0.9 * weights * chances[:, i, t] / together + 0.1 / 3
    assert np.isfinite(measures.mixture(np.full((2, 1, 9), 1e4))).all()


def test_a_mixture_comes_back_to_what_was_bad_at_first():
    nats = np.full((2, 1, 400), 0.1)
    nats[0, :, :200] = nats[1, :, 200:] = 3.0
    mixed = measures.mixture(nats)[0]
    assert mixed[150] < 0.2
    assert mixed[220] < 0.2
    assert measures.mixture(nats, share=0.0)[0, 220] == pytest.approx(3.0)


def test_no_sequence_chooses_its_own_predictor():
    nats = np.ones((2, 4, 10))
    nats[0, ::2, 5:] = 0.0  # the first is better at even places, in the second half
    chosen = measures.chosen_elsewhere(nats, slice(5, None))
    assert chosen.tolist() == [0, 0, 0, 0]  # ties go to the first
    nats[1, 1::2, 5:] = 0.5
    assert measures.chosen_elsewhere(nats, slice(5, None)).tolist() == [1, 0, 1, 0]
    assert measures.chosen_elsewhere(nats, slice(0, 5)).tolist() == [0, 0, 0, 0]


def test_all_nulls_are_run_on_the_same_sequences():
    baselines = measures.nulls(TEXT.astype(np.uint8), 4)
    assert baselines.ngrams.shape == (measures.ORDERS, 3, 39)
    assert baselines.regressions.shape == (len(measures.REGRESSIONS), 3, 39)
    np.testing.assert_array_equal(baselines.ngrams[2], measures.adaptive_ngram(TEXT, 2, 4))
    everything = np.concatenate([baselines.ngrams, baselines.regressions])
    np.testing.assert_array_equal(baselines.mixture, measures.mixture(everything))
    assert baselines.online.shape == (3, 39) and np.isfinite(baselines.online).all()
    # Weights stay at or above share / K, which bounds what a bad start can cost.
    assert (baselines.mixture - everything.min(0)).max() < np.log(10 / measures.SHARE)
