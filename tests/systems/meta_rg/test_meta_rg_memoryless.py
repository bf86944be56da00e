"""A classifier without memory at single decisions of Meta-Referential Games."""

import functools

import jax
import numpy as np
import pytest

import gpicljax
from gpicljax.systems.meta_rg.experts.classifier import accuracy, fit_classifier
from gpicljax.systems.meta_rg.experts.memoryless import decision_dataset


def test_rows_of_the_data_set(key):
    env = gpicljax.make("MetaRG-v0")
    make = functools.partial(decision_dataset, key, env, env.default_params)
    features, labels, query = make(3_000)
    assert features.shape == (3_000, 3 + 1 + 3 + 21)
    assert labels.shape == query.shape == (3_000,)
    assert query.dtype == bool
    np.testing.assert_array_equal(features[:, 3], query)
    assert set(labels.tolist()) == {0, 1}
    tokens = features[:, 7:].reshape(-1, 3, 7).argmax(-1)
    np.testing.assert_array_equal(features[:, 7:].reshape(-1, 3, 7).sum(-1), 1)
    assert tokens.min() > 0, "the decision follows the message"
    for column, (i, j) in enumerate(((0, 1), (0, 2), (1, 2))):
        np.testing.assert_array_equal(features[:, 4 + column], tokens[:, i] == tokens[:, j])
    # The same key gives the same games, and a longer set begins with the shorter one's.
    for short, whole in zip(make(100), (features, labels, query), strict=True):
        np.testing.assert_array_equal(short, whole[:100])
    assert np.unique(features[:, :3], axis=0).shape[0] > 1_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "support", "query", "tolerance"),
    [
        # The reference's own classifier: 74 / 73, of about 170 held-out episodes.
        ("MetaRG-v0", 74, 73, 3),
        ("MetaRG-v1", 50, 50, 2.5),
    ],
)
def test_memoryless_classifier(env_id, support, query, tolerance):
    env = gpicljax.make(env_id)
    train, test = (
        decision_dataset(jax.random.key(seed), env, env.default_params, size)
        for seed, size in ((0, 100_000), (1, 20_000))
    )
    # Stimulus, phase and which tokens are equal. The tokens themselves, permuted in every episode,
    # tell no more and take longer to be ignored.
    columns = 3 + 1 + 3
    fitted = fit_classifier(
        jax.random.key(2),
        train[0][:, :columns],
        train[1],
        steps=2_000,
        batch_size=512,
        learning_rate=2e-3,
    )
    features, labels, is_query = test
    for expected, phase in ((support, ~is_query), (query, is_query)):
        percent = 100 * accuracy(fitted, features[:, :columns], labels, phase)
        assert abs(percent - expected) <= tolerance, (env_id, expected, percent)


@pytest.mark.slow
def test_less_of_the_message(key):
    env = gpicljax.make("MetaRG-v0", vocab_size=5, message_length=4)
    whole, equality, none = (
        decision_dataset(key, env, env.default_params, 200, message=message)[0]
        for message in ("heard", "equality", "none")
    )
    assert whole.shape == (200, 3 + 1 + 6 + 4 * 6)
    np.testing.assert_array_equal(equality, whole[:, : 3 + 1 + 6])
    np.testing.assert_array_equal(none, whole[:, : 3 + 1])


def test_what_is_refused(key):
    env = gpicljax.make("MetaRG-v0")
    params = env.default_params
    with pytest.raises(ValueError, match="view: got 'players'"):
        decision_dataset(key, gpicljax.make("MetaRG-v0", view="players"), params, 10)
    with pytest.raises(ValueError, match="num_games: got 0"):
        decision_dataset(key, env, params, 0)
    with pytest.raises(ValueError, match="message: got 'all'"):
        decision_dataset(key, env, params, 10, message="all")
    with pytest.raises(ValueError, match="shots: got 2"):
        decision_dataset(key, env, params.replace(shots=2), 10)
