import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.systems.meta_rg.experts.classifier import accuracy, fit_classifier


def rings(seed, count=4_000):
    """Three classes by distance from the centre: no linear rule beats the largest class."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (count, 2))
    labels = np.digitize(np.hypot(*x.T), (0.45, 0.8))
    # Features of different scales, and one that says nothing.
    return np.column_stack([1_000 + 100 * x[:, 0], 0.01 * x[:, 1], np.full(count, 7.0)]), labels


def test_it_learns_what_no_linear_rule_can(key):
    features, labels = rings(0)
    fitted = fit_classifier(key, features, labels, hidden=(64, 64), steps=1_500)
    held_out = rings(1)
    assert accuracy(fitted, *held_out) > 0.96
    assert accuracy(fitted, features, labels) > 0.96
    inner = held_out[1] == 0
    inside = accuracy(fitted, *held_out, inner)
    predicted = fitted.predict(fitted.params, held_out[0])
    assert predicted.dtype == jnp.int32
    np.testing.assert_allclose(inside, (np.asarray(predicted)[inner] == 0).mean(), rtol=1e-6)


def test_labels_at_random_leave_it_at_chance(key):
    features, _ = rings(0)
    labels = np.random.default_rng(2).integers(0, 2, features.shape[0])
    fitted = fit_classifier(key, features, labels, hidden=(16,), steps=300)
    fresh = rings(3)[0], np.random.default_rng(4).integers(0, 2, 4_000)
    assert abs(accuracy(fitted, *fresh) - 0.5) < 4 * 0.5 / np.sqrt(4_000)


def test_same_key_same_classifier_and_predictions_vmap(key):
    features, labels = rings(0, 200)
    a, b = (fit_classifier(key, features, labels, hidden=(8,), steps=20) for _ in range(2))
    other_classifier = fit_classifier(jax.random.key(1), features, labels, hidden=(8,), steps=20)
    leaves = (jax.tree.leaves(x.params) for x in (a, b, other_classifier))
    different = []
    for x, y, z in zip(*leaves, strict=True):
        np.testing.assert_array_equal(x, y)
        different.append(bool((x != z).any()))
    assert any(different)
    inputs = jnp.asarray(features, jnp.result_type(float))
    rowwise = jax.jit(jax.vmap(a.predict, (None, 0)))(a.params, inputs)
    np.testing.assert_array_equal(rowwise, a.predict(a.params, inputs))


def test_accuracy_of_nothing_is_unknown(key):
    features, labels = rings(0, 50)
    fitted = fit_classifier(key, features, labels, hidden=(), steps=1)
    assert jnp.isnan(accuracy(fitted, features, labels, np.zeros(50, bool)))
    with pytest.raises(ValueError, match=r"labels.*one length"):
        accuracy(fitted, features, labels[:-1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros((0, 3))}, r"features: got float\d+\[0, 3\]"),
        ({"features": np.zeros(5)}, r"features: got float\d+\[5\]"),
        ({"features": np.full((5, 3), np.nan)}, "features: got .*accepted: finite"),
        ({"labels": np.zeros(4, int)}, r"labels: got int64\[4\]; accepted: int\[5\]"),
        ({"labels": np.zeros(5)}, "labels: got float64"),
        ({"labels": np.array([0, 1, -1, 0, 0])}, "labels: got .*-1"),
        ({"steps": 0}, "steps: got 0"),
        ({"batch_size": 0}, "batch_size: got 0"),
        ({"hidden": (8, 0)}, r"hidden: got \(8, 0\)"),
        ({"learning_rate": 0.0}, "learning_rate: got 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate: got nan"),
    ],
)
def test_what_is_refused(key, change, message):
    arguments = {"features": np.zeros((5, 3)), "labels": np.arange(5) % 2, **change}
    features, labels = arguments.pop("features"), arguments.pop("labels")
    with pytest.raises(ValueError, match=message):
        fit_classifier(key, features, labels, **arguments)
