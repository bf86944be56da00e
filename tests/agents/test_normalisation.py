"""Running moments are those of everything seen, however it came."""

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.agents.normalisation import no_moments, normalise, update_moments

EXAMPLE = {"seen": jnp.zeros(2), "phase": jnp.zeros((), jnp.int32), "mask": jnp.zeros(3, bool)}


def draws(seed, count):
    draw = np.random.default_rng(seed)
    return {
        "seen": jnp.asarray(draw.normal([100, -3], [0.1, 20], (count, 2)), jnp.float32),
        "phase": jnp.asarray(draw.integers(5, size=count), jnp.int32),
        "mask": jnp.asarray(draw.random((count, 3)) < 0.5),
    }


def test_moments_are_those_of_all_that_counts():
    batches = [draws(seed, count) for seed, count in enumerate((1, 50, 7))]
    weights = [
        jnp.asarray(np.random.default_rng(i).random(len(b["phase"])) < 0.7)
        for i, b in enumerate(batches)
    ]
    weights[0] = jnp.array([True])
    moments = no_moments(EXAMPLE)
    for batch, weight in zip(batches, weights, strict=True):
        moments = jax.jit(update_moments)(moments, batch, weight.astype(jnp.float32))
    kept = np.concatenate([b["seen"][w] for b, w in zip(batches, weights, strict=True)])
    assert float(moments.count) == len(kept)
    np.testing.assert_allclose(moments.mean["seen"], kept.mean(0), rtol=1e-5)
    np.testing.assert_allclose(moments.variance["seen"], kept.var(0), rtol=1e-3)
    scaled = normalise(moments, batches[1])
    expected = (batches[1]["seen"] - kept.mean(0)) / kept.std(0)
    np.testing.assert_allclose(scaled["seen"], expected, atol=2e-3)
    # Numbers of categories and masks are left alone.
    for name in ("phase", "mask"):
        np.testing.assert_array_equal(scaled[name], batches[1][name])
        assert scaled[name].dtype == batches[1][name].dtype


def test_nothing_seen_changes_nothing():
    moments = no_moments(EXAMPLE)
    batch = draws(0, 4)
    small = {**batch, "seen": batch["seen"] / 50}
    jax.tree.map(np.testing.assert_array_equal, normalise(moments, small), small)
    same = update_moments(moments, batch, jnp.zeros(4))
    jax.tree.map(np.testing.assert_array_equal, same, moments)


def test_what_is_far_off_is_clipped():
    moments = update_moments(no_moments(jnp.zeros(())), jnp.array([-1.0, 1.0]), jnp.ones(2))
    np.testing.assert_allclose(normalise(moments, jnp.array([-50.0, 0.5, 70.0])), [-10, 0.5, 10])


def test_what_never_changed_stays_finite():
    moments = update_moments(no_moments(jnp.zeros(())), jnp.full(9, 3.0), jnp.ones(9))
    np.testing.assert_allclose(normalise(moments, jnp.array([3.0, 3.1])), [0, 10])


def test_the_variance_stays_when_the_count_cannot_grow():
    """A float32 counts to 2**24 in ones; the squares of what comes then may not pile up."""
    values = jax.random.normal(jax.random.key(0), (2**18, 8))

    @jax.jit
    def more(moments):
        def one(moments, _):
            def each(moments, x):
                return update_moments(moments, x[None], jnp.ones(1)), None

            return jax.lax.scan(each, moments, values)[0], None

        return jax.lax.scan(one, moments, None, 16)[0]

    start = no_moments(values[0]).replace(count=jnp.float32(2**24))
    after = more(start)
    np.testing.assert_allclose(after.variance, 1, atol=0.02)
    np.testing.assert_allclose(after.mean, 0, atol=0.02)
